//! Why there is no connection, in whatever protocol.

use switchboard_core::client::{Cause, Fault};

use crate::endpoint::OptionsError;

/// Why a client could not connect.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConnectError<F: Fault> {
    /// The options contradict themselves or each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// It was tried.
    #[error(transparent)]
    Failed(#[from] Cause<F>),
    /// The client was closed meanwhile.
    #[error("the client was closed")]
    ClientClosed,
}

impl<F: Fault> ConnectError<F> {
    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Options(_) => "correct the options",
            Self::Failed(cause) => cause.advice(),
            Self::ClientClosed => "connect again",
        }
    }

    /// Whether the same attempt may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Failed(cause) if cause.is_temporary())
    }
}
