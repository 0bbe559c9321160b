//! Jobs: what one envelope asks for, from its arrival to its answer.

use switchboard_core::{Found, MessageId, Reject, Reply, SessionId};

use super::AliciaConnection;
use super::beside::{Noting, Voting};
use super::hear::Hearing;
use super::memories::Remembering;
use super::say::Saying;
use super::stop::Stopping;
use super::subscribe::{Following, Purpose};
use super::syncing::Syncing;
use super::tools::Resulting;
use super::vary::Varying;
use crate::error::{Code, DecodeError, Origin, Severity};
use crate::id::Id;
use crate::message::{
    Body, Commentary, Envelope, Feedback, MemoryAction, MessageType, Meta, ToolUseResult, UserMessage,
    UserNote,
};

/// What one envelope asks for.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Its place among the envelopes of this connection; 0 for none.
    pub(super) stanza: i32,
    pub(super) conversation: Option<Id>,
    pub(super) meta: Meta,
    pub(super) body: Body,
    /// Its place lies behind that of an earlier one: it is done only as far as it was done before.
    pub(super) stale: bool,
    /// Whether its kind is acknowledged.
    pub(super) acknowledged: bool,
    /// Why it could not be read, if it could not.
    fault: Option<Box<DecodeError>>,
}

impl Job {
    pub(super) fn new(envelope: Envelope) -> Self {
        let Envelope { stanza_id, conversation_id, meta, body } = envelope;
        let acknowledged = body.kind().is_some_and(MessageType::is_acknowledged);
        Self {
            stanza: stanza_id,
            conversation: conversation_id,
            meta,
            body,
            stale: false,
            acknowledged,
            fault: None,
        }
    }

    /// One that could not be read, as far as it has to be answered.
    pub(super) fn refused(origin: &Origin) -> Self {
        Self {
            stanza: origin.stanza_id,
            conversation: origin.conversation_id.clone(),
            meta: Meta::default(),
            body: Body::Unknown { number: origin.number.unwrap_or_default(), body: Default::default() },
            stale: false,
            acknowledged: true,
            fault: None,
        }
    }

    /// One that could not be read and has to be answered in its place.
    pub(super) fn faulty(error: &DecodeError) -> Self {
        Self { fault: Some(Box::new(error.clone())), ..Self::refused(&error.origin) }
    }

    /// How an error names it: by its id, else by its place.
    pub(super) fn name(&self) -> Option<Id> {
        let id = self.id();
        let stanza = || Id::new(self.stanza.to_string()).ok().filter(|_| self.stanza != 0);
        id.cloned().or_else(stanza)
    }

    fn id(&self) -> Option<&Id> {
        let (Body::UserMessage(UserMessage { id, .. })
        | Body::ToolUseResult(ToolUseResult { id, .. })
        | Body::Commentary(Commentary { id, .. })
        | Body::Feedback(Feedback { id, .. })
        | Body::UserNote(UserNote { id, .. })
        | Body::MemoryAction(MemoryAction { id, .. })) = &self.body
        else {
            return None;
        };
        Some(id)
    }

    /// Whether an id tells if it was done before.
    pub(super) fn is_named(&self) -> bool {
        self.id().is_some()
    }

    /// The session of its conversation.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.conversation.as_ref().map(session_of)
    }
}

/// The session that a conversation is.
pub(super) fn session_of(conversation: &Id) -> SessionId {
    SessionId::new(conversation.as_str())
}

/// The message of the tree that an id names.
pub(super) fn message_of(id: &Id) -> MessageId {
    MessageId::new(id.as_str())
}

/// A job that is being done.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) job: Job,
    pub(super) task: Task,
}

/// What is being done, and how far it is.
#[derive(Debug)]
pub(super) enum Task {
    Following(Following),
    Saying(Saying),
    Resulting(Resulting),
    Stopping(Stopping),
    Varying(Varying),
    Commenting(super::beside::Commenting),
    Voting(Voting),
    Noting(Noting),
    Remembering(Remembering),
    /// Something is noted; once it is, it is acknowledged.
    Recording,
    Syncing(Box<Syncing>),
    Hearing(Hearing),
}

impl Work {
    /// Whether what happens meanwhile has to wait.
    pub(super) fn holds_events(&self) -> bool {
        matches!(&self.task, Task::Following(following) if following.holds_events())
    }
}

/// What a job has waited for.
#[derive(Debug)]
pub(super) enum Answer {
    /// A session or a look-up has answered.
    Done(Box<Reply>),
    Rejected(Reject),
}

