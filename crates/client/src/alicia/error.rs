//! What can go wrong, and what to do about it.

use switchboard_alicia::client::{CommandError, Ended, Fault, RequestError};
use switchboard_core::client::Refusal;

use crate::driver::errors;

errors!(Fault, ClientError::Closed);

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
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
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
        matches!(self, Self::Failed(Cause::Refused(Refusal { status: 404, .. })))
    }
}
