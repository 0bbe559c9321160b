//! One connection of a device or a constellation (§6).
//!
//! A task is a turn. The connection that submits it *owns* it and is told how it ends; the
//! connection of the device *works* for it, and is told the commands. The two never speak to each
//! other: both follow the session of the task.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use switchboard_core::{
    AgentId, Asked, Callsign, Close, CloseReason, Committed, Connection, Frame, Input, Op, Output, Position,
    Principal, Reject, Reply, RequestId, Seed, SessionId, Signal, SplitMix, Timestamp, TurnId, Upgrade,
    Violation,
};

use crate::codec;
use crate::error::{bounded, words};
use crate::fleet::{Fleet, Owner};
use crate::limits::AipLimits;
use crate::map::Seen;
use crate::message::{
    ClientMessage, ClientMessageType, ClientType, ServerMessage, ServerMessageType, TaskStatus,
};
use crate::protocol::Service;
use crate::state::{Phase, Step};

mod clock;
mod exchange;
mod facts;
mod own;
mod register;
mod work;

pub(crate) use exchange::{Exchange, Purpose};

use clock::Clock;
use facts::Facts;
use own::{OwnTask, Proposal};
use work::Work;

/// The server's end of one WebSocket.
#[derive(Debug)]
pub struct AipConnection {
    limits: Arc<AipLimits>,
    service: Arc<Service>,
    fleet: Arc<Fleet>,
    principal: Principal,
    agent: AgentId,
    seed: Seed,
    counter: u64,
    ids: SplitMix,
    stamp: codec::Stamp,
    now: Timestamp,
    clock: Clock,
    phase: Phase,
    identity: Option<Identity>,
    /// What others had to say while its registration was under way.
    early_notes: Vec<Value>,
    /// Tasks that this client submitted, by the session id it knows them by.
    own: BTreeMap<String, OwnTask>,
    /// How many of them are not accepted yet. What the client sends after them waits until they are (A23).
    undecided: u32,
    /// Sessions in which something is asked of this device.
    work: BTreeMap<SessionId, Work>,
    facts: Facts,
    asked: Asked<Pending>,
    /// What the server could not take, and when it is asked again.
    again: VecDeque<(Timestamp, Request)>,
    out: VecDeque<Output>,
    /// The server is leaving.
    leaving: bool,
}

/// Who has registered; fixed from then on (§9.2).
#[derive(Clone, Debug)]
struct Identity {
    callsign: Callsign,
    role: ClientType,
    /// The device that a constellation is about.
    target: Option<Callsign>,
    platform: String,
    /// A25.
    wants_tasks: bool,
    /// A34.
    names_askers: bool,
}

/// What an answer is for.
#[derive(Debug)]
enum Pending {
    /// A name under which to be reached.
    Enrol(Box<ClientMessage>),
    /// The profile of a device.
    Join,
    /// Nothing waits for it.
    Nothing,
    /// What has to be done sooner or later.
    Due(Request),
    /// Who is connected, before a task is taken.
    Target(Box<Proposal>),
    /// A turn.
    Start(String),
    /// That a device was asked for its facts.
    Facts(String),
}

/// What is asked again while the server is too busy to take it.
#[derive(Debug)]
enum Request {
    /// What the client said, and will not say again.
    Op(SessionId, Box<Op>),
    /// To be told how a task goes, or what a device is to do.
    Follow(SessionId, Option<Position>),
}

impl AipConnection {
    pub(crate) fn new(
        limits: Arc<AipLimits>,
        service: Arc<Service>,
        fleet: Arc<Fleet>,
        upgrade: Upgrade,
        seed: Seed,
    ) -> Self {
        Self {
            agent: service.agent.clone().unwrap_or(upgrade.agent),
            principal: upgrade.principal,
            limits,
            service,
            fleet,
            ids: ids(&seed),
            stamp: codec::Stamp::default(),
            seed,
            counter: 0,
            now: Timestamp::default(),
            clock: Clock::default(),
            phase: Phase::Open,
            identity: None,
            early_notes: Vec::new(),
            own: BTreeMap::new(),
            undecided: 0,
            work: BTreeMap::new(),
            facts: Facts::default(),
            asked: Asked::default(),
            again: VecDeque::new(),
            out: VecDeque::new(),
            leaving: false,
        }
    }

