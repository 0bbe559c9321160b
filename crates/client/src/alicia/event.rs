//! What happens to a connection.

use switchboard_alicia::client::Fault;

/// What happens to the connection.
pub type ConnectionEvent = crate::ConnectionEvent<Fault>;
/// Connection events since [`super::Client::events`] was called.
pub type Events = crate::events::Events<ConnectionEvent>;

/// The connection at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Whether messages travel right now.
    pub connected: bool,
}
