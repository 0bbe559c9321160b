//! Commentaries, votes and notes (§4.15, §4.18, §4.19).

use switchboard_core::Pii;

use super::Reason;
use super::rows::body;
use super::wire::Wire;
use super::words::{Word, names};
use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::value::{Map, Value};

body! {
    /// A remark beside the turns (§4.15).
    Commentary {
        /// `aucc_…`
        id: Id = required "id";
        /// The message it is about; without it, the conversation.
        message_id: Option<Id> = or_empty "messageId" | "targetId";
        ..conversation
        /// The text.
        content: Pii<String> = required "content" [1..=commentary];
        /// What kind of remark; unknown kinds are kept.
        commentary_type: Option<Word<CommentaryType>> = optional "commentaryType" | "commentType";
        /// Withdrawn: kept with the row, never sent.
        author_role: Option<Value> = withdrawn "authorRole";
        /// Withdrawn: kept with the row, never sent.
        rating: Option<Value> = withdrawn "rating";
    }
}

names! {
    /// What kind of remark a Commentary is.
    CommentaryType {
        /// Praise.
        FeedbackPositive = "feedback-positive",
        /// Blame.
        FeedbackNegative = "feedback-negative",
        /// An explanation.
        Explanation = "explanation",
        /// A note.
        Note = "note",
        /// A correction.
        Correction = "correction",
    }
}

body! {
    /// A vote (§4.18).
    Feedback {
        /// `av_…`, from the client.
        id: Id = required "id";
        ..conversation
        /// The message that owns the target.
        message_id: Id = required "messageId";
        /// What is voted on.
        target_type: TargetType = required "targetType";
        /// Which one.
        target_id: Id = required "targetId";
        /// The vote.
        vote: Vote = required "vote";
        /// Why, in one word; an unknown word counts as none.
        quick_feedback: Option<QuickFeedback> = known "quickFeedback";
        /// Why, in words.
        note: Option<Pii<String>> = optional "note" [0..=feedback_note];
        /// When, in milliseconds since the Unix epoch.
        timestamp: i64 = required "timestamp";
    }
}

names! {
    /// What can be voted on.
    TargetType {
        /// A message.
        Message = "message",
        /// A use of a tool.
        ToolUse = "tool_use",
        /// A memory.
        Memory = "memory",
        /// A step of reasoning.
        Reasoning = "reasoning",
        /// A sentence.
        Sentence = "sentence",
        /// A use of a memory.
        MemoryUsage = "memory_usage",
        /// What was remembered.
        MemoryExtraction = "memory_extraction",
    }
}

names! {
    /// A vote.
    Vote {
        /// For.
        Up = "up",
        /// Against.
        Down = "down",
        /// A value of its own, no vote against.
        Critical = "critical",
        /// Takes the vote back.
        Remove = "remove",
    }
}

names! {
    /// Why, in one word.
    QuickFeedback {
        /// Another tool was needed.
        WrongTool = "wrong_tool",
        /// Other arguments were needed.
        WrongParams = "wrong_params",
        /// It was not needed.
        Unnecessary = "unnecessary",
        /// Circumstances were missing.
        MissingContext = "missing_context",
        /// No longer so.
        Outdated = "outdated",
        /// Other circumstances.
        WrongContext = "wrong_context",
        /// Says too little.
        TooGeneric = "too_generic",
        /// Not so.
        Incorrect = "incorrect",
        /// Rests on something that is not so.
        IncorrectAssumption = "incorrect_assumption",
        /// Forgets something.
        MissedConsideration = "missed_consideration",
        /// Could be simpler.
        Overcomplicated = "overcomplicated",
        /// Leads elsewhere.
        WrongDirection = "wrong_direction",
    }
}

body! {
    /// The votes on a target now (§4.18).
    FeedbackConfirmation {
        /// `id` of the Feedback.
        feedback_id: Id = required "feedbackId";
        /// What was voted on.
        target_type: TargetType = required "targetType";
        /// Which one.
        target_id: Id = required "targetId";
        /// All votes.
        aggregates: Aggregates = required "aggregates";
        /// This user's vote, if there is one.
        user_vote: Option<Vote> = or_empty "userVote";
    }
}

body! {
    /// All votes on a target.
    Aggregates {
        /// For it.
        upvotes: u64 = required "upvotes";
        /// Against it.
        downvotes: u64 = required "downvotes";
        /// Others, such as `critical`.
        special_votes: Option<SpecialVotes> = optional "specialVotes";
    }
}

/// How many votes there are of each other name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecialVotes(pub Vec<(String, u64)>);

impl Wire for SpecialVotes {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        let members = Map::from_value(value, limits)?.into_iter();
        let counts = members.map(|(name, count)| Ok((name.into_owned(), u64::from_value(count, limits)?)));
        counts.collect::<Result<_, _>>().map(Self)
    }

    fn to_value(&self) -> Value {
        Value::Map(self.0.iter().map(|(name, count)| (name.clone(), *count)).collect())
    }
}

body! {
    /// A note on a message (§4.19).
    UserNote then worded {
        /// Chosen by the client, and kept.
        id: Id = required "id";
        /// The message annotated.
        message_id: Id = required "messageId";
        /// The text; empty only to delete.
        content: Pii<String> = required "content" [0..=note];
        /// What it is for.
        category: NoteCategory = defaulted "category";
        /// What is to happen; an unknown action is answered with a failure.
        action: Word<NoteAction> = required "action";
        /// When, in milliseconds since the Unix epoch.
        timestamp: i64 = required "timestamp";
    }
}

impl UserNote {
    fn worded(self, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        let needs_text = matches!(self.action, Word::Known(NoteAction::Create | NoteAction::Update));
        if needs_text && self.content.0.is_empty() {
            return Err(FieldError::new("content", Reason::Empty));
        }
        Ok(self)
    }
}

names! {
    /// What a note is for.
    NoteCategory {
        /// What could be better.
        Improvement = "improvement",
        /// What is wrong.
        Correction = "correction",
        /// Circumstances.
        Context = "context",
        /// Anything else.
        General = "general" | "",
    }
}

/// What an empty category means.
impl Default for NoteCategory {
    fn default() -> Self {
        Self::General
    }
}

names! {
    /// What a UserNote does.
    NoteAction {
        /// Make it.
        Create = "create",
        /// Change its content.
        Update = "update",
        /// Delete it.
        Delete = "delete",
    }
}

body! {
    /// What became of a UserNote (§4.19).
    NoteConfirmation {
        /// `id` of the request.
        note_id: Id = required "noteId";
        /// Its message.
        message_id: Id = required "messageId";
        /// Whether it was done.
        success: bool = required "success";
    }
}
