//! A whole server in one thread, with a clock that only moves when told to.
//!
//! Real [`Session`]s, real connections of any [`Protocol`](switchboard_core::Protocol), a log, and agents as data; nothing else
//! is real. What `server` does with threads and sockets is done here one step at a time, by the
//! same rules: an answer comes before the events it caused, events come in order and without gaps,
//! nobody hears of anything that is not in the log.
//!
//! ```
//! use switchboard_asp::{Asp, AspLimits};
//! use switchboard_core::Principal;
//! use switchboard_testkit::{Received, World, opening};
//!
//! let mut world = World::new();
//! let peer = world.connect(&Asp::new(AspLimits::default()), Principal::new("ann"), opening());
//! world.send_bytes(peer, &[0x12, 0, 0, 1, 0, 0, 0, 2, b'h', b'i']); // INVOKE #1 "hi"
//! let frames = world.take(peer); // STREAM #1 "hi", then its end
//! assert!(matches!(frames.as_slice(), [Received::Frame(_), Received::Frame(_)]));
//! ```
//!
//! Faults: [`World::cut`], [`World::stall`], [`World::crash`], [`World::crash_at`],
//! [`World::fail_appends`], [`World::write_behind`], [`World::set_gate`]. With [`Order::Seeded`]
//! the order in which ready things happen, and the size of batches, depend on a seed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use switchboard_core::{
    Actor, AgentId, Append, Batch, Callsign, Chronicler, CloseReason, Committed, Enrolled, Event, Frame,
    Lookup, Op, Principal, Reject, Reply, Reservation, Row, Session, SessionId, SessionLimits, Timestamp,
    Within,
};
use switchboard_engine::{Command, Delivery, Node as _, ReplyTo, RingBounds, SessionSettings, Submission};

mod batches;
mod door;
mod executor;
mod faults;
mod log;
mod node;
mod peer;
mod schedule;
mod session;

pub use door::opening;
pub use peer::Received;

use crate::script::Script;
use log::{Log, Troubles};
use node::{Asker, Process};
use peer::{Inbound, Peer};
use schedule::Schedule;
use session::LiveSession;

/// A deterministic, single-threaded world. See the module's documentation.
pub struct World {
    now: Timestamp,
    settings: Settings,
    /// What its sessions and connections know together; gone when it dies.
    process: Arc<Process>,
    session_settings: Arc<SessionSettings>,
    default_agent: AgentId,
    log: Log,
    sessions: BTreeMap<SessionId, LiveSession>,
    peers: BTreeMap<PeerId, Peer>,
    next_peer: u32,
    tokens: BTreeMap<String, Principal>,
    answers: BTreeMap<u64, Result<Reply, Reject>>,
    next_answer: u64,
    draining: bool,
    down: bool,
    started: u64,
    ticks: u64,
    trap: Option<(CrashPoint, Option<&'static str>)>,
    trouble: Troubles,
    schedule: Schedule,
}

/// What a world is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From which connections get their randomness.
    pub seed: u64,
    /// In which order ready things happen.
    pub order: Order,
    /// Bounds of every session.
    pub limits: SessionLimits,
    /// How long the log takes for an append, in milliseconds.
    pub commit_ms: u64,
    /// Turns wait for an executor, as they do where no slot is free; else they begin in the moment of their
    /// acceptance.
    pub turns_wait: bool,
    /// When the world begins.
    pub start: Timestamp,
    /// Holds the arguments of a tool against its schema.
    pub check: fn(&Value, &Value) -> Result<(), String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            order: Order::Fixed,
            limits: SessionLimits::default(),
            commit_ms: 0,
            turns_wait: false,
            start: Timestamp::from_secs(1_767_225_600),
            check: crate::schema::check_arguments,
        }
    }
}

impl Settings {
    /// In a world with chance, rings and snapshots are small and idle sessions leave soon, so that all of it happens.
    fn of_sessions(&self) -> SessionSettings {
        let (ring, snapshot_every, idle) = match self.order {
            Order::Fixed => (RingBounds { events: 1024, bytes: 1 << 20 }, u64::MAX, Duration::MAX),
            Order::Seeded(_) => (RingBounds { events: 3, bytes: 1 << 12 }, 7, Duration::from_secs(20)),
        };
        let lease = Duration::from_secs(30);
        SessionSettings { limits: self.limits.clone(), ring, snapshot_every, idle, lease }
    }
}

