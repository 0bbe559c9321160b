//! The client halves, with a server that says anything at all: whatever comes, a client comes to rest, sends nothing
//! over a transport that it has closed, and stays small.
//!
//! The input is a list of steps. Half of them are messages as the fuzzer writes them, so that a corpus can be made of
//! the vectors: a byte below 128, two bytes for the length, and the message.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use switchboard_acolyte::client::{self as acolyte, AcolyteClient, StreamChat};
use switchboard_acolyte::message::{Attach, ChatRequest};
use switchboard_aip::client::{self as aip, Constellation, ConstellationConfig, Device, DeviceConfig};
use switchboard_aip::{Outcome, ResultStatus};
use switchboard_alicia::Id;
use switchboard_alicia::client::{self as alicia, AliciaClient};
use switchboard_asp::client::{self as asp, AspClient};
use switchboard_asp::message::Invoke;
use switchboard_core::{ClientInput, ClientMachine, ClientOutput, Seed, Timestamp};
use switchboard_vip::client::{self as vip, VipClient};
use switchboard_vip::message::{CloseReason, InputEndReason, InputStartTrigger, PlaybackStatus};

use super::Choices;
use crate::simulation::weight;

/// A client half, and what is particular about it.
struct Machine<M> {
    half: M,
    /// What a message of the transport is to it.
    input: fn(Bytes, u8) -> ClientInput,
    /// Something that its user wants.
    command: fn(&mut M, &mut Choices<'_>, Timestamp),
}

/// The one transport of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// There is none, and none is wanted.
    None,
    /// One is wanted.
    Wanted,
    /// It is there.
    Open,
}