    fn step(&mut self, step: Step) {
        if let Some(next) = self.phase.after(step) {
            self.phase = next;
        }
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn fresh_id(&mut self) -> String {
        let bits = u128::from(self.ids.next()) << 64 | u128::from(self.ids.next());
        switchboard_core::uuid(&bits.to_be_bytes())
    }

    fn submit(&mut self, session: &SessionId, op: Op, purpose: Pending) {
        let request = self.asked.ask(purpose);
        self.out.push_back(Output::Submit(request, session.clone(), op));
    }

    /// As [`Self::submit`], and again for as long as the server is too busy to take it.
    fn insist(&mut self, session: &SessionId, op: Op) {
        let again = Request::Op(session.clone(), Box::new(op.clone()));
        self.submit(session, op, Pending::Due(again));
    }

    /// Follows a session.
    fn follow(&mut self, session: &SessionId, after: Option<Position>) {
        let id = self.asked.ask(Pending::Due(Request::Follow(session.clone(), after)));
        self.out.push_back(Output::Attach(id, session.clone(), after));
    }

    fn ask_again(&mut self, request: Request) {
        match request {
            Request::Op(session, op) => self.insist(&session, *op),
            Request::Follow(session, after) => self.follow(&session, after),
        }
    }

    /// Sends a message, with the time and, where it has none, an id of its own.
    fn send(&mut self, message: ServerMessage) {
        self.send_as_of(message, self.now);
    }

    /// The same, with the time of what it tells.
    fn send_as_of(&mut self, mut message: ServerMessage, at: Timestamp) {
        if message.response_id.is_none() && message.kind != ServerMessageType::DeviceInfoResponse {
            message.response_id = Some(self.fresh_id());
        }
        message.timestamp = Some(self.stamp.write(at).to_owned());
        self.out.push_back(Output::Send(Frame::Text(codec::encode_server(&message))));
    }

    fn confirm(&mut self, session_id: Option<String>) {
        let id = self.fresh_id();
        let text = codec::encode_confirmation(session_id.as_deref(), self.stamp.write(self.now), &id);
        self.out.push_back(Output::Send(Frame::Text(text)));
    }

    /// Says no; the connection stays (§12).
    fn refuse(&mut self, why: &str, session_id: Option<String>, request_id: Option<String>) {
        let error = ServerMessage::new(ServerMessageType::Error, TaskStatus::Error);
        let error = ServerMessage {
            error: Some(bounded(why)),
            session_id,
            response_id: request_id.filter(|id| !id.is_empty()),
            ..error
        };
        self.send(error);
    }

    fn refuse_message(&mut self, why: &str, message: &ClientMessage) {
        self.refuse(why, message.session_id.clone(), message.request_id.clone());
    }

    fn receive(&mut self, frame: Frame) {
        if let Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) | Frame::Head(_) = frame {
            return;
        }
        match (self.phase, frame) {
            (Phase::Open, Frame::Text(text)) => self.receive_first(&text),
            (Phase::Open, _) => self.turn_down(words::BINARY, None, None),
            (Phase::Registered, Frame::Text(text)) => match codec::decode_client(&text) {
                Ok(message) => self.take(message),
                Err(error) => self.refuse(&error.to_string(), error.session_id, error.request_id),
            },
            (Phase::Registered, _) => self.refuse(words::BINARY, None, None),
            // Nothing comes while the registration is being decided.
            (Phase::Enrolling | Phase::Joining | Phase::Closed, _) => {}
        }
    }

