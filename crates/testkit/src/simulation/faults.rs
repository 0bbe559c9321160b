//! What goes wrong: transports, readers, clocks, disks and whole servers.

use std::time::Duration;

use switchboard_asp::message::Mode;
use switchboard_core::{Actor, CloseReason, Op, Role, SessionId, Timestamp};

use super::client::{Down, Ghost, Transport, Up, later};
use super::line::Line;
use super::random::Random;
use super::{Simulation, shared_name};
use crate::world::{CrashPoint, PeerId};

impl Simulation {
    /// Lets something go wrong.
    pub(super) fn fail(&mut self) {
        match self.random.below(40) {
            0..9 => self.cut(Notice::Soon),
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
            28 | 29 => self.cut_raw(),
            36 | 37 => {
                let (lost, unheard) = (self.random.below(3), self.random.below(4));
                self.trouble(Trouble { lost, unheard, reads: 0 });
            }
            38 => {
                let reads = self.random.between(1, 3);
                self.trouble(Trouble { lost: 0, unheard: 0, reads });
            }
            39 => {
                if let Some(turn) = self.world.silence_executor() {
                    self.note(format_args!("the executor of {turn} gives no sign of life"));
                }
            }
            30 => {
                let count = u32::try_from(self.random.between(20, 80)).unwrap_or(20);
                self.world.fail_appends(count);
                self.note(format_args!("the log is full, for {count} batches"));
            }
            31..33 => {
                let millis =
                    if self.random.chance(50) { self.random.below(4) } else { self.random.below(600) };
                self.world.take_time(millis);
                self.note(format_args!("the log takes {millis} ms for each batch"));
            }
            _ => self.cut(Notice::Late),
        }
    }

    /// A transport breaks: some of what is on its way still arrives, at either end, and either end
    /// may notice late.
    fn cut(&mut self, notice: Notice) {
        let index = self.random.index(self.clients.len() + self.guests.len());
        let now = self.world.now();
        let ghost = match index.checked_sub(self.clients.len()) {
            Some(place) => {
                let transport = self.guests.get_mut(place).and_then(|guest| guest.transport.as_mut());
                transport.and_then(|transport| sever(transport, notice, now, &mut self.random))
            }
            None => {
                let transport = self.clients.get_mut(index).and_then(|client| client.transport.as_mut());
                transport.and_then(|transport| sever(transport, notice, now, &mut self.random))
            }
        };
        let Some((ghost, what)) = ghost else { return };
        self.ghosts.push(ghost);
        self.cuts += 1;
        self.note(format_args!("client {index} is cut: {what}"));
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
        let guests = self.guests.iter().filter_map(|guest| guest.transport.as_ref());
        let guests = guests.map(|transport| transport.peer);
        let peers: Vec<PeerId> = clients.chain(raws).map(|transport| transport.peer).chain(guests).collect();
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

    /// Appends fail without anybody knowing whether they are done, or reads fail.
    fn trouble(&mut self, trouble: Trouble) {
        let Trouble { lost, unheard, reads } = trouble;
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        self.world.trouble(0, count(lost), count(unheard), count(reads));
        self.note(format_args!(
            "nobody can tell of {lost} appends that are not done, nor of {unheard} that are; {reads} reads fail"
        ));
    }

    /// Another process changes a session of the first principal, which it shares, or not.
    fn write_behind(&mut self) {
        let [owner, guest, ..] = self.principals.as_slice() else { return };
        let (owner, guest) = (owner.clone(), guest.clone());
        let session = SessionId::named(&owner, &shared_name(0));
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
        if self.world.is_down() || self.restart_at.is_some() {
            self.restart();
        }
        for peer in std::mem::take(&mut self.stalled) {
            self.world.unstall(peer);
        }
        for index in 0..self.clients.len() {
            self.send_mode(index, Mode::Resume);
        }
        self.bring_back_guests();
    }
}

/// How often something goes wrong with the log.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Appends that are not done, and nobody can tell.
    lost: u64,
    /// Appends that are done, and nobody can tell.
    unheard: u64,
    /// Reads that fail.
    reads: u64,
}

/// When the ends of a transport notice that it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notice {
    /// At once, or after a while.
    Soon,
    /// Not before everybody has lost patience: it is half open.
    Late,
}

/// Breaks a transport, unless it is broken: what still arrives at the server, and in words what happens.
fn sever<W>(
    transport: &mut Transport<W>,
    notice: Notice,
    now: Timestamp,
    random: &mut Random,
) -> Option<(Ghost, String)> {
    if transport.severed {
        return None;
    }
    let (up, down) = (transport.up.len() as u64, transport.down.len() as u64);
    let kept_up = usize::try_from(random.below(up + 1)).unwrap_or(0);
    let kept_down = usize::try_from(random.below(down + 1)).unwrap_or(0);
    transport.up.truncate(kept_up);
    transport.down.truncate(kept_down);
    let (server_delay, client_delay) = match notice {
        Notice::Soon => (
            if random.chance(30) { random.between(50, 8_000) } else { 0 },
            if random.chance(30) { random.between(5, 3_000) } else { 0 },
        ),
        Notice::Late => (random.between(60_000, 120_000), random.between(60_000, 120_000)),
    };
    transport.up.push(Up::Cut, now, server_delay);
    transport.down.push(Down::Closed(None), now, client_delay);
    // From here on nothing that the client says is heard.
    let ghost = Ghost { peer: transport.peer, up: std::mem::replace(&mut transport.up, Line::new()) };
    transport.severed = true;
    let what = format!(
        "{kept_up} of {up} and {kept_down} of {down} arrive, \
         noticed after {server_delay} and {client_delay} ms"
    );
    Some((ghost, what))
}
