//! Errors: their codes, and one table from what can go wrong to these.

use switchboard_core::Reject;

use crate::message::Tag;

/// A line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Malformed {
    /// The tag of the line, if it has one.
    pub tag: Option<Tag>,
    /// For a person.
    pub why: &'static str,
}

/// Why something is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The line cannot be understood.
    Malformed,
    /// No session was joined.
    Outside,
    /// There is no such session, or not for this client.
    Unknown,
    /// The client may not do this.
    Forbidden,
    /// The position is not one of this session: join without it, and ask for the history.
    Stale,
    /// The tag was used for other words.
    Conflict,
    /// Nothing is under way.
    Nothing,
    /// A bound was reached.
    Limit,
    /// Not now; try again.
    Later,
    /// Something broke on our side.
    Internal,
}

impl Code {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::Outside,
        Self::Unknown,
        Self::Forbidden,
        Self::Stale,
        Self::Conflict,
        Self::Nothing,
        Self::Limit,
        Self::Later,
        Self::Internal,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Outside => "outside",
            Self::Unknown => "unknown",
            Self::Forbidden => "forbidden",
            Self::Stale => "stale",
            Self::Conflict => "conflict",
            Self::Nothing => "nothing",
            Self::Limit => "limit",
            Self::Later => "later",
            Self::Internal => "internal",
        }
    }
}

/// How a refusal of the session is said.
pub const fn words(reject: &Reject) -> (Code, &'static str) {
    match reject {
        Reject::NotFound | Reject::UnknownAgent(_) => (Code::Unknown, "there is no such session"),
        Reject::Forbidden => (Code::Forbidden, "that is not permitted"),
        Reject::UnknownTurn(_) | Reject::TurnOver(_) => (Code::Nothing, "that is over"),
        Reject::KeyConflict => (Code::Conflict, "this tag was used for other words"),
        Reject::Limit { .. } => (Code::Limit, "the session has enough to do"),
        Reject::Quota { .. } => (Code::Limit, "the storage of this account is used up"),
        Reject::Inactive => (Code::Forbidden, "the session was put away"),
        Reject::RateLimited { .. } => (Code::Later, "too fast"),
        Reject::Draining => (Code::Later, "the server is leaving"),
        Reject::Busy | Reject::Unavailable { .. } => (Code::Later, "the session cannot take it now"),
        Reject::Unauthenticated => (Code::Forbidden, "the credential is not valid"),
        Reject::Invalid(_) => (Code::Malformed, "that cannot be asked"),
        // Nothing that this protocol asks for can be refused like this.
        Reject::Fenced(_)
        | Reject::DuplicateTurn(_)
        | Reject::CallGone(_)
        | Reject::UnknownTool(_)
        | Reject::InvalidArgs(_)
        | Reject::UnknownMessage(_)
        | Reject::DuplicateMessage(_)
        | Reject::AttachmentGone
        | Reject::Enrolled(_)
        | Reject::Offline(_)
        | Reject::Unserved { .. } => (Code::Internal, "something broke"),
    }
}
