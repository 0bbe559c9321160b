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
        Self::not_found("This conversation does not exist.")
    }

    pub(super) fn no_message() -> Self {
        Self::not_found("This message does not exist.")
    }

    pub(super) fn no_tool_use() -> Self {
        Self::not_found("This use of a tool does not exist.")
    }

    pub(super) fn no_memory() -> Self {
        Self::not_found("This memory does not exist.")
    }

    pub(super) fn inactive() -> Self {
        Self::new(409, "inactive", "This conversation is archived.")
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
            Reject::Forbidden => Self::new(403, "forbidden", "You are not permitted to do this."),
            Reject::UnknownMessage(_) => Self::no_message(),
            Reject::UnknownAgent(_) => Self::not_found("No assistant is available for this conversation."),
            Reject::Inactive => Self::inactive(),
            Reject::DuplicateMessage(_) | Reject::DuplicateTurn(_) | Reject::KeyConflict => {
                Self::conflict("This id is already used for something else.")
            }
            Reject::Limit { .. } => {
                Self::too_large("This is more than the server accepts at once. Please send less.")
            }
            Reject::Quota { .. } => {
                Self::new(403, "quota_exceeded", "Your storage here is used up: nothing more can be kept.")
            }
            Reject::Invalid(_) | Reject::InvalidArgs(_) => Self::malformed(reject.to_string()),
            Reject::RateLimited { retry_after } => {
                let retry_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
                Self::later(
                    429,
                    "too_many_requests",
                    "Too many requests at once. Please try again later.",
                    retry_ms,
                )
            }
            Reject::Unauthenticated => Self::new(401, "unauthorized", "the credential was refused"),
            Reject::Busy | Reject::Draining | Reject::Unavailable { .. } | Reject::Unserved { .. } => {
                Self::later(
                    503,
                    "unavailable",
                    "This is not possible at the moment. Please try again.",
                    1_000,
                )
            }
            Reject::UnknownTurn(_)
            | Reject::TurnOver(_)
            | Reject::Fenced(_)
            | Reject::CallGone(_)
            | Reject::UnknownTool(_)
            | Reject::AttachmentGone
            | Reject::Enrolled(_)
            | Reject::Offline(_) => {
                Self::new(500, "internal", "Something went wrong on our side. Please try again.")
            }
        }
    }
}
