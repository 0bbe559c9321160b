//! What goes wrong: transports, readers, clocks, disks and whole servers.

use std::time::Duration;

use switchboard_asp::message::Mode;
use switchboard_core::{Actor, CloseReason, Op, Role, SessionId};

use super::Simulation;
use super::client::{Down, Ghost, Up, later};
use super::line::Line;
use crate::world::{CrashPoint, PeerId};

impl Simulation {
    /// Lets something go wrong.
    pub(super) fn fail(&mut self) {
        match self.random.below(30) {
            0..9 => self.cut(),
            9..13 => self.stall(),
            13..16 => self.unstall(),
            16..18 => self.crash(),
            18..21 => self.trap(),
            21..23 => {
                let count = u32::try_from(self.random.between(1, 4)).unwrap_or(1);
                self.world.fail_appends(count);
                self.note(format_args!("the log refuses {count} batches"));
            }
            23..25 => self.write_behind(),
            25 => self.jump(),
            26 => {
                self.world.drain(self.random.between(0, 500));
                self.restart_at = Some(later(self.world.now(), self.random.between(10, 5_000)));
                self.note(format_args!("the server drains"));
            }
            27 => self.evict(),
            _ => self.cut_raw(),
        }
    }

    /// A transport breaks: some of what is on its way still arrives, at either end, and either end
    /// may notice late.
    fn cut(&mut self) {
        let index = self.random.index(self.clients.len());
        let now = self.world.now();
        let Some(client) = self.clients.get_mut(index) else { return };
        let Some(transport) = client.transport.as_mut().filter(|transport| !transport.severed) else {
            return;
        };
        let (up, down) = (transport.up.len() as u64, transport.down.len() as u64);
        let kept_up = usize::try_from(self.random.below(up + 1)).unwrap_or(0);
        let kept_down = usize::try_from(self.random.below(down + 1)).unwrap_or(0);
        transport.up.truncate(kept_up);
        transport.down.truncate(kept_down);
        let server_delay = if self.random.chance(30) { self.random.between(50, 8_000) } else { 0 };
        let client_delay = if self.random.chance(30) { self.random.between(5, 3_000) } else { 0 };
        transport.up.push(Up::Cut, now, server_delay);
        transport.down.push(Down::Closed(None), now, client_delay);
        // From here on nothing that the client says is heard.
        let ghost = Ghost { peer: transport.peer, up: std::mem::replace(&mut transport.up, Line::new()) };
        transport.severed = true;
        self.ghosts.push(ghost);
        self.cuts += 1;
        self.note(format_args!(
            "client {index} is cut: {kept_up} of {up} and {kept_down} of {down} arrive, \
             noticed after {server_delay} and {client_delay} ms"
        ));
    }

    fn cut_raw(&mut self) {
        let index = self.random.index(self.raws.len());
        let Some(raw) = self.raws.get_mut(index) else { return };
        if let Some(transport) = raw.transport.take() {
            self.world.enqueue_cut(transport.peer);
            self.cuts += 1;
            self.note(format_args!("raw peer {index} is cut"));
        }
    }

    fn some_peer(&mut self) -> Option<PeerId> {
        let clients = self.clients.iter().filter_map(|client| client.transport.as_ref());
        let raws = self.raws.iter().filter_map(|raw| raw.transport.as_ref());
        let peers: Vec<PeerId> = clients.chain(raws).map(|transport| transport.peer).collect();
        self.random.pick(&peers).copied()
    }

    fn stall(&mut self) {
        if let Some(peer) = self.some_peer() {
            self.world.stall(peer);
            self.stalled.insert(peer);
            self.note(format_args!("{peer:?} stops reading"));
        }
    }

    fn unstall(&mut self) {
        let Some(peer) = self.stalled.iter().next().copied() else { return };
        if self.random.chance(40) {
            let bytes = self.random.below(40_000);
            self.world.read_some(peer, usize::try_from(bytes).unwrap_or(0));
            return self.note(format_args!("{peer:?} reads {bytes} bytes"));
        }
        self.stalled.remove(&peer);
        self.world.unstall(peer);
        self.note(format_args!("{peer:?} reads again"));
    }

    fn crash(&mut self) {
        if !self.world.is_down() {
            self.world.crash();
            self.note(format_args!("the server crashes"));
        }
    }

    fn trap(&mut self) {
        let point = if self.random.chance(50) { CrashPoint::BeforeAppend } else { CrashPoint::AfterAppend };
        let events = [
            None,
            Some("turn_accepted"),
            Some("turn_output"),
            Some("turn_ended"),
            Some("attachment_opened"),
            Some("call_ended"),
        ];
        let event = self.random.pick(&events).copied().flatten();
        self.world.crash_at(point, event);
        self.note(format_args!("the server is about to crash {point:?} of {event:?}"));
    }

    /// Another process changes a session of the first principal, which it shares, or not.
    fn write_behind(&mut self) {
        let [owner, guest, ..] = self.principals.as_slice() else { return };
        let (owner, guest) = (owner.clone(), guest.clone());
        let session = SessionId::named(&owner, "s0");
        let roles = [Some(Role::Contributor), Some(Role::Contributor), Some(Role::Observer), None];
        let role = self.random.pick(&roles).copied().flatten();
        let op = Op::Admit { principal: guest.id.clone(), role };
        let actor = Actor::client(owner.id);
        let done = self.world.write_behind(&session, &actor, &op).is_ok();
        self.note(format_args!("{:?} becomes {role:?} behind the back of the server: {done}", guest.id));
    }

    fn jump(&mut self) {
        let choices = [1_000, 30_000, 61_000, 400_000, 1_000_000];
        let millis = self.random.pick(&choices).copied().unwrap_or(1_000);
        self.world.jump(Duration::from_millis(millis));
        self.note(format_args!("the clock jumps by {millis} ms"));
    }

    fn evict(&mut self) {
        let reasons = [CloseReason::TooSlow, CloseReason::Restart, CloseReason::Internal];
        if let (Some(peer), Some(reason)) = (self.some_peer(), self.random.pick(&reasons).copied()) {
            self.world.evict(peer, reason);
            self.note(format_args!("{peer:?} is evicted: {reason:?}"));
        }
    }

    /// Everything works again, and everybody reads.
    pub(super) fn heal(&mut self) {
        self.world.disarm();
        if self.world.is_down() || self.restart_at.take().is_some() {
            self.world.restart();
        }
        for peer in std::mem::take(&mut self.stalled) {
            self.world.unstall(peer);
        }
        for index in 0..self.clients.len() {
            self.send_mode(index, Mode::Resume);
        }
    }
}
