//! The client half of Acolyte, without sockets, clock or randomness: [`AcolyteClient`] is the [`ClientMachine`] of chats
//! over WebSocket RPC; [`StreamChat`] reads a chat over HTTP.
//!
//! A connection begins with an offer. Where both sides know `task.resume`, a chat outlives its
//! connection: it is attached to the next one behind the last position that was seen, so that nothing
//! is told twice and nothing is missing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use switchboard_core::client::{LinkChange, Liveness, Pulse};
use switchboard_core::{Backoff, ClientInput, ClientMachine, ClientOutput, Jitter, Seed, Timestamp, hex};

mod chats;
mod command;
mod event;
mod receive;
mod stream;
mod telling;

pub use event::{Answer, CallError, ChatEvent, ChatId, CommandError, Ending, Event, Fault, Loss};
pub use stream::StreamChat;

use crate::message::{Capabilities, RpcId};
use chats::Chats;

/// What can happen to a client.
pub type Input = ClientInput;
/// What a client wants done.
pub type Output = ClientOutput<Event>;
/// Why there is no connection.
pub type Cause = switchboard_core::client::Cause<Fault>;

/// What a client wants.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What to offer.
    pub capabilities: Capabilities,
    /// Chats that may be open at a time.
    pub max_chats: usize,
    /// How long the answer to a question may take.
    pub answer_ms: u64,
    /// Silence of the transport after which it is tried with a ping.
    pub ping_ms: u64,
    /// Silence of the transport after which it is dead.
    pub dead_ms: u64,
    /// Silence of the server after which it is dead while a chat is open.
    pub silence_ms: u64,
    /// Pauses between attempts to connect.
    pub backoff: Backoff,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            // One name for lists is enough, and the one of the seed (R4).
            capabilities: Capabilities::parse(
                "abort.terminal, error.structured, event.checklist, stream.lossless, task.resume, workspace.path",
            ),
            max_chats: 256,
            answer_ms: 10_000,
            ping_ms: 30_000,
            dead_ms: 75_000,
            silence_ms: 180_000,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(30), Jitter::Full),
        }
    }
}

/// One client: at most one transport at a time, any number of them one after another.
#[derive(Debug)]
pub struct AcolyteClient {
    config: ClientConfig,
    seed: Seed,
    minted: u64,
    link: Link,
    /// What was agreed last; decides what becomes of chats when the connection is lost.
    agreed: Capabilities,
    chats: Chats,
    calls: BTreeMap<RpcId, Call>,
    /// Chats of the earlier connection that the server has not answered for.
    resuming: usize,
    lost: usize,
    liveness: Liveness,
    message_at: Timestamp,
    backoff: Backoff,
    outputs: VecDeque<Output>,
}

/// Where the connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Link {
    /// There is none, and none is looked for.
    Off,
    /// There will be another attempt at this time.
    Waiting(Timestamp),
    Dialing,
    /// The offer is made, the answer is not here.
    Greeting(RpcId),
    Up,
}

impl Link {
    /// Whether messages travel.
    const fn is_open(&self) -> bool {
        matches!(self, Self::Greeting(_) | Self::Up)
    }
}

/// A message that is not a chat, and has no answer yet.
#[derive(Debug)]
struct Call {
    what: Asked,
    by: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Offer,
    Status,
    Task,
    Abort(ChatId),
}

impl ClientMachine for AcolyteClient {
    type Event = Event;
    type Fault = Fault;

    fn handle_input(&mut self, input: Input, now: Timestamp) {
        match input {
            Input::Connect => self.connect(),
            Input::Opened => self.opened(now),
            Input::Unreachable(why) if self.link == Link::Dialing => self.down(Cause::Unreachable(why), now),
            Input::Refused(refusal) if self.link == Link::Dialing => self.down(Cause::Refused(refusal), now),
            Input::Text(message) => self.message(message.as_bytes(), now),
            Input::Binary(message) => self.message(&message, now),
            Input::Alive => self.liveness.heard(now),
            Input::Closed(code) => self.down(Cause::closed(code), now),
            Input::Timeout => self.timeout(now),
            Input::Leave => self.leave(now),
            // About a transport that is not there.
            Input::Unreachable(_) | Input::Refused(_) => {}
        }
    }

    fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }

    fn link(event: &Event) -> Option<LinkChange<'_, Fault>> {
        match event {
            Event::Up { .. } => Some(LinkChange::Up),
            Event::Down(down) => Some(LinkChange::Down(down)),
            Event::Resumed { .. }
            | Event::Chat(..)
            | Event::Ended(..)
            | Event::NotAborted(..)
            | Event::Answer(..) => None,
        }
    }
}

impl AcolyteClient {
    /// A client without a connection. Its ids come from the seed.
    pub fn new(config: ClientConfig, seed: Seed) -> Self {
        Self {
            backoff: config.backoff.clone().seeded(&seed),
            config,
            seed,
            minted: 0,
            link: Link::Off,
            agreed: Capabilities::default(),
            chats: Chats::default(),
            calls: BTreeMap::new(),
            resuming: 0,
            lost: 0,
            liveness: Liveness::default(),
            message_at: Timestamp::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Whether messages travel and were agreed upon.
    pub fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// Whether chats outlive the connection.
    pub fn can_resume(&self) -> bool {
        self.agreed.has(crate::message::RESUME)
    }

    /// A fresh id; no two of a client are alike.
    fn mint(&mut self) -> RpcId {
        self.minted += 1;
        let digest = self.seed.derive("rpc", self.minted);
        let hex = hex(digest.iter().take(10));
        RpcId::parse(&format!("rpc_{hex}")).unwrap_or_else(RpcId::unknown)
    }

    fn message(&mut self, message: &[u8], now: Timestamp) {
        if self.link.is_open() {
            self.liveness.heard(now);
            self.message_at = now;
            self.receive(message, now);
        }
    }

    fn timeout(&mut self, now: Timestamp) {
        match self.link {
            Link::Waiting(at) if at <= now => return self.dial(),
            Link::Off | Link::Waiting(_) | Link::Dialing => return,
            Link::Greeting(_) | Link::Up => {}
        }
        let silent = now.since(self.message_at) >= millis(self.config.silence_ms);
        let (ping, dead) = self.patience();
        match self.liveness.check(ping, dead, now) {
            Pulse::Dead => return self.close(1001, Cause::Silent, now),
            Pulse::Alive | Pulse::Ping if silent && self.chats.is_any_on_wire() => {
                return self.close(1001, Cause::Silent, now);
            }
            Pulse::Ping => self.output(Output::Ping),
            Pulse::Alive => {}
        }
        let overdue: Vec<RpcId> =
            self.calls.iter().filter(|(_, call)| call.by <= now).map(|(id, _)| id.clone()).collect();
        for id in overdue {
            self.fail_call(&id, CallError::Timeout, now);
        }
    }

    fn wake(&self) -> Option<Timestamp> {
        match self.link {
            Link::Off | Link::Dialing => return None,
            Link::Waiting(at) => return Some(at),
            Link::Greeting(_) | Link::Up => {}
        }
        let (ping, dead) = self.patience();
        let alive = Some(self.liveness.wake(ping, dead));
        let silence = self.message_at.after(millis(self.config.silence_ms));
        let silence = self.chats.is_any_on_wire().then_some(silence);
        let calls = self.calls.values().map(|call| call.by).min();
        [alive, silence, calls].into_iter().flatten().min()
    }

    /// Silence after which the transport is tried, and after which it is dead.
    const fn patience(&self) -> (Duration, Duration) {
        (millis(self.config.ping_ms), millis(self.config.dead_ms))
    }

    /// This side hangs up.
    fn close(&mut self, code: u16, cause: Cause, now: Timestamp) {
        if self.link.is_open() || self.link == Link::Dialing {
            self.output(Output::Close(code));
        }
        self.down(cause, now);
    }

    fn event(&mut self, event: Event) {
        self.output(Output::Event(event));
    }

    fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
