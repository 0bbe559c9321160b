//! What can only be seen with a voice, an agent and a session that are moved by hand.

#![expect(clippy::wildcard_enum_match_arm, reason = "tests look at what they are about")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_core::model::{self, Call, CallEnd, CallKind, Executor, Standing, TurnEnd, TurnOutcome};
use switchboard_core::{
    AgentId, AttachmentView, CallId, Chronicle as _, Close, Committed, Connection as _, Event, Found, Frame,
    Input, Lookup, Op, Opening, OpeningRequest, Output, Position, Principal, PrincipalId, Reply, RequestId,
    Seed, SessionId, SessionView, Timestamp, TurnId, Upgrade, VoiceEvent, VoiceOp,
};

use super::*;
use crate::audio::{AudioFrame, Direction, Format};
use crate::message::DetectionType;
use crate::minutes::Minutes;
use crate::samples::{self, SESSION};

mod acts;
mod clock;
mod consent;
mod floor;
mod intake;
mod resume;
mod screen;
mod speech;

/// A connection whose session says yes to everything.
struct Stage {
    connection: VipConnection,
    now: Timestamp,
    seq: u64,
    events: VecDeque<Value>,
    frames: Vec<Bytes>,
    voice: Vec<VoiceOp>,
    ops: Vec<Op>,
    turn: Option<TurnId>,
    /// The session, as earlier transports have left it.
    minutes: Minutes,
    /// What is answered to whoever looks something up.
    rows: Vec<Found>,
    looked: Vec<Lookup>,
    /// What is being done outside of the session.
    errands: VecDeque<(RequestId, Value)>,
    /// Whether pings are answered, and how many there were.
    alive: bool,
    pings: usize,
    closed: Option<Close>,
    wake: Option<Timestamp>,
    /// Whether what this transport puts on record about itself is not seen by it so far.
    held_back: bool,
}

/// What a stage is made of.
struct Setup {
    settings: Settings,
    service: Service,
    kind: Kind,
    minutes: Minutes,
    seed: [u8; 32],
    /// When the transport arrived, if not as the first of its process.
    arrival: Option<Arrival>,
    held_back: bool,
}

impl Stage {
    /// An idle session, or one that introduces itself.
    fn new(change: impl FnOnce(&mut Settings, &mut Service)) -> Self {
        let mut stage = Self::opened(|setup| change(&mut setup.settings, &mut setup.service));
        stage.hello(json!({}));
        stage.send("state.update", None, screen());
        stage
    }

    /// A transport on which nothing was said so far.
    fn opened(change: impl FnOnce(&mut Setup)) -> Self {
        let (settings, service) = (samples::settings(), samples::service());
        let session = SessionId::new(SESSION);
        let minutes = Minutes::new(&session);
        let mut setup = Setup {
            settings,
            service,
            kind: Kind::Stream,
            minutes,
            seed: [7; 32],
            arrival: None,
            held_back: false,
        };
        change(&mut setup);
        let Setup { settings, service, kind, minutes, seed, arrival, held_back } = setup;
        let protocol = Vip::new(VipLimits::default(), service);
        let now = Timestamp::from_millis(1_000_000);
        let upgrade = Upgrade {
            principal: Principal::new("ann"),
            now,
            request: OpeningRequest::default(),
            opening: Opening {
                credentials: Vec::new(),
                subprotocol: None,
                agent: None,
                parameters: Vec::new(),
            },
            agent: AgentId::from("butler"),
            agents: Vec::new(),
            remote: false,
            tools: Vec::new(),
            known: Vec::new(),
        };
        let mut connection =
            VipConnection::new(&protocol, kind, &upgrade, session, settings, Seed::new(seed));
        connection.arrival = arrival.unwrap_or(connection.arrival);
        connection.take_up();
        let mut stage = Self {
            connection,
            now,
            seq: 0,
            events: VecDeque::new(),
            frames: Vec::new(),
            voice: Vec::new(),
            ops: Vec::new(),
            turn: None,
            minutes,
            rows: Vec::new(),
            looked: Vec::new(),
            errands: VecDeque::new(),
            alive: true,
            pings: 0,
            closed: None,
            wake: None,
            held_back,
        };
        stage.drain();
        stage
    }

    /// The hello of the client, with more.
    fn hello(&mut self, more: Value) {
        let mut hello = json!({ "session_id": SESSION, "protocol_version": "0.1" });
        hello.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.send("client.connect", None, hello);
    }

    fn send(&mut self, kind: &str, turn: Option<&str>, data: Value) {
        let state_seq = self.connection.machine.seq();
        self.send_since(state_seq, kind, turn, data);
    }

    /// Says something with the number of an older state.
    fn send_since(&mut self, state_seq: u64, kind: &str, turn: Option<&str>, data: Value) {
        self.seq += 1;
        let mut event = json!({ "type": kind, "id": format!("c-{}", self.seq), "seq": self.seq, "ts": 0,
            "state_seq": state_seq, "data": data });
        if let Some(turn) = turn {
            event["turn_id"] = turn.into();
        }
        self.feed(Input::Frame(Frame::Text(event.to_string())));
    }

