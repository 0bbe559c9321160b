//! Anything that can happen to one connection, with real sessions behind it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use switchboard_asp::codec::encode_frame;
use switchboard_asp::{Asp, Flags, Opcode};
use switchboard_core::model::{Batch, CallKind, CallRequest, Executor, TurnEnd};
use switchboard_core::{
    Actor, CallId, Callsign, Chronicler, CloseReason, Committed, Connection, Enrolment, Errand, Event, Frame,
    Granted, Input, Invitation, Lookup, MessageId, Op, OpeningRequest, Output, Pii, Position, Principal,
    Protocol, RefusedEnrolment, Reject, Reply, RequestId, Role, Roll, Row, Seed, Session, SessionId,
    SessionLimits, SessionView, Signal, Timestamp, TurnId, TurnRow, TurnState, TurnStatus, Upgrade,
    Violation, Within,
};

use super::Choices;
use super::voice::Voice;
use crate::accounts::Accounts;
use crate::simulation::{asp_limits, weight};
use crate::world::opening;

/// Feeds a connection frames, answers, events, time, pressure and goodbyes in any order that a server
/// could. It always comes to rest, is silent after it has closed, and stays small.
///
/// # Panics
/// Something is broken.
pub fn connection(bytes: &[u8]) {
    Bench::new(&Asp::new(asp_limits()), OpeningRequest::default(), likely_frame).run(bytes);
}

/// Makes a frame that makes sense, most of the time, knowing what was said last and which number it has.
pub(super) type Likely = fn(&mut Choices<'_>, &VecDeque<Bytes>, u64) -> Frame;

/// Runs an errand in the words of its protocol.
pub(super) type Errands = fn(&Value) -> Value;

/// A connection and what a server would keep for it.
pub(super) struct Bench {
    connection: Box<dyn Connection>,
    likely: Likely,
    /// How many frames it has made.
    made: u64,
    /// The last messages that were sent, oldest first.
    said: VecDeque<Bytes>,
    principal: Principal,
    now: Timestamp,
    wake: Option<Timestamp>,
    sessions: BTreeMap<SessionId, Kept>,
    /// Those who keep accounts of sessions.
    chroniclers: Vec<Arc<dyn Chronicler>>,
    followed: BTreeMap<SessionId, usize>,
    answers: VecDeque<(RequestId, Answer)>,
    roll: Roll<Place>,
    /// The name under which the connection is enrolled.
    callsign: Option<Callsign>,
    role: Option<Role>,
    signals: VecDeque<Signal>,
    voice: Voice,
    /// Who runs errands, if anybody does.
    errands: Option<Errands>,
    /// The log refuses for now.
    full: bool,
    closed: bool,
    calls: u32,
}

/// Whoever is enrolled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The connection itself.
    Here,
    /// Somebody who never says a word.
    Elsewhere,
}

/// A session, its log, and the accounts that are kept of it.
struct Kept {
    session: Session,
    log: Vec<Arc<Committed>>,
    accounts: Accounts,
}

enum Answer {
    Op(Result<Reply, Reject>),
    Attached(SessionId, Option<Position>),
}

impl Bench {
    pub(super) fn new(protocol: &dyn Protocol, request: OpeningRequest, likely: Likely) -> Self {
        let mut bench = Self::empty(likely);
        bench.accept(protocol, request);
        bench
    }

    /// The same, for a protocol that joins a session which is there already, by what is done to it first.
    pub(super) fn joining(
        protocol: &dyn Protocol,
        request: OpeningRequest,
        likely: Likely,
        chronicler: impl Chronicler + 'static,
        (session, ops): (&SessionId, &[Op]),
    ) -> Self {
        let mut bench = Self::empty(likely).with(chronicler);
        for op in ops {
            let done = bench.commit(session, &bench.actor(), op);
            assert!(done.is_ok(), "the session can be made: {done:?}");
        }
        bench.accept(protocol, request);
        bench
    }

    fn accept(&mut self, protocol: &dyn Protocol, request: OpeningRequest) {
        let known = match protocol.preview(&request, &self.principal).map(|lookup| self.look(&lookup)) {
            Some(Ok(Reply::Rows(rows))) => rows,
            _ => Vec::new(),
        };
        let upgrade = Upgrade {
            known,
            remote: false,
            now: self.now,
            principal: self.principal.clone(),
            request,
            opening: opening(),
            agent: "echo".into(),
            agents: vec!["echo".into()],
            tools: Vec::new(),
        };
        self.connection = match protocol.accept(upgrade, Seed::new([7; 32])) {
            Ok(connection) => connection,
            Err(refusal) => panic!("refused: {refusal:?}"),
        };
    }

