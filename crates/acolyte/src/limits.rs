//! Every bound of a connection, with the defaults of §9.

use serde::{Deserialize, Serialize};

/// Limits of one Acolyte connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AcolyteLimits {
    /// Largest WebSocket message or HTTP body, in bytes.
    pub max_message: u32,
    /// Chats that may wait on one connection.
    pub queue: u32,
    /// Tasks that one connection may follow besides its own.
    pub attached: u32,
    /// Tasks that are remembered after their end.
    pub tasks: u32,
    /// Longest chat, in seconds.
    pub chat_s: u32,
    /// Silence of a running chat after which it gives a sign of life, in seconds.
    pub heartbeat_s: u32,
    /// Silence of a stream over HTTP after which it gives a sign of life, in seconds.
    pub keepalive_s: u32,
    /// Silence of a WebSocket after which the server pings, in seconds.
    pub ping_s: u32,
    /// Silence after which the peer is dead, in seconds.
    pub dead_s: u32,
    /// How long a peer may take nothing of what waits for it, in seconds.
    pub stall_s: u32,
    /// How long a task goes on without a connection, for clients that offer to come back, in
    /// seconds.
    pub resume_s: u32,
}

impl Default for AcolyteLimits {
    fn default() -> Self {
        Self {
            max_message: 16 << 20,
            queue: 25,
            attached: 25,
            tasks: 1000,
            chat_s: 3600,
            heartbeat_s: 30,
            keepalive_s: 15,
            ping_s: 30,
            dead_s: 120,
            stall_s: 60,
            resume_s: 300,
        }
    }
}
