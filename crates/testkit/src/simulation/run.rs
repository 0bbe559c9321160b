//! One step after another, and a look around after each.

use std::time::Duration;

use switchboard_core::{Frame, Session, Timestamp};

use super::client::{Up, later};
use super::guest::Guest;
use super::tap::weight;
use super::{Fault, Invariant, Simulation, SimulationOptions, Tongue};
use crate::world::Received;

impl Simulation {
    pub(super) fn run(&mut self, options: &SimulationOptions) -> Result<(), Fault> {
        for step in 0..options.steps {
            self.steps = step + 1;
            match self.random.below(10) {
                0..6 => self.act(),
                6..8 if self.raws.is_empty() => self.act(),
                6..8 => {
                    let index = self.random.index(self.raws.len());
                    self.poke_raw(index);
                }
                8 => self.fail(),
                _ => {}
            }
            let (budget, patience) = (self.random.between(12, 240), self.random.below(400));
            self.pump(budget, later(self.world.now(), patience))?;
            self.look()?;
        }
        self.come_to_rest()
    }

    /// Nothing goes wrong any more: everything has to end.
    fn come_to_rest(&mut self) -> Result<(), Fault> {
        self.note(format_args!("everything works again"));
        self.heal();
        let give_up = later(self.world.now(), REST_MS);
        let mut rounds = 0;
        while self.world.now() < give_up {
            self.pump(1_200, give_up)?;
            rounds += 1;
            if rounds > MOST_ROUNDS {
                let detail = format!("still busy at {:?}", self.world.now());
                return Err(Fault::new(Invariant::Rest, detail));
            }
            let idle = self.clients.iter().all(super::client::Client::is_idle)
                && self.guests.iter().all(|guest| guest.speaker.is_idle(&self.ledger));
            if idle && self.ledger.turns().all(|(_, turn)| turn.end.is_some()) {
                break;
            }
        }
        self.pump(6_000, later(self.world.now(), 500))?;
        self.look()?;
        self.ledger.check_rest()?;
        for (index, client) in self.clients.iter().enumerate() {
            let due = client.views.iter().find(|(_, view)| view.is_over(&self.ledger));
            if let Some((id, view)) = due.or_else(|| client.views.first_key_value()) {
                let (link, state) = (client.asp.link(), client.asp.request(*id));
                let detail =
                    format!("client {index} request {id} never ends ({link:?}, {state:?}): {view:?}");
                let invariant = if due.is_some() { Invariant::OneTerminal } else { Invariant::Rest };
                return Err(Fault::new(invariant, detail));
            }
        }
        for (index, raw) in self.raws.iter().enumerate() {
            let open = raw.transport.as_ref().map(|transport| transport.wire.open());
            // A frame that was damaged may have paused everything for good.
            if let Some(open) = open.filter(|open| open.len() > usize::from(u8::MAX)) {
                return Err(Fault::new(Invariant::Rest, format!("raw peer {index}: {open:?} never end")));
            }
        }
        for (index, guest) in self.guests.iter().enumerate() {
            let rest = guest.speaker.check_rest(&self.ledger);
            rest.map_err(|fault| fault.within(format!("guest {index}")))?;
        }
        self.replay()
    }

    /// Reads every session from its log, and from a snapshot.
    fn replay(&self) -> Result<(), Fault> {
        for id in self.world.session_ids() {
            let Some(mirror) = self.ledger.mirror(&id) else { continue };
            let mut read = Session::new(id.clone(), self.limits.clone());
            self.world.log(&id).iter().for_each(|committed| read.apply(committed));
            let snapshot =
                serde_json::to_string(mirror).and_then(|text| serde_json::from_str::<Session>(&text));
            let same = snapshot.is_ok_and(|snapshot| snapshot.with_limits(self.limits.clone()) == *mirror);
            if read != *mirror || !same {
                return Err(Fault::new(Invariant::Replay, format!("session {id} is read as another one")));
            }
        }
        Ok(())
    }

