//! What happens to a client.

use std::time::Duration;

use switchboard_aip::client::Trouble;
use switchboard_aip::message::TaskStatus;

use super::error::Cause;

/// What happens to a client.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The server knows this client.
    Connected,
    /// Not connected; it is tried again.
    Disconnected {
        /// Why.
        cause: Cause,
        /// When it is.
        retry_in: Duration,
    },
    /// Not connected, and it stays so.
    Closed {
        /// Why.
        cause: Cause,
    },
    /// A device: it was told to do a task, or that one begins.
    Assigned {
        /// The task's session.
        session_id: Option<String>,
        /// What a person calls it.
        task_name: Option<String>,
        /// What is to be done.
        request: Option<String>,
    },
    /// A device: a task that it worked for is over.
    TaskEnded {
        /// The task's session.
        session_id: Option<String>,
        /// How.
        status: TaskStatus,
        /// What went wrong.
        error: Option<String>,
    },
    /// Something could not be done; the connection stays.
    Trouble(Trouble),
}

impl Event {
    pub(super) fn lost(cause: Cause, retry_in: Option<Duration>) -> Self {
        match retry_in {
            Some(retry_in) => Self::Disconnected { cause, retry_in },
            None => Self::Closed { cause },
        }
    }
}

/// The connection of a device at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether the server knows the device right now.
    pub connected: bool,
}

/// Events since a client was asked for them.
pub type Events = crate::events::Events<Event>;
