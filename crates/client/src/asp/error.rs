//! What can go wrong, and what to do about it.

use switchboard_asp::client::{CommandError, Fault, Loss};
use switchboard_asp::error::Code;
use switchboard_asp::message::ErrorBody;

use crate::driver::errors;

errors!(Fault, ClientError::Closed);

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
