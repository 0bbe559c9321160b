//! What happens to a connection.

use std::time::Duration;

use super::error::Cause;

/// What happens to the connection.
#[derive(Debug, Clone, PartialEq)]
pub enum ConnectionEvent {
    /// Connected; conversations go on.
    Connected,
    /// Not connected; the client tries again.
    Disconnected {
        /// Why.
        cause: Cause,
        /// When it will.
        retry_in: Duration,
    },
    /// Not connected, and it stays so.
    Closed {
        /// Why.
        cause: Cause,
    },
}

/// Connection events since [`super::Client::events`] was called.
pub type Events = crate::events::Events<ConnectionEvent>;

/// The connection at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Whether messages travel right now.
    pub connected: bool,
}
