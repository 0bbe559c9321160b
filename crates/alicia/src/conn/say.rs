//! A person says something: a turn, or the same words once more (§4.2, §5.2, §5.8).

use serde_json::Value;
use switchboard_core::model::{Names, NewTurn, Origin, Parent, Place, TurnRequest};
use switchboard_core::{AgentId, Op, Reject, SessionId, TurnId, Within};

use super::AliciaConnection;
use super::clock::secs;
use super::jobs::{Answer, Job, Task, message_of};
use crate::annals::tables;
use crate::deed::{Luggage, Wishes};
use crate::error::Code;
use crate::id::{Id, Prefix};
use crate::message::{Body, Meta, Role, UserMessage};
use crate::rows::{self, StoredMessage};

/// A UserMessage is being taken in.
#[derive(Debug)]
pub(super) enum Saying {
    /// Whether its id is known is being looked up.
    Checking,
    /// The turn is being started.
    Starting {
        /// Where it stands.
        parent: Parent,
    },
    /// What it is to follow is not in the tree, and is looked for among what is stored.
    Seeking,
}

/// A turn as a client of this protocol asks for it.
pub(super) struct Asking {
    pub(super) request: String,
    pub(super) names: Names,
    pub(super) parent: Parent,
    pub(super) luggage: Luggage,
}

impl AliciaConnection {
    pub(super) fn begin_saying(&mut self, job: Job) {
        let Body::UserMessage(message) = &job.body else { return };
        if message.id.is_fallback() {
            return self.refuse(&job, Code::OutOfRange, "id is no usable id");
        }
        self.look(rows::by_id(&tables::MESSAGES, Within::Own, &message.id));
        self.wait(job, Task::Saying(Saying::Checking));
    }

