//! Whoever speaks something else than ASP: a real client half, its transport, and a user who watches.

use std::fmt;

use bytes::Bytes;
use switchboard_core::{
    ClientInput, ClientOutput, Frame, OpeningRequest, Principal, Protocol, SessionId, Timestamp,
};

use super::client::{Down, Ghost, Transport, Up, latency, later};
use super::ledger::{Ledger, has_content};
use super::random::Random;
use super::{Fault, Invariant, Simulation, Tongue, Trace};
use crate::world::{World, opening};

/// Somebody at the other end, speaking one protocol.
pub(super) trait Speaker: fmt::Debug {
    /// What it speaks.
    fn tongue(&self) -> Tongue;

    /// How it opens a connection.
    fn request(&self) -> OpeningRequest;

    /// It is about to open a connection.
    fn prepare(&mut self, _world: &mut World) {}

    /// A session that it takes part in, for others to come to.
    fn place(&self) -> Option<SessionId> {
        None
    }

    /// Its user does something; `tag` names what may come of it.
    fn act(&mut self, tag: &str, around: &mut Around<'_>);

    /// Something happens to it.
    fn hear(&mut self, heard: Heard, around: &mut Around<'_>) -> Result<(), Fault>;

    /// What it does next; drained until it has nothing to do.
    fn poll(&mut self, around: &mut Around<'_>) -> Result<Said, Fault>;

    /// Nothing goes wrong any more: it wants to be connected, and to see everything end.
    fn come_back(&mut self, around: &mut Around<'_>);

    /// Whether it waits for nothing.
    fn is_idle(&self, ledger: &Ledger) -> bool;

    /// Whether everything that it has asked for has ended.
    fn check_rest(&self, ledger: &Ledger) -> Result<(), Fault>;
}

/// What a speaker knows of the world.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) now: Timestamp,
    pub(super) ledger: &'a Ledger,
    pub(super) random: &'a mut Random,
    pub(super) resumed: &'a mut u64,
    /// Sessions of the same principal, in which others are.
    pub(super) places: Vec<SessionId>,
    trace: &'a mut Trace,
    index: usize,
}

impl Around<'_> {
    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now, format_args!("guest {} {what}", self.index));
    }

    /// A moment from now.
    pub(super) fn soon(&mut self, least_ms: u64, most_ms: u64) -> Timestamp {
        later(self.now, self.random.between(least_ms, most_ms))
    }
}

/// What happens to a speaker.
#[derive(Debug)]
pub(super) enum Heard {
    Opened,
    Frame(Frame),
    /// The transport is gone, or there was none.
    Closed(Option<u16>),
    Timeout,
}

impl Heard {
    /// What it is to a client half.
    pub(super) fn input(self) -> ClientInput {
        match self {
            Self::Opened => ClientInput::Opened,
            Self::Frame(Frame::Text(text)) => ClientInput::Text(text),
            Self::Frame(Frame::Binary(bytes)) => ClientInput::Binary(bytes),
            Self::Frame(_) => ClientInput::Alive,
            Self::Closed(code) => ClientInput::Closed(code),
            Self::Timeout => ClientInput::Timeout,
        }
    }
}

/// What a speaker does.
#[derive(Debug)]
pub(super) enum Said {
    Dial,
    Send(Frame),
    Close(u16),
    Idle { wake: Option<Timestamp> },
}

impl Said {
    /// What a client half does, unless it tells its user something.
    pub(super) fn of<E>(output: ClientOutput<E>) -> Result<Self, E> {
        Ok(match output {
            ClientOutput::Dial => Self::Dial,
            ClientOutput::Text(text) => Self::Send(Frame::Text(text)),
            ClientOutput::Binary(bytes) => Self::Send(Frame::Binary(bytes)),
            ClientOutput::Ping => Self::Send(Frame::Ping(Bytes::new())),
            ClientOutput::Close(code) => Self::Close(code),
            ClientOutput::Event(event) => return Err(event),
            ClientOutput::Idle { wake } => Self::Idle { wake },
        })
    }
}

/// One speaker, and what lies between it and the server.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) principal: Principal,
    pub(super) speaker: Box<dyn Speaker>,
    pub(super) transport: Option<Transport<()>>,
    dial_at: Option<Timestamp>,
    wake: Option<Timestamp>,
}

impl Guest {
    pub(super) fn new(principal: Principal, speaker: Box<dyn Speaker>) -> Self {
        Self { principal, speaker, transport: None, dial_at: None, wake: None }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let transport = self.transport.as_ref().and_then(Transport::next_due);
        transport.into_iter().chain(self.wake).chain(self.dial_at).min()
    }
}

impl Simulation {
    /// Lets the user of a guest do something.
    pub(super) fn act_guest(&mut self, index: usize) {
        let tag = self.fresh_tag(super::ledger::ONCE);
        let principal = self.guests.get(index).map(|guest| guest.principal.clone());
        let places = principal.map(|principal| self.places_of(&principal)).unwrap_or_default();
        self.with_guest(index, |speaker, around| {
            around.places = places;
            speaker.act(&tag, around);
        });
    }

