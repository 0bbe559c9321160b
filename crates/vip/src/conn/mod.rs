//! One transport of a session, and the state machine that it drives (§10, §11).
//!
//! ```text
//! frames ─ receive ─▶ listen ─▶ think ─▶ speak ─▶ outgoing ─▶ frames
//!                 └─▶ settle (context) ◀─▶ act (actions) ─┘
//! ```
//!
//! The session itself lies in the log: whatever a later transport has to know is in its minutes. The transport
//! is an attachment of the session; losing it leaves the session waiting, and a newer one takes it over.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_core::model::Tool;
use switchboard_core::{
    AgentId, Asked, AttachmentId, Connection, Input, MessageId, Op, Output, Pii, PrincipalId, Reject, Reply,
    RequestId, Seed, SessionId, Timestamp, ToolName, TurnId, Upgrade, Violation, VoiceOp,
};

use crate::context::Context;
use crate::errand::Errand;
use crate::error::{Code, Fault};
use crate::limits::VipLimits;
use crate::matrix::{Machine, State, Trigger};
use crate::message::{Role, ServerEvent, StateChanged};
use crate::minutes::{Arrival, CHRONICLE, Minute, Settings, Succession, attachment_of};
use crate::protocol::{EXTERNAL, Service, Vip, failure};
use crate::record::SessionRecord;
use crate::token::EphemeralClaims;

use act::Acts;
use clock::Deadlines;
use listen::Floor;
use outgoing::{About, Outgoing};
use receive::Incoming;
use secrets::Secrets;
use speak::{Announcement, Response};

mod act;
mod clock;
mod close;
mod confirm;
mod control;
mod follow;
mod handshake;
mod listen;
mod outgoing;
mod question;
mod receive;
mod secrets;
mod settle;
mod speak;
#[cfg(test)]
mod tests;
mod think;

/// What kind of transport it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A WebSocket with events and audio.
    Stream,
    /// A WebRTC peer: events on a data channel, audio on tracks.
    Peer,
    /// A WebSocket without audio, beside a provider.
    Control,
}

/// One transport of a session.
pub struct VipConnection {
    limits: Arc<VipLimits>,
    service: Arc<Service>,
    seed: Seed,
    now: Timestamp,
    kind: Kind,
    phase: Phase,
    session: SessionId,
    principal: PrincipalId,
    agent: AgentId,
    settings: Settings,
    attachment: AttachmentId,
    generation: u32,
    /// The number of this transport.
    transport: u32,
    /// When it arrived.
    arrival: Arrival,
    /// Which transport has the session.
    succession: Succession,
    /// Whether the session is being taken back from one that has lost it.
    regaining: bool,
    machine: Machine,
    incoming: Incoming,
    outgoing: Outgoing,
    asked: Asked<Then>,
    out: VecDeque<Output>,
    deadlines: Deadlines,
    context: Option<Context>,
    /// Updates that crossed a transition, and wait for the next.
    deferred: VecDeque<(String, Value)>,
    /// The tools that the session has of this transport.
    tools: BTreeMap<ToolName, Tool>,
    floor: Option<Floor>,
    response: Option<Response>,
    /// What is to be said as soon as nobody speaks.
    announcements: VecDeque<Announcement>,
    acts: Acts,
    secrets: Secrets,
    /// What an agent has said is put right once it is in the tree.
    corrections: BTreeMap<MessageId, String>,
    /// Turns that others have started here, as far as they run, and what they have said.
    foreign: BTreeMap<TurnId, String>,
    /// Turns that an earlier transport has started and that still run, and what they have said: it comes unasked.
    orphans: BTreeMap<TurnId, String>,
    /// What an earlier transport was not told.
    missed: Option<String>,
    counters: Counters,
    /// The server is leaving, and is there again after so many milliseconds.
    draining: Option<u64>,
    /// Whether the client wants to read only.
    muted: bool,
    /// Whether the voice knows how to listen and speak.
    voiced: bool,
    /// What the voice was told that may be said.
    expected: Vec<String>,
    /// Whether it was told to overhear.
    overhearing: bool,
}

/// How far the transport is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The session is being taken up; others may still be newer.
    Opening,
    /// The client has to say hello.
    Greeting,
    /// It has, and is being let in.
    Admitting,
    /// It is in.
    Live,
    /// Nothing is taken in any more.
    Over,
}

/// What is numbered here.
#[derive(Debug, Default)]
struct Counters {
    derived: u64,
    turn: u64,
    response: u64,
    provider_failures: u32,
    /// The last turn of the user that is over.
    last_turn: Option<String>,
    /// The last turn of the user that began with an interruption that was noticed here.
    overheard: Option<String>,
    /// When the last turn of the user was ended here, and not by the client.
    ended_floor_at: Option<Timestamp>,
}

