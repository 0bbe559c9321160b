//! What time does to a connection: pings, silence, slowness, edits that wait, the end (§8.2).

use std::time::Duration;

use bytes::Bytes;
use switchboard_core::{Backlog, Close, CloseReason, Frame, Output, Timestamp};

use super::AliciaConnection;
use crate::error::SILENT;

/// When things last happened.
#[derive(Debug, Default)]
pub(super) struct Clock {
    begun: bool,
    /// The peer gave a sign of life.
    pub(super) heard_at: Timestamp,
    pinged_at: Timestamp,
    /// Whether the last ping was answered.
    answered: bool,
    /// How long an answer to a ping took last, in milliseconds.
    pub(super) latency_ms: u32,
    pub(super) backlog: Backlog,
}

impl Clock {
    pub(super) fn begin(&mut self, now: Timestamp) {
        if !self.begun {
            *self = Self { begun: true, heard_at: now, pinged_at: now, answered: true, ..Self::default() };
        }
    }

    pub(super) fn answered(&mut self, now: Timestamp) {
        if !std::mem::replace(&mut self.answered, true) {
            self.latency_ms = u32::try_from(now.since(self.pinged_at).as_millis()).unwrap_or(u32::MAX);
        }
    }
}

impl AliciaConnection {
    /// When something is to be done if nothing else happens.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        if self.closed {
            return None;
        }
        let clock = &self.clock;
        let times = [
            self.principal.expires_at,
            Some(clock.pinged_at.after(secs(self.limits.ping_s))),
            Some(clock.heard_at.after(secs(self.limits.idle_s))),
            self.next_edit_over(),
            self.next_release(),
            clock.backlog.wake(self.now, secs(self.limits.write_s)),
        ];
        times.into_iter().flatten().min()
    }

    pub(super) fn timeout(&mut self) {
        let now = self.now;
        if self.principal.expires_at.is_some_and(|at| at <= now) {
            return self.close(CloseReason::Unauthorized);
        }
        if self.clock.backlog.is_stalled(now, secs(self.limits.write_s)) {
            return self.close(CloseReason::TooSlow);
        }
        if self.clock.heard_at.after(secs(self.limits.idle_s)) <= now {
            return self.shut(SILENT);
        }
        if self.clock.pinged_at.after(secs(self.limits.ping_s)) <= now {
            self.clock.pinged_at = now;
            self.clock.answered = false;
            self.out.push_back(Output::Send(Frame::Ping(Bytes::new())));
        }
        self.end_edits();
        self.release_overdue();
    }

    /// The transport is gone, or has to go.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if matches!(reason, CloseReason::PeerClosed(_)) {
            self.withdraw_all_tools();
        }
        self.shut(reason.close());
    }

    /// A server that leaves closes connections on which nothing goes on any more.
    pub(super) fn leave_if_done(&mut self) {
        let idle = self.work.is_none() && self.waiting.is_empty() && !self.is_answering();
        if self.leaving && idle {
            self.shut(CloseReason::Restart.close());
        }
    }

    pub(super) fn shut(&mut self, close: Close) {
        if !self.closed {
            self.closed = true;
            self.out.push_back(Output::Close(close));
        }
    }
}

pub(super) fn millis(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

pub(super) fn secs(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
