//! What can go wrong, and what to do about it.

use std::time::Duration;

use super::options::OptionsError;
use crate::refused::{self, Undialled};
use crate::socket::DialError;
use switchboard_alicia::client::{Cause as LinkCause, CommandError, Ended, RequestError};

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No address, no route, no TLS, no answer.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server answered the request with a status.
    #[error("{}", refused::words(*.status, .text, "Alicia"))]
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
            Self::Refused { .. } => "check the URL: it must lead to an Alicia server",
            Self::Lost(_) => "connect again",
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

/// Where an error in JSON has its words (§7).
pub(super) const SAID_IN: &str = "message";

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
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// Not now, or not like this.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The server did not do it.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The conversation is not to be had.
    #[error("{}", ended(.0))]
    Ended(Ended),
    /// The client was closed, or its connection has ended for good.
    #[error("the client was closed")]
    Closed,
}

fn ended(ended: &Ended) -> String {
    match ended {
        Ended::Refused(error) => error.message.0.clone(),
        Ended::NotFollowed(word) => format!("the server does not let this client follow it: {word}"),
        Ended::Off => "the connection has ended for good".to_owned(),
        Ended::Left => "this client left the conversation".to_owned(),
    }
}

/// Why a request over HTTP was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// Not reached, or refused with a status.
    #[error(transparent)]
    Failed(#[from] Cause),
    /// The answer cannot be used.
    #[error("the server's answer cannot be used: {0}")]
    Unusable(String),
}

impl LibraryError {
    /// Whether there is no such thing, or it is somebody else's.
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Failed(Cause::Refused { status: 404, .. }))
    }
}
