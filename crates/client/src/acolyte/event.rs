//! What happens to a connection.

use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_acolyte::message::Capabilities;

use super::error::Cause;

/// What happens to the connection.
#[derive(Debug, Clone, PartialEq)]
pub enum ConnectionEvent {
    /// Connected, with nothing of an earlier connection to go on with.
    Connected,
    /// Connected again; chats go on.
    Resumed {
        /// How many the server did not have any more.
        lost: usize,
    },
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
