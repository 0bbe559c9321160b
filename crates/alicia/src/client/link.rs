//! The transport: when there is one, whether it lives, and when to try again.

use std::time::Duration;

use switchboard_core::Timestamp;
use switchboard_core::client::{Down, Pulse};

use super::conversation::{CatchUp, Conversation, Stage};
use super::{
    AliciaClient, Cause, ConversationEvent, ConversationKey, Ended, Event, Output, RequestError, RequestKey,
    full_bucket, millis,
};

/// Where the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none, and there is to be none.
    Off,
    /// Until then.
    Down { retry_at: Timestamp },
    /// It is being made.
    Dialing,
    /// Messages travel.
    Up,
}

impl AliciaClient {
    /// Connects, and from then on again and again.
    pub(super) fn connect(&mut self) {
        if self.link == Link::Off {
            self.dial();
        }
    }

    /// The network is back: what would have been tried later is tried at once, and the pauses begin anew.
    pub fn network_is_back(&mut self) {
        self.backoff.reset();
        if matches!(self.link, Link::Down { .. }) {
            self.dial();
        }
    }

    /// Leaves. Whatever waits is given up.
    pub(super) fn leave_all(&mut self, now: Timestamp) {
        if matches!(self.link, Link::Dialing | Link::Up) {
            self.output(Output::Close(1000));
        }
        self.down(Cause::Left, now);
        self.give_up(&Ended::Left);
    }

    /// There will be no further connection.
    fn give_up(&mut self, why: &Ended) {
        self.link = Link::Off;
        let keys: Vec<ConversationKey> = self.conversations.keys().copied().collect();
        for key in keys {
            self.close(key, why.clone());
        }
        let rest: Vec<RequestKey> = self.requests.iter().map(|(key, _)| key).collect();
        for key in rest {
            self.settle(key, Err(RequestError::Disconnected));
        }
    }

    fn dial(&mut self) {
        self.link = Link::Dialing;
        self.output(Output::Dial);
    }

    pub(super) fn opened(&mut self, now: Timestamp) {
        if self.link != Link::Dialing {
            return;
        }
        self.link = Link::Up;
        self.stanza = 0;
        self.bucket = full_bucket(&self.config.limits);
        self.liveness.heard(now);
        self.event(Event::Up);
    }

    /// The transport is gone, or was never there.
    pub(super) fn down(&mut self, cause: Cause, now: Timestamp) {
        if self.link == Link::Off {
            return;
        }
        if self.link == Link::Up {
            self.cut();
        }
        let pause = || cause.retry_after().map_or_else(|| self.backoff.pause(), |after| after.max(millis(1)));
        let retry_at = cause.is_temporary().then(pause).map(|pause| now.after(pause));
        self.link = retry_at.map_or(Link::Off, |retry_at| Link::Down { retry_at });
        let left = cause == Cause::Left;
        self.event(Event::Down(Down { cause, retry_at }));
        if retry_at.is_none() && !left {
            self.give_up(&Ended::Off);
        }
    }

    /// What was under way on the transport is over.
    fn cut(&mut self) {
        for key in self.requests.cut() {
            self.settle(key, Err(RequestError::Disconnected));
        }
        let keys: Vec<ConversationKey> = self.conversations.keys().copied().collect();
        for key in keys {
            let Some(conversation) = self.conversations.get_mut(&key) else { continue };
            conversation.cut();
            for answer in conversation.answers.interrupt() {
                self.tell(key, ConversationEvent::Interrupted { answer });
            }
        }
    }

    pub(super) fn heard(&mut self, now: Timestamp) {
        if self.link == Link::Up {
            self.liveness.heard(now);
            self.backoff.reset();
        }
    }

    pub(super) fn timeout(&mut self, now: Timestamp) {
        match self.link {
            Link::Off | Link::Dialing => {}
            Link::Down { retry_at } if retry_at <= now => self.dial(),
            Link::Down { .. } => {}
            Link::Up => self.check_life(now),
        }
        self.expire_tools(now);
    }

    fn check_life(&mut self, now: Timestamp) {
        let unanswered = |stage: Stage| matches!(stage, Stage::Asked { by, .. } if by <= now);
        let stuck = self.conversations.values().any(|conversation| unanswered(conversation.stage));
        let (ping, dead) = self.patience();
        match self.liveness.check(ping, dead, now) {
            _ if stuck => return self.hang_up(now),
            Pulse::Dead => return self.hang_up(now),
            Pulse::Ping => self.output(Output::Ping),
            Pulse::Alive => {}
        }
        let keys: Vec<ConversationKey> = self.conversations.keys().copied().collect();
        for key in keys {
            let Some(conversation) = self.conversations.get_mut(&key) else { continue };
            if matches!(conversation.catch_up, CatchUp::Asked(by) if by <= now) {
                conversation.catch_up = CatchUp::Idle;
                self.tell(key, ConversationEvent::Reload);
            }
            self.check_replay(key, now);
        }
    }

    fn hang_up(&mut self, now: Timestamp) {
        self.output(Output::Close(1001));
        self.down(Cause::Silent, now);
    }

    /// Silence after which the transport is tried, and after which it is dead.
    const fn patience(&self) -> (Duration, Duration) {
        (millis(self.config.ping_ms), millis(self.config.dead_ms))
    }

    pub(super) fn wake(&self) -> Option<Timestamp> {
        let life = match self.link {
            Link::Off | Link::Dialing => None,
            Link::Down { retry_at } => Some(retry_at),
            Link::Up => {
                let (ping, dead) = self.patience();
                Some(self.liveness.wake(ping, dead))
            }
        };
        let conversations = self.conversations.values();
        let tools = conversations.clone().filter_map(|conversation| conversation.tools.wake()).min();
        // Who waits for another one to be made has no time of its own.
        let creating = self.is_creating();
        let in_line = |conversation: &&Conversation| {
            creating && conversation.id.is_none() && conversation.stage == Stage::Waiting
        };
        let handshakes =
            conversations.filter(|conversation| !in_line(conversation)).filter_map(Conversation::wake).min();
        [life, tools, handshakes, self.refilled_at].into_iter().flatten().min()
    }
}
