//! What can go wrong, and what to do about it.

use switchboard_vip::client::{CommandError, LinkFault};

use crate::driver::errors;

errors!(LinkFault, ClientError::Over);

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not now, or not like this.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The session is over.
    #[error("the session is over")]
    Over,
}
