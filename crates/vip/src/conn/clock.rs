//! What happens by itself when time passes (§4.1, §10.4, §15).

use std::time::Duration;

use switchboard_core::Timestamp;

use crate::error::{Code, Fault};
use crate::limits::VipLimits;
use crate::matrix::State;
use crate::message::{ServerEvent, SessionTerminating, TerminatingReason};
use crate::minutes::Settings;

use super::{Kind, Phase, VipConnection};

/// When something is due.
#[derive(Debug)]
pub(super) struct Deadlines {
    connect_by: Option<Timestamp>,
    pub(super) context_by: Option<Timestamp>,
    ping_at: Option<Timestamp>,
    pong_by: Option<Timestamp>,
    missed_pongs: u32,
    expires_at: Timestamp,
    active_at: Timestamp,
    warned_idle: bool,
    warned_end: bool,
    /// The first output of an answer.
    pub(super) thinking_by: Option<Timestamp>,
    /// The beginning of an answer that is held back, since something may be done first.
    pub(super) prelude_by: Option<Timestamp>,
    /// The end of playback.
    pub(super) playback_by: Option<Timestamp>,
    /// The client's own word about an interruption that was noticed here.
    pub(super) copy_by: Option<Timestamp>,
    /// What the user was answered while nobody was connected, unless it goes on before.
    pub(super) missed_at: Option<Timestamp>,
    /// What was heard so far is put on record.
    pub(super) heard_at: Option<Timestamp>,
    /// The number of the last event is put on record, if that was not done with an event.
    count_at: Option<Timestamp>,
}

impl Deadlines {
    pub(super) const fn new(settings: &Settings, now: Timestamp) -> Self {
        Self {
            connect_by: None,
            context_by: None,
            ping_at: None,
            pong_by: None,
            missed_pongs: 0,
            expires_at: Timestamp::from_millis(settings.expires_at),
            active_at: now,
            warned_idle: false,
            warned_end: false,
            thinking_by: None,
            prelude_by: None,
            playback_by: None,
            copy_by: None,
            missed_at: None,
            heard_at: None,
            count_at: None,
        }
    }

    pub(super) fn greeting(&mut self, limits: &VipLimits, now: Timestamp) {
        self.connect_by = Some(now.after(Duration::from_millis(limits.connect_ms.into())));
        self.ping_at = Some(now.after(PING_EVERY));
    }

    pub(super) fn admitted(&mut self, limits: &VipLimits, now: Timestamp) {
        self.connect_by = None;
        self.context_by = Some(now.after(Duration::from_millis(limits.context_ms.into())));
        self.active_at = now;
    }

    pub(super) fn entered(&mut self, state: State, limits: &VipLimits, now: Timestamp) {
        self.active(now);
        let thinking = Duration::from_millis(limits.thinking_ms.into());
        self.thinking_by = (state == State::AiThinking).then(|| now.after(thinking));
        if state != State::AiThinking {
            self.prelude_by = None;
        }
        if state != State::AiSpeaking {
            self.playback_by = None;
            self.heard_at = None;
        }
    }

    /// The client has done something.
    pub(super) const fn active(&mut self, now: Timestamp) {
        self.active_at = now;
        self.warned_idle = false;
    }

    /// The client is there.
    pub(super) const fn answered(&mut self) {
        self.pong_by = None;
        self.missed_pongs = 0;
    }

    fn idle_end(&self, limits: &VipLimits) -> Timestamp {
        self.active_at.after(Duration::from_secs(limits.idle_s.into()))
    }
}

