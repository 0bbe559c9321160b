//! One connection and its transport, driven as `server/src/driver.rs` does it.

use std::collections::VecDeque;

use switchboard_core::{
    Actor, Callsign, Close, CloseReason, Connection, Frame, Head, Input, Output, Principal, Reject, Reply,
    RequestId, Role, SessionId, SessionView, Signal, Timestamp, Violation,
};

use super::session::{AttachRequest, Letter};
use super::{PeerId, World};

/// One connection of the world, with the client's end of its transport.
#[derive(Debug)]
pub(super) struct Peer {
    connection: Box<dyn Connection>,
    pub(super) principal: Principal,
    /// The name under which it is enrolled.
    pub(super) callsign: Option<Callsign>,
    /// As what it is enrolled.
    pub(super) role: Option<Role>,
    followed: Vec<Followed>,
    inbox: VecDeque<Delivery>,
    /// What the client has sent and the server not read yet.
    inbound: VecDeque<Inbound>,
    /// Requests that wait for their answer; too many stop the reading.
    pub(super) outstanding: usize,
    pub(super) wake: Option<Timestamp>,
    outbox: VecDeque<Frame>,
    outbox_bytes: usize,
    reported_backlog: usize,
    /// Much has waited since the last report: the connection may be waiting to release more.
    crowded: bool,
    /// The client does not read.
    pub(super) stalled: bool,
    received: VecDeque<Received>,
    closing: Option<Close>,
    pub(super) over: bool,
    max_message: usize,
}

#[derive(Debug)]
struct Followed {
    session: SessionId,
    position: u64,
}

/// Something for one connection from inside the server.
#[derive(Debug)]
pub(super) enum Delivery {
    Done(RequestId, Reply),
    Rejected(RequestId, Reject),
    Attached(RequestId, SessionId, u64, Box<SessionView>),
    Signal(Signal),
    Drain { retry_ms: u64 },
    Close(CloseReason),
}

/// Something for one connection from its client.
#[derive(Debug)]
pub(super) enum Inbound {
    Frame(Frame),
    Closed(CloseReason),
}

/// What a client sees of its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// One whole transport message.
    Frame(Frame),
    /// The server closed the transport in an orderly way. Always the last.
    Close(Close),
    /// The transport broke. Always the last.
    Lost,
}

impl Peer {
    pub(super) fn new(connection: Box<dyn Connection>, principal: Principal, max_message: usize) -> Self {
        Self {
            connection,
            principal,
            callsign: None,
            role: None,
            followed: Vec::new(),
            inbox: VecDeque::new(),
            inbound: VecDeque::new(),
            outstanding: 0,
            wake: None,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            reported_backlog: 0,
            crowded: false,
            stalled: false,
            received: VecDeque::new(),
            closing: None,
            over: false,
            max_message,
        }
    }

    /// As whom it asks.
    pub(super) fn actor(&self) -> Actor {
        Actor::client(self.principal.id.clone())
            .allowed(self.principal.scopes.clone())
            .registered(self.callsign.clone().zip(self.role))
    }

    pub(super) fn take_received(&mut self) -> Vec<Received> {
        self.received.drain(..).collect()
    }

    pub(super) const fn backlog(&self) -> usize {
        self.outbox_bytes
    }

    /// How much waits for it inside of the server.
    pub(super) fn waiting(&self) -> usize {
        self.inbox.len()
    }

    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.followed.iter().map(|followed| followed.session.clone()).collect()
    }

    /// The transport takes up to `bytes` of what waits.
    fn transmit(&mut self, bytes: usize) {
        let mut left = bytes;
        while let Some(frame) = self.outbox.front() {
            let size = size(frame);
            if size > left {
                break;
            }
            left -= size;
            self.outbox_bytes -= size;
            self.received.extend(self.outbox.pop_front().map(Received::Frame));
        }
        if self.over && self.outbox.is_empty() {
            self.received.extend(self.closing.take().map(Received::Close));
        }
    }

    /// The transport is gone at once; what waited on it is lost.
    pub(super) fn lose(&mut self) {
        self.over = true;
        self.closing = None;
        self.outbox.clear();
        self.outbox_bytes = 0;
        self.inbound.clear();
        self.inbox.clear();
        self.wake = None;
        self.callsign = None;
        self.received.push_back(Received::Lost);
    }

    fn reads(&self) -> bool {
        self.outstanding < MAX_OUTSTANDING && self.connection.wants_frames()
    }

    fn pressure(&self) -> bool {
        let backlog = self.outbox_bytes;
        let grown = backlog >= HIGH_WATER && backlog >= self.reported_backlog + HIGH_WATER;
        let fallen = (self.reported_backlog > 0 || self.crowded) && backlog <= LOW_WATER;
        grown || fallen
    }
}