    fn empty(likely: Likely) -> Self {
        let principal = Principal::new("ann");
        let now = Timestamp::from_secs(1_000_000);
        let mut roll = Roll::default();
        for (name, owner) in [("taken", "ann"), ("foreign", "bob")] {
            let enrolment = Enrolment { callsign: name.into(), role: Role::Device, target: None };
            let _ = roll.enrol(enrolment, &Principal::new(owner), Place::Elsewhere, now);
            roll.confirm(&name.into(), &Place::Elsewhere);
        }
        Self {
            connection: Box::new(Nobody),
            likely,
            made: 0,
            said: VecDeque::new(),
            principal,
            now,
            wake: None,
            sessions: BTreeMap::new(),
            chroniclers: Vec::new(),
            followed: BTreeMap::new(),
            answers: VecDeque::new(),
            roll,
            callsign: None,
            role: None,
            signals: VecDeque::new(),
            voice: Voice::default(),
            errands: None,
            full: false,
            closed: false,
            calls: 0,
        }
    }

    /// The same where somebody keeps accounts of sessions.
    pub(super) fn with(mut self, chronicler: impl Chronicler + 'static) -> Self {
        self.chroniclers.push(Arc::new(chronicler));
        self
    }

    /// The same where somebody runs errands.
    pub(super) fn served_by(mut self, errands: Errands) -> Self {
        self.errands = Some(errands);
        self
    }

    /// Lets everything happen that the bytes say, and then the end.
    pub(super) fn run(mut self, bytes: &[u8]) {
        self.drain();
        let mut choices = Choices::new(bytes);
        while !choices.is_empty() && !self.closed {
            self.step(&mut choices);
        }
        self.now = self.now.after(Duration::from_secs(1));
        self.feed(Input::Closed(CloseReason::TransportLost));
        assert!(self.closed, "a connection whose transport is gone closes");
        assert!(weight(&self.connection) < 4 << 20, "a connection stays small");
        for (id, kept) in &self.sessions {
            let again = Accounts::of(&self.chroniclers, id, &kept.log);
            assert_eq!(again.states(), kept.accounts.states(), "an account follows from the log");
            assert_eq!(again.rows(), kept.accounts.rows(), "and so does every row");
        }
    }

    /// A frame that arrives; none does while the connection cannot take one.
    fn receive(&mut self, frame: Frame) {
        if self.connection.wants_frames() {
            self.feed(Input::Frame(frame));
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0..3 => {
                self.made += 1;
                let frame = (self.likely)(choices, &self.said, self.made);
                self.receive(frame);
            }
            3 => {
                let length = usize::from(choices.byte());
                self.receive(Frame::Binary(Bytes::copy_from_slice(choices.take(length))));
            }
            4..7 if self.answers.is_empty() && self.voice.speaks() => {
                let event = self.voice.event(choices.byte());
                self.feed(Input::Voice(event));
            }
            4..7 => self.answer(),
            7..9 => self.show(choices.byte()),
            9..11 => self.work(choices),
            11 => {
                self.now = self.now.after(Duration::from_millis(u64::from(choices.number()) * 4));
                if self.wake.is_some_and(|wake| wake <= self.now) {
                    self.feed(Input::Timeout);
                }
            }
            12 => self.feed(Input::Backlog(usize::from(choices.number()) * 4)),
            13 => self.full = choices.byte() & 3 == 0,
            14 => match choices.below(8) {
                0 => self.feed(Input::Drain { retry_ms: 10 }),
                1 => self.receive(Frame::Text("text".into())),
                2 => self.feed(Input::Closed(CloseReason::TooSlow)),
                3 => self.feed(Input::Closed(CloseReason::PeerClosed(Some(1000)))),
                4 => self.feed(Input::Closed(CloseReason::Unauthorized)),
                5 => self.signal(choices),
                _ => self.receive(Frame::Pong(Bytes::new())),
            },
            _ => self.feed(Input::Timeout),
        }
    }

    fn feed(&mut self, input: Input<'_>) {
        if self.closed {
            return;
        }
        let violation = self.connection.handle_input(input, self.now).is_err();
        self.drain();
        self.closed |= violation;
    }

