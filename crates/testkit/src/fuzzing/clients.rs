//! The client halves, with a server that says anything at all: whatever comes, a client comes to rest, sends nothing
//! over a transport that it has closed, and stays small.
//!
//! The input is a list of steps. Half of them are messages as the fuzzer writes them, so that a corpus can be made of
//! the vectors: a byte below 128, two bytes for the length, and the message.

use std::fmt::Debug;
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
use switchboard_core::{Pii, Seed, Timestamp};
use switchboard_vip::client::{self as vip, VipClient};
use switchboard_vip::message::{CloseReason, InputEndReason, InputStartTrigger, PlaybackStatus};

use super::Choices;
use crate::simulation::weight;

/// A client half, as its transport and its user see it. Times are in milliseconds.
trait Half: Debug {
    /// Whether it says itself when a transport is to be opened.
    const DIALS: bool;

    fn opened(&mut self, now: u64);
    fn message(&mut self, message: Bytes, choice: u8, now: u64);
    fn closed(&mut self, code: Option<u16>, now: u64);
    fn timeout(&mut self, now: u64);
    /// Something that its user wants.
    fn command(&mut self, choices: &mut Choices<'_>, now: u64);
    fn next(&mut self) -> Next;
}

/// What a client half wants done.
enum Next {
    Dial,
    Send(usize),
    Close,
    Other,
    Idle(Option<u64>),
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
fn play<H: Half>(mut half: H, bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut now = 1_000_000_000;
    let mut transport = Transport::None;
    let mut wake = settle(&mut half, &mut transport);
    while !choices.is_empty() {
        if transport == Transport::Wanted && wake.is_none_or(|wake| wake > now) {
            transport = Transport::Open;
            half.opened(now);
            wake = settle(&mut half, &mut transport);
        }
        let choice = choices.byte();
        match choice {
            0..128 => {
                let length = usize::from(choices.number());
                let message = Bytes::copy_from_slice(choices.take(length));
                if transport == Transport::Open {
                    half.message(message, choice, now);
                }
            }
            128..192 => half.command(&mut choices, now),
            192..216 => {
                now += u64::from(choices.number());
                if wake.is_some_and(|wake| wake <= now) {
                    half.timeout(now);
                }
            }
            216..232 => {
                now = wake.unwrap_or(now).max(now);
                half.timeout(now);
            }
            232..244 if transport == Transport::Open => {
                let code = [None, Some(1000), Some(1001), Some(1008), Some(1013), Some(4409)];
                transport = Transport::None;
                half.closed(choices.pick(&code).flatten(), now);
            }
            _ => half.timeout(now),
        }
        wake = settle(&mut half, &mut transport);
    }
    assert!(weight(&half) < 8 << 20, "a client stays small");
}

/// Drains a client; answers when it wants to be woken.
fn settle<H: Half>(half: &mut H, transport: &mut Transport) -> Option<u64> {
    let mut bytes = 0;
    for _ in 0..20_000 {
        match half.next() {
            Next::Dial => {
                assert_eq!(*transport, Transport::None, "there is one transport at a time");
                *transport = Transport::Wanted;
            }
            Next::Send(length) => {
                assert_eq!(*transport, Transport::Open, "nothing is sent over a transport that is gone");
                bytes += length;
                assert!(bytes < 4 << 20, "one input leads to a bounded amount of output");
            }
            Next::Close => *transport = Transport::None,
            Next::Other => {}
            Next::Idle(wake) => {
                if !H::DIALS && *transport == Transport::None {
                    *transport = Transport::Wanted;
                }
                return wake;
            }
        }
    }
    panic!("a client never comes to rest");
}

fn at(now: u64) -> Timestamp {
    Timestamp::default().after(Duration::from_millis(now))
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
    let mut client = AspClient::new(asp::ClientConfig::default(), 7);
    client.connect();
    play(client, bytes);
}

impl Half for AspClient {
    const DIALS: bool = true;

    fn opened(&mut self, now: u64) {
        self.handle_input(asp::Input::Opened, now);
    }

    fn message(&mut self, message: Bytes, choice: u8, now: u64) {
        let input = if choice == 127 { asp::Input::Text } else { asp::Input::Binary(message) };
        self.handle_input(input, now);
    }

    fn closed(&mut self, code: Option<u16>, now: u64) {
        self.handle_input(asp::Input::Closed(code), now);
    }

    fn timeout(&mut self, now: u64) {
        self.handle_input(asp::Input::Timeout, now);
    }

    fn command(&mut self, choices: &mut Choices<'_>, now: u64) {
        let id = u16::from(choices.below(4));
        let call = format!("c{}", choices.below(3));
        match choices.below(8) {
            0 | 1 => {
                let _ = self.invoke(Invoke::chat("hello"), now);
            }
            2 => self.interrupt(id, Some("enough".into())),
            3 => {
                let _ = self.answer_call(id, &call, Ok(None), now);
            }
            4 => {
                let _ = self.answer_ask(&call, asp::Answer::Text("yes".into()), now);
            }
            5 => {
                let _ = self.list_tools(now);
            }
            6 => {
                let _ = self.ping("n");
            }
            _ => self.bye(now),
        }
    }

