//! What can go wrong, and what to do about it.

use serde_json::Value;
use switchboard_aip::client::{CommandError, FailureKind, Fault, NoInfo};

use crate::driver::errors;

errors!(Fault, ClientError::Closed);

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
