//! What one session may cost (§15).

use serde::{Deserialize, Serialize};

/// Limits of VIP. Sizes are in bytes, times in seconds unless their names say otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VipLimits {
    /// Largest text event on a WebSocket.
    pub text_bytes: u32,
    /// Largest text event on a data channel.
    pub channel_bytes: u32,
    /// Largest binary frame.
    pub frame_bytes: u32,
    /// Largest body of an HTTP request.
    pub body_bytes: u32,
    /// How long a session token is good.
    pub token_s: u32,
    /// The longest session.
    pub session_s: u32,
    /// The longest session in development.
    pub development_s: u32,
    /// A session in which nothing happens for so long is ended.
    pub idle_s: u32,
    /// How long a session waits for its transport to come back.
    pub resume_s: u32,
    /// How long a session waits for its first transport.
    pub open_s: u32,
    /// How long a transport waits for `client.connect`, in milliseconds.
    pub connect_ms: u32,
    /// How long it waits for the first tree, in milliseconds.
    pub context_ms: u32,
    /// The most events that are replayed.
    pub replay: u32,
    /// Events per second.
    pub events: u32,
    /// Events at once.
    pub events_burst: u32,
    /// Context updates per second.
    pub updates: u32,
    /// Longest turn of a user, in milliseconds.
    pub turn_ms: u32,
    /// Longest wait for the first output of an answer, in milliseconds.
    pub thinking_ms: u32,
    /// Longest answer that cannot be interrupted, in milliseconds.
    pub uninterruptible_ms: u32,
    /// Sessions of one user at once.
    pub sessions: u32,
    /// Credentials that one session may ask for in a minute.
    pub credentials: u32,
    /// How far output runs ahead of the ear, in milliseconds.
    pub lead_ms: u32,
    /// How long an answer may take as a whole.
    pub answer_s: u32,
}

impl Default for VipLimits {
    fn default() -> Self {
        Self {
            text_bytes: 262_144,
            channel_bytes: 65_536,
            frame_bytes: 65_536,
            body_bytes: 262_144,
            token_s: 600,
            session_s: 3_600,
            development_s: 600,
            idle_s: 300,
            resume_s: 60,
            open_s: 30,
            connect_ms: 5_000,
            context_ms: 10_000,
            replay: 500,
            events: 50,
            events_burst: 100,
            updates: 5,
            turn_ms: 60_000,
            thinking_ms: 15_000,
            uninterruptible_ms: 15_000,
            sessions: 4,
            credentials: 6,
            lead_ms: 1_000,
            answer_s: 600,
        }
    }
}