    /// A message of a registered client: checked against who it is, then carried out (§6.1).
    fn take(&mut self, message: ClientMessage) {
        let Some(identity) = &self.identity else { return };
        if message.client_id.as_deref().is_some_and(|id| id != identity.callsign.as_str()) {
            return self.refuse_message(words::OTHER_ID, &message);
        }
        // A2: heartbeats of constellations say that they are devices.
        if message.client_type != identity.role && message.kind != ClientMessageType::Heartbeat {
            return self.refuse_message(words::OTHER_TYPE, &message);
        }
        if let Some(why) = self.too_long(&message) {
            self.refuse_message(&why, &message);
            if message.kind == ClientMessageType::Task {
                self.end_refused(message.session_id, &why);
            }
            return;
        }
        match message.kind {
            ClientMessageType::Heartbeat => self.confirm(None),
            ClientMessageType::Task => self.propose(message),
            ClientMessageType::CommandResults => self.take_results(message),
            ClientMessageType::TaskEnd => self.end_task(&message),
            ClientMessageType::DeviceInfoRequest => self.ask_facts(message),
            ClientMessageType::DeviceInfoResponse => self.take_facts(message),
            ClientMessageType::Error => self.take_error(&message),
            ClientMessageType::Register => {
                self.refuse_message(&words::unknown_type("register"), &message);
            }
        }
    }

    fn too_long(&self, message: &ClientMessage) -> Option<String> {
        let most = self.limits.id_chars;
        let fields = [
            ("client_id", &message.client_id),
            ("target_id", &message.target_id),
            ("session_id", &message.session_id),
            ("request_id", &message.request_id),
            ("task_name", &message.task_name),
        ];
        let long = |text: &Option<String>| {
            text.as_ref()
                .is_some_and(|text| text.len() > most as usize && text.chars().count() > most as usize)
        };
        fields.into_iter().find(|(_, text)| long(text)).map(|(field, _)| words::too_long(field, most))
    }

    /// A client reports an error: it is kept with the command it was busy with, and echoed (§12).
    fn take_error(&mut self, message: &ClientMessage) {
        let text = message.error.clone().filter(|text| !text.is_empty());
        let text = text.unwrap_or_else(|| words::UNKNOWN.to_owned());
        if let Some(session_id) = &message.session_id {
            self.note_error(session_id, &text);
        }
        self.refuse_message(&text, message);
    }

    fn owner(&self) -> Option<Owner> {
        let identity = self.identity.as_ref()?;
        Some(Owner { principal: self.principal.id.clone(), client: identity.callsign.clone() })
    }

    /// What this was the answer for. A task is decided by it, or has its next question asked.
    fn answered(&mut self, request: RequestId) -> Option<Pending> {
        let pending = self.asked.answered(request);
        if let Some(Pending::Start(_) | Pending::Target(_)) = pending {
            self.undecided -= 1;
        }
        pending
    }

    fn done(&mut self, request: RequestId, reply: Reply) {
        match self.answered(request) {
            Some(Pending::Enrol(message)) => self.enrolled(*message),
            Some(Pending::Join) => self.registered(Step::Kept),
            Some(Pending::Start(session_id)) => {
                if let Reply::Turn { session, turn, accepted, .. } = reply {
                    self.started(&session_id, session, turn, accepted);
                }
            }
            Some(Pending::Target(proposal)) => {
                if let Reply::Roll(roll) = reply {
                    self.check_target(*proposal, &roll);
                }
            }
            Some(Pending::Due(Request::Follow(session, _))) => {
                if let Reply::Attached(view) = reply {
                    self.know_askers(&session, &view.turns);
                }
            }
            Some(Pending::Nothing | Pending::Due(Request::Op(..)) | Pending::Facts(_)) | None => {}
        }
    }

