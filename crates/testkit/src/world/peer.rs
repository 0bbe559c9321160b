//! One connection and its transport: the [`ConnectionWorker`] of a server, with the client's end of a wire.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard_core::{
    Callsign, CloseReason, Connection, Event, Frame, Head, Lookup, Principal, PrincipalId, Reject, Reply,
    RequestId, SessionId, Timestamp, TurnId,
};
use switchboard_engine::{
    Caller, Command, ConnectionOutput as Output, ConnectionWorker, FAREWELL, Inbox, NO_CODE, Node as _,
    Outgoing, ReadFailed, name_looked_up, size,
};

use super::node::{Process, Visitor};
use super::{PeerId, World};

/// One connection of the world, with the client's end of its transport.
#[derive(Debug)]
pub(super) struct Peer {
    worker: ConnectionWorker<Visitor>,
    visitor: Visitor,
    /// What the client has sent and the server not read yet.
    inbound: VecDeque<Inbound>,
    /// What was asked of the log: whose events, after which, how many.
    reading: Option<(SessionId, u64, usize)>,
    /// The client does not read.
    pub(super) stalled: bool,
    received: VecDeque<Received>,
    /// The connection is over; the client may not have read everything.
    pub(super) over: bool,
    /// Until when the client may read what is left.
    leaves_at: Option<Timestamp>,
    max_message: usize,
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
    Close(switchboard_core::Close),
    /// The transport broke. Always the last.
    Lost,
}

impl Peer {
    pub(super) fn new(
        connection: Box<dyn Connection>,
        principal: Principal,
        max_message: usize,
        process: &Arc<Process>,
        now: Timestamp,
    ) -> Self {
        let mut visitor = Visitor(process.clone());
        let caller = Caller::new(principal, Arc::new(Inbox::default()));
        let outgoing = Outgoing { backlog: MAX_BACKLOG, message: MAX_BACKLOG };
        let worker = ConnectionWorker::new(connection, caller, outgoing, &mut visitor, now);
        Self {
            worker,
            visitor,
            inbound: VecDeque::new(),
            reading: None,
            stalled: false,
            received: VecDeque::new(),
            over: false,
            leaves_at: None,
            max_message,
        }
    }

    pub(super) const fn caller(&self) -> &Caller {
        self.worker.caller()
    }

    pub(super) fn take_received(&mut self) -> Vec<Received> {
        self.received.drain(..).collect()
    }

    pub(super) const fn backlog(&self) -> usize {
        self.worker.outbox.bytes()
    }

    /// How much waits for it inside of the server.
    pub(super) fn waiting(&self) -> usize {
        self.caller().inbox.waiting()
    }

    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.worker.sessions()
    }

    pub(super) fn push(&mut self, inbound: Inbound) {
        self.inbound.push_back(inbound);
    }

    /// When it wants to go on by itself.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        if self.over { self.leaves_at } else { self.worker.next_timeout() }
    }

    /// Whether it has something to do now.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        if self.over {
            return self.leaves_at.is_some_and(|at| at <= now);
        }
        self.reading.is_some()
            || self.caller().inbox.has_news()
            || (!self.inbound.is_empty() && self.worker.reads())
            || self.worker.is_pressed()
            || self.wake().is_some_and(|at| at <= now)
    }

    /// The transport takes up to `bytes` of what waits.
    fn transmit(&mut self, bytes: usize) {
        let mut left = bytes;
        let outbox = &mut self.worker.outbox;
        while !outbox.is_empty() {
            if outbox.next().is_some_and(|frame| size(frame) > left) {
                break;
            }
            while let Some(size) = outbox.next().map(size).filter(|size| *size <= left) {
                left -= size;
                self.received.extend(outbox.take().map(Received::Frame));
            }
            outbox.flushed();
        }
    }

    /// The transport is gone at once; what waited on it is lost.
    pub(super) fn lose(&mut self) {
        self.over = true;
        self.leaves_at = None;
        self.reading = None;
        self.worker.outbox.clear();
        self.inbound.clear();
        self.received.push_back(Received::Lost);
    }
}

impl World {
    /// One thing that happens to a connection: what the log says, news from inside, pressure, one message of the
    /// client, or time.
    pub(super) fn run_peer(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.over {
            return self.see_off(id);
        }
        let Peer { worker, visitor, .. } = peer;
        if let Some((session, after, limit)) = peer.reading.take() {
            let read = if self.trouble.fails_read() {
                Err(ReadFailed("the disk cannot be read".to_owned()))
            } else {
                Ok(self.log.read(&session, after, limit))
            };
            worker.caught_up(read, visitor, now);
        } else if worker.caller().inbox.take_news() {
            worker.woken(visitor, now);
        } else if worker.is_pressed() {
            // A backlog that is told of again and again would never let the transport have its turn.
            self.schedule.count_timeout(now);
            worker.pressed(visitor, now);
        } else if worker.reads()
            && let Some(inbound) = peer.inbound.pop_front()
        {
            match inbound {
                Inbound::Frame(frame) if frame.size() > peer.max_message => {
                    worker.lost(CloseReason::TooBig, visitor, now);
                }
                Inbound::Frame(frame) => worker.receive(frame, visitor, now),
                Inbound::Closed(CloseReason::PeerClosed(code)) => worker.peer_closed(code, visitor, now),
                Inbound::Closed(reason) => {
                    // Nobody is left to hear anything.
                    peer.stalled |= reason == CloseReason::TransportLost;
                    worker.lost(reason, visitor, now);
                }
            }
        } else if worker.next_timeout().is_some_and(|at| at <= now) {
            self.schedule.count_timeout(now);
            worker.timeout(visitor, now);
        }
        self.drain_peer(id);
    }

