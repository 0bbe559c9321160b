//! A connection of a client and the tries to have one: what devices and constellations have in
//! common.
//!
//! ```text
//! Off ─connect─▶ Connecting ─Opened─▶ Registering ─ok─▶ Up
//!  ▲                 ▲   │                 │             │
//!  │              time's up └───── Lost ◀──┴─────────────┘
//!  │                 │              │
//!  └── no more ──────┴─ Waiting ◀───┘ retry
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_core::{Seed, Timestamp};

use super::{
    Backoff, Cause, Fault, HeartbeatManager, Input, Message, Output, Pipeline, Pulse, Registration, Strategy,
    Trouble,
};
use crate::codec::decode_server;
use crate::message::{ClientMessage, ServerMessage};

#[derive(Debug)]
pub(super) struct Link<E> {
    client_id: String,
    phase: Phase,
    backoff: Backoff,
    /// Looked at only while the link is up; begun anew with every connection.
    beats: HeartbeatManager,
    interval: Duration,
    patience: Duration,
    pub(super) middleware: Pipeline,
    outputs: VecDeque<Output<E>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Off,
    Waiting { until: Timestamp },
    Connecting,
    Registering { by: Timestamp },
    Up,
}

/// What an input amounts to, for the client to act on.
#[derive(Debug)]
pub(super) enum Step {
    Nothing,
    /// A transport is being opened.
    Connecting,
    /// Time to register.
    Register,
    /// The registration was taken.
    Accepted,
    /// The server says something else.
    Message(Box<ServerMessage>),
    /// Time for a heartbeat.
    Beat,
    /// The connection is gone; after cleaning up, [`Link::retry`].
    Lost(Cause),
    /// The user leaves; after cleaning up, [`Link::leave`].
    Left,
}

