//! Devices: participants that execute calls, and what they say of themselves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::Callsign;

/// Why the connection of a device is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceLoss {
    /// The device closed it, or it broke.
    #[default]
    Disconnected,
    /// The server closes every connection, because it stops.
    ServerStops,
}

impl DeviceLoss {
    /// What is said to whoever waits for the device, in the words of the protocol that devices speak.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Disconnected => "Task was cancelled because target device disconnected",
            Self::ServerStops => "the server is shutting down",
        }
    }
}

/// What is known of a device while it is enrolled, and kept after it has left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// The name under which it is enrolled.
    pub callsign: Callsign,
    /// The protocol that it speaks.
    pub protocol: String,
    /// The kind of system that it runs on, in its own words.
    pub platform: String,
    /// What it found out about itself: system, memory, features, …
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
    /// What else it said when it enrolled.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub profile: Value,
}