    fn rejected(&mut self, request: RequestId, reject: &Reject) {
        match self.answered(request) {
            Some(Pending::Enrol(message)) => self.not_enrolled(&message, reject),
            Some(Pending::Join) => self.not_joined(),
            Some(Pending::Start(session_id)) => self.not_started(&session_id, reject),
            Some(Pending::Facts(ticket)) => self.answer_facts(&ticket, &Value::Null),
            Some(Pending::Target(proposal)) => self.refuse_task(&proposal, words::INTERNAL),
            Some(Pending::Due(request)) => self.not_taken(request, reject),
            Some(Pending::Nothing) | None => {}
        }
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::Invited { session, after } => self.invited(session, after),
            Signal::Contested => self.clock.contested(self.now, &mut self.out),
            Signal::Note { body, .. } => match self.phase {
                Phase::Registered => self.noted(&body),
                Phase::Enrolling | Phase::Joining if self.early_notes.len() < EARLY_NOTES => {
                    self.early_notes.push(body);
                }
                Phase::Open | Phase::Enrolling | Phase::Joining | Phase::Closed => {}
            },
        }
    }

    fn committed(&mut self, session: &SessionId, committed: &Committed) {
        let seen = Seen::of(&committed.event);
        self.work_on(session, seen, committed.at);
        self.own_event(session, seen, committed.at);
        self.leave_session(session);
    }

    fn is_followed_for(&self, session: &SessionId) -> bool {
        self.work.contains_key(session) || self.own.values().any(|task| task.follows(session))
    }

    /// Lets go of a session in which nothing is left to do.
    fn leave_session(&mut self, session: &SessionId) {
        if self.work.get(session).is_some_and(Work::is_over) {
            self.work.remove(session);
        } else if self.work.contains_key(session) {
            return;
        }
        if !self.is_followed_for(session) {
            self.out.push_back(Output::Detach(session.clone()));
        }
    }

    fn is_idle(&self) -> bool {
        self.own.is_empty() && self.work.is_empty()
    }

    fn turn_of(&self, session: &SessionId, turn: &TurnId) -> Option<&OwnTask> {
        self.own.values().find(|task| task.is(session, turn))
    }

    /// The connection is over, whoever says so: tasks of this client end (§6.6).
    fn close(&mut self, reason: CloseReason) {
        if self.phase == Phase::Closed {
            return;
        }
        self.abandon_tasks(reason == CloseReason::Restart);
        self.end(reason.close());
    }

    fn end(&mut self, close: Close) {
        self.step(Step::End);
        self.early_notes.clear();
        self.again.clear();
        self.out.push_back(Output::Close(close));
    }
}

impl Connection for AipConnection {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.now = now;
        self.clock.begin(now);
        if self.phase == Phase::Closed {
            return Ok(());
        }
        match input {
            Input::Frame(frame) => {
                self.clock.heard(now);
                self.receive(frame);
            }
            Input::Committed(session, committed) => self.committed(session, committed),
            Input::Done(request, reply) => self.done(request, reply),
            Input::Rejected(request, reject) => self.rejected(request, &reject),
            Input::Signal(signal) => self.signal(signal),
            // It has none.
            Input::Voice(_) => {}
            Input::Timeout => self.timeout(),
            Input::Backlog(bytes) => self.clock.backlog = bytes,
            Input::Drain { .. } => self.leaving = true,
            Input::Closed(reason) => self.close(reason),
        }
        if self.leaving && self.is_idle() {
            self.close(CloseReason::Restart);
        }
        Ok(())
    }

    fn wants_events(&self) -> bool {
        // Nothing comes before the confirmation of the registration.
        self.phase == Phase::Registered && self.clock.backlog < MAX_BACKLOG
    }

    fn max_message(&self) -> usize {
        let AipLimits { max_message, max_first_message, .. } = &*self.limits;
        if self.phase == Phase::Registered {
            return *max_message as usize;
        }
        // Twice as much, so that what is somewhat too large is told so in words.
        max_first_message.saturating_mul(2) as usize
    }

    fn wants_frames(&self) -> bool {
        !matches!(self.phase, Phase::Enrolling | Phase::Joining) && self.undecided == 0
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }
}

/// Ids of messages need to be different, not secret.
fn ids(seed: &Seed) -> SplitMix {
    let [a, b, c, d, e, f, g, h, ..] = seed.derive("ids", 0);
    SplitMix::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

/// Bytes in front of the transport above which no events are taken in; they wait in the log.
const MAX_BACKLOG: usize = 64 << 10;
/// Words of others that are kept for a device whose registration is not through.
const EARLY_NOTES: usize = 64;
