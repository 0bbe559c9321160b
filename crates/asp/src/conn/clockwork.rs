//! What time and leaving do to a connection: heartbeat, expiry, drain, detach (§13).

use std::time::Duration;

use bytes::Bytes;
use switchboard_core::model::ToolChange;
use switchboard_core::{Frame as TransportFrame, Op, Output, Timestamp};

use super::{AspConnection, Pending};
use crate::error::{Close, Code};
use crate::message::{ErrorBody, ServerHello, ServerHelloOp};
use crate::state::{Happening, Lifecycle};

/// When things are due.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    opened_at: Option<Timestamp>,
    received_at: Timestamp,
    pinged: bool,
    expires_at: Option<Timestamp>,
    warned: bool,
    /// When draining ends, and the advice that the client was given.
    drained: Option<(Timestamp, u64)>,
    /// Since when more waits than should.
    pub(super) slow_since: Option<Timestamp>,
    /// When the transport last took something of what was waiting.
    pub(super) progress_at: Timestamp,
    pub(super) backlog: usize,
    /// The largest request was given up since then.
    pub(super) given_up: bool,
}

impl Clocks {
    /// Notes the first input; true if this is it.
    pub(super) fn begin(&mut self, now: Timestamp) -> bool {
        if self.opened_at.is_some() {
            return false;
        }
        self.opened_at = Some(now);
        self.received_at = now;
        true
    }

    pub(super) fn received(&mut self, now: Timestamp) {
        self.received_at = now;
        self.pinged = false;
    }

    pub(super) fn expire_with(&mut self, expires_at: Option<Timestamp>) {
        self.expires_at = expires_at;
        self.warned = false;
    }

    /// Since when nothing has moved, if the buffer is over its bound since `since`.
    fn stalled_since(&self, since: Timestamp) -> Timestamp {
        since.max(self.progress_at)
    }

    pub(super) fn retry_ms(&self) -> u64 {
        self.drained.map_or(1000, |(_, retry_ms)| retry_ms)
    }
}

