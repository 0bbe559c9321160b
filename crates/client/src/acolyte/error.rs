//! What can go wrong, and what to do about it.

use std::time::Duration;

use switchboard_acolyte::client::{CallError, Cause as LinkCause, CommandError};

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
    #[error("{}", refused::words(*.status, .text, "Acolyte"))]
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
            Self::Lost(cause) => cause.is_temporary(),
        }
    }

    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "check the address and whether the server runs",
            Self::Refused { status: 401, .. } => "give a valid token, or a new one if it has expired",
            Self::Refused { status: 403, .. } => "use a token that may do this, or ask for permission",
            Self::Refused { status: 429 | 503, .. } => "wait, then try again",
            Self::Refused { .. } => "check the URL: it must lead to an Acolyte server",
            Self::Lost(LinkCause::Version { .. } | LinkCause::Refused(_)) => {
                "use a client and a server that speak the same version"
            }
            Self::Lost(LinkCause::Closed(_) | LinkCause::Silent | LinkCause::Left) => "connect again",
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
pub(super) const SAID_IN: &str = "errorMessage";

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

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not now, or not like this.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// There is no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The request over HTTP failed before it was answered.
    #[error(transparent)]
    Failed(#[from] Cause),
    /// The connection has ended for good.
    #[error("the connection has ended for good")]
    Off,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}