    /// Where guests of a principal are.
    pub(super) fn places_of(&self, principal: &Principal) -> Vec<SessionId> {
        let own = self.guests.iter().filter(|guest| guest.principal == *principal);
        own.filter_map(|guest| guest.speaker.place()).collect()
    }

    /// Nothing goes wrong any more.
    pub(super) fn bring_back_guests(&mut self) {
        for index in 0..self.guests.len() {
            self.with_guest(index, |speaker, around| speaker.come_back(around));
        }
    }

    fn with_guest<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut dyn Speaker, &mut Around<'_>) -> T,
    ) -> Option<T> {
        let guest = self.guests.get_mut(index)?;
        let mut around = Around {
            now: self.world.now(),
            ledger: &self.ledger,
            random: &mut self.random,
            resumed: &mut self.resumed,
            places: Vec::new(),
            trace: &mut self.trace,
            index,
        };
        Some(act(&mut *guest.speaker, &mut around))
    }

    fn tell_guest(&mut self, index: usize, heard: Heard) -> Result<(), Fault> {
        let told = self.with_guest(index, |speaker, around| speaker.hear(heard, around));
        told.unwrap_or(Ok(())).map_err(|fault| fault.within(format!("guest {index}")))
    }

    /// Carries out everything that a guest wants done.
    pub(super) fn drain_guest(&mut self, index: usize) -> Result<(), Fault> {
        loop {
            let said = self.with_guest(index, |speaker, around| speaker.poll(around));
            let Some(said) = said else { return Ok(()) };
            let said = said.map_err(|fault| fault.within(format!("guest {index}")))?;
            let now = self.world.now();
            let Some(guest) = self.guests.get_mut(index) else { return Ok(()) };
            match said {
                Said::Dial => guest.dial_at = Some(later(now, latency(&mut self.random))),
                Said::Send(frame) => {
                    if let Some(transport) = &mut guest.transport {
                        transport.up.push(Up::Frame(frame), now, latency(&mut self.random));
                    }
                }
                Said::Close(code) => {
                    guest.dial_at = None;
                    if let Some(Transport { peer, mut up, severed: false, .. }) = guest.transport.take() {
                        up.push(Up::Close(code), now, latency(&mut self.random));
                        self.ghosts.push(Ghost { peer, up });
                    }
                }
                Said::Idle { wake } => {
                    guest.wake = wake;
                    return Ok(());
                }
            }
        }
    }

    /// Does the next thing that is due for a guest; false if nothing is.
    pub(super) fn serve_guest(&mut self, index: usize) -> Result<bool, Fault> {
        let now = self.world.now();
        let Some(guest) = self.guests.get_mut(index) else { return Ok(false) };
        if guest.dial_at.is_some_and(|at| at <= now) {
            guest.dial_at = None;
            self.dial_guest(index)?;
            return Ok(true);
        }
        let arrived = guest.transport.as_mut().and_then(|transport| transport.down.pop(now));
        let heard = match arrived {
            Some(Down::Frame(frame)) => {
                if let (Frame::Ping(_), Some(transport)) = (&frame, &mut guest.transport) {
                    // A WebSocket library answers pings by itself.
                    let pong = Up::Frame(Frame::Pong(Bytes::new()));
                    transport.up.push(pong, now, latency(&mut self.random));
                }
                self.frames += 1;
                Heard::Frame(frame)
            }
            Some(Down::Closed(code)) => {
                guest.transport = None;
                Heard::Closed(code)
            }
            None if guest.wake.is_some_and(|wake| wake <= now) => {
                guest.wake = None;
                Heard::Timeout
            }
            None => return Ok(false),
        };
        if let Heard::Frame(Frame::Text(text)) = &heard {
            self.ledger.check_words(&guest.principal.id, text.as_bytes())?;
        } else if let Heard::Frame(Frame::Binary(bytes)) = &heard {
            self.ledger.check_words(&guest.principal.id, bytes)?;
        }
        self.tell_guest(index, heard)?;
        Ok(true)
    }

    fn dial_guest(&mut self, index: usize) -> Result<(), Fault> {
        let now = self.world.now();
        let Some(guest) = self.guests.get_mut(index) else { return Ok(()) };
        guest.speaker.prepare(&mut self.world);
        let (tongue, request) = (guest.speaker.tongue(), guest.speaker.request());
        let Some(protocol) = self.protocols.get(&tongue) else { return Ok(()) };
        let protocol: &dyn Protocol = protocol;
        let heard = match self.world.try_enter(protocol, guest.principal.clone(), request, opening()) {
            Ok(peer) => {
                guest.transport = Some(Transport::bare(peer));
                self.trace.note(now, format_args!("guest {index} connects as {peer:?}, in {tongue:?}"));
                Heard::Opened
            }
            Err(refusal) => {
                let logged = format!("{refusal:?}");
                self.trace.note(now, format_args!("guest {index} is refused: {logged}"));
                if has_content(&logged) {
                    return Err(Fault::new(Invariant::Quiet, format!("{logged} would be logged")));
                }
                Heard::Closed(None)
            }
        };
        self.tell_guest(index, heard)
    }
}