impl World {
    /// Whether a connection has something to do now.
    pub(super) fn peer_is_ready(&self, id: PeerId) -> bool {
        let Some(peer) = self.peers.get(&id).filter(|peer| !peer.over) else { return false };
        !peer.inbox.is_empty()
            || (!peer.inbound.is_empty() && peer.reads())
            || peer.wake.is_some_and(|at| at <= self.now)
            || peer.pressure()
            || self.next_event_for(peer).is_some()
    }

    /// One round of the driver: everything that has arrived inside, then one message of the client.
    pub(super) fn run_peer(&mut self, id: PeerId) {
        self.absorb(id);
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.over) else { return };
        if peer.pressure() {
            let backlog = peer.outbox_bytes;
            peer.reported_backlog = backlog;
            peer.crowded = false;
            if backlog > MAX_BACKLOG {
                return self.input(id, Input::Closed(CloseReason::TooSlow));
            }
            return self.input(id, Input::Backlog(backlog));
        }
        if peer.reads()
            && let Some(inbound) = peer.inbound.pop_front()
        {
            return match inbound {
                Inbound::Frame(frame) if size(&frame) - HEADER > peer.max_message => {
                    self.input(id, Input::Closed(CloseReason::TooBig));
                }
                Inbound::Frame(frame) => self.input(id, Input::Frame(frame)),
                Inbound::Closed(reason) => self.hang_up(id, reason),
            };
        }
        if peer.wake.is_some_and(|at| at <= self.now) {
            self.schedule.count_timeout(self.now);
            self.input(id, Input::Timeout);
        }
    }

    /// Takes in answers first, and events of the followed sessions after them.
    fn absorb(&mut self, id: PeerId) {
        loop {
            let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.over) else { return };
            if let Some(delivery) = peer.inbox.pop_front() {
                self.take_delivery(id, delivery);
                continue;
            }
            let Some((index, event)) = self.peers.get(&id).and_then(|peer| self.next_event_for(peer)) else {
                return;
            };
            let Some(followed) = self.peers.get_mut(&id).and_then(|peer| peer.followed.get_mut(index)) else {
                return;
            };
            assert_eq!(event.position.seq, followed.position + 1, "events arrive in order, without gaps");
            followed.position = event.position.seq;
            let session = followed.session.clone();
            self.input(id, Input::Committed(&session, &event));
        }
    }

    fn next_event_for(&self, peer: &Peer) -> Option<(usize, std::sync::Arc<switchboard_core::Committed>)> {
        if !peer.connection.wants_events() {
            return None;
        }
        peer.followed.iter().enumerate().find_map(|(index, followed)| {
            let visible = self.sessions.get(&followed.session)?.visible;
            if followed.position >= visible {
                return None;
            }
            Some((index, self.log.after(&followed.session, followed.position)?))
        })
    }

    fn take_delivery(&mut self, id: PeerId, delivery: Delivery) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Delivery::Done(..) | Delivery::Rejected(..) | Delivery::Attached(..) = &delivery {
            peer.outstanding = peer.outstanding.saturating_sub(1);
        }
        match delivery {
            Delivery::Done(request, reply) => {
                if let Reply::Authenticated(principal) = &reply {
                    peer.principal = principal.clone();
                }
                self.input(id, Input::Done(request, reply));
            }
            Delivery::Rejected(request, reject) => self.input(id, Input::Rejected(request, reject)),
            Delivery::Attached(request, session, position, view) => {
                peer.followed.retain(|followed| followed.session != session);
                peer.followed.push(Followed { session, position });
                self.input(id, Input::Done(request, Reply::Attached(view)));
            }
            Delivery::Signal(signal) => self.input(id, Input::Signal(signal)),
            Delivery::Drain { retry_ms } => self.input(id, Input::Drain { retry_ms }),
            Delivery::Close(reason) => self.input(id, Input::Closed(reason)),
        }
    }

    /// Feeds one input and carries out everything that it leads to.
    pub(super) fn input(&mut self, id: PeerId, input: Input<'_>) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.over) else { return };
        let violation = peer.connection.handle_input(input, now).err();
        self.drain_connection(id, violation);
    }

    /// Carries out everything that a connection wants done.
    pub(super) fn drain_connection(&mut self, id: PeerId, violation: Option<Violation>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut outputs = Vec::new();
        peer.wake = loop {
            match peer.connection.poll_output() {
                Output::Idle { wake } => break wake,
                output => outputs.push(output),
            }
            assert!(outputs.len() < MAX_OUTPUTS, "a connection never stops to answer one input");
        };
        for output in outputs {
            self.carry_out(id, output);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Some(violation) = violation {
            peer.closing.get_or_insert(violation.0);
        }
        if peer.closing.is_some() {
            peer.over = true;
            peer.wake = None;
            peer.followed.clear();
            peer.inbound.clear();
        }
        let over = peer.over;
        if !peer.stalled {
            peer.transmit(usize::MAX);
        }
        if over {
            self.strike_out(id);
        }
    }

    fn carry_out(&mut self, id: PeerId, output: Output) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match output {
            Output::Send(frame) => {
                peer.outbox_bytes += size(&frame);
                peer.crowded |= peer.outbox_bytes >= HIGH_WATER;
                peer.outbox.push_back(frame);
            }
            Output::Submit(request, session, op) => {
                peer.outstanding += 1;
                self.submit_for(id, request, &session, op);
            }
            Output::SubmitLast(session, op) => {
                peer.outstanding += 1;
                self.submit_for(id, NOBODY, &session, op);
            }
            Output::Attach(request, session, from) => {
                peer.outstanding += 1;
                let attach = AttachRequest { peer: id, actor: peer.actor(), request, from };
                self.mail(&session, Letter::Attach(attach));
            }
            Output::Detach(session) => {
                let seen = peer.followed.iter().find(|followed| followed.session == session);
                let seen = seen.map_or(u64::MAX, |followed| followed.position);
                peer.followed.retain(|followed| followed.session != session);
                let after = peer.callsign.as_ref().and_then(|name| self.roll.part(name, &session, seen));
                if let Some(after) = after {
                    self.deliver(id, Delivery::Signal(Signal::Invited { session, after }));
                }
            }
            Output::Find(request, session, turn) => {
                peer.outstanding += 1;
                let principal = peer.principal.id.clone();
                let found = self.find(&principal, &session, &turn).map(Box::new);
                self.deliver(id, Delivery::Done(request, Reply::Found(found)));
            }
            Output::Look(request, lookup) => {
                peer.outstanding += 1;
                let actor = peer.actor();
                self.deliver(
                    id,
                    match self.look(&actor, &lookup) {
                        Ok(reply) => Delivery::Done(request, reply),
                        Err(reject) => Delivery::Rejected(request, reject),
                    },
                );
            }
            Output::Voice(_) => {}
            Output::Hear(request, _) | Output::Errand(request, _) => {
                peer.outstanding += 1;
                let reason = "nobody listens".to_owned();
                self.deliver(id, Delivery::Rejected(request, Reject::Unserved { reason }));
            }
            Output::Enrol(request, enrolment) => self.enrol_for(id, request, enrolment),
            Output::Roll(request) => self.list_for(id, request),
            Output::Note(request, to, body) => self.note_for(id, request, to, body),
            // The world goes on without a server to stop.
            Output::Stop => {}
            Output::Authenticate(request, credential) => {
                peer.outstanding += 1;
                let own = peer.principal.id.clone();
                let answer = match self.authenticate(Some(&credential.0)) {
                    Ok(principal) if principal.id == own => {
                        Delivery::Done(request, Reply::Authenticated(principal))
                    }
                    Ok(_) | Err(_) => Delivery::Rejected(request, Reject::Unauthenticated),
                };
                self.deliver(id, answer);
            }
            Output::Close(close) => {
                peer.closing.get_or_insert(close);
            }
            Output::Idle { .. } => {}
        }
    }

    /// The client is gone, or says goodbye.
    fn hang_up(&mut self, id: PeerId, reason: CloseReason) {
        let lost = reason == CloseReason::TransportLost;
        if let Some(peer) = self.peers.get_mut(&id) {
            // Nobody is left to hear anything.
            peer.stalled |= lost;
        }
        self.input(id, Input::Closed(reason));
        if lost {
            self.strike_out(id);
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.lose();
            }
        }
    }

    pub(super) fn deliver(&mut self, id: PeerId, delivery: Delivery) {
        if let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.over) {
            peer.inbox.push_back(delivery);
        }
    }

    pub(super) fn push_inbound(&mut self, id: PeerId, inbound: Inbound) {
        if let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.over) {
            peer.inbound.push_back(inbound);
        }
    }

    /// The client reads up to `bytes` of what waits for it.
    pub(super) fn transmit(&mut self, id: PeerId, bytes: usize) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.transmit(bytes);
        }
    }
}