impl AspConnection {
    /// When the connection wants to be woken.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        if self.life == Lifecycle::Closed {
            return None;
        }
        let clocks = &self.clocks;
        // The clocks begin with the first input; ask for one, so that a silent peer has them too.
        let Some(opened_at) = clocks.opened_at else { return Some(Timestamp::default()) };
        let silence = if clocks.pinged { self.limits.dead_s } else { self.limits.heartbeat_s };
        let fragments = self.assembler.next_deadline().map(Timestamp::from_millis);
        let expiry = clocks.expires_at.map(|at| if clocks.warned { at } else { warning(at) });
        let drain = clocks.drained.map(|(until, _)| until);
        let lifetime = drain.is_none().then(|| opened_at.after(seconds(self.limits.lifetime_s)));
        let slow = clocks
            .slow_since
            .map(|since| clocks.stalled_since(since).after(if clocks.given_up { SLOW_GRACE } else { STALL }));
        [Some(clocks.received_at.after(seconds(silence))), fragments, expiry, drain, lifetime, slow]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn timeout(&mut self) {
        let now = self.now;
        for (id, error) in self.assembler.expire(now.as_millis()) {
            if self.requests.get(id).is_some() {
                self.fail_request(id, error.code(), &error.to_string(), None);
            }
        }
        if let Some(at) = self.clocks.expires_at {
            if at <= now {
                return self.fatal(Code::AuthExpired, "the credential has expired", Close::Auth);
            }
            if !self.clocks.warned && warning(at) <= now {
                self.clocks.warned = true;
                let error = ErrorBody::new(Code::AuthExpiring, "the credential expires soon");
                self.send_error(0, &error);
            }
        }
        let silence = now.since(self.clocks.received_at);
        if silence >= seconds(self.limits.dead_s) {
            self.leave();
            return self.close(Close::Dead);
        }
        if silence >= seconds(self.limits.heartbeat_s) && !self.clocks.pinged {
            self.clocks.pinged = true;
            self.out.push_back(Output::Send(TransportFrame::Ping(Bytes::new())));
        }
        if let Some(since) = self.clocks.slow_since {
            let stalled = now.since(self.clocks.stalled_since(since));
            if stalled >= SLOW_GRACE {
                self.leave();
                return self.close(Close::Dead);
            }
            if stalled >= STALL && !self.clocks.given_up {
                self.clocks.given_up = true;
                self.give_up_largest();
            }
        }
        let opened_at = self.clocks.opened_at.unwrap_or(now);
        if self.clocks.drained.is_none() && now.since(opened_at) >= seconds(self.limits.lifetime_s) {
            self.drain(0, "lifetime");
        }
        if self.clocks.drained.is_some_and(|(until, _)| until <= now) {
            self.leave();
            self.close(Close::Restart);
        }
    }

    /// Tells the client to come back later; what runs may finish.
    pub(super) fn drain(&mut self, retry_ms: u64, reason: &str) {
        if self.clocks.drained.is_some() {
            return;
        }
        self.clocks.drained = Some((self.now.after(seconds(self.limits.drain_s)), retry_ms));
        let mut goaway = ServerHello::new(ServerHelloOp::Goaway);
        goaway.retry_ms = Some(retry_ms);
        goaway.reason = Some(reason.into());
        self.send_hello(&goaway);
        self.happen(Happening::Drain);
    }

    /// A draining connection with nothing left to do is over.
    pub(super) fn finish_drain(&mut self) {
        if self.life == Lifecycle::Draining && self.requests.is_empty() && self.pending.is_empty() {
            self.leave();
            self.close(Close::Restart);
        }
    }

    /// The transport goes. With `resume` the attachment waits for the next one; without, everything
    /// that was asked for is cancelled.
    pub(super) fn leave(&mut self) {
        if !self.link.durable {
            return self.leave_for_good();
        }
        if std::mem::replace(&mut self.link.left, true) {
            return;
        }
        let (attachment, generation) = (self.link.attachment.clone(), self.link.generation);
        for session in self.link.sessions.keys().cloned().collect::<Vec<_>>() {
            let op = Op::Detach { attachment: attachment.clone(), generation };
            self.submit(&session, op, Pending::Nothing);
        }
    }

    /// The client is gone and will not be back: everything it asked for is cancelled.
    pub(super) fn leave_for_good(&mut self) {
        if std::mem::replace(&mut self.link.left, true) {
            return;
        }
        if self.link.durable {
            let (attachment, generation) = (self.link.attachment.clone(), self.link.generation);
            for session in self.link.sessions.keys().cloned().collect::<Vec<_>>() {
                let op = Op::CloseAttachment { attachment: attachment.clone(), generation };
                self.submit(&session, op, Pending::Nothing);
            }
            return;
        }
        let open: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, request)| !request.watches)
            .filter_map(|(_, request)| Some((request.session.clone(), request.turn.clone()?)))
            .collect();
        for (session, turn) in open {
            let op = Op::Interrupt { turn, reason: Some("connection lost".into()) };
            self.submit(&session, op, Pending::Nothing);
        }
        if !self.client_tools.is_empty() {
            let remove: Vec<_> = self.client_tools.iter().map(|tool| tool.name.clone()).collect();
            for session in self.link.sessions.keys().cloned().collect::<Vec<_>>() {
                let change = ToolChange { add: Vec::new(), remove: remove.clone(), turn: None };
                self.submit(&session, Op::ChangeTools(change), Pending::Nothing);
            }
        }
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(u64::from(count))
}

/// When the client is told that its credential is about to end.
fn warning(expires_at: Timestamp) -> Timestamp {
    Timestamp::from_micros(expires_at.as_micros().saturating_sub(60_000_000))
}

/// How long the transport may take nothing while the buffer is full before the largest request goes,
/// and how long before the connection goes.
const STALL: Duration = Duration::from_secs(3);
const SLOW_GRACE: Duration = Duration::from_secs(10);
