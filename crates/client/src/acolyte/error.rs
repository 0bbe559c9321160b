//! What can go wrong, and what to do about it.

use switchboard_acolyte::client::{CallError, CommandError, Fault};

use crate::driver::errors;

errors!(Fault, ClientError::Closed);

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
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