    fn drain(&mut self) {
        let mut bytes = 0;
        for _ in 0..20_000 {
            match self.connection.poll_output() {
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
                Output::Send(frame) => {
                    assert!(!self.closed, "nothing is sent after the end");
                    bytes += match frame {
                        Frame::Binary(message) => self.remember(message),
                        Frame::Text(message) => self.remember(Bytes::from(message)),
                        Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) | Frame::Head(_) => 0,
                    };
                    assert!(bytes < 4 << 20, "one input leads to a bounded amount of output");
                }
                Output::Submit(request, session, op) => self.submit(request, &session, &op),
                // The answer is one for which nobody waits.
                Output::SubmitLast(session, op) => self.submit(RequestId(u64::MAX), &session, &op),
                Output::Attach(request, session, from) => {
                    self.answers.push_back((request, Answer::Attached(session, from)));
                }
                Output::Look(request, lookup) => {
                    let answer = self.look(&lookup);
                    self.answers.push_back((request, Answer::Op(answer)));
                }
                Output::Voice(op) => self.voice.ask(op),
                Output::Errand(request, Pii(errand)) if self.errands.is_some() => {
                    let answer = self.errands.map(|run| run(&errand)).unwrap_or_default();
                    let reply = Reply::Errand(Box::new(Errand { answer: Pii(answer), principal: None }));
                    self.answers.push_back((request, Answer::Op(Ok(reply))));
                }
                Output::Hear(request, _) | Output::Errand(request, _) => {
                    let reason = "nobody listens".to_owned();
                    self.answers.push_back((request, Answer::Op(Err(Reject::Unserved { reason }))));
                }
                Output::Detach(session) => {
                    let seen = self.followed.remove(&session).map_or(u64::MAX, |seen| seen as u64);
                    let after = self.callsign.as_ref().and_then(|name| self.roll.part(name, &session, seen));
                    if let Some(after) = after {
                        self.signals.push_back(Signal::Invited { session, after });
                    }
                }
                Output::Find(request, session, turn) => {
                    let found = self.find(&session, &turn).map(Box::new);
                    self.answers.push_back((request, Answer::Op(Ok(Reply::Found(found)))));
                }
                Output::Enrol(request, enrolment) => self.enrol(request, enrolment),
                Output::Roll(request) => {
                    let list = self.roll.list(&self.principal);
                    self.answers.push_back((request, Answer::Op(Ok(Reply::Roll(list)))));
                }
                Output::Note(request, to, body) => self.note(request, to, body),
                Output::Stop => {}
                Output::Authenticate(request, _) => {
                    let reply = Reply::Authenticated(self.principal.clone());
                    self.answers.push_back((request, Answer::Op(Ok(reply))));
                }
                Output::Close(_) => self.closed = true,
            }
        }
        panic!("a connection never comes to rest");
    }

    /// Keeps a message that was sent; answers its length.
    fn remember(&mut self, message: Bytes) -> usize {
        let length = message.len();
        self.said.push_back(message);
        self.said.drain(..self.said.len().saturating_sub(SAID));
        length
    }

    fn submit(&mut self, request: RequestId, session: &SessionId, op: &Op) {
        let actor = self.actor();
        let answer = if self.full {
            Err(Reject::Unavailable { reason: "full".into() })
        } else if let Some(device) = self.out_of_reach(op) {
            Err(Reject::Offline(device))
        } else {
            self.commit(session, &actor, op)
        };
        self.answers.push_back((request, Answer::Op(answer)));
    }

    fn commit(&mut self, id: &SessionId, actor: &Actor, op: &Op) -> Result<Reply, Reject> {
        let fresh = || Kept {
            session: Session::new(id.clone(), SessionLimits::default()),
            log: Vec::new(),
            accounts: Accounts::default(),
        };
        if let Op::Chronicle { chronicle } = op
            && !self.chroniclers.iter().any(|known| known.name() == &**chronicle)
        {
            return Err(Reject::Invalid("nobody keeps such an account".into()));
        }
        let Kept { session, log, accounts } = self.sessions.entry(id.clone()).or_insert_with(fresh);
        let decision = match session.decide(actor, op, self.now) {
            Err(Reject::UnknownMessage(unknown)) => {
                let told = session.relies_on(op).filter(|message| is_told(log, message));
                let vouched = told.cloned().ok_or(Reject::UnknownMessage(unknown))?;
                session.decide_knowing(actor, op, self.now, &[vouched])?
            }
            decision => decision?,
        };
        for event in decision.events {
            let mut position = session.head().next();
            if let Event::SessionOpened { epoch, .. } = &event {
                position.epoch = *epoch;
            }
            let committed = Committed { position, at: self.now, event };
            session.apply(&committed);
            accounts.take(&self.chroniclers, id, log, &committed);
            if let Some(device) = committed.event.device()
                && self.roll.invite(device, id, committed.position) == Invitation::Deliver(Place::Here)
            {
                let Position { epoch, seq } = committed.position;
                let after = Position { epoch, seq: seq - 1 };
                self.signals.push_back(Signal::Invited { session: id.clone(), after });
            }
            log.push(Arc::new(committed));
        }
        Ok(decision.reply)
    }

    /// Looks something up in the sessions that the caller takes part in.
    fn look(&self, lookup: &Lookup) -> Result<Reply, Reject> {
        if self.full {
            return Err(Reject::Unavailable { reason: "full".into() });
        }
        let actor = self.actor();
        let seen = |kept: &&Kept| kept.session.role_of_actor(&actor).is_some();
        let kept: Vec<&Kept> = match &lookup.within {
            Within::Session(session) => {
                let kept = self.sessions.get(session).filter(seen);
                vec![kept.ok_or(Reject::NotFound)?]
            }
            Within::Own => self.sessions.values().filter(seen).collect(),
            Within::Addressed(_) => self.sessions.values().collect(),
        };
        let lookup = lookup.on_behalf_of(&actor.principal);
        let accounts = kept.into_iter().map(|kept| &kept.accounts);
        Ok(Reply::Rows(Accounts::look_into(accounts, &lookup)))
    }

    fn actor(&self) -> Actor {
        Actor::client(self.principal.id.clone()).registered(self.callsign.clone().zip(self.role))
    }

    /// The device that a turn is for, if nobody can reach it.
    fn out_of_reach(&self, op: &Op) -> Option<Callsign> {
        let Op::StartTurn(turn) = op else { return None };
        let device = turn.device.as_ref()?;
        let own = self.callsign.as_ref() == Some(device);
        (!own && !self.roll.reaches(&self.principal, self.callsign.as_ref(), device)).then(|| device.clone())
    }

    fn enrol(&mut self, request: RequestId, enrolment: Enrolment) {
        assert!(self.callsign.is_none(), "a connection enrols once");
        let (callsign, role) = (enrolment.callsign.clone(), enrolment.role);
        let answer = match self.roll.enrol(enrolment, &self.principal, Place::Here, self.now) {
            // The name has no history here.
            Ok(Granted::Now | Granted::IfUnclaimed) => {
                self.roll.confirm(&callsign, &Place::Here);
                (self.callsign, self.role) = (Some(callsign), Some(role));
                Ok(Reply::Enrolled)
            }
            Err(RefusedEnrolment { reject, .. }) => Err(reject),
        };
        self.answers.push_back((request, Answer::Op(answer)));
    }

    fn note(&mut self, request: RequestId, to: Callsign, body: Value) {
        let answer = match self.roll.find(&self.principal, self.callsign.as_ref(), &to) {
            Some(place) => {
                if place == Place::Here {
                    self.signals.push_back(Signal::Note { from: self.principal.id.clone(), body });
                }
                Ok(Reply::Noted)
            }
            None => Err(Reject::Offline(to)),
        };
        self.answers.push_back((request, Answer::Op(answer)));
    }

    /// Hands over a signal that waits, or one that somebody else might send; nothing reaches a
    /// connection that is not enrolled.
    fn signal(&mut self, choices: &mut Choices<'_>) {
        if self.callsign.is_none() {
            return;
        }
        let signal = self.signals.pop_front().unwrap_or_else(|| match choices.below(3) {
            0 => Signal::Contested,
            1 => Signal::Note { from: "ann".into(), body: json!({ "device_info": { "cpu_count": 8 } }) },
            _ => {
                let length = usize::from(choices.below(64));
                let body = serde_json::from_slice(choices.take(length)).unwrap_or_default();
                Signal::Note { from: "bob".into(), body }
            }
        });
        self.feed(Input::Signal(signal));
    }

    fn find(&self, id: &SessionId, turn: &TurnId) -> Option<TurnRow> {
        let Kept { log, .. } = self.sessions.get(id)?;
        let mut state = Session::new(id.clone(), SessionLimits::default());
        let mut found = None;
        for committed in log {
            for row in switchboard_core::rows(&state, committed) {
                if let Row::Turn(row) = row
                    && row.turn == *turn
                {
                    found = Some(row);
                }
            }
            state.apply(committed);
        }
        found
    }

    /// Hands over the answer that has waited longest.
    fn answer(&mut self) {
        let Some((request, answer)) = self.answers.pop_front() else { return };
        match answer {
            Answer::Op(Ok(reply)) => self.feed(Input::Done(request, reply)),
            Answer::Op(Err(reject)) => self.feed(Input::Rejected(request, reject)),
            Answer::Attached(session, from) => {
                let actor = self.actor();
                let known = self.sessions.get(&session);
                let known = known.filter(|kept| kept.session.role_of_actor(&actor).is_some());
                let Some(Kept { session: state, log, accounts }) = known else {
                    return self.feed(Input::Rejected(request, Reject::NotFound));
                };
                let head = log.len();
                let place = from.map_or(head, |from| usize::try_from(from.seq).unwrap_or(head));
                assert!(place <= head, "nobody asks for what is not there");
                let view = Box::new(SessionView { chronicles: accounts.states(), ..state.view() });
                self.followed.insert(session, place);
                self.feed(Input::Done(request, Reply::Attached(view)));
            }
        }
    }

    /// Hands over events, as many as asked for; answers come before the events that they led to.
    fn show(&mut self, most: u8) {
        while !self.answers.is_empty() {
            self.answer();
        }
        for session in self.followed.keys().cloned().collect::<Vec<_>>() {
            for _ in 0..=most {
                if self.closed || !self.connection.wants_events() || !self.answers.is_empty() {
                    return;
                }
                let Some(place) = self.followed.get_mut(&session) else { break };
                let next = self.sessions.get(&session).and_then(|kept| kept.log.get(*place).cloned());
                let Some(committed) = next else { break };
                *place += 1;
                self.feed(Input::Committed(&session, &committed));
            }
        }
    }

    /// Lets an executor do something.
    fn work(&mut self, choices: &mut Choices<'_>) {
        let turns = self
            .sessions
            .iter()
            .flat_map(|(id, kept)| kept.session.turns().map(move |turn| (id.clone(), turn.clone())));
        let turns: Vec<_> = turns.collect();
        let place = usize::from(choices.byte()) % turns.len().max(1);
        let Some((session, state)) = turns.into_iter().nth(place) else { return };
        let TurnState { turn, device, claims: fence, .. } = state.clone();
        let status = state.status();
        let worker = Actor::worker("w".into());
        let op = match (status, choices.below(6)) {
            (TurnStatus::Ready, _) => Op::Claim { turn, relayed: false },
            (_, 0) => Op::Finish { turn, fence, end: TurnEnd::complete() },
            (_, 1) => {
                let calls = match self.tool(&session, choices) {
                    Some(call) => vec![call],
                    None => self.requests(device, choices),
                };
                Op::Request { turn, fence, calls }
            }
            (_, 2) => {
                let text = "Why?\n\nSo. ".repeat(usize::from(choices.below(8)));
                Op::Emit { turn, fence, output: switchboard_core::model::Output::Reasoning(text) }
            }
            _ => {
                let pieces = [("word ", 32), ("One. Two! ", 1), ("a\n\nb", 1)];
                let (text, times) = choices.pick(&pieces).unwrap_or(("word ", 32));
                let text = text.repeat(usize::from(choices.byte()) / 8 * times + 1);
                Op::Emit { turn, fence, output: switchboard_core::model::Output::Text(text) }
            }
        };
        let _ = self.commit(&session, &worker, &op);
    }

    /// The use of a tool that the session offers, where errands are run.
    fn tool(&mut self, session: &SessionId, choices: &mut Choices<'_>) -> Option<CallRequest> {
        self.errands?;
        let names: Vec<_> =
            self.sessions.get(session)?.session.tools().map(|tool| tool.name.clone()).collect();
        let name = names.get(usize::from(choices.byte()) % names.len().max(1))?.clone();
        let given =
            [json!({}), json!({ "count": 2 }), json!({ "value": "secret" }), json!({ "target": "home" })];
        let args = given.get(usize::from(choices.byte()) % given.len()).cloned().unwrap_or_default();
        self.calls += 1;
        Some(CallRequest {
            id: CallId::new(format!("c{}", self.calls)),
            kind: CallKind::Tool { name, args: args.into() },
            executor: None,
            deadline: self.now.after(Duration::from_secs(10)),
            batch: None,
            options: Value::Null.into(),
        })
    }

    /// A question to anyone, or a batch of commands for the device of the turn.
    fn requests(&mut self, device: Option<Callsign>, choices: &mut Choices<'_>) -> Vec<CallRequest> {
        let size = if device.is_some() { choices.below(3) + 1 } else { 1 };
        let batch = Batch { id: format!("b{}", self.calls).into(), size: size.into() };
        let executor = device.map(Executor::Device);
        let calls = (0..size).map(|_| {
            self.calls += 1;
            let kind = if executor.is_some() {
                CallKind::Tool { name: "run".into(), args: json!({}).into() }
            } else {
                CallKind::question("?", None)
            };
            CallRequest {
                id: CallId::new(format!("c{}", self.calls)),
                kind,
                executor: executor.clone(),
                deadline: self.now.after(Duration::from_secs(1)),
                batch: executor.is_some().then(|| batch.clone()),
                options: Value::Null.into(),
            }
        });
        calls.collect()
    }
}

