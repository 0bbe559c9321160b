//! What can go wrong, and what to do about it.

use std::time::Duration;

use serde_json::Value;
use switchboard_aip::client::{Cause as LinkCause, CommandError, FailureKind, NoInfo};
use switchboard_aip::error::words;

use super::options::OptionsError;
use crate::refused::{self, Undialled};
use crate::socket::DialError;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No address, no route, no TLS, no answer.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server answered the request with a status.
    #[error("{}", refused::words(*.status, .text, "AIP"))]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the server said.
        text: String,
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// There was one.
    #[error(transparent)]
    Lost(LinkCause),
}

impl Cause {
    /// Whether to come back.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => refused::is_temporary(*status),
            // Names become free and devices appear, but permissions do not change by waiting.
            Self::Lost(LinkCause::Refused(why)) => {
                !matches!(why.as_str(), words::NOT_PERMITTED | words::CLIENT_ID | words::TARGET_NEEDED)
            }
            Self::Lost(LinkCause::Closed(_) | LinkCause::Unanswered | LinkCause::Silent) => true,
            Self::Lost(LinkCause::Blocked | LinkCause::Left) => false,
        }
    }

    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "check the address and whether the server runs",
            Self::Refused { status: 401, .. } => "give a valid token, or a new one if it has expired",
            Self::Refused { status: 403, .. } => "use a token that may do this, or ask for permission",
            Self::Refused { status: 429 | 503, .. } => "wait, then try again",
            Self::Refused { .. } => "check the URL: it must lead to an AIP server",
            Self::Lost(LinkCause::Refused(_)) => "use another name or token, or wait until it is free",
            Self::Lost(
                LinkCause::Closed(_)
                | LinkCause::Unanswered
                | LinkCause::Silent
                | LinkCause::Blocked
                | LinkCause::Left,
            ) => "connect again",
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            Self::Unreachable(_) | Self::Lost(_) => None,
        }
    }
}

impl From<DialError> for Cause {
    fn from(error: DialError) -> Self {
        match Undialled::of(&error, SAID_IN) {
            Undialled::Unreachable(what) => Self::Unreachable(what),
            Undialled::Refused { status, text, retry_after } => Self::Refused { status, text, retry_after },
        }
    }
}

/// Where an error in JSON has its words (§2.2).
const SAID_IN: &str = "detail";

/// Why a client could not connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The options contradict themselves or each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// It was tried.
    #[error(transparent)]
    Failed(#[from] Cause),
    /// The client was closed meanwhile.
    #[error("the client was closed")]
    ClientClosed,
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not now, or not like this.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// It is not known what the device is like.
    #[error(transparent)]
    NoInfo(#[from] NoInfo),
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// Why a task did not end well.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct TaskError {
    /// What kind of a failure it is.
    pub kind: FailureKind,
    /// For a person.
    pub error: String,
    /// What there is of a result.
    pub result: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waiting_cannot_change_is_not_tried_again() {
        let refused = |why: &str| Cause::Lost(LinkCause::Refused(why.to_owned()));
        assert!(refused(&words::duplicate("lab-1")).is_temporary());
        assert!(refused(&words::not_connected("lab-1")).is_temporary());
        assert!(!refused(words::NOT_PERMITTED).is_temporary());
        for (status, temporary) in [(401, false), (403, false), (404, false), (429, true), (503, true)] {
            let body = br#"{"detail":"no"}"#.to_vec();
            let cause = Cause::from(DialError::Refused { status, retry_after_ms: Some(5), body });
            assert_eq!(cause.is_temporary(), temporary, "{status}");
            assert_eq!(cause.retry_after(), Some(Duration::from_millis(5)));
        }
    }
}
