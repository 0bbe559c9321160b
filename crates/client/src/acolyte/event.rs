//! What happens to a connection.

use serde_json::{Map, Value};
use switchboard_acolyte::client::Fault;
use switchboard_acolyte::message::Capabilities;

/// What happens to the connection.
pub type ConnectionEvent = crate::ConnectionEvent<Fault>;
/// Connection events since [`super::Client::events`] was called.
pub type Events = crate::events::Events<ConnectionEvent>;

/// The connection at a glance.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Whether messages travel right now.
    pub connected: bool,
    /// What both sides understand.
    pub agreed: Capabilities,
    /// What the server has said of itself.
    pub status: Map<String, Value>,
}

impl Snapshot {
    /// The server's default model.
    pub fn model(&self) -> Option<&str> {
        self.status.get("model")?.as_str()
    }
}