/// A connection that is not there yet.
#[derive(Debug)]
struct Nobody;

impl Connection for Nobody {
    fn handle_input(&mut self, _: Input<'_>, _: Timestamp) -> Result<(), Violation> {
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        Output::Idle { wake: None }
    }
}

/// Whether the log tells of a message, which a session need not know by heart.
fn is_told(log: &[Arc<Committed>], wanted: &MessageId) -> bool {
    log.iter()
        .any(|committed| matches!(&committed.event, Event::MessageAdded { message } if message.id == *wanted))
}

/// A frame that makes sense, most of the time.
fn likely_frame(choices: &mut Choices<'_>, _said: &VecDeque<Bytes>, _number: u64) -> Frame {
    let payloads: [(Opcode, &[u8]); 16] = [
        (Opcode::Invoke, b"hello"),
        (Opcode::Hello, STANDARD),
        (
            Opcode::Hello,
            br#"{"op":"hello","ver":[1],"features":["flags","events","resume","complete06"],"enc":["json"]}"#,
        ),
        (Opcode::Hello, RESUME),
        (Opcode::Hello, br#"{"op":"ping","nonce":"x"}"#),
        (Opcode::Hello, br#"{"op":"auth","token":"t"}"#),
        (Opcode::Hello, br#"{"op":"bye"}"#),
        (Opcode::Invoke, br#"{"kind":"chat","input":"hi","session":"s","idem":"k"}"#),
        (Opcode::Invoke, br#"{"kind":"chat","input":"hi","session":"s","stream":false}"#),
        (Opcode::Invoke, br#"{"kind":"list"}"#),
        (Opcode::Invoke, br#"{"kind":"reply","parent":1,"ask_id":"c1","text":"yes"}"#),
        (Opcode::Interrupt, b""),
        (Opcode::Interrupt, br#"{"mode":"pause"}"#),
        (Opcode::Interrupt, br#"{"mode":"resume"}"#),
        (Opcode::Interrupt, br#"{"mode":"credit","bytes":9000}"#),
        (Opcode::Error, br#"{"code":2005,"msg":"x"}"#),
    ];
    let (opcode, payload) = choices.pick(&payloads).unwrap_or((Opcode::Invoke, b"x"));
    let id = if opcode == Opcode::Hello { 0 } else { u16::from(choices.below(5)) };
    let flags = Flags::from_byte(if choices.byte() & 7 == 0 { choices.byte() } else { 0 });
    let mut out = BytesMut::new();
    let _ = encode_frame(&mut out, opcode, flags, id, payload);
    Frame::Binary(out.freeze())
}

const STANDARD: &[u8] = br#"{"op":"hello","ver":[1],"features":["flags","events","frag","credit","push","client_tools","resume","ping","reauth"],"limits":{"window":2000},"tools":[{"name":"t","input_schema":{}}]}"#;
const RESUME: &[u8] = br#"{"op":"hello","ver":[1],"features":["flags","events","resume"],"resume":{"cid":"x","token":"y","next":{"1":3}}}"#;
/// Messages that are remembered.
const SAID: usize = 16;