    fn feed(&mut self, input: Input<'_>) {
        self.connection.handle_input(input, self.now).unwrap();
        self.drain();
    }

    fn commit(&mut self, event: Event) {
        let session = self.connection.session.clone();
        let committed = Committed { position: Position::default(), at: self.now, event };
        self.feed(Input::Committed(&session, &committed));
    }

    fn drain(&mut self) {
        loop {
            let (request, reply) = match self.connection.poll_output() {
                Output::Send(Frame::Text(text)) => {
                    self.events.push_back(serde_json::from_str(&text).unwrap());
                    continue;
                }
                Output::Send(Frame::Binary(bytes)) => {
                    self.frames.push(bytes);
                    continue;
                }
                Output::Send(Frame::Ping(_)) => {
                    self.pings += 1;
                    if self.alive {
                        let pong = Input::Frame(Frame::Pong(Bytes::new()));
                        self.connection.handle_input(pong, self.now).unwrap();
                    }
                    continue;
                }
                Output::Voice(op) => {
                    self.voice.push(op);
                    continue;
                }
                Output::Errand(request, errand) => {
                    self.errands.push_back((request, errand.0));
                    continue;
                }
                Output::Close(close) => {
                    self.closed = Some(close);
                    continue;
                }
                Output::Look(request, lookup) => {
                    self.looked.push(*lookup);
                    (request, Reply::Rows(self.rows.clone()))
                }
                Output::Attach(request, ..) => (request, Reply::Attached(Box::new(view(&self.minutes)))),
                Output::Submit(request, _, op) => {
                    let reply = self.reply(&op);
                    self.ops.push(op.clone());
                    if opens(&op) && !self.held_back {
                        self.connection.handle_input(Input::Done(request, reply), self.now).unwrap();
                        self.settle(&op);
                        continue;
                    }
                    (request, reply)
                }
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
                other => panic!("not expected: {other:?}"),
            };
            self.connection.handle_input(Input::Done(request, reply), self.now).unwrap();
        }
    }

    /// The session takes a record in, and tells everybody.
    fn settle(&mut self, op: &Op) {
        let Op::Record { record, .. } = op else { panic!("{op:?}") };
        let event = recorded(record.clone());
        let session = self.connection.session.clone();
        let committed = Committed { position: Position::default(), at: self.now, event };
        self.connection.handle_input(Input::Committed(&session, &committed), self.now).unwrap();
    }

    fn reply(&mut self, op: &Op) -> Reply {
        match op {
            Op::OpenAttachment { attachment, .. } => Reply::Attachment(Box::new(AttachmentView {
                attachment: attachment.clone(),
                generation: 1,
                linked: Vec::new(),
                turns: Vec::new(),
                head: Position::default(),
            })),
            Op::StartTurn(new) => {
                self.turn = Some(new.turn.clone());
                let (session, turn) = (self.connection.session.clone(), new.turn.clone());
                Reply::Turn { session, turn, accepted: Position::default(), replayed: false }
            }
            _ => Reply::Applied { head: Position::default() },
        }
    }

    /// Everything that was said since the last look.
    fn said(&mut self) -> Vec<Value> {
        self.events.drain(..).collect()
    }

    fn type_in(&mut self, turn: &str, text: &str) {
        self.send("input.start", Some(turn), json!({ "mode": "text", "trigger": "text" }));
        self.send("input.text", Some(turn), json!({ "text": text }));
        self.send("input.end", Some(turn), json!({ "reason": "text" }));
    }

    /// The user says something, and the server hears where it ends.
    fn take_floor(&mut self, turn: &str) {
        self.send("input.start", Some(turn), json!({ "trigger": "vad", "stream_id": 1 }));
    }

    /// Time passes; whatever is due happens when it is.
    fn pass(&mut self, millis: u64) {
        let until = self.now.after(Duration::from_millis(millis));
        // Whoever wants to be woken for ever has forgotten what for.
        for _ in 0..1_000 {
            let Some(at) = self.wake.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.feed(Input::Timeout);
        }
        self.now = until;
    }

    /// The agent wants something done in the app.
    fn call(&mut self, id: &str, action: &str, args: Value, options: Value) {
        let turn = self.turn.clone().expect("a turn runs");
        let call = Arc::new(Call {
            id: CallId::new(id),
            kind: CallKind::Tool { name: action.into(), args: args.into() },
            executor: Executor::Attachment(self.connection.attachment.clone()),
            deadline: Timestamp::NEVER,
            batch: None,
            options: options.into(),
        });
        self.commit(Event::CallRequested { turn, call });
    }

    /// The agent says something.
    fn words(&mut self, text: &str) {
        let turn = self.turn.clone().expect("a turn runs");
        self.commit(Event::TurnOutput { turn, output: model::Output::Text(text.to_owned()) });
    }

    /// The turn of the agent is over.
    fn end_turn(&mut self, end: TurnEnd) {
        let turn = self.turn.clone().expect("a turn runs");
        self.commit(Event::TurnEnded { turn, end: Box::new(end) });
    }

