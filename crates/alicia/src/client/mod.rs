//! The client half of Alicia, without sockets, clock or randomness: [`AliciaClient`] is the [`ClientMachine`] of many
//! conversations on one socket.
//!
//! Of each conversation, stanzas of the server are taken in their order only: the contiguous mark stands for
//! everything up to it. After every connection, and whenever a stanza is missing, the mark is shown to the
//! server, which sends what lies behind it. Where no replay can help (the mark is 0, or too old), a
//! subscription brings the messages instead, and where even that cannot, the user is told to load them over
//! HTTP. What the server has not answered is sent again on the next connection, once everything that was
//! missed is here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::{AliciaLimits, Body, Envelope, Id, Prefix, encode};
use switchboard_core::client::{LinkChange, Liveness};
use switchboard_core::{
    Backoff, Bucket, ClientInput, ClientMachine, ClientOutput, Jitter, Rate, Seed, Timestamp,
};

mod answers;
mod command;
mod conversation;
mod event;
mod handshake;
mod link;
mod receive;
mod requests;
mod seen;
mod settle;
#[cfg(test)]
mod tests;
mod tools;
mod toolwork;

pub use command::{Ballot, Join, Since};
pub use event::{
    Answer, CommandError, ConversationEvent, ConversationKey, Ended, Event, Fault, Joined, Outcome,
    RequestError, RequestKey, ToolRun,
};
pub use tools::ToolOutcome;

use conversation::Conversation;
use link::Link;
use requests::Requests;

/// What can happen to a client.
pub type Input = ClientInput;
/// What a client wants done.
pub type Output = ClientOutput<Event>;
/// Why there is no connection.
pub type Cause = switchboard_core::client::Cause<Fault>;

/// What a client wants.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Bounds of what is sent and read.
    pub limits: AliciaLimits,
    /// The build of the client.
    pub version: Option<String>,
    /// What it runs on: `desktop`, `web`, …
    pub device: Option<String>,
    /// The user's locale.
    pub language: Option<String>,
    /// Whether answers come sentence by sentence.
    pub streaming: bool,
    /// Whether reasoning is wanted.
    pub reasoning: bool,
    /// Requests that may wait for the server.
    pub max_requests: usize,
    /// Tools that may run at a time, per conversation.
    pub max_tools: usize,
    /// The longest answer that is kept in one piece, in bytes; of longer ones only the pieces are told.
    pub max_answer: usize,
    /// How long a handshake may take, in milliseconds.
    pub handshake_ms: u64,
    /// Silence of the transport after which it is tried with a ping, in milliseconds.
    pub ping_ms: u64,
    /// Silence of the transport after which it is dead, in milliseconds.
    pub dead_ms: u64,
    /// Pauses between attempts to connect.
    pub backoff: Backoff,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            limits: AliciaLimits::default(),
            version: None,
            device: None,
            language: None,
            streaming: true,
            reasoning: true,
            max_requests: 1_024,
            max_tools: 64,
            max_answer: 4 << 20,
            handshake_ms: 10_000,
            ping_ms: 10_000,
            dead_ms: 60_000,
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(30), Jitter::Above(25)),
        }
    }
}

/// One client: at most one transport at a time, any number of them one after another.
#[derive(Debug)]
pub struct AliciaClient {
    config: ClientConfig,
    /// What is accepted from a server: the same, up to its largest frame.
    reading: AliciaLimits,
    seed: Seed,
    minted: u64,
    link: Link,
    backoff: Backoff,
    /// The last stanza of this connection.
    stanza: i32,
    /// Keeps what is sent below what a server bears.
    bucket: Bucket,
    /// When the bucket has something again, if it is waited for.
    refilled_at: Option<Timestamp>,
    conversations: BTreeMap<ConversationKey, Conversation>,
    keys: BTreeMap<Id, ConversationKey>,
    last_key: u64,
    requests: Requests,
    liveness: Liveness,
    outputs: VecDeque<Output>,
}

