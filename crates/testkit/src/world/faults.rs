//! Faults that happen without anything else happening, for simulations that decide every step.

use std::time::Duration;

use switchboard_core::CloseReason;

use super::peer::Inbound;
use super::{PeerId, World};

impl World {
    /// As [`World::cut`], and nothing happens yet.
    pub fn enqueue_cut(&mut self, peer: PeerId) {
        self.push_inbound(peer, Inbound::Closed(CloseReason::TransportLost));
    }

    /// As [`World::close`], and nothing happens yet.
    pub fn enqueue_close(&mut self, peer: PeerId, code: Option<u16>) {
        self.push_inbound(peer, Inbound::Closed(CloseReason::PeerClosed(code)));
    }

    /// From now on an append takes so many milliseconds.
    pub fn take_time(&mut self, millis: u64) {
        self.settings.commit_ms = millis;
    }

    /// Takes back [`World::crash_at`], [`World::fail_appends`] and [`World::take_time`].
    pub fn disarm(&mut self) {
        self.trap = None;
        self.failing_appends = 0;
        self.settings.commit_ms = 0;
    }

    /// How much waits inside of the server: the longest queue in front of a session or a connection.
    pub fn waiting(&self) -> usize {
        let sessions = self.sessions.values().map(super::session::LiveSession::waiting);
        sessions.chain(self.peers.values().map(super::peer::Peer::waiting)).max().unwrap_or(0)
    }

    /// Moves the clock, and nothing happens meanwhile: the machine was asleep, or its clock was set.
    pub fn jump(&mut self, pause: Duration) {
        self.now = self.now.after(pause);
    }
}