    /// Carries out everything that a connection wants done now.
    pub(super) fn drain_peer(&mut self, id: PeerId) {
        self.carry_out_all(id);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let closing = peer.worker.closing();
        if closing.is_none() || peer.over {
            if !peer.stalled {
                peer.transmit(usize::MAX);
            }
            return;
        }
        peer.over = true;
        peer.inbound.clear();
        peer.worker.leave(&peer.visitor);
        if closing.is_some_and(|close| close.code == NO_CODE) {
            peer.lose();
        } else {
            peer.leaves_at = Some(self.now.after(FAREWELL));
        }
        self.carry_out_all(id);
        self.see_off(id);
    }

    /// The client of a connection that is over reads the rest, or is not waited for any more.
    fn see_off(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if !peer.stalled {
            peer.transmit(usize::MAX);
        }
        let has_read = peer.worker.outbox.is_empty();
        if !has_read && peer.leaves_at.is_some_and(|at| at > now) {
            return;
        }
        if peer.leaves_at.take().is_some() {
            peer.received.push_back(match peer.worker.closing() {
                Some(close) if has_read => Received::Close(close),
                _ => Received::Lost,
            });
        }
        peer.worker.said_goodbye(&mut peer.visitor);
        self.carry_out_all(id);
    }

    fn carry_out_all(&mut self, id: PeerId) {
        for _ in 0..MAX_OUTPUTS {
            let Some(peer) = self.peers.get_mut(&id) else { return };
            match peer.worker.poll_output(&mut peer.visitor) {
                Output::Idle => return,
                output => self.carry_out(id, output),
            }
        }
        panic!("a connection never comes to rest");
    }

    fn carry_out(&mut self, id: PeerId, output: Output<Visitor>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let (inbox, principal) = (peer.caller().inbox.clone(), peer.caller().principal.clone());
        match output {
            Output::Command(session, command) => self.mail(&session, command),
            Output::Insist(session, op) => self.mail(&session, Command::own(op)),
            Output::Read { session, after, limit } => peer.reading = Some((session, after, limit)),
            Output::Find(request, session, turn) => {
                let found = self.find(&principal.id, &session, &turn).map(Box::new);
                inbox.answer(request, Ok(Reply::Found(found)));
            }
            Output::Look(request, lookup) => self.look_for(id, request, &lookup),
            Output::LookUpName(request, name) => {
                let claimed = self.is_claimed(&name, &principal.id);
                name_looked_up(&name, Ok(claimed), (inbox, request), self.process.shared());
            }
            Output::Authenticate(request, credential) => {
                let answer = match self.authenticate(Some(&credential.0)) {
                    Ok(known) if known.id == principal.id => Ok(Reply::Authenticated(known)),
                    Ok(_) | Err(_) => Err(Reject::Unauthenticated),
                };
                inbox.answer(request, answer);
            }
            Output::Hear(request, _) | Output::Call(request, _) => {
                inbox.answer(request, Err(Reject::Unserved { reason: "nobody listens".to_owned() }));
            }
            // The world goes on without a server to stop, and without audio.
            Output::Voice(_) | Output::Followed | Output::Stop | Output::Idle => {}
        }
    }

    fn look_for(&self, id: PeerId, request: RequestId, lookup: &Lookup) {
        let Some(peer) = self.peers.get(&id) else { return };
        let answer = self.look(&peer.caller().actor(), lookup);
        peer.caller().inbox.answer(request, answer);
    }

    /// What the projection of the log knows of a turn, if it is in a session of the principal's.
    fn find(
        &self,
        principal: &PrincipalId,
        session: &SessionId,
        turn: &TurnId,
    ) -> Option<switchboard_core::TurnRow> {
        let mut state = switchboard_core::Session::new(session.clone(), self.settings.limits.clone());
        let mut found = None;
        for committed in self.log(session) {
            for row in switchboard_core::rows(&state, committed) {
                if let switchboard_core::Row::Turn(row) = row
                    && row.turn == *turn
                {
                    found = Some(row);
                }
            }
            state.apply(committed);
        }
        found.filter(|_| state.owner() == Some(principal))
    }

    /// Whether another principal has had a device of this name, and nobody has released it since.
    fn is_claimed(&self, name: &Callsign, principal: &PrincipalId) -> bool {
        let mut owners = std::collections::BTreeSet::new();
        for (_, committed) in self.log.all() {
            match &committed.event {
                Event::DeviceJoined { principal, device } if device.callsign == *name => {
                    owners.insert(principal);
                }
                Event::DeviceReleased { device, .. } if device == name => owners.clear(),
                _ => {}
            }
        }
        owners.iter().any(|owner| *owner != principal)
    }

    pub(super) fn push_inbound(&mut self, id: PeerId, inbound: Inbound) {
        if let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.over) {
            peer.push(inbound);
        }
    }

    /// The client reads up to `bytes` of what waits for it.
    pub(super) fn transmit(&mut self, id: PeerId, bytes: usize) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.transmit(bytes);
        if peer.over {
            self.see_off(id);
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

const MAX_BACKLOG: usize = 32 << 20;
const MAX_OUTPUTS: usize = 1_000_000;