/// In which order things happen that could happen at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Answers and events first, then clients, then sessions, then agents in turn; whole batches.
    Fixed,
    /// Any order that the real server could show, chosen by a seed.
    Seeded(u64),
}

/// One connection of a world; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(u32);

/// Where the server dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// A batch is decided, and nothing of it is in the log.
    BeforeAppend,
    /// A batch is in the log, and nobody has heard of it.
    AfterAppend,
}

impl World {
    /// A world with one agent, `echo`, that repeats what it is asked.
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    /// A world made to measure, with one agent, `echo`.
    pub fn with(settings: Settings) -> Self {
        let default_agent = AgentId::from("echo");
        let agents = BTreeMap::from([(default_agent.clone(), Script::new())]);
        Self {
            now: settings.start,
            process: Arc::new(Process::new(&settings, agents, 1)),
            session_settings: Arc::new(settings.of_sessions()),
            default_agent,
            log: Log::default(),
            sessions: BTreeMap::new(),
            peers: BTreeMap::new(),
            next_peer: 1,
            tokens: BTreeMap::new(),
            answers: BTreeMap::new(),
            next_answer: 1,
            draining: false,
            down: false,
            started: 0,
            ticks: 0,
            trap: None,
            trouble: Troubles::default(),
            schedule: Schedule::new(settings.order),
            settings,
        }
    }

    /// Adds an agent, or replaces one.
    pub fn add_agent(&mut self, agent: &str, script: Script) {
        self.process.add_agent(AgentId::from(agent), script);
    }

    /// Adds an agent that serves whoever asks for no other.
    pub fn set_default_agent(&mut self, agent: &str, script: Script) {
        self.add_agent(agent, script);
        self.default_agent = AgentId::from(agent);
    }

    /// Has somebody keep accounts of the sessions in which that is asked for; before anything happens.
    pub fn add_chronicler(&mut self, chronicler: impl Chronicler + 'static) {
        let projector: Arc<dyn Chronicler> = Arc::new(chronicler);
        self.log.add_projector(projector.clone());
        self.process().add_projector(projector);
    }

    /// The process, before anybody has come.
    fn process(&mut self) -> &mut Process {
        let Some(process) = Arc::get_mut(&mut self.process) else { panic!("somebody is connected already") };
        process
    }

    /// Makes a token that stands for a principal, for [`World::knock`] and renewed credentials.
    pub fn issue(&mut self, token: &str, principal: Principal) {
        self.tokens.insert(token.to_owned(), principal);
    }

    /// Sets what may say no to ops before their sessions see them.
    pub fn set_gate(
        &mut self,
        gate: impl FnMut(&Principal, &Op, Timestamp) -> Result<(), Reject> + Send + 'static,
    ) {
        self.process.set_gate(gate);
    }

    /// The client sends one transport message.
    pub fn send(&mut self, peer: PeerId, frame: Frame) {
        self.enqueue(peer, frame);
        self.settle();
    }

    /// The client sends one binary message.
    pub fn send_bytes(&mut self, peer: PeerId, bytes: &[u8]) {
        self.send(peer, Frame::Binary(Bytes::copy_from_slice(bytes)));
    }

    /// The client sends one transport message, and nothing happens yet.
    pub fn enqueue(&mut self, peer: PeerId, frame: Frame) {
        self.push_inbound(peer, Inbound::Frame(frame));
    }

    /// What the client has received since it was last asked.
    pub fn take(&mut self, peer: PeerId) -> Vec<Received> {
        self.peers.get_mut(&peer).map(Peer::take_received).unwrap_or_default()
    }

    /// The transport breaks. What the client sent before still arrives; what it has not read yet is
    /// lost.
    pub fn cut(&mut self, peer: PeerId) {
        self.push_inbound(peer, Inbound::Closed(CloseReason::TransportLost));
        self.settle();
    }

