//! Following conversations: Subscribe, Unsubscribe and the handshake (§6.2, §8.3, §8.4).

use switchboard_core::model::Standing;
use switchboard_core::{Found, Frame, Op, Output, Reject, Reply, SessionId, SessionView};

use super::jobs::{Answer, Job, Task, session_of, words};
use super::live::Conversation;
use super::{AliciaConnection, Manners};
use crate::annals::Annals;
use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed};
use crate::error::{Code, Severity};
use crate::id::{Id, Prefix};
use crate::message::{
    Acknowledgement, AssistantMessage, Body, Configuration, Feature, Role, SubscribeAck, SubscribeError,
    UnsubscribeAck, UserMessage,
};
use crate::rows::{self, Row, StoredMessage};

/// A conversation is being followed.
#[derive(Debug)]
pub(super) struct Following {
    purpose: Purpose,
    conversation: Id,
    step: Step,
}

/// On whose behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A Configuration.
    Handshake,
    /// A Subscribe.
    Subscribe,
}

#[derive(Debug)]
enum Step {
    /// A new conversation is being opened.
    Opening,
    /// Its account is being begun, if it is not kept yet.
    Chronicling,
    Attaching,
    /// The entries that the client has missed are being looked up.
    Replaying {
        /// The last one it has seen.
        mark: i32,
        /// The last one that is replayed, and how many side entries behind it.
        until: (i32, u32),
    },
    /// The messages that the client has missed are being counted.
    Counting(i64),
    /// They are being looked up.
    Catching(u64),
}

impl Following {
    pub(super) const fn holds_events(&self) -> bool {
        matches!(self.step, Step::Replaying { .. } | Step::Counting(_) | Step::Catching(_))
    }
}

impl AliciaConnection {
    pub(super) fn begin_following(&mut self, job: Job, purpose: Purpose) {
        // One that says nothing about features leaves them as they were.
        if let Body::Configuration(configuration @ Configuration { features: Some(_), .. }) = &job.body {
            self.manners = Manners::of(configuration);
        }
        let (conversation, new) = match (&job.conversation, purpose) {
            (Some(conversation), _) => (conversation.clone(), false),
            (None, Purpose::Handshake) => (self.fresh(Prefix::Conversation), true),
            (None, Purpose::Subscribe) => {
                return self.not_subscribed(None, SubscribeError::ConversationIdRequired);
            }
        };
        let session = session_of(&conversation);
        let following =
            |step| Task::Following(Following { purpose, conversation: conversation.clone(), step });
        if let Some(known) = self.followed.get(&session) {
            return match unfit(known.annals.standing()) {
                Some(refusal) => self.not_followed(&job, purpose, &conversation, &refusal),
                None => self.follow_again(job, purpose, &conversation),
            };
        }
        if self.followed.len() >= self.limits.subscriptions as usize {
            return match purpose {
                Purpose::Subscribe => {
                    self.not_subscribed(Some(&conversation), SubscribeError::TooManySubscriptions);
                }
                Purpose::Handshake => self.refuse(&job, Code::InvalidState, "too many subscriptions"),
            };
        }
        if new {
            let (agent, epoch) = (self.agent.clone(), self.seed.epoch(self.derived));
            self.submit(&session, Op::Open { epoch, agent, name: None });
            return self.wait(job, following(Step::Opening));
        }
        self.chronicle(&session);
        self.wait(job, following(Step::Chronicling));
    }

    fn chronicle(&mut self, session: &SessionId) {
        self.submit(session, Op::Chronicle { chronicle: CHRONICLE.into() });
    }

    pub(super) fn go_on_following(&mut self, job: Job, following: Following, answer: Answer) {
        let Following { purpose, conversation, step } = following;
        let session = session_of(&conversation);
        let next = |step| Task::Following(Following { purpose, conversation: conversation.clone(), step });
        let reply = match answer.reply() {
            Ok(reply) => reply,
            Err(reject) => return self.not_followed(&job, purpose, &conversation, &reject),
        };
        match (step, reply) {
            (Step::Opening, _) => {
                self.chronicle(&session);
                self.wait(job, next(Step::Chronicling));
            }
            (Step::Chronicling, _) => {
                self.attach(&session);
                self.wait(job, next(Step::Attaching));
            }
            (Step::Attaching, Reply::Attached(view)) => self.attached(job, purpose, conversation, &view),
            (Step::Replaying { mark, until }, Reply::Rows(rows)) => {
                self.replay(&job, &conversation, mark, until, &rows);
            }
            (Step::Counting(above), Reply::Rows(rows)) => {
                let missed = rows.first().and_then(|row| row.first()?.as_integer()).unwrap_or_default();
                let missed = missed.cast_unsigned();
                let tip = self
                    .followed
                    .get(&session)
                    .and_then(|known| known.annals.tip().map(|tip| tip.as_str().to_owned()));
                match tip.filter(|_| missed > 0 && missed <= u64::from(self.limits.replay)) {
                    Some(tip) => {
                        let limit = self.limits.replay as usize;
                        self.look(rows::path(&session, &tip, above, limit));
                        self.wait(job, next(Step::Catching(missed)));
                    }
                    None => self.subscribed(&conversation, Some(missed)),
                }
            }
            (Step::Catching(missed), Reply::Rows(rows)) => {
                self.subscribed(&conversation, Some(missed));
                for message in rows::messages(&rows).iter().rev() {
                    self.bring(&conversation, message);
                }
            }
            (_, _) => self.not_followed(&job, purpose, &conversation, &Reject::Busy),
        }
    }

