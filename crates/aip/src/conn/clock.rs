//! What time does to a connection: the deadline to register, signs of life, unanswered questions.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use switchboard_core::{CloseReason, Frame, Output, Reject, Timestamp};

use super::{AipConnection, Request};
use crate::error::{REFUSED, SILENT, TAKEN_OVER};
use crate::state::Phase;

/// When things last happened.
#[derive(Debug, Default)]
pub(super) struct Clock {
    begun: bool,
    opened_at: Timestamp,
    /// The peer gave a sign of life.
    heard_at: Timestamp,
    pinged_at: Timestamp,
    /// Another connection asked for the name, and the peer has been silent since.
    contested_at: Option<Timestamp>,
    /// Bytes that the transport has not taken.
    pub(super) backlog: usize,
}

impl Clock {
    pub(super) fn begin(&mut self, now: Timestamp) {
        if !self.begun {
            *self = Self { begun: true, opened_at: now, heard_at: now, pinged_at: now, ..Self::default() };
        }
    }

    pub(super) fn heard(&mut self, now: Timestamp) {
        self.heard_at = now;
        self.contested_at = None;
    }

    /// Whoever holds the name shows that it lives, or loses it (§9.4).
    pub(super) fn contested(&mut self, now: Timestamp, out: &mut VecDeque<Output>) {
        self.contested_at.get_or_insert(now);
        self.ping(now, out);
    }

    fn ping(&mut self, now: Timestamp, out: &mut VecDeque<Output>) {
        self.pinged_at = now;
        out.push_back(Output::Send(Frame::Ping(Bytes::new())));
    }
}

impl AipConnection {
    /// When something is to be done if nothing else happens.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        if self.phase == Phase::Closed {
            return None;
        }
        let clock = &self.clock;
        let mut at = clock.heard_at.max(clock.pinged_at).after(secs(self.limits.ping_s));
        at = at.min(clock.heard_at.after(secs(self.limits.silence_s)));
        if self.phase == Phase::Open {
            at = at.min(self.registration_ends());
        }
        let again = self.again.front().map(|(at, _)| *at);
        let others = [self.takeover_ends(), self.facts_wake(), self.principal.expires_at, again];
        Some(others.into_iter().flatten().fold(at, Timestamp::min))
    }

    fn registration_ends(&self) -> Timestamp {
        self.clock.opened_at.after(secs(self.limits.registration_s))
    }

    fn takeover_ends(&self) -> Option<Timestamp> {
        Some(self.clock.contested_at?.after(Duration::from_millis(self.limits.takeover_ms.into())))
    }

    pub(super) fn timeout(&mut self) {
        let now = self.now;
        if self.principal.expires_at.is_some_and(|at| at <= now) {
            return self.close(CloseReason::Unauthorized);
        }
        if self.phase == Phase::Open && self.registration_ends() <= now {
            return self.end(REFUSED);
        }
        if self.takeover_ends().is_some_and(|at| at <= now) {
            self.abandon_tasks(false);
            return self.end(TAKEN_OVER);
        }
        if self.clock.heard_at.after(secs(self.limits.silence_s)) <= now {
            self.abandon_tasks(false);
            return self.end(SILENT);
        }
        self.facts_timeout();
        while let Some((_, request)) = self.again.pop_front_if(|(at, _)| *at <= now) {
            self.ask_again(request);
        }
        let quiet = self.clock.heard_at.max(self.clock.pinged_at);
        if quiet.after(secs(self.limits.ping_s)) <= now {
            self.clock.ping(now, &mut self.out);
        }
    }

    /// Something that has to be done was refused: it is asked again while that may help.
    pub(super) fn not_taken(&mut self, request: Request, reject: &Reject) {
        if let Reject::Unavailable { .. } | Reject::Busy | Reject::RateLimited { .. } = reject {
            self.again.push_back((self.now.after(RETRY), request));
        } else if let Request::Follow(..) = request {
            // Nothing can be promised to a client that is not told what happens.
            self.close(CloseReason::Internal);
        }
    }
}

/// After how long something is asked again that the server could not take.
const RETRY: Duration = Duration::from_millis(250);

fn secs(secs: u32) -> Duration {
    Duration::from_secs(secs.into())
}