    fn next(&mut self) -> Next {
        match self.poll_output() {
            asp::Output::Send(bytes) => Next::Send(bytes.len()),
            asp::Output::Close(_) => Next::Close,
            asp::Output::Connect => Next::Dial,
            asp::Output::Ping | asp::Output::Event(_) => Next::Other,
            asp::Output::Idle { wake } => Next::Idle(wake),
        }
    }
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
    play(AcolyteClient::new(acolyte::ClientConfig::default(), seed()), bytes);
}

impl Half for AcolyteClient {
    const DIALS: bool = false;

    fn opened(&mut self, now: u64) {
        self.handle_input(acolyte::Input::Opened, now);
    }

    fn message(&mut self, message: Bytes, _choice: u8, now: u64) {
        self.handle_input(acolyte::Input::Message(message), now);
    }

    fn closed(&mut self, code: Option<u16>, now: u64) {
        self.handle_input(acolyte::Input::Closed(code), now);
    }

    fn timeout(&mut self, now: u64) {
        self.handle_input(acolyte::Input::Timeout, now);
    }

    fn command(&mut self, choices: &mut Choices<'_>, now: u64) {
        match choices.below(6) {
            0 | 1 => {
                let request =
                    ChatRequest { message: "hello".into(), model: "m".into(), ..ChatRequest::default() };
                let _ = self.start(request);
            }
            2 => {
                let _ = self.attach(Attach { session: Some("s".into()), ..Attach::default() });
            }
            3 => self.abort(acolyte::ChatId(u64::from(choices.below(4))), now),
            4 => {
                let _ = self.status(now);
            }
            _ => self.leave(now),
        }
    }

    fn next(&mut self) -> Next {
        match self.poll_output() {
            acolyte::Output::Send(text) => Next::Send(text.len()),
            acolyte::Output::Close(_) => Next::Close,
            acolyte::Output::Ping | acolyte::Output::Event(_) => Next::Other,
            acolyte::Output::Idle { wake } => Next::Idle(wake),
        }
    }
}

/// A device and a constellation of AIP.
///
/// # Panics
/// Something is broken.
pub fn aip_client(bytes: &[u8]) {
    let mut device = Device::new(DeviceConfig::new("dev", "linux"), seed());
    device.connect();
    play(device, bytes);
    let mut constellation = Constellation::new(ConstellationConfig::new("con", "dev"), seed());
    constellation.connect(at(1_000_000_000));
    play(constellation, bytes);
}

fn aip_next<E>(output: &aip::Output<E>) -> Next {
    match output {
        aip::Output::Send(text) => Next::Send(text.len()),
        aip::Output::Close(_) => Next::Close,
        aip::Output::Connect => Next::Dial,
        aip::Output::Event(_) => Next::Other,
        aip::Output::Idle { wake } => Next::Idle(wake.map(Timestamp::as_millis)),
    }
}

impl Half for Device {
    const DIALS: bool = true;

    fn opened(&mut self, now: u64) {
        self.handle(aip::Input::Opened, at(now));
    }

    fn message(&mut self, message: Bytes, _choice: u8, now: u64) {
        self.handle(aip::Input::Message(message), at(now));
    }

    fn closed(&mut self, code: Option<u16>, now: u64) {
        self.handle(aip::Input::Closed(code), at(now));
    }

    fn timeout(&mut self, now: u64) {
        self.handle(aip::Input::Timeout, at(now));
    }

    fn command(&mut self, choices: &mut Choices<'_>, now: u64) {
        let run = aip::RunId(u64::from(choices.below(4)));
        match choices.below(5) {
            0 | 1 => {
                let outcome = Outcome::new(ResultStatus::Success);
                let _ = self.finish(run, outcome, at(now));
            }
            2 => {
                let _ = self.submit("do it", None, at(now));
            }
            3 => {
                let _ = self.cancel("s", "enough", at(now));
            }
            _ => self.disconnect(),
        }
    }

    fn next(&mut self) -> Next {
        aip_next(&self.poll())
    }
}

impl Half for Constellation {
    const DIALS: bool = true;

    fn opened(&mut self, now: u64) {
        self.handle(aip::Input::Opened, at(now));
    }

    fn message(&mut self, message: Bytes, _choice: u8, now: u64) {
        self.handle(aip::Input::Message(message), at(now));
    }

    fn closed(&mut self, code: Option<u16>, now: u64) {
        self.handle(aip::Input::Closed(code), at(now));
    }

    fn timeout(&mut self, now: u64) {
        self.handle(aip::Input::Timeout, at(now));
    }