    /// The app has done what it was asked to.
    fn succeed(&mut self, invocation: &Value, action: &str, data: Value) {
        let result = json!({ "invocation_id": invocation, "action_id": action, "status": "success",
            "event": "action.success", "executed": true, "data": data, "duration_ms": 1 });
        self.send("action.result", None, result);
    }

    /// What the agent was told of a call: nothing so far, the result, or the name of the error.
    fn told(&self, id: &str) -> Option<Result<Value, String>> {
        self.ops.iter().rev().find_map(|op| match op {
            Op::Answer { call, end: CallEnd::Done { output, .. }, .. } if call.as_str() == id => {
                Some(Ok(Value::clone(output)))
            }
            Op::Answer { call, end: CallEnd::Failed(error), .. } if call.as_str() == id => {
                Some(Err(error.name.clone()))
            }
            _ => None,
        })
    }

    /// What was put on record.
    fn recorded(&self) -> Vec<Value> {
        let batches = self.ops.iter().filter_map(|op| match op {
            Op::Record { record, .. } => record.as_array().cloned(),
            _ => None,
        });
        batches.flatten().collect()
    }

    /// The turns that were stopped.
    fn stopped(&self) -> Vec<TurnId> {
        let stopped = self.ops.iter().filter_map(|op| match op {
            Op::Interrupt { turn, .. } => Some(turn.clone()),
            _ => None,
        });
        stopped.collect()
    }

    /// What was done outside of the session came to this.
    fn run_errand(&mut self, answer: Value) -> Value {
        let (request, errand) = self.errands.pop_front().expect("an errand");
        let answer = switchboard_core::Errand { answer: Pii(answer), principal: None };
        self.feed(Input::Done(request, Reply::Errand(Box::new(answer))));
        errand
    }

    /// The one event of a type that was said since the last look.
    fn one(&mut self, kind: &str) -> Value {
        let mut said: Vec<Value> = self.said().into_iter().filter(|event| event["type"] == kind).collect();
        assert_eq!(said.len(), 1, "{kind}: {said:?}");
        said.remove(0)
    }

    /// The codes of the errors since the last look.
    fn codes(&mut self) -> Vec<String> {
        let said = self.said();
        said.iter().filter_map(|event| event["data"]["code"].as_str().map(str::to_owned)).collect()
    }

    fn state(&self) -> State {
        self.connection.state()
    }

    fn response(&self) -> u64 {
        let said = self.voice.iter().rev().find_map(|op| match op {
            VoiceOp::Say { response, .. } => Some(*response),
            _ => None,
        });
        said.expect("something is being said")
    }
}

/// Whether a transport says with it that it was opened.
fn opens(op: &Op) -> bool {
    let minutes = |record: &Value| serde_json::from_value::<Vec<Minute>>(record.clone()).unwrap_or_default();
    let opened = |minute: &Minute| matches!(minute, Minute::Opened { .. });
    matches!(op, Op::Record { record, .. } if minutes(record).iter().any(opened))
}

fn recorded(record: Value) -> Event {
    Event::Recorded { chronicle: CHRONICLE.into(), by: PrincipalId::from("ann"), record: Box::new(record) }
}

fn view(minutes: &Minutes) -> SessionView {
    SessionView {
        head: Position::default(),
        tools: Vec::new(),
        tools_revision: 0,
        turns: Vec::new(),
        standing: Standing::default(),
        chronicles: BTreeMap::from([(CHRONICLE.into(), minutes.state())]),
    }
}

fn screen() -> Value {
    let button = |more: Value| {
        let mut action = json!({ "type": "button", "description": "Do it", "element_id": "e" });
        action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        action
    };
    json!({ "mode": "full", "context_version": 1, "route": { "id": "home" }, "routes": [], "narration": "Home.",
        "actions": {
            "lamp.on": { "type": "button", "description": "Switch the lamp on", "element_id": "lamp" },
            "aside": button(json!({ "parallel": true })),
            "pay": button(json!({ "sensitive": true })),
            "shout": button(json!({ "sensitive": true, "confirmation": { "channels": ["voice"], "ttl_ms": 20_000 } })),
            "wire": button(json!({ "sensitive": true, "executor": "server" })),
            "look.up": button(json!({ "executor": "server" })),
            "password": { "type": "input", "description": "The password", "element_id": "p",
                "input_type": "password", "sensitive": true },
        },
        "visibility": ["lamp.on", "aside", "pay", "shout", "wire", "look.up", "password"] })
}

/// A frame of the user's, of so many milliseconds.
fn heard(stream: u16, monitor: bool, millis: usize) -> Frame {
    let frame = AudioFrame {
        direction: Direction::Input,
        end: false,
        monitor,
        gap: false,
        stream,
        seq: 0,
        offset_ms: 0,
        payload: vec![0; millis * 32].into(),
    };
    Frame::Binary(frame.encode())
}

fn packet(response: u64, offset_ms: u64) -> VoiceEvent {
    VoiceEvent::Packet { response, offset_ms, packet: Bytes::from_static(&[0; 960]) }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}