impl<E: From<Trouble>> Link<E> {
    pub(super) fn new(client_id: String, times: Times, seed: &Seed) -> Self {
        Self {
            client_id,
            phase: Phase::Off,
            backoff: Backoff::new(times.reconnect, seed),
            beats: HeartbeatManager::default(),
            interval: times.heartbeat,
            patience: times.registration,
            middleware: Pipeline::default(),
            outputs: VecDeque::new(),
        }
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    /// Asks for a transport, unless there is one.
    fn connect(&mut self) -> Step {
        match self.phase {
            Phase::Off | Phase::Waiting { .. } => {
                self.phase = Phase::Connecting;
                self.outputs.push_back(Output::Dial);
                Step::Connecting
            }
            Phase::Connecting | Phase::Registering { .. } | Phase::Up => Step::Nothing,
        }
    }

    pub(super) fn handle(&mut self, input: Input, now: Timestamp) -> Step {
        match input {
            Input::Connect => self.connect(),
            Input::Opened => {
                if self.phase != Phase::Connecting {
                    return Step::Nothing;
                }
                self.phase = Phase::Registering { by: now.after(self.patience) };
                Step::Register
            }
            Input::Text(message) => self.receive(message.as_bytes(), now),
            Input::Binary(message) => self.receive(&message, now),
            Input::Unreachable(why) => self.lost(Cause::Unreachable(why)),
            Input::Refused(refusal) => self.lost(Cause::Refused(refusal)),
            Input::Closed(code) => self.lost(Cause::closed(code)),
            Input::Alive => Step::Nothing,
            Input::Timeout => self.timeout(now),
            Input::Leave if self.phase == Phase::Off => Step::Nothing,
            Input::Leave => Step::Left,
        }
    }

    fn lost(&self, cause: Cause) -> Step {
        match self.phase {
            Phase::Connecting | Phase::Registering { .. } | Phase::Up => Step::Lost(cause),
            Phase::Off | Phase::Waiting { .. } => Step::Nothing,
        }
    }

    fn receive(&mut self, bytes: &[u8], now: Timestamp) -> Step {
        if !matches!(self.phase, Phase::Registering { .. } | Phase::Up) {
            return Step::Nothing;
        }
        let read = std::str::from_utf8(bytes)
            .map_err(|_| "not text".to_owned())
            .and_then(|text| decode_server(text).map_err(|error| error.to_string()));
        let message = match read {
            Ok(message) => message,
            Err(why) => return self.trouble(Trouble::Unusable(why)),
        };
        let message = match self.middleware.incoming(message.into()) {
            Ok(Message::Server(message)) => message,
            Ok(Message::Client(_)) => {
                return self.trouble(Trouble::Unusable("middleware made it a client's".to_owned()));
            }
            Err(refused) => return self.trouble(refused.into()),
        };
        if self.phase == Phase::Up {
            self.beats.heard(&self.client_id);
            return Step::Message(Box::new(message));
        }
        if Registration::is_accepted(&message) {
            self.phase = Phase::Up;
            self.backoff.reset();
            self.beats.start(self.client_id.clone(), self.interval, now);
            return Step::Accepted;
        }
        let why = message.error.unwrap_or_else(|| message.kind.to_string());
        self.hang_up(NORMAL, Fault::Refused(why).into())
    }

    fn timeout(&mut self, now: Timestamp) -> Step {
        match self.phase {
            Phase::Off | Phase::Connecting => Step::Nothing,
            Phase::Waiting { until } if until <= now => self.connect(),
            Phase::Registering { by } if by <= now => self.hang_up(AWAY, Fault::Unanswered.into()),
            Phase::Waiting { .. } | Phase::Registering { .. } => Step::Nothing,
            Phase::Up => match self.beats.poll(now) {
                None => Step::Nothing,
                Some(Pulse::Beat(_)) => Step::Beat,
                Some(Pulse::Dead(_)) => self.hang_up(AWAY, Cause::Silent),
            },
        }
    }

    /// Sends a message if middleware lets it pass; answers whether it did.
    pub(super) fn send(&mut self, message: ClientMessage) -> Sent {
        match self.middleware.outgoing(message.into()) {
            Ok(message) => {
                self.outputs.push_back(Output::Text(message.encode()));
                Sent::Yes
            }
            Err(refused) => {
                self.trouble(refused.into());
                Sent::Blocked
            }
        }
    }

    /// This side ends the connection.
    pub(super) fn hang_up(&mut self, code: u16, cause: Cause) -> Step {
        self.outputs.push_back(Output::Close(code));
        Step::Lost(cause)
    }

    /// After a loss: when it is tried again, if at all.
    pub(super) fn retry(&mut self, cause: &Cause, now: Timestamp) -> Option<Timestamp> {
        let delay = if cause.is_temporary() { self.backoff.next_delay() } else { None };
        let retry_at = delay.map(|delay| now.after(delay.max(cause.retry_after().unwrap_or_default())));
        self.phase = retry_at.map_or(Phase::Off, |until| Phase::Waiting { until });
        retry_at
    }

    /// Leaves for good. The next connection begins with all its tries.
    pub(super) fn leave(&mut self) {
        match self.phase {
            Phase::Connecting | Phase::Registering { .. } | Phase::Up => {
                self.outputs.push_back(Output::Close(NORMAL));
            }
            Phase::Off | Phase::Waiting { .. } => {}
        }
        self.phase = Phase::Off;
        self.backoff.reset();
    }

    pub(super) fn wake(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Off | Phase::Connecting => None,
            Phase::Waiting { until } => Some(until),
            Phase::Registering { by } => Some(by),
            Phase::Up => self.beats.next_wake(),
        }
    }

    pub(super) fn event(&mut self, event: impl Into<E>) {
        self.outputs.push_back(Output::Event(event.into()));
    }

    fn trouble(&mut self, trouble: Trouble) -> Step {
        self.event(trouble);
        Step::Nothing
    }

    pub(super) fn poll(&mut self) -> Option<Output<E>> {
        self.outputs.pop_front()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Yes,
    Blocked,
}

/// How long things may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Between two heartbeats, and until the answer to one.
    pub heartbeat: Duration,
    /// Until the answer to a registration.
    pub registration: Duration,
    /// Before the next try to connect.
    pub reconnect: Strategy,
}

/// This side leaves in order.
pub(super) const NORMAL: u16 = 1000;

/// This side leaves because the other is not there.
const AWAY: u16 = 1001;