    /// Lets up to `budget` small things happen, none of them after `until`.
    fn pump(&mut self, budget: u64, until: Timestamp) -> Result<(), Fault> {
        for _ in 0..budget {
            for index in 0..self.clients.len() {
                self.drain_client(index)?;
            }
            for index in 0..self.guests.len() {
                self.drain_guest(index)?;
            }
            if self.happen()? {
                continue;
            }
            match self.next_due() {
                Some(at) if at <= until => {
                    let pause = at.since(self.world.now());
                    self.world.jump(pause);
                }
                _ => {
                    self.world.jump(until.since(self.world.now()));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Lets one thing happen that can happen now; false if there is none.
    fn happen(&mut self) -> Result<bool, Fault> {
        let now = self.world.now();
        if self.world.is_down() && self.restart_at.is_none() {
            self.crashes += 1;
            self.restart_at = Some(later(now, self.random.below(2_000)));
            self.collect()?;
            return Ok(true);
        }
        if self.restart_at.is_some_and(|at| at <= now) {
            self.restart();
            self.note(format_args!("the server starts"));
            self.collect()?;
            return Ok(true);
        }
        // Nobody is always first.
        let inside = self.random.chance(50);
        if inside && self.world.step() {
            self.collect()?;
            return Ok(true);
        }
        if self.carry(now) {
            return Ok(true);
        }
        let (clients, guests, raws) = (self.clients.len(), self.guests.len(), self.raws.len());
        let first = self.random.index(clients + guests);
        for offset in 0..clients + guests {
            let index = (first + offset) % (clients + guests);
            let served = match index.checked_sub(clients) {
                Some(guest) => self.serve_guest(guest)?,
                None => self.serve_client(index)?,
            };
            if served {
                return Ok(true);
            }
        }
        for index in 0..raws {
            if self.serve_raw(index)? {
                return Ok(true);
            }
        }
        if !inside && self.world.step() {
            self.collect()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Hands over the next thing that has arrived at the server.
    fn carry(&mut self, now: Timestamp) -> bool {
        let clients = self.clients.iter_mut().filter_map(|client| client.transport.as_mut());
        let raws = self.raws.iter_mut().filter_map(|raw| raw.transport.as_mut());
        let lines = clients.chain(raws).filter(|transport| !transport.severed);
        let lines = lines.map(|transport| (transport.peer, &mut transport.up));
        let guests = self.guests.iter_mut().filter_map(|guest| guest.transport.as_mut());
        let guests = guests.filter(|transport| !transport.severed);
        let lines = lines.chain(guests.map(|transport| (transport.peer, &mut transport.up)));
        let ghosts = self.ghosts.iter_mut().map(|ghost| (ghost.peer, &mut ghost.up));
        for (peer, up) in lines.chain(ghosts) {
            match up.pop(now) {
                None => continue,
                Some(Up::Frame(frame)) => self.world.enqueue(peer, frame),
                Some(Up::Close(code)) => self.world.enqueue_close(peer, Some(code)),
                Some(Up::Cut) => self.world.enqueue_cut(peer),
            }
            return true;
        }
        false
    }

    /// When something happens next by itself.
    fn next_due(&self) -> Option<Timestamp> {
        let clients = self.clients.iter().filter_map(super::client::Client::next_due);
        let raws = self.raws.iter().filter_map(|raw| raw.transport.as_ref()?.next_due());
        let ghosts = self.ghosts.iter().filter_map(|ghost| ghost.up.next_due());
        let clients = clients.chain(self.guests.iter().filter_map(Guest::next_due));
        let world = self.world.next_wake();
        let due = clients.chain(raws).chain(ghosts).chain(world).chain(self.restart_at).min();
        due.map(|at| at.max(self.world.now().after(Duration::from_micros(1))))
    }

    /// Sees what came of a step: new events, and frames for the clients.
    fn collect(&mut self) -> Result<(), Fault> {
        self.feed()?;
        if let Some(fault) = self.tap.fault() {
            return Err(fault);
        }
        let now = self.world.now();
        for (index, client) in self.clients.iter_mut().enumerate() {
            let Some(transport) = client.transport.as_mut().filter(|transport| !transport.severed) else {
                continue;
            };
            let received = self.world.take(transport.peer);
            if !received.is_empty() {
                let owned = Some(&client.principal) == self.principals.first();
                let received = self.tamper.received(received, index, Tongue::Asp, owned);
                digest(&mut self.trace, &received);
                transport.take_in(received, now, &mut self.random);
            }
        }
        for (index, guest) in self.guests.iter_mut().enumerate() {
            let Some(transport) = guest.transport.as_mut().filter(|transport| !transport.severed) else {
                continue;
            };
            let received = self.world.take(transport.peer);
            if !received.is_empty() {
                let (place, tongue) = (self.clients.len() + index, guest.speaker.tongue());
                let owned = Some(&guest.principal) == self.principals.first();
                let received = self.tamper.received(received, place, tongue, owned);
                digest(&mut self.trace, &received);
                transport.take_in(received, now, &mut self.random);
            }
        }
        for transport in self.raws.iter_mut().filter_map(|raw| raw.transport.as_mut()) {
            let received = self.world.take(transport.peer);
            digest(&mut self.trace, &received);
            transport.take_in(received, now, &mut self.random);
        }
        let mut gone = Vec::new();
        for ghost in &self.ghosts {
            self.world.take(ghost.peer);
            if !self.world.is_open(ghost.peer) {
                gone.push(ghost.peer);
            }
        }
        self.ghosts.retain(|ghost| !gone.contains(&ghost.peer));
        gone.into_iter().for_each(|peer| self.world.forget(peer));
        Ok(())
    }

    /// Shows the checker what was committed.
    fn feed(&mut self) -> Result<(), Fault> {
        while let Some((session, committed)) = self.world.history().get(self.fed).cloned() {
            self.fed += 1;
            self.trace.mix(committed.event.name().as_bytes());
            self.trace.mix(&committed.position.seq.to_be_bytes());
            let skipped = self.tamper.skips_apply(&committed.event);
            for copy in self.tamper.event(&session, committed.clone()) {
                self.ledger.take(&session, &copy)?;
            }
            if !skipped {
                self.ledger.mirror_event(&session, &committed);
            }
        }
        Ok(())
    }

    /// Holds the live state against the log, and everything against its bounds.
    fn look(&mut self) -> Result<(), Fault> {
        self.feed()?;
        for id in self.world.session_ids() {
            let (Some(live), Some(mirror)) = (self.world.session(&id), self.ledger.mirror(&id)) else {
                continue;
            };
            let (head, logged) = (live.head(), mirror.head());
            // Another process may have written what this one has not noticed yet.
            if head.seq > logged.seq || (head == logged && live != mirror) {
                let detail = format!("session {id} at {head:?} is not what its log says at {logged:?}");
                return Err(Fault::new(Invariant::Replay, detail));
            }
            if self.steps.is_multiple_of(16) && weight(live) > MAX_SESSION {
                let detail = format!("session {id} has grown to {} bytes", weight(live));
                return Err(Fault::new(Invariant::Bounds, detail));
            }
        }
        let waiting = self.world.waiting();
        if waiting > MAX_WAITING {
            return Err(Fault::new(Invariant::Bounds, format!("{waiting} letters wait in one queue")));
        }
        let clients = self.clients.iter().filter_map(|client| client.transport.as_ref());
        let raws = self.raws.iter().filter_map(|raw| raw.transport.as_ref());
        let guests = self.guests.iter().filter_map(|guest| guest.transport.as_ref());
        let peers = clients.chain(raws).map(|transport| transport.peer);
        for peer in peers.chain(guests.map(|transport| transport.peer)) {
            let backlog = self.world.backlog(peer);
            if backlog > MAX_BACKLOG {
                let detail = format!("{backlog} bytes wait for {peer:?}");
                return Err(Fault::new(Invariant::Bounds, detail));
            }
        }
        Ok(())
    }
}

fn digest(trace: &mut super::Trace, received: &[Received]) {
    for received in received {
        let bytes = match received {
            Received::Frame(Frame::Binary(bytes)) => &bytes[..],
            Received::Frame(Frame::Text(text)) => text.as_bytes(),
            _ => continue,
        };
        trace.mix(&bytes.len().to_be_bytes());
        trace.mix(bytes.get(..bytes.len().min(24)).unwrap_or_default());
    }
}

/// Longer than any deadline, and than a transport takes to be given up.
/// Whoever is not idle after so much is busy with nothing.
const MOST_ROUNDS: u32 = 1_000;
const REST_MS: u64 = 400_000;
/// What may wait on one transport: as much as a connection releases at once, and one answer.
const MAX_BACKLOG: usize = 512 << 10;
const MAX_SESSION: usize = 1 << 20;
/// What may wait in front of a session while the log refuses, or of a connection.
const MAX_WAITING: usize = 2_000;
