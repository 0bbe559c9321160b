//! The client half, sans-IO: chats over WebSocket RPC ([`AcolyteClient`]) and over HTTP
//! ([`StreamChat`]), without sockets, clock or randomness.
//!
//! ```text
//! transport ─ Input ─▶ handle_input ─┐                     ┌─▶ Output::Send, Ping, Close ─▶ transport
//!                                    ├─▶ AcolyteClient ────┤
//! user ──── commands (start, …) ─────┘   poll_output       └─▶ Output::Event ─▶ user
//! ```
//!
//! After every input and every command, call [`AcolyteClient::poll_output`] until it answers
//! [`Output::Idle`]. Times are milliseconds of any clock that does not go back.
//!
//! A connection begins with an offer (§10). Where both sides know `task.resume`, a chat outlives its
//! connection: it is attached to the next one behind the last position that was seen, so that nothing
//! is told twice and nothing is missing. When and whether there is a next one is up to the user.

use std::collections::{BTreeMap, VecDeque};

use switchboard_core::{Seed, hex};

mod chats;
mod command;
mod event;
mod receive;
mod stream;
mod telling;

pub use event::{
    Answer, CallError, Cause, ChatEvent, ChatId, CommandError, Ending, Event, Input, Loss, Output,
};
pub use stream::StreamChat;

use crate::message::{Capabilities, RpcId};
use chats::Chats;

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
    heard_at: u64,
    message_at: u64,
    pinged: bool,
    outputs: VecDeque<Output>,
}

/// Where the connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Link {
    Down,
    /// The offer is made, the answer is not here.
    Greeting(RpcId),
    Up,
}

/// A message that is not a chat, and has no answer yet.
#[derive(Debug)]
struct Call {
    what: Asked,
    by: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Offer,
    Status,
    Task,
    Abort(ChatId),
}

impl AcolyteClient {
    /// A client without a connection. Its ids come from the seed.
    pub fn new(config: ClientConfig, seed: Seed) -> Self {
        Self {
            config,
            seed,
            minted: 0,
            link: Link::Down,
            agreed: Capabilities::default(),
            chats: Chats::default(),
            calls: BTreeMap::new(),
            resuming: 0,
            lost: 0,
            heard_at: 0,
            message_at: 0,
            pinged: false,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one report of the transport; drain [`Self::poll_output`] afterwards.
    pub fn handle_input(&mut self, input: Input, now: u64) {
        match input {
            Input::Opened => self.opened(now),
            Input::Message(message) => {
                if self.link != Link::Down {
                    self.heard(now);
                    self.message_at = now;
                    self.receive(&message, now);
                }
            }
            Input::Alive => self.heard(now),
            Input::Closed(code) => self.down(Cause::Closed(code.unwrap_or(ABNORMAL)), now),
            Input::Timeout => self.timeout(now),
        }
    }

    /// What to do next; [`Output::Idle`] once there is nothing.
    pub fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
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

    fn heard(&mut self, now: u64) {
        self.heard_at = now;
        self.pinged = false;
    }

    fn timeout(&mut self, now: u64) {
        if self.link == Link::Down {
            return;
        }
        let silent = now.saturating_sub(self.heard_at) >= self.config.dead_ms
            || self.chats.is_any_on_wire() && now.saturating_sub(self.message_at) >= self.config.silence_ms;
        if silent {
            self.close(1001, Cause::Silent, now);
            return;
        }
        if now.saturating_sub(self.heard_at) >= self.config.ping_ms && !self.pinged {
            self.pinged = true;
            self.output(Output::Ping);
        }
        let overdue: Vec<RpcId> =
            self.calls.iter().filter(|(_, call)| call.by <= now).map(|(id, _)| id.clone()).collect();
        for id in overdue {
            self.fail_call(&id, CallError::Timeout, now);
        }
    }

    fn wake(&self) -> Option<u64> {
        if self.link == Link::Down {
            return None;
        }
        let patience = if self.pinged { self.config.dead_ms } else { self.config.ping_ms };
        let alive = Some(self.heard_at.saturating_add(patience));
        let silence = self.message_at.saturating_add(self.config.silence_ms);
        let silence = self.chats.is_any_on_wire().then_some(silence);
        let calls = self.calls.values().map(|call| call.by).min();
        [alive, silence, calls].into_iter().flatten().min()
    }

    /// This side hangs up.
    fn close(&mut self, code: u16, cause: Cause, now: u64) {
        if self.link != Link::Down {
            self.output(Output::Close(code));
            self.down(cause, now);
        }
    }

    fn event(&mut self, event: Event) {
        self.output(Output::Event(event));
    }

    fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }
}

/// The transport broke off.
const ABNORMAL: u16 = 1006;
