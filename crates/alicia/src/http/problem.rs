//! Answers that say no.

use serde_json::{Value, json};
use switchboard_core::Reject;

/// Why a request is not answered as it was meant to be.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: u16,
    error: &'static str,
    message: String,
    pub(super) retry_ms: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: u16, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), retry_ms: None }
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(400, "bad_request", message)
    }

    pub(super) fn not_found(message: &'static str) -> Self {
        Self::new(404, "not_found", message)
    }

    pub(super) fn conflict(message: &'static str) -> Self {
        Self::new(409, "conflict", message)
    }

    pub(super) fn too_large(message: &'static str) -> Self {
        Self::new(413, "too_large", message)
    }

    /// Unknown, deleted and foreign look the same.
    pub(super) fn no_conversation() -> Self {
        Self::not_found("no such conversation")
    }

    pub(super) fn no_message() -> Self {
        Self::not_found("no such message")
    }

    pub(super) fn inactive() -> Self {
        Self::new(409, "inactive", "the conversation is archived")
    }

    fn later(status: u16, error: &'static str, message: &'static str, retry_ms: u64) -> Self {
        Self { retry_ms: Some(retry_ms), ..Self::new(status, error, message) }
    }

    pub(super) fn body(&self) -> Value {
        json!({ "error": self.error, "message": self.message, "code": self.status })
    }
}

/// The one table from what sessions refuse to what is answered.
impl From<Reject> for Problem {
    fn from(reject: Reject) -> Self {
        match reject {
            Reject::NotFound => Self::no_conversation(),
            Reject::Forbidden => Self::new(403, "forbidden", "not permitted"),
            Reject::UnknownMessage(_) => Self::no_message(),
            Reject::UnknownAgent(_) => Self::not_found("no agent serves this conversation"),
            Reject::Inactive => Self::inactive(),
            Reject::DuplicateMessage(_) | Reject::DuplicateTurn(_) | Reject::KeyConflict => {
                Self::conflict("the id is already used")
            }
            Reject::Limit { what } => Self::new(413, "too_large", format!("limit reached: {what}")),
            Reject::Invalid(_) | Reject::InvalidArgs(_) => Self::malformed(reject.to_string()),
            Reject::RateLimited { retry_after } => {
                let retry_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
                Self::later(429, "too_many_requests", "too fast, try again later", retry_ms)
            }
            Reject::Unauthenticated => Self::new(401, "unauthorized", "the credential was refused"),
            Reject::Busy | Reject::Draining | Reject::Unavailable { .. } | Reject::Unserved { .. } => {
                Self::later(503, "unavailable", "not possible now, try again", 1_000)
            }
            Reject::UnknownTurn(_)
            | Reject::TurnOver(_)
            | Reject::Fenced(_)
            | Reject::CallGone(_)
            | Reject::UnknownTool(_)
            | Reject::AttachmentGone
            | Reject::Enrolled(_)
            | Reject::Offline(_) => Self::new(500, "internal", "something broke on our side"),
        }
    }
}