impl Answer {
    /// The rows that were looked up; what is no answer to that counts as a refusal.
    pub(super) fn rows(self) -> Result<Vec<Found>, Reject> {
        match self.reply()? {
            Reply::Rows(rows) => Ok(rows),
            Reply::Applied { .. }
            | Reply::Turn { .. }
            | Reply::Claimed { .. }
            | Reply::Attachment(_)
            | Reply::Attached(_)
            | Reply::Found(_)
            | Reply::Heard(_)
            | Reply::Errand(_)
            | Reply::Enrolled
            | Reply::Roll(_)
            | Reply::Noted
            | Reply::Authenticated(_) => Err(Reject::Busy),
        }
    }

    pub(super) fn reply(self) -> Result<Reply, Reject> {
        match self {
            Self::Done(reply) => Ok(*reply),
            Self::Rejected(reject) => Err(reject),
        }
    }
}

impl AliciaConnection {
    /// Begins the next job, if none is being done and its conversation is up to date.
    pub(super) fn start_work(&mut self) {
        while self.work.is_none() && !self.closed {
            let Some(next) = self.waiting.front() else { return };
            // A request sees what those before it have led to.
            if next
                .session()
                .and_then(|session| self.followed.get(&session))
                .is_some_and(|known| known.lags())
            {
                return;
            }
            let Some(job) = self.waiting.pop_front() else { return };
            self.begin(job);
        }
    }

    fn begin(&mut self, job: Job) {
        if let Some(error) = &job.fault {
            return self.fault_full(error);
        }
        let free = matches!(job.body, Body::Configuration(_) | Body::Subscribe(_) | Body::Unsubscribe(_))
            || (job.conversation.is_none() && matches!(job.body, Body::UserNote(_) | Body::MemoryAction(_)));
        let followed = job.session().is_some_and(|session| self.followed.contains_key(&session));
        if !free && !followed {
            return self.refuse(&job, Code::InvalidState, "not subscribed");
        }
        match &job.body {
            Body::Configuration(_) => self.begin_following(job, Purpose::Handshake),
            Body::Subscribe(_) => self.begin_following(job, Purpose::Subscribe),
            Body::Unsubscribe(_) => self.unsubscribe(&job),
            Body::UserMessage(_) => self.begin_saying(job),
            Body::ToolUseResult(_) => self.begin_resulting(job),
            Body::ControlStop(_) => self.begin_stopping(job),
            Body::ControlVariation(_) => self.begin_varying(job),
            Body::Commentary(_) => self.begin_commenting(job),
            Body::Feedback(_) => self.begin_voting(job),
            Body::UserNote(_) => self.begin_noting(job),
            Body::MemoryAction(_) => self.begin_remembering(job),
            Body::DimensionPreference(_) => self.begin_weighing(job),
            Body::EliteSelect(_) => self.begin_choosing(job),
            Body::SyncRequest(_) => self.begin_syncing(job),
            Body::AudioChunk(_) => self.hear(job),
            // The decoder lets nothing else through from this side, and these were taken before.
            Body::ErrorMessage(_)
            | Body::AssistantMessage(_)
            | Body::ReasoningStep(_)
            | Body::ToolUseRequest(_)
            | Body::Acknowledgement(_)
            | Body::Transcription(_)
            | Body::StartAnswer(_)
            | Body::MemoryTrace(_)
            | Body::AssistantSentence(_)
            | Body::SyncResponse(_)
            | Body::FeedbackConfirmation(_)
            | Body::NoteConfirmation(_)
            | Body::MemoryConfirmation(_)
            | Body::ServerInfo(_)
            | Body::SessionStats(_)
            | Body::ConversationUpdate(_)
            | Body::EliteOptions(_)
            | Body::SubscribeAck(_)
            | Body::UnsubscribeAck(_)
            | Body::Unknown { .. } => {}
        }
    }

    /// A job waits for an answer.
    pub(super) fn wait(&mut self, job: Job, task: Task) {
        self.work = Some(Box::new(Work { job, task }));
    }

