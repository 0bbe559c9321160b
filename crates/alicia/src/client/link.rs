//! The transport: when there is one, whether it lives, and when to try again.

use switchboard_core::Timestamp;

use super::conversation::{CatchUp, Conversation, Stage};
use super::{
    AliciaClient, Cause, ConversationEvent, ConversationKey, Ended, Event, Output, RequestError, RequestKey,
    Retry, full_bucket, millis,
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
    pub fn connect(&mut self) {
        if self.link == Link::Off {
            self.dial();
        }
    }

    /// The network is back: what would have been tried later is tried at once, and the pauses begin anew.
    pub fn network_is_back(&mut self) {
        self.pauses.reset();
        if matches!(self.link, Link::Down { .. }) {
            self.dial();
        }
    }

    /// Leaves. Whatever waits is given up.
    pub fn leave_all(&mut self, now: Timestamp) {
        if self.link == Link::Up {
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
        self.heard_at = now;
        self.pinged = false;
        self.event(Event::Up);
    }

    pub(super) fn failed(&mut self, retry: Retry, now: Timestamp) {
        if self.link != Link::Dialing {
            return;
        }
        let pause = match retry {
            Retry::Paced => Some(self.pauses.next()),
            Retry::After(pause) => Some(pause.max(1)),
            Retry::Never => None,
        };
        self.pause(Cause::Unreached, pause, now);
    }

    /// The transport is gone.
    pub(super) fn down(&mut self, cause: Cause, now: Timestamp) {
        if self.link != Link::Up {
            return;
        }
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
        let pause = cause.is_temporary().then(|| self.pauses.next());
        self.pause(cause, pause, now);
    }

    fn pause(&mut self, cause: Cause, pause: Option<u64>, now: Timestamp) {
        self.link = match pause {
            Some(pause) => Link::Down { retry_at: now.after(millis(pause)) },
            None => Link::Off,
        };
        self.event(Event::Down { cause, retry_in_ms: pause });
        if pause.is_none() && cause != Cause::Left {
            self.give_up(&Ended::Off);
        }
    }

    pub(super) fn heard(&mut self, now: Timestamp) {
        if self.link == Link::Up {
            self.heard_at = now;
            self.pinged = false;
            self.pauses.reset();
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
        if now.since(self.heard_at) >= millis(self.config.dead_ms) || stuck {
            self.output(Output::Close(1001));
            return self.down(Cause::Silent, now);
        }
        if now.since(self.heard_at) >= millis(self.config.ping_ms) && !self.pinged {
            self.pinged = true;
            self.output(Output::Ping);
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

    pub(super) fn wake(&self) -> Option<Timestamp> {
        let life = match self.link {
            Link::Off | Link::Dialing => None,
            Link::Down { retry_at } => Some(retry_at),
            Link::Up => {
                let patience = if self.pinged { self.config.dead_ms } else { self.config.ping_ms };
                Some(self.heard_at.after(millis(patience)))
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
