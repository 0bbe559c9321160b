//! How an answer comes to its end: complete, stopped or failed (§5.2, §5.5).

use serde_json::json;
use switchboard_core::Pii;
use switchboard_core::model::{Failure, FailureKind, TurnOutcome};

use crate::error::Code;
use crate::id::Prefix;
use crate::message::{AssistantMessage, Role, Superset, Word};
use crate::moment::rfc3339;

use super::MOST_WHOLE;
use super::answer::Answer;
use super::conversation::Conversation;
use super::page::{Desk, Notice, Settled, millis};

impl Answer {
    /// Somebody stopped it.
    pub(super) fn stop(&mut self, reason: Option<&str>, book: &mut Conversation, desk: &mut Desk) {
        self.settle(&Ending::Stopped(reason), book, desk);
        self.move_tip(book, desk);
    }

    /// Its turn has ended.
    pub(super) fn end(&mut self, outcome: &TurnOutcome, book: &mut Conversation, desk: &mut Desk) {
        let ending = match outcome {
            TurnOutcome::Done(_) => Ending::Complete,
            TurnOutcome::Interrupted { .. } => Ending::Stopped(None),
            TurnOutcome::Failed(Failure { kind, message, .. }) => {
                Ending::Failed(code_of(*kind), words_of(*kind).unwrap_or(message))
            }
            TurnOutcome::Expired => Ending::Failed(Code::Unavailable, TOO_SLOW),
        };
        self.settle(&ending, book, desk);
        self.move_tip(book, desk);
    }

    /// Whoever follows it already goes on from there.
    fn move_tip(&self, book: &mut Conversation, desk: &mut Desk) {
        if self.counts && !self.followed {
            book.go_on_from(self.id.clone(), desk);
        }
    }

    fn settle(&mut self, ending: &Ending<'_>, book: &mut Conversation, desk: &mut Desk) {
        if self.settled {
            return;
        }
        self.settled = true;
        self.end_thought(book, desk);
        let failure = ending.failure();
        // One that is too long for one envelope comes in pieces after all (§9).
        let long = failure.is_none() && self.text.said().len() > MOST_WHOLE;
        if !self.opened && (long || (self.streaming && matches!(ending, Ending::Complete))) {
            self.open_late(book, desk);
        }
        if self.opened {
            self.close(failure.is_some(), book, desk);
        }
        let contents = self.text.said().to_owned();
        self.counts = failure.is_none() && !contents.is_empty();
        let complete = self.counts || matches!(ending, Ending::Complete);
        // What follows it stands behind its row.
        if self.started || self.opened || complete || self.followed {
            self.write(if complete { "completed" } else { "failed" }, &contents, book, desk);
        }
        if complete && !self.opened {
            self.tell_whole(&contents, book, desk);
        }
        match ending {
            Ending::Complete => {}
            Ending::Stopped(reason) if self.number.is_some() => {
                book.annotate(self.id.as_str(), "truncated", &json!(reason.unwrap_or("stopped")), desk);
            }
            Ending::Stopped(_) => {}
            Ending::Failed(code, message) => self.report(*code, message, book, desk),
        }
        self.tell_settled(contents, complete, failure, desk);
    }

    /// Opens what was not to be streamed, and cuts what there is of it.
    fn open_late(&mut self, book: &mut Conversation, desk: &mut Desk) {
        self.open(book, desk);
        for step in self.thoughts.take_kept() {
            self.tell_thought(step, book, desk);
        }
        let text = self.text.take_said();
        for piece in self.text.push(&text) {
            self.sentence(piece, false, book, desk);
        }
    }

    /// The one final sentence: what is left, unless it was broken off.
    fn close(&mut self, broken: bool, book: &mut Conversation, desk: &mut Desk) {
        let mut last = self.text.finish();
        if broken && !last.is_empty() {
            self.sentence(std::mem::take(&mut last), false, book, desk);
        }
        self.sentence(last, true, book, desk);
    }