/// The answer of an HTTP exchange, as its client reads it.
pub(super) fn answer(received: Vec<Received>) -> (Head, String) {
    let (mut head, mut body) = (None, Vec::new());
    for received in received {
        match received {
            Received::Frame(Frame::Head(first)) => {
                head.get_or_insert(*first);
            }
            Received::Frame(Frame::Text(text)) => body.extend_from_slice(text.as_bytes()),
            Received::Frame(Frame::Binary(bytes)) => body.extend_from_slice(&bytes),
            Received::Frame(Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_))
            | Received::Close(_)
            | Received::Lost => {}
        }
    }
    let Some(head) = head else { panic!("the exchange is not answered: {body:?}") };
    (head, String::from_utf8_lossy(&body).into_owned())
}

/// What a frame weighs on the transport.
const fn size(frame: &Frame) -> usize {
    HEADER + frame.size()
}

const HEADER: usize = 8;
const MAX_OUTSTANDING: usize = 128;
const HIGH_WATER: usize = 64 << 10;
const LOW_WATER: usize = 16 << 10;
const MAX_BACKLOG: usize = 32 << 20;
const MAX_OUTPUTS: usize = 1_000_000;

/// Whoever asks last does not hear the answer.
const NOBODY: RequestId = RequestId(u64::MAX);
