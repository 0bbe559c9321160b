//! What can go wrong, and what to do about it.

use std::time::Duration;

use switchboard_asp::client::{Cause, CommandError, Loss, Refused};
use switchboard_asp::error::{Close, Code};
use switchboard_asp::message::ErrorBody;

use super::options::OptionsError;
use crate::socket::DialError;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// The options contradict themselves or each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// 400 or 426, or an answer that is not ASP.
    #[error("the server does not speak ASP here{}", said(.0))]
    NotAsp(Option<ErrorBody>),
    /// 401.
    #[error("the server does not accept the credential{}", said(.0))]
    Unauthorized(Option<ErrorBody>),
    /// 403.
    #[error("the server does not permit this{}", said(.0))]
    Forbidden(Option<ErrorBody>),
    /// 404.
    #[error("the server does not know this agent or path{}", said(.0))]
    NotFound(Option<ErrorBody>),
    /// 429.
    #[error("the server has too many connections from here{}", when(.retry_after))]
    Busy {
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// 503 and its kin.
    #[error("the server cannot take connections now (HTTP {status}){}", when(.retry_after))]
    Unavailable {
        /// HTTP status.
        status: u16,
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// Any other status.
    #[error("the server refused with HTTP {status}")]
    Refused {
        /// HTTP status.
        status: u16,
    },
    /// No address, no route, no TLS, no answer.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The connection was closed before it was agreed upon.
    #[error("the server closed the connection with code {0}")]
    Closed(u16),
    /// The server sent what is not ASP.
    #[error("the server broke the protocol: {0}")]
    Violation(String),
    /// This client was closed meanwhile.
    #[error("the client was closed")]
    ClientClosed,
}

impl ConnectError {
    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Options(_) => "correct the options",
            Self::NotAsp(_) => "check the URL: it must lead to an ASP server, by default at /v1/agent-socket",
            Self::Unauthorized(_) => "give a valid token, or a new one if it has expired",
            Self::Forbidden(_) => "use a token that may use this agent, or ask for permission",
            Self::NotFound(_) => "check the name of the agent and the path of the URL",
            Self::Busy { .. } => "wait, then try again with fewer connections",
            Self::Unavailable { .. } => "wait, then try again",
            Self::Refused { .. } => "check the URL, and what is between here and the server",
            Self::Unreachable(_) => {
                "check the address and whether the server runs; with wss, its certificate"
            }
            Self::Closed(_) | Self::Violation(_) => "look into the server's log",
            Self::ClientClosed => "connect again",
        }
    }

    /// Whether the same attempt may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Unavailable { .. } | Self::Unreachable(_) => true,
            Self::Closed(code) => Close::from_number(*code).is_some_and(Close::resumable),
            Self::Options(_)
            | Self::NotAsp(_)
            | Self::Unauthorized(_)
            | Self::Forbidden(_)
            | Self::NotFound(_)
            | Self::Refused { .. }
            | Self::Violation(_)
            | Self::ClientClosed => false,
        }
    }

    pub(super) fn from_cause(cause: &Cause, dial: Option<&DialError>) -> Self {
        match cause {
            Cause::Refused(refused) => Self::from_refused(refused),
            Cause::Unreachable => {
                Self::Unreachable(dial.map_or_else(|| "no answer".to_owned(), ToString::to_string))
            }
            Cause::Closed(code) => Self::Closed(*code),
            Cause::Silent => Self::Unreachable("no sign of life".to_owned()),
            Cause::Moved => Self::Unavailable { status: 503, retry_after: None },
            Cause::Violation(violation) => Self::Violation(violation.to_string()),
            Cause::Left => Self::ClientClosed,
        }
    }

    fn from_refused(refused: &Refused) -> Self {
        let error = refused.error.clone();
        let retry_ms = refused.retry_after_ms.or_else(|| error.as_ref().and_then(|error| error.retry_ms));
        let retry_after = retry_ms.map(Duration::from_millis);
        match refused.status {
            101 | 400 | 426 => Self::NotAsp(error),
            401 => Self::Unauthorized(error),
            403 => Self::Forbidden(error),
            404 => Self::NotFound(error),
            429 => Self::Busy { retry_after },
            status @ (408 | 500..=599) => Self::Unavailable { status, retry_after },
            status => Self::Refused { status },
        }
    }
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// Not now, or not with what was agreed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The server refused it.
    #[error("{} ({})", .0.msg, .0.name)]
    Server(ErrorBody),
    /// A token that does not fit a header.
    #[error("the token holds characters that no header may hold")]
    Token,
    /// The connection was lost before the answer came.
    #[error("the connection was lost before the answer came")]
    Disconnected,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// Why a request has no regular end.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// The server, or this client on its behalf, says it failed.
    #[error("{}{} ({})", .0.msg, if .0.msg.is_empty() { "failed" } else { "" }, .0.name)]
    Server(ErrorBody),
    /// Nobody knows how it went on.
    #[error(transparent)]
    Lost(Loss),
    /// It was read too slowly and the server does not know credit.
    #[error("the events of this request were read too slowly")]
    SlowConsumer,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

impl RequestError {
    /// The code of the server's error, if it is one of the table.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Server(error) => error.known(),
            Self::Lost(_) | Self::SlowConsumer | Self::Closed => None,
        }
    }

    /// Whether the same request may succeed later. One that was lost may have had effects.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Server(error) => error.retry,
            Self::Lost(_) | Self::SlowConsumer | Self::Closed => false,
        }
    }
}

fn said(error: &Option<ErrorBody>) -> String {
    match error {
        Some(error) if !error.msg.is_empty() => format!(": {}", error.msg),
        Some(_) | None => String::new(),
    }
}

fn when(retry_after: &Option<Duration>) -> String {
    retry_after.map(|after| format!(", try again in {} s", after.as_secs_f64().ceil())).unwrap_or_default()
}