/// Lets everything happen to a client that the bytes say.
fn drive<M: ClientMachine>(
    half: M,
    bytes: &[u8],
    input: fn(Bytes, u8) -> ClientInput,
    command: fn(&mut M, &mut Choices<'_>, Timestamp),
) {
    let mut machine = Machine { half, input, command };
    let mut choices = Choices::new(bytes);
    let mut now = Timestamp::from_secs(1_000_000);
    let mut transport = Transport::None;
    machine.half.handle_input(ClientInput::Connect, now);
    let mut wake = machine.settle(&mut transport);
    while !choices.is_empty() {
        if transport == Transport::Wanted && wake.is_none_or(|wake| wake > now) {
            transport = Transport::Open;
            machine.half.handle_input(ClientInput::Opened, now);
            wake = machine.settle(&mut transport);
        }
        let choice = choices.byte();
        let input = match choice {
            0..128 => {
                let length = usize::from(choices.number());
                let message = Bytes::copy_from_slice(choices.take(length));
                (transport == Transport::Open).then(|| (machine.input)(message, choice))
            }
            128..192 => {
                (machine.command)(&mut machine.half, &mut choices, now);
                None
            }
            192..216 => {
                now = now.after(Duration::from_millis(choices.number().into()));
                wake.is_some_and(|wake| wake <= now).then_some(ClientInput::Timeout)
            }
            216..232 => {
                now = wake.unwrap_or(now).max(now);
                Some(ClientInput::Timeout)
            }
            232..244 if transport == Transport::Open => {
                let code = [None, Some(1000), Some(1001), Some(1008), Some(1013), Some(4409)];
                transport = Transport::None;
                Some(ClientInput::Closed(choices.pick(&code).flatten()))
            }
            // Somebody whose client is off wants to come back.
            244..248 => Some(ClientInput::Connect),
            _ => Some(ClientInput::Timeout),
        };
        if let Some(input) = input {
            machine.half.handle_input(input, now);
        }
        wake = machine.settle(&mut transport);
    }
    assert!(weight(&machine.half) < 8 << 20, "a client stays small");
}

impl<M: ClientMachine> Machine<M> {
    /// Drains a client; answers when it wants to be woken.
    fn settle(&mut self, transport: &mut Transport) -> Option<Timestamp> {
        let mut bytes = 0;
        for _ in 0..20_000 {
            let sent = match self.half.poll_output() {
                ClientOutput::Dial => {
                    assert_eq!(*transport, Transport::None, "there is one transport at a time");
                    *transport = Transport::Wanted;
                    continue;
                }
                ClientOutput::Text(text) => text.len(),
                ClientOutput::Binary(bytes) => bytes.len(),
                ClientOutput::Close(_) => {
                    *transport = Transport::None;
                    continue;
                }
                ClientOutput::Ping | ClientOutput::Event(_) => continue,
                ClientOutput::Idle { wake } => return wake,
            };
            assert_eq!(*transport, Transport::Open, "nothing is sent over a transport that is gone");
            bytes += sent;
            assert!(bytes < 4 << 20, "one input leads to a bounded amount of output");
        }
        panic!("a client never comes to rest");
    }
}

fn seed() -> Seed {
    Seed::new([7; 32])
}

fn text(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}

/// A client of ASP.
///
/// # Panics
/// Something is broken.
pub fn asp_client(bytes: &[u8]) {
    let client = AspClient::new(asp::ClientConfig::default(), &seed());
    let input = |message, choice| match choice {
        127 => ClientInput::Text("text".into()),
        _ => ClientInput::Binary(message),
    };
    drive(client, bytes, input, |client, choices, now| {
        let id = u16::from(choices.below(4));
        let call = format!("c{}", choices.below(3));
        match choices.below(8) {
            0 | 1 => drop(client.invoke(Invoke::chat("hello"), now)),
            2 => client.interrupt(id, Some("enough".into())),
            3 => drop(client.answer_call(id, &call, Ok(None), now)),
            4 => drop(client.answer_ask(&call, asp::Answer::Text("yes".into()), now)),
            5 => drop(client.list_tools(now)),
            6 => drop(client.ping("n")),
            _ => client.handle_input(ClientInput::Leave, now),
        }
    });
}

/// A client of Acolyte, on a WebSocket and behind a stream of events.
///
/// # Panics
/// Something is broken.
pub fn acolyte_client(bytes: &[u8]) {
    let mut stream = StreamChat::new(None);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let told = stream.push(first).len() + stream.push(second).len();
    assert!(told <= bytes.len(), "every event costs a byte");
    assert!(weight(&stream) < 8 << 20, "a stream stays small");
    let _ = stream.close();
    let client = AcolyteClient::new(acolyte::ClientConfig::default(), seed());
    drive(
        client,
        bytes,
        |message, _| ClientInput::Binary(message),
        |client, choices, now| match choices.below(6) {
            0 | 1 => {
                let (message, model) = ("hello".into(), "m".into());
                drop(client.start(ChatRequest { message, model, ..ChatRequest::default() }));
            }
            2 => drop(client.attach(Attach { session: Some("s".into()), ..Attach::default() })),
            3 => client.abort(acolyte::ChatId(u64::from(choices.below(4))), now),
            4 => drop(client.status(now)),
            _ => client.handle_input(ClientInput::Leave, now),
        },
    );
}

/// A device and a constellation of AIP.
///
/// # Panics
/// Something is broken.
pub fn aip_client(bytes: &[u8]) {
    let input = |message, _| ClientInput::Binary(message);
    let device = Device::new(DeviceConfig::new("dev", "linux"), seed());
    drive(device, bytes, input, |device, choices, now| {
        let run = aip::RunId(u64::from(choices.below(4)));
        match choices.below(5) {
            0 | 1 => drop(device.finish(run, Outcome::new(ResultStatus::Success), now)),
            2 => drop(device.submit("do it", None, now)),
            3 => drop(device.cancel("s", "enough", now)),
            _ => device.handle_input(ClientInput::Leave, now),
        }
    });
    let constellation = Constellation::new(ConstellationConfig::new("con", "dev"), seed());
    drive(constellation, bytes, input, |constellation, choices, now| match choices.below(5) {
        0 | 1 => drop(constellation.submit(aip::NewTask::new("do it"), now)),
        2 => drop(constellation.cancel("s", "enough", now)),
        3 => drop(constellation.request_info(now)),
        _ => constellation.handle_input(ClientInput::Leave, now),
    });
}

/// A client of Alicia.
///
/// # Panics
/// Something is broken.
pub fn alicia_client(bytes: &[u8]) {
    let client = AliciaClient::new(alicia::ClientConfig::default(), seed());
    drive(
        client,
        bytes,
        |message, _| ClientInput::Binary(message),
        |client, choices, now| {
            let key = alicia::ConversationKey(u64::from(choices.below(3)) + 1);
            match choices.below(6) {
                0 | 1 => {
                    let since = alicia::Since::Stanza(-i32::from(choices.below(4)));
                    let conversation = (choices.below(2) == 0).then(|| Id::new("ac_1").ok()).flatten();
                    drop(client.join(alicia::Join { conversation, since, tools: vec!["clock".into()] }, now));
                }
                2 | 3 => drop(client.say(key, "hello", None, now)),
                4 => client.leave(key),
                _ => client.handle_input(ClientInput::Leave, now),
            }
        },
    );
}

/// A client of VIP, in either mode.
///
/// # Panics
/// Something is broken.
pub fn vip_client(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut config = vip::ClientConfig::new("vs_00000000000000000000000000");
    if choices.byte() & 1 == 1 {
        config.mode = switchboard_vip::message::Mode::Internal;
    }
    let input = |message: Bytes, choice| match choice {
        0..96 => ClientInput::Text(text(&message)),
        _ => ClientInput::Binary(message),
    };
    drive(VipClient::new(config, seed()), choices.rest, input, |client, choices, now| {
        let id = format!("i-{}", choices.below(3));
        match choices.below(14) {
            0 | 1 => {
                let screen = json!({ "route": { "id": "home" }, "routes": [], "narration": "Home.",
                    "actions": { "a": { "type": "button", "description": "A", "element_id": "a" } },
                    "visibility": ["a"] });
                drop(client.show(screen, now));
            }
            2 => drop(client.listen(InputStartTrigger::Ptt, now)),
            3 => drop(client.speech(0.9, None, now)),
            4 => drop(client.interrupt(now)),
            5 => drop(client.quiet(now)),
            6 => drop(client.stop(InputEndReason::Silence, now)),
            7 => drop(client.say("hello", now)),
            8 => {
                let _ = client.hear(&Bytes::from_static(&[0; 640]), now);
            }
            9 => drop(client.finish(&id, vip::Outcome::Done(None), None, now)),
            10 => drop(client.decide(&id, true, now)),
            11 => client.played(&id, 20, now),
            12 => drop(client.played_out(&id, 40, PlaybackStatus::Played, now)),
            _ => drop(client.hang_up(CloseReason::App, now)),
        }
    });
}