/// What is to be done with an answer.
type Then = Box<dyn FnOnce(&mut VipConnection, Result<Reply, Reject>) + Send>;

/// A transport of a session.
pub(crate) fn open(
    protocol: &Vip,
    kind: Kind,
    upgrade: &Upgrade,
    record: SessionRecord,
    seed: Seed,
) -> Box<dyn Connection> {
    let session = SessionId::new(record.id.as_str());
    let mut connection = VipConnection::new(protocol, kind, upgrade, session, record.settings, seed);
    connection.take_up();
    Box::new(connection)
}

/// A transport to our own provider endpoint: a session of its own, opened on behalf of another.
pub(crate) fn provider(
    protocol: &Vip,
    upgrade: &Upgrade,
    record: SessionRecord,
    claims: &EphemeralClaims,
    seed: Seed,
) -> Box<dyn Connection> {
    let settings = Settings { mode: EXTERNAL.to_owned(), provider: None, ..record.settings };
    let session = handshake::provider_session(claims);
    let mut connection = VipConnection::new(protocol, Kind::Stream, upgrade, session, settings, seed);
    connection.found(&record.id);
    Box::new(connection)
}

impl VipConnection {
    fn new(
        protocol: &Vip,
        kind: Kind,
        upgrade: &Upgrade,
        session: SessionId,
        settings: Settings,
        seed: Seed,
    ) -> Self {
        let limits = protocol.limits.clone();
        Self {
            incoming: Incoming::new(&limits),
            deadlines: Deadlines::new(&settings, upgrade.now),
            attachment: attachment_of(session.as_str()),
            agent: AgentId::from(settings.agent.as_str()),
            limits,
            service: protocol.service.clone(),
            arrival: protocol.arrivals.next(&seed),
            seed,
            now: upgrade.now,
            kind,
            phase: Phase::Opening,
            session,
            principal: upgrade.principal.id.clone(),
            settings,
            generation: 0,
            transport: 0,
            succession: Succession::default(),
            regaining: false,
            machine: Machine::new(),
            outgoing: Outgoing::default(),
            asked: Asked::default(),
            out: VecDeque::new(),
            context: None,
            deferred: VecDeque::new(),
            tools: BTreeMap::new(),
            floor: None,
            response: None,
            announcements: VecDeque::new(),
            acts: Acts::default(),
            secrets: Secrets::default(),
            corrections: BTreeMap::new(),
            foreign: BTreeMap::new(),
            orphans: BTreeMap::new(),
            missed: None,
            counters: Counters::default(),
            draining: None,
            muted: false,
            voiced: false,
            expected: Vec::new(),
            overhearing: false,
        }
    }

    const fn state(&self) -> State {
        self.machine.state()
    }

    /// Says something that refers to something.
    fn say(&mut self, event: &ServerEvent, about: About) {
        self.outgoing.say(event, about, self.machine.seq(), self.now, None);
    }

    fn tell(&mut self, event: &ServerEvent) {
        self.say(event, About::default());
    }

    /// Moves on, because of something that the client has said.
    fn go(&mut self, trigger: Trigger, turn_id: Option<String>, reason: Option<&str>) -> bool {
        self.go_saying(trigger, turn_id, reason, |_| {})
    }

    /// Moves on, because of what is said here: that comes first, and carries the number of the new state.
    fn go_saying(
        &mut self,
        trigger: Trigger,
        turn_id: Option<String>,
        reason: Option<&str>,
        say: impl FnOnce(&mut Self),
    ) -> bool {
        let Ok(transition) = self.machine.fire(trigger) else { return false };
        say(self);
        let state = transition.state;
        self.outgoing.note(Minute::State { state: state.name().to_owned(), seq: transition.seq });
        let mut changed = StateChanged::from(transition);
        changed.turn_id.clone_from(&turn_id);
        changed.reason = reason.map(str::to_owned);
        self.say(&ServerEvent::StateChanged(changed), About { turn_id, ..About::default() });
        self.entered(state);
        true
    }

    /// What a state brings along.
    fn entered(&mut self, state: State) {
        self.deadlines.entered(state, &self.limits, self.now);
        self.overhear(matches!(state, State::AiThinking | State::AiSpeaking));
        match state {
            State::Idle => {
                self.floor = None;
                self.apply_deferred();
            }
            State::AiSpeaking | State::InvokeAction => self.apply_deferred(),
            State::AiThinking | State::UserSpeaking | State::NotConnected | State::Connecting => {}
        }
    }