impl ClientMachine for AliciaClient {
    type Event = Event;
    type Fault = Fault;

    fn handle_input(&mut self, input: Input, now: Timestamp) {
        match input {
            Input::Connect => self.connect(),
            Input::Opened => self.opened(now),
            Input::Unreachable(why) if self.link == Link::Dialing => self.down(Cause::Unreachable(why), now),
            Input::Refused(refusal) if self.link == Link::Dialing => self.down(Cause::Refused(refusal), now),
            Input::Binary(packet) if self.link == Link::Up => {
                self.heard(now);
                self.receive(&packet, now);
            }
            // There are no envelopes in text.
            Input::Text(_) | Input::Alive => self.heard(now),
            Input::Closed(code) if matches!(self.link, Link::Dialing | Link::Up) => {
                self.down(Cause::closed(code), now);
            }
            Input::Timeout => self.timeout(now),
            Input::Leave => self.leave_all(now),
            // About a transport that is not there.
            Input::Unreachable(_) | Input::Refused(_) | Input::Binary(_) | Input::Closed(_) => {}
        }
        self.flush(now);
    }

    fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }

    fn link(event: &Event) -> Option<LinkChange<'_, Fault>> {
        match event {
            Event::Up => Some(LinkChange::Up),
            Event::Down(down) => Some(LinkChange::Down(down)),
            Event::Conversation(..) | Event::Settled(..) => None,
        }
    }
}

impl AliciaClient {
    /// A client without a connection. Its ids come from the seed.
    pub fn new(config: ClientConfig, seed: Seed) -> Self {
        let backoff = config.backoff.clone().seeded(&seed);
        let reading = AliciaLimits { frame: config.limits.hard_cap, ..config.limits };
        Self {
            reading,
            seed,
            minted: 0,
            link: Link::Off,
            backoff,
            stanza: 0,
            bucket: full_bucket(&config.limits),
            refilled_at: None,
            conversations: BTreeMap::new(),
            keys: BTreeMap::new(),
            last_key: 0,
            requests: Requests::default(),
            liveness: Liveness::default(),
            outputs: VecDeque::new(),
            config,
        }
    }

    /// Whether messages travel.
    pub fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// The stanza up to which everything of a conversation was taken, to go on from there with another
    /// client: 0, or negative.
    pub fn mark(&self, conversation: ConversationKey) -> Option<i32> {
        self.conversations.get(&conversation).map(|conversation| conversation.mark)
    }

    /// A fresh id; no two of a client are alike.
    fn mint(&mut self, prefix: Prefix) -> Id {
        self.minted += 1;
        Id::fresh(prefix, &self.seed, self.minted)
    }

    /// Sends one envelope under the next stanza of this connection, which it answers.
    fn send(&mut self, conversation: Option<Id>, body: Body) -> i32 {
        self.stanza = self.stanza.saturating_add(1);
        let envelope = Envelope::new(conversation, body).numbered(self.stanza);
        self.output(Output::Binary(encode(&envelope)));
        self.stanza
    }

    /// Whether another envelope may be sent now.
    fn may_send(&mut self, now: Timestamp) -> bool {
        match self.bucket.take(1, now) {
            Ok(()) => {
                self.refilled_at = None;
                true
            }
            Err(wait) => {
                self.refilled_at = Some(now.after(wait));
                false
            }
        }
    }

    fn tell(&mut self, conversation: ConversationKey, event: ConversationEvent) {
        self.event(Event::Conversation(conversation, event));
    }

    fn event(&mut self, event: Event) {
        self.output(Output::Event(event));
    }

    fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }
}

/// A little below what a server takes, which counts by a clock of its own.
fn full_bucket(limits: &AliciaLimits) -> Bucket {
    let per_minute = u64::from(limits.envelopes_per_10_s).saturating_mul(5);
    let burst = u64::from(limits.envelopes_burst).saturating_mul(4) / 5;
    Bucket::new(Rate::per_minute(per_minute.max(1), burst.max(1)))
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