    fn attached(&mut self, job: Job, purpose: Purpose, conversation: Id, view: &SessionView) {
        let session = session_of(&conversation);
        let annals = view.chronicles.get(CHRONICLE).and_then(|state| Annals::restore(state));
        let annals = annals.filter(|annals| !annals.is_notebook()).ok_or(Reject::NotFound);
        let annals = annals.and_then(|annals| unfit(view.standing).map_or(Ok(annals), Err));
        let annals = match annals {
            Ok(annals) => annals,
            Err(refusal) => {
                self.out.push_back(Output::Detach(session));
                return self.not_followed(&job, purpose, &conversation, &refusal);
            }
        };
        let known = Conversation::new(conversation.clone(), annals, view.head.seq, self.manners.clone());
        self.followed.insert(session.clone(), known);
        self.declare_tools(&session, &view.tools);
        self.follow_again(job, purpose, &conversation);
    }

    /// Answers a request to follow a conversation that is followed by now, or was before.
    fn follow_again(&mut self, mut job: Job, purpose: Purpose, conversation: &Id) {
        // One that was new has its name now.
        job.conversation = Some(conversation.clone());
        let session = session_of(conversation);
        match (&job.body, purpose) {
            (Body::Configuration(configuration), Purpose::Handshake) => {
                let configuration = configuration.clone();
                self.adopt_manners(&session, &configuration);
                self.shake_hands(job, conversation, &configuration);
            }
            (Body::Subscribe(subscribe), _) => match subscribe.from_sequence {
                None => self.subscribed(conversation, None),
                Some(from) => {
                    let above = i64::try_from(from).unwrap_or(i64::MAX);
                    let tip = self
                        .followed
                        .get(&session)
                        .and_then(|known| known.annals.tip().map(|tip| tip.as_str().to_owned()));
                    match tip {
                        None => self.subscribed(conversation, Some(0)),
                        Some(tip) => {
                            self.look(rows::path_length(&session, &tip, above));
                            let step = Step::Counting(above);
                            let conversation = conversation.clone();
                            self.wait(job, Task::Following(Following { purpose, conversation, step }));
                        }
                    }
                }
            },
            (_, Purpose::Handshake | Purpose::Subscribe) => {}
        }
    }

    /// What a client says of itself counts from now on, also for its tools.
    fn adopt_manners(&mut self, session: &SessionId, configuration: &Configuration) {
        let manners = self.manners.clone();
        let Some(known) = self.followed.get_mut(session) else { return };
        let changed = known.manners.tools != manners.tools;
        known.manners = manners;
        known.ear.prefer(configuration);
        if changed {
            self.declare_tools(session, &[]);
        }
        let Configuration { client_version, preferred_language, device, .. } = configuration;
        if client_version.is_some() || preferred_language.is_some() || device.is_some() {
            let deed = Deed::Introduced {
                device: device.clone(),
                version: client_version.clone(),
                language: preferred_language.clone(),
            };
            self.tell(session, Op::Record { chronicle: CHRONICLE.into(), record: deed.to_record() });
        }
    }

    /// The server's half of the handshake (§6.2, steps 2 to 5).
    fn shake_hands(&mut self, job: Job, conversation: &Id, configuration: &Configuration) {
        let session = session_of(conversation);
        let Some(known) = self.followed.get(&session) else { return };
        let head = known.annals.head();
        let until = (head, known.annals.side());
        let seen = configuration.last_sequence_seen.unwrap_or_default();
        let mark = i32::try_from(seen).unwrap_or(i32::MIN);
        let gap = i64::from(mark).saturating_sub(i64::from(head));
        if mark < 0 && gap > i64::from(self.limits.replay) {
            return self.lost(&job, conversation);
        }
        self.say(Some(conversation), own_configuration(head));
        if mark < head {
            let error = self.report(Code::InvalidState, "lastSequenceSeen is ahead of the log, reload");
            self.refuse_with(&job, error);
            return self.introduce(&session);
        }
        let acknowledged = Acknowledgement { acknowledged_stanza_id: mark, success: true };
        self.say(Some(conversation), acknowledged);
        if mark == 0 {
            return self.introduce(&session);
        }
        // Side entries count as well, and nobody bounds how many lie behind one stanza.
        let limit = self.limits.replay as usize * SIDE_ENTRIES;
        self.look(rows::server_log(&session, mark, limit));
        let step = Step::Replaying { mark, until };
        let (purpose, conversation) = (Purpose::Handshake, conversation.clone());
        self.wait(job, Task::Following(Following { purpose, conversation, step }));
    }

