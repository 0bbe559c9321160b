//! What comes in: decoded, counted, put in order.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_core::{Bucket, Rate, Timestamp};

use super::AliciaConnection;
use super::jobs::Job;
use crate::codec::{self, Decoded, Dialect};
use crate::error::{Code, DecodeError, UNDECODABLE};
use crate::id::{Id, Prefix};
use crate::limits::AliciaLimits;
use crate::lite::{LiteBody, LiteType};
use crate::message::{Body, Envelope, MessageType, Side, SubscribeAck, SubscribeError, UnsubscribeAck};

/// How much comes in, and in which order.
#[derive(Debug)]
pub(super) struct Intake {
    /// The highest stanza of the client's.
    last: i32,
    bucket: Bucket,
    /// A client that is back follows again all that it followed, at once: this does not count as fast.
    following: Bucket,
    /// When input could not be decoded.
    undecodable: VecDeque<Timestamp>,
}

impl Intake {
    pub(super) fn new(limits: &AliciaLimits) -> Self {
        let per_minute = u64::from(limits.envelopes_per_10_s).saturating_mul(6);
        let bucket = Bucket::new(Rate::per_minute(per_minute, limits.envelopes_burst.into()));
        let subscriptions = u64::from(limits.subscriptions);
        let following = Bucket::new(Rate::per_minute(subscriptions, subscriptions));
        Self { last: 0, bucket, following, undecodable: VecDeque::new() }
    }

    /// Whether an envelope comes too fast.
    fn is_fast(&mut self, decoded: &Decoded, now: Timestamp) -> bool {
        let spared = decoded.is_about_following() && self.following.take(1, now).is_ok();
        !spared && self.bucket.take(1, now).is_err()
    }

    /// Counts input that could not be decoded; answers whether there was too much of it.
    fn endures(&mut self, now: Timestamp, most: u32) -> bool {
        self.undecodable.push_back(now);
        while self.undecodable.front().is_some_and(|at| now.since(*at) >= MINUTE) {
            self.undecodable.pop_front();
        }
        self.undecodable.len() < most as usize
    }
}

impl AliciaConnection {
    /// Takes in one frame.
    pub(super) fn receive(&mut self, frame: &[u8]) {
        for decoded in codec::decode(frame, Side::Client, self.dialect, &self.limits) {
            if self.closed {
                return;
            }
            match decoded {
                Ok(decoded) => {
                    if self.dialect == Dialect::Undecided {
                        self.dialect = decoded.dialect();
                    }
                    self.take(decoded);
                }
                Err(error) => self.fault(&error),
            }
        }
    }

    fn take(&mut self, decoded: Decoded) {
        let fast = self.intake.is_fast(&decoded, self.now);
        match decoded {
            Decoded::Full { envelope, .. } if fast => {
                let job = Job::new(*envelope);
                self.refuse(&job, Code::RateLimited, TOO_FAST);
            }
            Decoded::Full { envelope, .. } => self.order(*envelope),
            Decoded::Lite(envelope) if fast && matches!(envelope.body, LiteBody::VoiceJoinRequest(_)) => {
                self.refuse_voice(envelope.conversation_id);
            }
            Decoded::Lite(_) if fast => self.refuse_lite(None, Code::RateLimited, TOO_FAST),
            Decoded::Lite(envelope) => self.take_lite(*envelope),
        }
    }

    /// Checks the place of an envelope among those of this connection (§2.3).
    fn order(&mut self, envelope: Envelope) {
        let mut job = Job::new(envelope);
        if job.stanza > self.intake.last {
            self.intake.last = job.stanza;
        } else if job.stanza > 0 {
            job.stale = true;
        }
        // Nothing follows from them: clients may acknowledge and report, and nobody depends on it.
        if matches!(job.body, Body::Acknowledgement(_) | Body::ErrorMessage(_) | Body::Unknown { .. }) {
            return;
        }
        // A repeat is harmless only where an id tells that it is one.
        if job.stale && !job.is_named() {
            return self.refuse_stale(&job);
        }
        self.enqueue(job);
    }

    /// Drops an envelope that is out of order. It is not acknowledged: its number may be that of one that was.
    pub(super) fn refuse_stale(&mut self, job: &Job) {
        let mut error = self.report(Code::StanzaOrder, "stanzaId does not increase");
        error.originating_id = job.name();
        self.say(job.conversation.as_ref(), error);
    }

    pub(super) fn enqueue(&mut self, job: Job) {
        let mut most = self.limits.work_queue;
        if matches!(job.body, Body::Subscribe(_) | Body::Unsubscribe(_)) {
            most = most.saturating_add(self.limits.subscriptions);
        }
        if self.waiting.len() >= most as usize {
            return self.refuse(
                &job,
                Code::QueueOverflow,
                "Too many requests are waiting. Please slow down.",
            );
        }
        self.waiting.push_back(job);
        self.start_work();
    }

    /// Answers what could not be taken.
    fn fault(&mut self, error: &DecodeError) {
        if self.dialect == Dialect::Undecided && error.origin.lite == Some(true) {
            self.dialect = Dialect::Lite;
        }
        self.intake.last = self.intake.last.max(error.origin.stanza_id);
        if self.dialect == Dialect::Lite && error.origin.number == Some(LiteType::VoiceJoinRequest.number()) {
            self.refuse_voice(error.origin.conversation_id.clone());
        } else if self.dialect == Dialect::Lite {
            self.say_lite(error.origin.conversation_id.clone(), error.report_lite());
        } else if self.work.is_some() || !self.waiting.is_empty() {
            // Its answer comes in its place among the others.
            self.enqueue(Job::faulty(error));
        } else {
            self.fault_full(error);
        }
        if let Some(close) = error.close() {
            return self.shut(close);
        }
        if error.is_undecodable() && !self.intake.endures(self.now, self.limits.undecodable_per_min) {
            self.shut(UNDECODABLE);
        }
    }

    pub(super) fn fault_full(&mut self, error: &DecodeError) {
        let (origin, conversation) = (&error.origin, error.origin.conversation_id.clone());
        let kind = origin.number.and_then(MessageType::from_number);
        match kind {
            // They have answers of their own, also for what makes no sense (§8.3, §8.4).
            Some(MessageType::Subscribe) => {
                if error.code() == Code::Conversation {
                    self.report_fault(error, conversation.as_ref());
                }
                let (success, error) = (false, Some(SubscribeError::InvalidRequest.into()));
                self.say(conversation.as_ref(), SubscribeAck { success, error, missed_messages: None });
            }
            Some(MessageType::Unsubscribe) => {
                self.say(conversation.as_ref(), UnsubscribeAck { success: false });
            }
            kind => {
                self.report_fault(error, conversation.as_ref());
                if kind.is_some_and(MessageType::is_acknowledged) {
                    self.acknowledge(&Job::refused(origin), false);
                }
            }
        }
    }
}

impl AliciaConnection {
    fn report_fault(&mut self, error: &DecodeError, conversation: Option<&Id>) {
        let id = self.fresh(Prefix::Error);
        if let Some(report) = error.report(id) {
            self.say(conversation, report);
        }
    }
}

const TOO_FAST: &str = "Too many messages at once. Please slow down.";
const MINUTE: Duration = Duration::from_secs(60);
