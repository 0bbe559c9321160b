//! Every bound of a connection, with the defaults of §12 and §16.

use serde::{Deserialize, Serialize};

use crate::codec::{HARD_CAP, MAX_MESSAGE, MAX_PAYLOAD, MAX_PAYLOAD_BARE};

/// Limits of one ASP connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AspLimits {
    /// Largest assembled payload from a client that has said HELLO, in bytes.
    pub max_payload: u32,
    /// Largest payload from a bare client, in bytes.
    pub max_payload_bare: u32,
    /// Largest declared payload that does not end the connection, in bytes.
    pub hard_cap: u32,
    /// Largest WebSocket message, in bytes.
    pub max_message: u32,
    /// Most requests in flight.
    pub max_inflight: u32,
    /// Most requests in flight of a bare client.
    pub max_inflight_bare: u32,
    /// Credit that each request starts with, in bytes.
    pub window: u32,
    /// Silence after which the server pings, in seconds.
    pub heartbeat_s: u32,
    /// Silence after which the peer is dead, in seconds.
    pub dead_s: u32,
    /// How long a dropped connection can be resumed, in seconds; 0 switches resume off.
    pub resume_s: u32,
    /// Longest connection, in seconds; then the client is told to come back.
    pub lifetime_s: u32,
    /// How long running requests may go on after the server has said that it leaves, in seconds.
    pub drain_s: u32,
    /// Output that may wait before deltas are merged, in bytes.
    pub merge_above: u32,
    /// Output that may wait before the largest request is ended, in bytes.
    pub max_waiting: u32,
    /// Sessions that one connection may follow; never fewer than the requests that it may have in flight, and
    /// its own.
    pub max_sessions: u32,
    /// New connections per second from one address.
    pub connections_per_s: u32,
    /// New connections from one address that may come at once.
    pub connections_burst: u32,
    /// Frames per second.
    pub frames_per_s: u32,
    /// Frames in one burst.
    pub frames_burst: u32,
    /// Inbound bytes per second.
    pub bytes_per_s: u32,
    /// Inbound bytes in one burst.
    pub bytes_burst: u32,
    /// INVOKEs per second.
    pub invokes_per_s: u32,
    /// INVOKEs in one burst.
    pub invokes_burst: u32,
    /// INTERRUPTs per second, credit not counted.
    pub interrupts_per_s: u32,
    /// INTERRUPTs in one burst.
    pub interrupts_burst: u32,
    /// HELLOs per second after the first.
    pub hellos_per_s: u32,
    /// HELLOs in one burst.
    pub hellos_burst: u32,
    /// Protocol errors per minute that a client may cause.
    pub errors_per_min: u32,
    /// Protocol errors in one burst.
    pub errors_burst: u32,
    /// Whether frames with version 0 are taken for version 1.
    pub accept_version_zero: bool,
}

impl AspLimits {
    /// Sessions that one connection may follow: each request in flight may name another one.
    pub(crate) fn sessions(&self) -> usize {
        let most = self.max_inflight.max(self.max_inflight_bare).saturating_add(1);
        self.max_sessions.max(most) as usize
    }
}

impl Default for AspLimits {
    fn default() -> Self {
        Self {
            max_payload: MAX_PAYLOAD,
            max_payload_bare: MAX_PAYLOAD_BARE,
            hard_cap: HARD_CAP,
            max_message: MAX_MESSAGE,
            max_inflight: 64,
            max_inflight_bare: 16,
            window: 256 << 10,
            heartbeat_s: 30,
            dead_s: 75,
            resume_s: 60,
            lifetime_s: 24 * 3600,
            drain_s: 30,
            merge_above: 1 << 20,
            max_waiting: 4 << 20,
            max_sessions: 64,
            connections_per_s: 10,
            connections_burst: 20,
            frames_per_s: 100,
            frames_burst: 200,
            bytes_per_s: 1 << 20,
            bytes_burst: 4 << 20,
            invokes_per_s: 10,
            invokes_burst: 20,
            interrupts_per_s: 20,
            interrupts_burst: 40,
            hellos_per_s: 1,
            hellos_burst: 5,
            errors_per_min: 10,
            errors_burst: 10,
            accept_version_zero: false,
        }
    }
}