    fn command(&mut self, choices: &mut Choices<'_>, now: u64) {
        match choices.below(5) {
            0 | 1 => {
                let _ = self.submit(aip::NewTask::new("do it"), at(now));
            }
            2 => {
                let _ = self.cancel("s", "enough", at(now));
            }
            3 => {
                let _ = self.request_info(at(now));
            }
            _ => self.disconnect(),
        }
    }

    fn next(&mut self) -> Next {
        aip_next(&self.poll())
    }
}

/// A client of Alicia.
///
/// # Panics
/// Something is broken.
pub fn alicia_client(bytes: &[u8]) {
    let mut client = AliciaClient::new(alicia::ClientConfig::default(), seed());
    client.connect();
    play(client, bytes);
}

impl Half for AliciaClient {
    const DIALS: bool = true;

    fn opened(&mut self, now: u64) {
        self.handle_input(alicia::Input::Opened, at(now));
    }

    fn message(&mut self, message: Bytes, _choice: u8, now: u64) {
        self.handle_input(alicia::Input::Message(Pii(message)), at(now));
    }

    fn closed(&mut self, code: Option<u16>, now: u64) {
        self.handle_input(alicia::Input::Closed(code), at(now));
    }

    fn timeout(&mut self, now: u64) {
        self.handle_input(alicia::Input::Timeout, at(now));
    }

    fn command(&mut self, choices: &mut Choices<'_>, now: u64) {
        let key = alicia::ConversationKey(u64::from(choices.below(3)) + 1);
        match choices.below(6) {
            0 | 1 => {
                let since = alicia::Since::Stanza(-i32::from(choices.below(4)));
                let conversation = (choices.below(2) == 0).then(|| Id::new("ac_1").ok()).flatten();
                let _ = self.join(alicia::Join { conversation, since, tools: vec!["clock".into()] }, at(now));
            }
            2 | 3 => {
                let _ = self.say(key, "hello", None, at(now));
            }
            4 => self.leave(key),
            _ => self.leave_all(at(now)),
        }
    }

    fn next(&mut self) -> Next {
        match self.poll_output() {
            alicia::Output::Send(Pii(bytes)) => Next::Send(bytes.len()),
            alicia::Output::Close(_) => Next::Close,
            alicia::Output::Dial => Next::Dial,
            alicia::Output::Ping | alicia::Output::Event(_) => Next::Other,
            alicia::Output::Idle { wake } => Next::Idle(wake.map(Timestamp::as_millis)),
        }
    }
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
    play(VipClient::new(config, seed()), choices.rest);
}

impl Half for VipClient {
    const DIALS: bool = false;

    fn opened(&mut self, now: u64) {
        self.handle_input(vip::Input::Opened, at(now));
    }

    fn message(&mut self, message: Bytes, choice: u8, now: u64) {
        let input = if choice < 96 {
            vip::Input::Text(Pii(text(&message)))
        } else {
            vip::Input::Binary(Pii(message))
        };
        self.handle_input(input, at(now));
    }

    fn closed(&mut self, code: Option<u16>, now: u64) {
        self.handle_input(vip::Input::Closed(code), at(now));
    }

    fn timeout(&mut self, now: u64) {
        self.handle_input(vip::Input::Timeout, at(now));
    }

    fn command(&mut self, choices: &mut Choices<'_>, now: u64) {
        let now = at(now);
        let id = format!("i-{}", choices.below(3));
        match choices.below(14) {
            0 | 1 => {
                let screen = json!({ "route": { "id": "home" }, "routes": [], "narration": "Home.",
                    "actions": { "a": { "type": "button", "description": "A", "element_id": "a" } },
                    "visibility": ["a"] });
                let _ = self.show(screen, now);
            }
            2 => {
                let _ = self.listen(InputStartTrigger::Ptt, now);
            }
            3 => {
                let _ = self.speech(0.9, None, now);
            }
            4 => {
                let _ = self.interrupt(now);
            }
            5 => {
                let _ = self.quiet(now);
            }
            6 => {
                let _ = self.stop(InputEndReason::Silence, now);
            }
            7 => {
                let _ = self.say("hello", now);
            }
            8 => {
                let _ = self.hear(&Bytes::from_static(&[0; 640]), now);
            }
            9 => {
                let _ = self.finish(&id, vip::Outcome::Done(None), None, now);
            }
            10 => {
                let _ = self.decide(&id, true, now);
            }
            11 => self.played(&id, 20, now),
            12 => {
                let _ = self.played_out(&id, 40, PlaybackStatus::Played, now);
            }
            _ => {
                let _ = self.hang_up(CloseReason::App, now);
            }
        }
    }

    fn next(&mut self) -> Next {
        match self.poll_output() {
            vip::Output::Send(Pii(text)) => Next::Send(text.len()),
            vip::Output::SendBinary(Pii(bytes)) => Next::Send(bytes.len()),
            vip::Output::Close(_) => Next::Close,
            vip::Output::Event(_) => Next::Other,
            vip::Output::Idle { wake } => Next::Idle(wake.map(Timestamp::as_millis)),
        }
    }
}