    /// The client closes its transport in an orderly way.
    pub fn close(&mut self, peer: PeerId, code: Option<u16>) {
        self.push_inbound(peer, Inbound::Closed(CloseReason::PeerClosed(code)));
        self.settle();
    }

    /// The server closes a connection for a reason of its own.
    pub fn evict(&mut self, peer: PeerId, reason: CloseReason) {
        if let Some(peer) = self.peers.get(&peer).filter(|peer| !peer.over) {
            peer.caller().inbox.deliver(Delivery::Close(reason));
        }
        self.settle();
    }

    /// The client stops reading: frames wait on its transport, and the connection hears of it.
    pub fn stall(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.stalled = true;
        }
    }

    /// A client that does not read takes up to `bytes` of whole messages after all.
    pub fn read_some(&mut self, peer: PeerId, bytes: usize) {
        self.transmit(peer, bytes);
        self.settle();
    }

    /// The client reads everything again.
    pub fn unstall(&mut self, peer: PeerId) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.stalled = false;
        }
        self.transmit(peer, usize::MAX);
        self.settle();
    }

    /// Bytes that wait on the transport of a client that does not read.
    pub fn backlog(&self, peer: PeerId) -> usize {
        self.peers.get(&peer).map_or(0, Peer::backlog)
    }

    /// The sessions that a connection follows.
    pub fn followed(&self, peer: PeerId) -> Vec<SessionId> {
        self.peers.get(&peer).map(Peer::sessions).unwrap_or_default()
    }

    /// Whether the connection is served.
    pub fn is_open(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|peer| !peer.over)
    }

    /// Forgets a connection that is over, with everything that nobody took.
    pub fn forget(&mut self, peer: PeerId) {
        if !self.is_open(peer) {
            self.peers.remove(&peer);
        }
    }

    /// The server begins to leave: no new turns, no new connections.
    pub fn drain(&mut self, retry_ms: u64) {
        self.draining = true;
        self.process.shared().drain();
        for peer in self.peers.values().filter(|peer| !peer.over) {
            peer.caller().inbox.deliver(Delivery::Drain { retry_ms });
        }
        self.settle();
    }

    /// The server dies: connections and the live state of sessions are gone, the log is not.
    pub fn crash(&mut self) {
        self.down = true;
        self.trap = None;
        self.sessions.clear();
        for peer in self.peers.values_mut().filter(|peer| !peer.over) {
            peer.lose();
        }
    }

    /// The server dies with the next batch, or with the next one that holds an event of this name.
    pub fn crash_at(&mut self, point: CrashPoint, event: Option<&'static str>) {
        self.trap = Some((point, event));
    }

    /// The server starts again, after a crash or a drain: sessions that are alive are read from the
    /// log, and their transports and executors of before are gone.
    pub fn restart(&mut self) {
        if !self.down {
            self.crash();
        }
        self.down = false;
        self.draining = false;
        self.process = Arc::new(self.process.restarted(&self.settings));
        self.remember_keys();
        for id in self.log.sessions().cloned().collect::<Vec<_>>() {
            if self.log.load(&id, &self.settings.limits).is_live() {
                self.awaken(&id);
            }
        }
        self.settle();
    }

    /// The log refuses the next `count` batches.
    pub fn fail_appends(&mut self, count: u32) {
        self.trouble = Troubles { full: count, ..Troubles::default() };
    }

    /// Another process writes to a session: the next batch of this one meets a conflict.
    ///
    /// # Errors
    /// The op is refused.
    pub fn write_behind(&mut self, session: &SessionId, actor: &Actor, op: &Op) -> Result<(), Reject> {
        let mut state = self.log.load(session, &self.settings.limits);
        let after = state.head();
        let decision = state.decide(actor, op, self.now)?;
        let mut events = Vec::new();
        let mut rows = Vec::new();
        for event in decision.events {
            let mut position = state.head().next();
            if let Event::SessionOpened { epoch, .. } = &event {
                position.epoch = *epoch;
            }
            let committed = Committed { position, at: self.now, event };
            state.apply(&committed);
            events.push(committed);
        }
        let (Some(summary), false) = (state.summary(), events.is_empty()) else { return Ok(()) };
        let batch = Arc::new(Batch { events });
        rows.extend(self.log.records_of(session, &batch).into_iter().map(Row::Chronicled));
        let append = Append { session: session.clone(), after, batch, rows, summary, snapshot: None };
        self.log.append(session, &append).map_err(|_| Reject::Busy)
    }

    /// Asks something of a session directly, and waits for the answer.
    ///
    /// # Errors
    /// The op is refused.
    pub fn ask(&mut self, session: &SessionId, actor: Actor, op: Op) -> Result<Reply, Reject> {
        let number = self.next_answer;
        self.next_answer += 1;
        let reply = ReplyTo::Waiter(Asker::Caller(number));
        let submission = Submission { actor, op, reply, hold: None };
        self.mail(session, Command::Submit(Box::new(submission)));
        self.settle();
        self.answers.remove(&number).unwrap_or(Err(Reject::Busy))
    }

    /// The time.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether the server is down.
    pub const fn is_down(&self) -> bool {
        self.down
    }

    /// Every session that has a history.
    pub fn session_ids(&self) -> Vec<SessionId> {
        self.log.sessions().cloned().collect()
    }

    /// Looks something up in the accounts of sessions, as far as the actor may see them.
    fn look(&self, actor: &Actor, lookup: &Lookup) -> Result<Reply, Reject> {
        let state = |id: &SessionId| self.log.load(id, &self.settings.limits);
        let sessions: Vec<&SessionId> = match &lookup.within {
            Within::Session(id) => {
                state(id).role_of_actor(actor).ok_or(Reject::NotFound)?;
                vec![id]
            }
            Within::Own => {
                let own = |id: &&SessionId| self.log.owner(id) == Some(&actor.principal);
                self.log.sessions().filter(own).collect()
            }
            Within::Addressed(_) => self.log.sessions().collect(),
        };
        Ok(Reply::Rows(self.log.look(&sessions, &lookup.on_behalf_of(&actor.principal))))
    }

    /// The history of one session.
    pub fn log(&self, session: &SessionId) -> &[Arc<Committed>] {
        self.log.events(session)
    }

    /// Everything that was ever committed, in order, over all sessions.
    pub fn history(&self) -> &[(SessionId, Arc<Committed>)] {
        self.log.all()
    }

    /// The live state of a session, unless a batch is on its way into the log.
    pub fn session(&self, session: &SessionId) -> Option<&Session> {
        let settled = self.sessions.get(session).filter(|live| live.is_settled());
        settled.map(|live| live.worker.session())
    }

    /// The name under which a connection is registered.
    pub fn callsign(&self, peer: PeerId) -> Option<&Callsign> {
        self.peers.get(&peer).filter(|peer| !peer.over)?.caller().name()
    }

    /// Everybody who is registered and whom the principal may see, in order of registration.
    pub fn enrolled(&self, principal: &Principal) -> Vec<Enrolled> {
        self.process.shared().presence.lock().list(principal)
    }

    /// Reserves names, as the credentials of a configuration do.
    pub fn reserve(&mut self, reservations: Vec<Reservation>) {
        self.process.shared().reserve(reservations);
    }

    /// Whether every live session is what its log says.
    ///
    /// # Errors
    /// Which one is not.
    pub fn check_replay(&self) -> Result<(), String> {
        for (id, live) in self.sessions.iter().filter(|(_, live)| live.is_settled()) {
            if self.log.load(id, &self.settings.limits) != *live.worker.session() {
                return Err(format!("session {id} is not what its log says"));
            }
        }
        Ok(())
    }

    fn trap_springs(&self, point: CrashPoint, events: &[Committed]) -> bool {
        self.trap.is_some_and(|(at, name)| {
            at == point
                && name.is_none_or(|name| events.iter().any(|committed| committed.event.name() == name))
        })
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("sessions", &self.sessions.keys())
            .field("peers", &self.peers.keys())
            .finish_non_exhaustive()
    }
}