    fn replay(&mut self, job: &Job, conversation: &Id, mark: i32, until: (i32, u32), rows: &[Found]) {
        let entries: Vec<(i32, u32, &bytes::Bytes)> = rows
            .iter()
            .filter_map(|cells| {
                let row = Row::new(&tables::SERVER_LOG, cells);
                let stanza = i32::try_from(row.integer("stanza_id")?).ok()?;
                let ordinal = u32::try_from(row.integer("ordinal")?).ok()?;
                Some((stanza, ordinal, row.blob("envelope")?))
            })
            // What comes after the moment at which it was asked is told as it happens.
            .filter(|(stanza, ordinal, _)| (*stanza, *ordinal) != (mark, 0) && *stanza >= until.0)
            .filter(|(stanza, ordinal, _)| *stanza > until.0 || *ordinal <= until.1)
            .collect();
        let stanzas = entries.iter().filter(|(_, ordinal, _)| *ordinal == 0).count();
        if i64::try_from(stanzas).unwrap_or(i64::MAX) != i64::from(mark) - i64::from(until.0) {
            return self.lost(job, conversation);
        }
        for (_, _, bytes) in entries {
            self.out.push_back(Output::Send(Frame::Binary(bytes.clone())));
        }
        self.introduce(&session_of(conversation));
    }

    /// What the client lacks cannot be replayed: it has to load the conversation anew.
    fn lost(&mut self, job: &Job, conversation: &Id) {
        let error = self.report(Code::InvalidState, "too much was missed, reload the conversation");
        self.refuse_with(job, error.unrecoverable());
        self.unfollow(&session_of(conversation));
    }

    /// A stored message, for a client that lacks it (§8.3).
    pub(super) fn bring(&mut self, conversation: &Id, message: &StoredMessage) {
        let (id, previous_id) = (message.id.clone(), message.previous.clone());
        let content = switchboard_core::Pii(message.contents.clone());
        let (timestamp, superset) = (Some(message.created_ms), Some(message.superset()));
        match message.role {
            Role::Assistant => {
                let body = AssistantMessage { id, previous_id, content, timestamp, superset };
                self.say(Some(conversation), body);
            }
            Role::User => {
                self.say(Some(conversation), UserMessage { id, previous_id, content, timestamp, superset });
            }
            // Instructions are nobody's message.
            Role::System => {}
        }
    }

    fn subscribed(&mut self, conversation: &Id, missed_messages: Option<u64>) {
        self.say(Some(conversation), SubscribeAck { success: true, error: None, missed_messages });
    }

    fn not_subscribed(&mut self, conversation: Option<&Id>, error: SubscribeError) {
        let ack = SubscribeAck { success: false, error: Some(error.into()), missed_messages: None };
        self.say(conversation, ack);
    }

    fn not_followed(&mut self, job: &Job, purpose: Purpose, conversation: &Id, reject: &Reject) {
        match purpose {
            Purpose::Subscribe => {
                let error = if matches!(reject, Reject::NotFound | Reject::Forbidden) {
                    SubscribeError::NotFound
                } else if *reject == Reject::Inactive {
                    SubscribeError::Inactive
                } else {
                    SubscribeError::Internal
                };
                self.not_subscribed(Some(conversation), error);
            }
            Purpose::Handshake => {
                let (code, message) = words(reject);
                let error = self.report(code, &message).with_severity(Severity::Error);
                let fatal = matches!(reject, Reject::NotFound | Reject::Inactive | Reject::Forbidden);
                self.refuse_with(job, if fatal { error.unrecoverable() } else { error });
            }
        }
    }

    pub(super) fn unsubscribe(&mut self, job: &Job) {
        if let Some(session) = job.session() {
            self.withdraw_tools(&session);
            self.unfollow(&session);
        }
        self.say(job.conversation.as_ref(), UnsubscribeAck { success: job.conversation.is_some() });
    }
}

/// Why a conversation of this standing is not followed, if it is not.
fn unfit(standing: Standing) -> Option<Reject> {
    match standing {
        Standing::Active => None,
        Standing::Archived => Some(Reject::Inactive),
        Standing::Deleted => Some(Reject::NotFound),
    }
}

impl Manners {
    fn of(configuration: &Configuration) -> Self {
        Self {
            streaming: configuration.has(Feature::Streaming),
            audio: configuration.has(Feature::AudioOutput),
            tools: configuration.tools().take(MAX_TOOLS).map(str::to_owned).collect(),
        }
    }
}

/// What the server does, and where its log stands.
fn own_configuration(head: i32) -> Configuration {
    let features = ["streaming", "tool_use", "reasoning_steps"].map(str::to_owned).to_vec();
    Configuration {
        last_sequence_seen: Some(head.into()),
        client_version: None,
        preferred_language: None,
        device: None,
        features: Some(features),
    }
}

/// So many entries there may be for one stanza, side entries included.
const SIDE_ENTRIES: usize = 4;
/// Tools that one client may declare.
const MAX_TOOLS: usize = 64;
