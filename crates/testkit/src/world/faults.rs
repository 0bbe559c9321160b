//! Faults that happen without anything else happening, for simulations that decide every step.

use std::time::Duration;

use switchboard_core::{CloseReason, TurnId};

use super::log::Troubles;
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
        self.trouble = Troubles::default();
        self.settings.commit_ms = 0;
    }

    /// So many appends find no room. What goes wrong besides: so many are not done and so many are done without
    /// anybody being able to tell, and so many reads fail.
    pub fn trouble(&mut self, full: u32, lost: u32, unheard: u32, reads: u32) {
        self.trouble = Troubles { full, lost, unheard, reads };
    }

    /// An executor works on, but gives no sign of life any more: its turn is given to another one.
    pub fn silence_executor(&mut self) -> Option<TurnId> {
        let executing = self.sessions.values_mut().flat_map(|live| &mut live.executing);
        let (turn, execution) = executing.filter(|(_, execution)| !execution.is_silent).last()?;
        execution.is_silent = true;
        Some(turn.clone())
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