    fn tell_whole(&mut self, contents: &str, book: &mut Conversation, desk: &mut Desk) {
        let whole = AssistantMessage {
            id: self.id.clone(),
            previous_id: Some(self.question.clone()),
            content: Pii(contents.to_owned()),
            timestamp: Some(millis(desk.at)),
            superset: Some(Superset {
                role: Word::Known(Role::Assistant),
                sequence_number: self.number.unwrap_or_default(),
                created_at: rfc3339(self.created_at),
                updated_at: rfc3339(desk.at),
                local_id: None,
                server_id: None,
            }),
        };
        book.stanza(whole, self.trace().as_ref(), desk);
        for step in self.thoughts.take_kept() {
            self.tell_thought(step, book, desk);
        }
    }

    /// Names the answer if the client knows of it, else the question.
    fn report(&self, code: Code, message: &str, book: &mut Conversation, desk: &mut Desk) {
        let id = book.derived(Prefix::Error, &[self.turn.as_str()]);
        let about = if self.opened { &self.id } else { &self.question };
        book.stanza(code.report(id, message).about(about), self.trace().as_ref(), desk);
    }

    fn tell_settled(&self, contents: String, complete: bool, failure: Option<Code>, desk: &mut Desk) {
        let settled = Settled {
            turn: self.turn.clone(),
            answer: self.id.clone(),
            question: self.question.clone(),
            streamed: self.opened,
            contents: Pii(contents),
            complete,
            failure,
            at: desk.at,
        };
        desk.page.notices.push(Notice::Settled(Box::new(settled)));
    }
}

/// How an answer comes to its end.
enum Ending<'a> {
    Complete,
    Stopped(Option<&'a str>),
    Failed(Code, &'a str),
}

impl Ending<'_> {
    fn failure(&self) -> Option<Code> {
        match self {
            Self::Complete | Self::Stopped(_) => None,
            Self::Failed(code, _) => Some(*code),
        }
    }
}

/// What the user is told of a failure that is ours; none where the agent has words of its own.
fn words_of(kind: FailureKind) -> Option<&'static str> {
    match kind {
        FailureKind::ToolNotFound
        | FailureKind::CallTimeout
        | FailureKind::Execution
        | FailureKind::InvalidArgs
        | FailureKind::Tool
        | FailureKind::ModelUnavailable
        | FailureKind::InvalidRequest => None,
        FailureKind::WorkerLost | FailureKind::Aborted => {
            Some("The answer was interrupted by a fault on our side. Please ask again.")
        }
        FailureKind::Unreachable | FailureKind::UnknownAgent | FailureKind::Unprepared => {
            Some("The assistant cannot be reached at the moment. Please try again in a while.")
        }
        FailureKind::Overdue => Some(TOO_SLOW),
        FailureKind::BadResponse => {
            Some("The assistant gave an answer that makes no sense. Please ask again.")
        }
        FailureKind::SlowConsumer => Some("The answer could not be delivered. Please ask again."),
        FailureKind::BudgetExhausted => Some("What this answer may cost is used up."),
        FailureKind::Forbidden => Some("The assistant is not allowed to do this."),
        FailureKind::Internal => Some("Something went wrong on our side. Please ask again."),
    }
}

const TOO_SLOW: &str = "The answer took too long. Please ask again.";

/// The code of a failed turn (§11.2).
fn code_of(kind: FailureKind) -> Code {
    match kind {
        FailureKind::ToolNotFound => Code::ToolNotFound,
        FailureKind::CallTimeout => Code::ToolTimeout,
        FailureKind::Execution
        | FailureKind::InvalidArgs
        | FailureKind::Tool
        | FailureKind::ModelUnavailable
        | FailureKind::BadResponse
        | FailureKind::Aborted
        | FailureKind::InvalidRequest => Code::Provider,
        FailureKind::Unreachable
        | FailureKind::Overdue
        | FailureKind::SlowConsumer
        | FailureKind::Unprepared
        | FailureKind::BudgetExhausted => Code::Unavailable,
        FailureKind::WorkerLost
        | FailureKind::UnknownAgent
        | FailureKind::Forbidden
        | FailureKind::Internal => Code::Internal,
    }
}
