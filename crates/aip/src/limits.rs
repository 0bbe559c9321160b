//! How much one client may ask for (§13).

use serde::{Deserialize, Serialize};

/// Bounds of what a client may send and have going on. All of them are the operator's to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AipLimits {
    /// The largest message, in bytes; a larger one closes the connection.
    pub max_message: u32,
    /// The largest message of a client that has not registered yet, in bytes.
    pub max_first_message: u32,
    /// The longest identifier or name, in characters.
    pub id_chars: u32,
    /// For how long a connection may stay without registering, in seconds.
    pub registration_s: u32,
    /// How often a silent client is pinged, in seconds.
    pub ping_s: u32,
    /// A client that is silent for this long is gone, in seconds.
    pub silence_s: u32,
    /// For how long a connection whose name is claimed again may stay silent, in milliseconds.
    pub takeover_ms: u32,
    /// For how long a device may take to tell fresh facts about itself, in milliseconds.
    pub facts_ms: u32,
    /// The largest facts that a registered device may tell about itself, in bytes; larger ones are not taken.
    pub facts_bytes: u32,
    /// How often a minute news of one device are stored; of more, only the latest.
    pub facts_per_minute: u32,
    /// Tasks that may run or wait on one device.
    pub tasks_per_device: u32,
    /// Tasks that one constellation may have going on.
    pub tasks_per_constellation: u32,
    /// How long a task may take, in seconds.
    pub task_s: u32,
    /// For how long a dispatched task may wait for its device to take it up, in seconds.
    pub dispatch_s: u32,
    /// For how long the result of a task can be read over HTTP, in seconds.
    pub result_s: u32,
    /// Refused tasks of which that can be read over HTTP; what came of others is in the log.
    pub results: u32,
    /// Messages per second of one principal, over all its devices and constellations.
    pub frames_per_s: u32,
    /// Messages of one principal that may come at once.
    pub frames_burst: u32,
    /// Refused registrations of one principal per minute, after which it has to wait.
    pub refusals_per_minute: u32,
}

impl Default for AipLimits {
    fn default() -> Self {
        Self {
            max_message: 8 << 20,
            max_first_message: 1 << 20,
            id_chars: 256,
            registration_s: 10,
            ping_s: 20,
            silence_s: 60,
            takeover_ms: 3_000,
            facts_ms: 1_000,
            facts_bytes: 256 << 10,
            facts_per_minute: 12,
            tasks_per_device: 68,
            tasks_per_constellation: 256,
            task_s: 3_600,
            dispatch_s: 60,
            result_s: 3_600,
            results: 10_000,
            frames_per_s: 50_000,
            frames_burst: 100_000,
            refusals_per_minute: 120,
        }
    }
}