    pub(super) fn go_on_saying(&mut self, job: Job, saying: Saying, answer: Answer) {
        let (Body::UserMessage(message), Some(session)) = (&job.body, job.session()) else { return };
        let message = message.clone();
        match saying {
            Saying::Checking => match answer.rows() {
                Ok(found) => self.checked(job, &session, &message, &rows::messages(&found)),
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Saying::Starting { parent } => match answer.reply() {
                Ok(reply) => {
                    self.expect(&job, &reply);
                    if let Some(known) = self.followed.get_mut(&session) {
                        known.edit = None;
                    }
                    self.acknowledge(&job, true);
                }
                Err(reject) => self.not_said(job, &session, &message, &parent, &reject),
            },
            Saying::Seeking => match answer.rows() {
                // An answer of which nothing was said is stored, but nobody can follow it: what it would
                // have answered is followed instead.
                Ok(found) => match rows::messages(&found).first() {
                    Some(silent) if silent.role == Role::Assistant => {
                        let parent = silent
                            .previous
                            .as_ref()
                            .map_or(Parent::Root, |id| Parent::Message(message_of(id)));
                        self.ask_about(job, &session, &message, parent);
                    }
                    Some(_) | None => self.refuse(&job, Code::NotFound, "previousId names no message here"),
                },
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
        }
    }

    /// What is known under the id of a message decides whether it is new.
    fn checked(&mut self, job: Job, session: &SessionId, message: &UserMessage, known: &[StoredMessage]) {
        if let Some(known) = known.first() {
            let same = known.conversation.as_str() == session.as_str()
                && known.role == Role::User
                && known.contents == message.content.0;
            if same {
                return self.acknowledge(&job, true);
            }
            return self.refuse(&job, Code::InvalidState, "the id is already used for something else");
        }
        if job.stale {
            return self.refuse_stale(&job);
        }
        if self.followed.get(session).is_some_and(|known| known.annals.is_exhausted()) {
            let error = self.report(Code::InvalidState, "the conversation is full, start a new one");
            return self.refuse_with(&job, error.unrecoverable());
        }
        let parent = match &message.previous_id {
            Some(previous) => Parent::Message(message_of(previous)),
            None => Parent::Tip,
        };
        self.ask_about(job, session, message, parent);
    }

    /// Starts the turn that answers a message.
    fn ask_about(&mut self, job: Job, session: &SessionId, message: &UserMessage, parent: Parent) {
        let mut luggage =
            Luggage { written_ms: message.timestamp, meta: meta_of(&job.meta), ..Luggage::default() };
        let mut place = parent.clone();
        let edit = self.followed.get(session).and_then(|known| known.edit.clone());
        if let Some(edit) = edit.filter(|edit| edit.until > self.now) {
            let beside = matches!(&parent, Parent::Tip)
                || matches!(&parent, Parent::Message(id) if id.as_str() == edit.target.as_str());
            if beside {
                place = edit.parent.as_ref().map_or(Parent::Root, |id| Parent::Message(message_of(id)));
                (luggage.number, luggage.sibling) = (Some(edit.number), true);
            }
        }
        let answer = self.fresh(Prefix::Message);
        let input = Some(message_of(&message.id));
        let names = Names { input, answer: Some(message_of(&answer)), again: false };
        if let Some(known) = self.followed.get_mut(session) {
            known.own.insert(message.id.clone());
        }
        let asking = Asking { request: message.content.0.clone(), names, parent: place, luggage };
        self.start_turn(session, asking, &job.meta);
        self.wait(job, Task::Saying(Saying::Starting { parent }));
    }

    fn not_said(
        &mut self,
        job: Job,
        session: &SessionId,
        message: &UserMessage,
        parent: &Parent,
        reject: &Reject,
    ) {
        if let Some(known) = self.followed.get_mut(session) {
            known.own.remove(&message.id);
        }
        let taken = matches!(reject, Reject::DuplicateMessage(id) if id.as_str() == message.id.as_str());
        if taken {
            // Somebody else was faster with the same message: it is known now.
            self.look(rows::by_id(&tables::MESSAGES, Within::Own, &message.id));
            return self.wait(job, Task::Saying(Saying::Checking));
        }
        if let (Reject::UnknownMessage(_), Parent::Message(parent)) = (reject, parent)
            && let Ok(parent) = Id::new(parent.as_str())
        {
            self.look(rows::by_id(&tables::MESSAGES, Within::Session(session.clone()), &parent));
            return self.wait(job, Task::Saying(Saying::Seeking));
        }
        self.refuse_rejected(&job, reject);
    }

    /// Starts a turn, ending those under way (§5.1).
    pub(super) fn start_turn(&mut self, session: &SessionId, asking: Asking, meta: &Meta) {
        let Asking { request, names, parent, luggage } = asking;
        let (wishes, agent) = self.wishes(session, meta);
        self.derived += 1;
        let turn = TurnId::fresh(&self.seed, self.derived);
        let origin =
            Origin { options: wishes.to_options(), ..Origin::new(self.principal.id.clone(), "alicia") };
        let deadline = self.now.after(secs(self.limits.generation_s));
        let turn = NewTurn {
            agent,
            place: Place { parent, names, meta: luggage.to_meta(), supersedes: true },
            once: true,
            ..NewTurn::new(turn, TurnRequest::chat(request), origin, deadline)
        };
        self.submit(session, Op::StartTurn(Box::new(turn)));
    }

    /// What the client wants of an answer, and the agent that its elite stands for.
    fn wishes(&self, session: &SessionId, meta: &Meta) -> (Wishes, Option<AgentId>) {
        let trace = meta.trace().map(|trace| (trace.trace_id().to_owned(), trace.span_id().to_owned()));
        let Some(known) = self.followed.get(session) else {
            return (Wishes { trace, ..Wishes::default() }, None);
        };
        let offer = |id: &str| self.service.elites.iter().find(|offer| offer.elite.id.as_str() == id);
        let agent = known.annals.elite().and_then(offer).and_then(|offer| offer.agent.clone());
        let wishes = Wishes {
            streaming: known.manners.streaming || self.is_lite(),
            audio: known.manners.audio,
            tools: known.manners.tools.clone(),
            trace,
            posted: false,
        };
        (wishes, agent)
    }
}

/// The `meta` of an envelope, as it is stored with a message.
pub(super) fn meta_of(meta: &Meta) -> serde_json::Map<String, Value> {
    let entries = meta.as_map().iter();
    entries.filter_map(|(key, value)| Some((key.to_owned(), serde_json::to_value(value).ok()?))).collect()
}
