//! Well-formed, but refused: the session is untouched.

use std::time::Duration;

use crate::id::{AgentId, CallId, Callsign, MessageId, ToolName, TurnId};
use crate::model::{ANSWER_BYTES, Failure, FailureKind};

/// Why an [`Op`](crate::Op) was refused. Each protocol has one table from these to its own codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// No such session, or not one that the asker may know of: the two look the same.
    #[error("no such session")]
    NotFound,
    /// The asker may see the session, but not do this.
    #[error("not permitted")]
    Forbidden,
    /// No such turn in this session.
    #[error("no such turn: {0}")]
    UnknownTurn(TurnId),
    /// The turn has ended, or was interrupted, and takes nothing more.
    #[error("the turn is over: {0}")]
    TurnOver(TurnId),
    /// The turn belongs to another executor now.
    #[error("another executor holds the turn: {0}")]
    Fenced(TurnId),
    /// A turn of this name exists already.
    #[error("a turn of this name exists: {0}")]
    DuplicateTurn(TurnId),
    /// The call was answered, has timed out, was cancelled, or never was.
    #[error("the call is gone: {0}")]
    CallGone(CallId),
    /// The session has no such tool.
    #[error("no such tool: {0}")]
    UnknownTool(ToolName),
    /// The arguments do not fit the tool's schema, for the reason given.
    #[error("invalid arguments: {0}")]
    InvalidArgs(String),
    /// No such agent is configured, or the credential does not reach it.
    #[error("no such agent: {0}")]
    UnknownAgent(AgentId),
    /// No such message in this session.
    #[error("no such message: {0}")]
    UnknownMessage(MessageId),
    /// A message of this name exists already.
    #[error("a message of this name exists: {0}")]
    DuplicateMessage(MessageId),
    /// The session was put away by its owner, and takes no more work.
    #[error("the session is inactive")]
    Inactive,
    /// The idempotency key was used for something else.
    #[error("the idempotency key was used with another payload")]
    KeyConflict,
    /// The attachment is unknown, over, or the secret is not its current one.
    #[error("the attachment cannot be resumed")]
    AttachmentGone,
    /// Somebody is enrolled under this name.
    #[error("the name is taken: {0}")]
    Enrolled(Callsign),
    /// No device is enrolled under this name, or not one that the asker may reach.
    #[error("no such device is connected: {0}")]
    Offline(Callsign),
    /// Not acceptable, for the reason given.
    #[error("{0}")]
    Invalid(String),
    /// A bound of the session was reached; `what` names it.
    #[error("limit reached: {what}")]
    Limit {
        /// Name of the limit.
        what: &'static str,
    },
    /// Its principal has stored as much as it may; `what` names the bound.
    #[error("the storage of this account is used up ({what})")]
    Quota {
        /// Name of the bound.
        what: &'static str,
    },
    /// Too fast; come back later.
    #[error("rate limited, retry in {retry_after:?}")]
    RateLimited {
        /// When to try again.
        retry_after: Duration,
    },
    /// The server is leaving and takes no new work.
    #[error("draining")]
    Draining,
    /// The mailbox of the session is full.
    #[error("the session is busy")]
    Busy,
    /// The log cannot take the change now; nothing was changed.
    #[error("storage unavailable: {reason}")]
    Unavailable {
        /// What is wrong, in words for an operator; holds no content.
        reason: String,
    },
    /// What was asked for is not offered here, or whoever does it has failed.
    #[error("not available: {reason}")]
    Unserved {
        /// Why, in words for the client; holds no content.
        reason: String,
    },
    /// The credential is not valid, or belongs to somebody else.
    #[error("the credential was refused")]
    Unauthenticated,
}

impl Reject {
    /// What people are told where a turn ends because of it; names of limits are for those who run the server.
    pub fn told(&self) -> String {
        if let Self::Limit { what: ANSWER_BYTES } = self {
            return "The answer became longer than this server allows.".to_owned();
        }
        self.to_string()
    }

    /// The failure of a turn that ends because of it.
    pub fn as_failure(&self) -> Failure {
        let failure = Failure::new(FailureKind::Execution, self.told());
        if let Self::Limit { what } = self { failure.with_limit(what) } else { failure }
    }

    /// A short, stable name, for metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::UnknownTurn(_) => "unknown_turn",
            Self::TurnOver(_) => "turn_over",
            Self::Fenced(_) => "fenced",
            Self::DuplicateTurn(_) => "duplicate_turn",
            Self::CallGone(_) => "call_gone",
            Self::UnknownTool(_) => "unknown_tool",
            Self::InvalidArgs(_) => "invalid_args",
            Self::UnknownAgent(_) => "unknown_agent",
            Self::UnknownMessage(_) => "unknown_message",
            Self::DuplicateMessage(_) => "duplicate_message",
            Self::Inactive => "inactive",
            Self::KeyConflict => "key_conflict",
            Self::AttachmentGone => "attachment_gone",
            Self::Enrolled(_) => "enrolled",
            Self::Offline(_) => "offline",
            Self::Invalid(_) => "invalid",
            Self::Limit { .. } => "limit",
            Self::Quota { .. } => "quota",
            Self::RateLimited { .. } => "rate_limited",
            Self::Draining => "draining",
            Self::Busy => "busy",
            Self::Unavailable { .. } => "unavailable",
            Self::Unserved { .. } => "unserved",
            Self::Unauthenticated => "unauthenticated",
        }
    }
}