    /// The answer that a job waits for is there.
    pub(super) fn proceed(&mut self, answer: Answer) {
        let Some(work) = self.work.take() else { return };
        let Work { job, task } = *work;
        match task {
            Task::Following(following) => self.go_on_following(job, following, answer),
            Task::Saying(saying) => self.go_on_saying(job, saying, answer),
            Task::Resulting(resulting) => self.go_on_resulting(job, resulting, answer),
            Task::Stopping(stopping) => self.go_on_stopping(job, stopping, answer),
            Task::Varying(varying) => self.go_on_varying(job, varying, answer),
            Task::Commenting(commenting) => self.go_on_commenting(job, commenting, answer),
            Task::Voting(voting) => self.go_on_voting(job, voting, answer),
            Task::Noting(noting) => self.go_on_noting(job, noting, answer),
            Task::Remembering(remembering) => self.go_on_remembering(job, remembering, answer),
            Task::Recording => self.recorded(&job, answer),
            Task::Syncing(syncing) => self.go_on_syncing(job, *syncing, answer),
            Task::Hearing(hearing) => self.go_on_hearing(job, hearing, answer),
        }
        self.start_work();
    }

    /// What was to be noted is noted, or not.
    fn recorded(&mut self, job: &Job, answer: Answer) {
        match answer.reply() {
            Ok(reply) => {
                self.expect(job, &reply);
                self.acknowledge(job, true);
            }
            Err(reject) => self.refuse_rejected(job, &reject),
        }
    }

    /// The next job of this conversation waits for what this reply promises.
    pub(super) fn expect(&mut self, job: &Job, reply: &Reply) {
        let (Reply::Applied { head: due } | Reply::Turn { accepted: due, .. }) = reply else { return };
        if let Some(known) = job.session().and_then(|session| self.followed.get_mut(&session)) {
            known.due = known.due.max(due.seq);
        }
    }

    /// Refuses a job that its session has refused.
    pub(super) fn refuse_rejected(&mut self, job: &Job, reject: &Reject) {
        let (code, message) = words(reject);
        let mut error = self.report(code, &message);
        if matches!(reject, Reject::NotFound | Reject::Inactive | Reject::Unavailable { .. }) {
            error = error.unrecoverable();
        }
        if matches!(reject, Reject::Unavailable { .. }) {
            error = error.with_severity(Severity::Critical);
        }
        self.refuse_with(job, error);
    }
}

/// The code and words for what a session has refused: the one table.
pub(super) fn words(reject: &Reject) -> (Code, String) {
    match reject {
        Reject::NotFound => (Code::Conversation, "This conversation does not exist.".to_owned()),
        Reject::Inactive => {
            (Code::InvalidState, "This conversation is inactive: it was archived or deleted.".to_owned())
        }
        Reject::Forbidden => (Code::InvalidState, "You are not permitted to do this.".to_owned()),
        Reject::UnknownMessage(_) => {
            (Code::NotFound, "There is no such message in this conversation.".to_owned())
        }
        Reject::DuplicateMessage(_) => {
            (Code::InvalidState, "This id is already used for something else.".to_owned())
        }
        Reject::UnknownAgent(_) => {
            (Code::Unavailable, "No assistant is available for this conversation.".to_owned())
        }
        Reject::UnknownTool(_) => (Code::ToolNotFound, "There is no such tool.".to_owned()),
        Reject::Invalid(_) | Reject::InvalidArgs(_) => (Code::InvalidState, reject.to_string()),
        Reject::Limit { .. } => (Code::TooLarge, TOO_MUCH.to_owned()),
        Reject::Quota { .. } => (Code::InvalidState, FULL.to_owned()),
        Reject::RateLimited { .. } => {
            (Code::RateLimited, "Too many messages at once. Please slow down.".to_owned())
        }
        Reject::Draining => {
            (Code::Unavailable, "The server is restarting. Please try again shortly.".to_owned())
        }
        Reject::Busy => (Code::QueueOverflow, "The conversation is busy. Please try again.".to_owned()),
        Reject::Unavailable { .. } => {
            (Code::Internal, "Nothing can be stored at the moment. Please try again later.".to_owned())
        }
        Reject::Unserved { reason } => (Code::Provider, reason.clone()),
        Reject::UnknownTurn(_)
        | Reject::TurnOver(_)
        | Reject::Fenced(_)
        | Reject::DuplicateTurn(_)
        | Reject::CallGone(_)
        | Reject::KeyConflict
        | Reject::AttachmentGone
        | Reject::Enrolled(_)
        | Reject::Offline(_)
        | Reject::Unauthenticated => (Code::InvalidState, "This is not possible at the moment.".to_owned()),
    }
}

/// What is larger or more than the server is set up to keep.
const FULL: &str = "Your storage here is used up: nothing more can be kept.";
const TOO_MUCH: &str = "This is more than the server accepts at once. Please send less.";