impl VipConnection {
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        if self.phase == Phase::Over {
            return None;
        }
        let deadlines = &self.deadlines;
        let live = self.phase == Phase::Live;
        let warn = |at: Timestamp, warned: bool| if warned { at } else { before(at, WARNING) };
        let idle = live && self.state() == State::Idle;
        let listening = self.floor.as_ref().filter(|_| self.state() == State::UserSpeaking);
        [
            deadlines.connect_by,
            deadlines.context_by,
            deadlines.ping_at,
            deadlines.pong_by,
            live.then(|| warn(deadlines.expires_at, deadlines.warned_end)),
            idle.then(|| warn(deadlines.idle_end(&self.limits), deadlines.warned_idle)),
            deadlines.thinking_by,
            deadlines.prelude_by,
            deadlines.playback_by,
            deadlines.copy_by,
            deadlines.missed_at,
            deadlines.heard_at,
            deadlines.count_at,
            listening.and_then(|floor| floor.listen_by),
            listening.map(|floor| floor.longest_by),
            self.acts.next_wake(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn timeout(&mut self) {
        let now = self.now;
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        if self.phase == Phase::Over {
            return;
        }
        if due(self.deadlines.connect_by) {
            return self.fail(&Fault::new(Code::ProtoHandshakeTimeout));
        }
        if due(self.deadlines.context_by) {
            return self.fail(&Fault::new(Code::SesContextTimeout));
        }
        self.keep_alive();
        if self.phase == Phase::Live {
            self.end_by_the_clock();
        }
        if self.phase == Phase::Over {
            return;
        }
        if due(self.deadlines.copy_by) {
            self.settle_interruption(None);
        }
        if due(self.deadlines.thinking_by) {
            self.deadlines.thinking_by = None;
            self.thought_too_long();
        }
        if due(self.deadlines.prelude_by) {
            self.deadlines.prelude_by = None;
            self.speak_up();
        }
        if due(self.deadlines.playback_by) {
            self.deadlines.playback_by = None;
            self.played();
        }
        if due(self.deadlines.missed_at) {
            self.tell_missed();
        }
        if due(self.deadlines.heard_at) {
            self.deadlines.heard_at = None;
            self.note_heard();
        }
        if due(self.deadlines.count_at) {
            self.deadlines.count_at = None;
            if self.outgoing.counted < self.outgoing.seq {
                self.note_number(false);
            }
        }
        self.listen_timeout();
        self.acts_timeout();
    }

    /// Events that are never sent again are not on record; that they were sent is, a little later.
    pub(super) fn count_later(&mut self) {
        if self.phase == Phase::Live && self.outgoing.counted < self.outgoing.seq {
            self.deadlines.count_at.get_or_insert_with(|| self.now.after(COUNT_AFTER));
        }
    }

    fn keep_alive(&mut self) {
        let now = self.now;
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        if due(self.deadlines.pong_by) {
            self.deadlines.pong_by = None;
            self.deadlines.missed_pongs += 1;
            if self.deadlines.missed_pongs >= MOST_MISSED {
                return self.fail(&Fault::new(Code::NetHeartbeatTimeout));
            }
        }
        if due(self.deadlines.ping_at) {
            self.deadlines.ping_at = Some(now.after(PING_EVERY));
            // On a data channel the client asks.
            if self.kind != Kind::Peer {
                self.outgoing.ping();
            }
            self.deadlines.pong_by.get_or_insert_with(|| now.after(PONG_WITHIN));
        }
    }

    fn end_by_the_clock(&mut self) {
        let Deadlines { expires_at, warned_end, warned_idle, .. } = self.deadlines;
        if expires_at <= self.now {
            return self.terminate_for(Code::SesMaxDuration);
        }
        if !warned_end && before(expires_at, WARNING) <= self.now {
            self.deadlines.warned_end = true;
            self.warn(TerminatingReason::MaxDuration, expires_at);
        }
        if self.state() != State::Idle {
            return;
        }
        let idle_end = self.deadlines.idle_end(&self.limits);
        if idle_end <= self.now {
            return self.terminate_for(Code::SesIdleTimeout);
        }
        if !warned_idle && before(idle_end, WARNING) <= self.now {
            self.deadlines.warned_idle = true;
            self.warn(TerminatingReason::Idle, idle_end);
        }
    }

    fn warn(&mut self, reason: TerminatingReason, at: Timestamp) {
        let in_ms = u64::try_from(at.since(self.now).as_millis()).unwrap_or_default();
        self.tell(&ServerEvent::SessionTerminating(SessionTerminating { reason, in_ms }));
    }
}

fn before(at: Timestamp, lead: Duration) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_sub(u64::try_from(lead.as_micros()).unwrap_or_default()))
}

const COUNT_AFTER: Duration = Duration::from_secs(1);
const PING_EVERY: Duration = Duration::from_secs(15);
const PONG_WITHIN: Duration = Duration::from_secs(10);
const MOST_MISSED: u32 = 2;
const WARNING: Duration = Duration::from_secs(30);