    /// Complains about something; if it is fatal, the transport ends.
    fn complain(&mut self, fault: &Fault) {
        if fault.fatal {
            return self.fail(fault);
        }
        let about = About { reply_to: fault.ref_id.clone(), ..About::default() };
        self.say(&ServerEvent::error(fault), about);
    }

    /// What was sent cannot be done in this state.
    fn invalid(&mut self, event_id: &str, why: &'static str) {
        if self.incoming.violations.strike(self.now) {
            return self.fail(&Fault::new(Code::ProtoTooManyViolations).about(event_id));
        }
        let fault = self.located(Fault::new(Code::ProtoInvalidTransition).because(why));
        self.complain(&fault.about(event_id));
    }

    /// A fault that tells the client where it stands.
    fn located(&self, fault: Fault) -> Fault {
        fault.with(json!({ "state": self.state().name(), "state_seq": self.machine.seq() }))
    }

    fn submit(&mut self, op: Op, then: impl FnOnce(&mut Self, Result<Reply, Reject>) + Send + 'static) {
        let request = self.asked.ask(Box::new(then));
        self.out.push_back(Output::Submit(request, self.session.clone(), op));
    }

    /// Asks the session for something whose answer does not matter.
    fn ask(&mut self, op: Op) {
        self.submit(op, |_, _| {});
    }

    fn voice(&mut self, op: VoiceOp) {
        self.settle_voice();
        self.out.push_back(Output::Voice(op));
    }

    /// Has an errand run, and goes on with its answer.
    fn send_out(
        &mut self,
        errand: &Errand,
        then: impl FnOnce(&mut Self, Result<Value, Fault>) + Send + 'static,
    ) {
        let errand = Pii(serde_json::to_value(errand).unwrap_or(Value::Null));
        let request = self.asked.ask(Box::new(move |connection: &mut Self, outcome| {
            let answer = match outcome {
                Ok(Reply::Errand(errand)) => match failure(&errand.answer.0) {
                    Some(fault) => Err(fault),
                    None => Ok(errand.answer.0),
                },
                Ok(_) => Err(Fault::new(Code::Internal)),
                Err(reject) => Err(Fault::new(Code::ActExecutionFailed).because(reject.to_string())),
            };
            then(connection, answer);
        }));
        self.out.push_back(Output::Errand(request, errand));
    }

    /// Hands over what has to be put on record.
    fn record(&mut self) {
        let Some(batch) = self.outgoing.batch() else { return };
        let op = Op::Record { chronicle: CHRONICLE.into(), record: json!(batch) };
        self.submit(op, |connection, outcome| match outcome {
            Ok(_) => connection.outgoing.recorded(),
            // What cannot be put on record must not be said: better to come back.
            Err(_) => connection.outgoing.give_up(close::INTERNAL),
        });
    }

    fn answered(&mut self, request: RequestId, outcome: Result<Reply, Reject>) {
        if let Some(then) = self.asked.answered(request) {
            then(self, outcome);
        }
    }

    fn fresh(&mut self, purpose: &str) -> String {
        self.counters.derived += 1;
        self.seed.token(purpose, self.counters.derived)
    }
}

impl Connection for VipConnection {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.now = now;
        match input {
            Input::Frame(frame) => self.receive(frame),
            Input::Committed(_, committed) => self.committed(committed),
            Input::Done(request, reply) => self.answered(request, Ok(reply)),
            Input::Rejected(request, reject) => self.answered(request, Err(reject)),
            Input::Voice(event) => self.voiced(event),
            Input::Timeout => self.timeout(),
            Input::Drain { retry_ms } => self.drain(retry_ms),
            Input::Closed(reason) => self.closed(reason),
            // Not enrolled; and audio that nobody takes ends the connection by itself.
            Input::Signal(_) | Input::Backlog(_) => {}
        }
        self.record();
        self.count_later();
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        if let Some(output) = self.out.pop_front() {
            return output;
        }
        if let Some(frame) = self.outgoing.next() {
            return Output::Send(frame);
        }
        if let Some(close) = self.outgoing.closed() {
            return Output::Close(close);
        }
        Output::Idle { wake: self.next_wake() }
    }
}

// What people say is not for logs.
impl fmt::Debug for VipConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VipConnection")
            .field("kind", &self.kind)
            .field("phase", &self.phase)
            .field("state", &self.machine.state())
            .finish_non_exhaustive()
    }
}

/// Said on behalf of the assistant, about a response.
fn of_response(response: &str) -> About {
    About { role: Role::Assistant, response_id: Some(response.to_owned()), ..About::default() }
}
