//! Every bound of a connection.

use std::time::Duration;

/// Limits of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinewiseLimits {
    /// Longest line, in bytes.
    pub line: usize,
    /// Lines that may wait while a session is being joined.
    pub waiting: usize,
    /// Longest answer.
    pub turn: Duration,
    /// Silence after which the server pings.
    pub ping: Duration,
    /// Silence after which the peer is dead.
    pub dead: Duration,
    /// How long a peer may take nothing of what waits for it.
    pub stall: Duration,
    /// Bytes in front of the transport above which no events are taken in; they wait in the log.
    pub backlog: usize,
}

impl Default for LinewiseLimits {
    fn default() -> Self {
        Self {
            line: 64 << 10,
            waiting: 16,
            turn: Duration::from_secs(3600),
            ping: Duration::from_secs(30),
            dead: Duration::from_secs(120),
            stall: Duration::from_secs(60),
            backlog: 64 << 10,
        }
    }
}
