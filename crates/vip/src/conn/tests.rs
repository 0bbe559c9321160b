//! What can only be seen with a voice, an agent and a session that are moved by hand.

#![expect(clippy::wildcard_enum_match_arm, reason = "tests look at what they are about")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_core::model::{
    self, Call, CallKind, Executor, Origin, Standing, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{
    AgentId, AttachmentView, CallId, Chronicle as _, Committed, Connection as _, Event, Frame, Input, Op,
    Opening, OpeningRequest, Output, Position, Principal, Reply, Seed, SessionId, SessionView, Timestamp,
    TurnId, Upgrade, VoiceEvent, VoiceOp,
};

use super::*;
use crate::audio::Format;
use crate::message::TurnDetection;
use crate::minutes::Minutes;
use crate::token::{Seal, Unsealed};

#[derive(Debug)]
struct NoSeal;

impl Seal for NoSeal {
    fn sign(&self, _: &str, _: &Value) -> String {
        String::new()
    }

    fn open(&self, _: &str, _: &str) -> Result<Value, Unsealed> {
        Err(Unsealed::Invalid)
    }

    fn key_set(&self) -> Value {
        json!({ "keys": [] })
    }
}

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
}

impl Stage {
    /// An idle session, or one that introduces itself.
    fn new(change: impl FnOnce(&mut Settings, &mut Service)) -> Self {
        let mut service = Service {
            seal: Arc::new(NoSeal),
            issuer: None,
            public_url: None,
            allow_development: true,
            agent: None,
            prompts: BTreeMap::new(),
            providers: Vec::new(),
            ice_servers: Vec::new(),
            webrtc: false,
            speaks: true,
            introduction: "Hello. This is a notice.".to_owned(),
            introduction_interruptible: true,
        };
        let mut settings = Settings {
            app_id: "shop".to_owned(),
            sub: "ann".to_owned(),
            environment: "development".to_owned(),
            mode: EXTERNAL.to_owned(),
            scopes: Vec::new(),
            locale: "en-US".to_owned(),
            actions: true,
            confirmation_channels: vec!["ui".to_owned()],
            input: Format::Pcm16k,
            output: Format::Pcm24k,
            framing: "binary".to_owned(),
            turn_detection: TurnDetection::default(),
            instructions: None,
            voice: None,
            activate_on: "manual".to_owned(),
            first_visit: false,
            agent: "butler".to_owned(),
            provider: None,
            metadata: BTreeMap::new(),
            resume_s: 60,
            created_at: 1_000_000,
            expires_at: 1_600_000,
        };
        change(&mut settings, &mut service);
        let protocol = Vip::new(VipLimits::default(), service);
        let now = Timestamp::from_millis(1_000_000);
        let session = SessionId::new("vs_00000000000000000000000000");
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
            VipConnection::new(&protocol, Kind::Stream, &upgrade, session, settings, Seed::new([7; 32]));
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
        };
        stage.drain();
        let hello = json!({ "session_id": "vs_00000000000000000000000000", "protocol_version": "0.1" });
        stage.send("client.connect", None, hello);
        stage.send("state.update", None, screen());
        stage
    }

    fn send(&mut self, kind: &str, turn: Option<&str>, data: Value) {
        self.seq += 1;
        let state_seq = self.connection.machine.seq();
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
                Output::Voice(op) => {
                    self.voice.push(op);
                    continue;
                }
                Output::Attach(request, session, _) => (request, Reply::Attached(Box::new(view(&session)))),
                Output::Submit(request, _, op) => {
                    let reply = self.reply(&op);
                    self.ops.push(op);
                    (request, reply)
                }
                Output::Idle { .. } => return,
                other => panic!("not expected: {other:?}"),
            };
            self.connection.handle_input(Input::Done(request, reply), self.now).unwrap();
        }
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

    fn response(&self) -> u64 {
        let said = self.voice.iter().rev().find_map(|op| match op {
            VoiceOp::Say { response, .. } => Some(*response),
            _ => None,
        });
        said.expect("something is being said")
    }
}

fn view(session: &SessionId) -> SessionView {
    let minutes = Minutes::new(session);
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
    json!({ "mode": "full", "context_version": 1, "route": { "id": "home" }, "routes": [], "narration": "Home.",
        "actions": { "lamp.on": { "type": "button", "description": "Switch the lamp on", "element_id": "lamp" } },
        "visibility": ["lamp.on"] })
}

fn packet(response: u64, offset_ms: u64) -> VoiceEvent {
    VoiceEvent::Packet { response, offset_ms, packet: Bytes::from_static(&[0; 960]) }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

#[test]
fn vip_028_nothing_is_heard_while_the_user_speaks() {
    let mut stage = Stage::new(|settings, _| settings.activate_on = "connect".to_owned());
    let response = stage.response();
    stage.feed(Input::Voice(packet(response, 0)));
    assert_eq!(stage.frames.len(), 1);
    let turn = Some("t-1");
    stage.send("input.barge_in", turn, json!({ "trigger": "manual", "played_ms": 10, "stream_id": 1 }));
    assert!(stage.voice.contains(&VoiceOp::Hush { response }));
    // The voice may learn of it late; the user must not hear that.
    stage.feed(Input::Voice(packet(response, 20)));
    stage.feed(Input::Voice(VoiceEvent::Said { response, duration_ms: 40 }));
    assert_eq!(stage.frames.len(), 1);
    let said = stage.said();
    assert_eq!(said.iter().filter(|event| event["type"] == "response.done").count(), 1);
    assert_eq!(said.last().unwrap()["data"]["status"], "incomplete");
}

#[test]
fn vip_038_what_is_not_interruptible_is_heard_to_its_end_but_not_for_ever() {
    let mut stage = Stage::new(|settings, service| {
        settings.activate_on = "connect".to_owned();
        service.introduction_interruptible = false;
    });
    let response = stage.response();
    let said = stage.said();
    let announced = said.iter().find(|event| event["type"] == "server.announce").unwrap();
    assert_eq!(announced["data"]["interruptible"], false);
    stage.feed(Input::Voice(packet(response, 0)));
    stage.said();
    for trigger in ["vad", "manual"] {
        stage.send("input.barge_in", Some("t-1"), json!({ "trigger": trigger, "played_ms": 0 }));
        let said = stage.said();
        assert_eq!(kinds(&said), ["error.recoverable"]);
        assert_eq!(said[0]["data"]["code"], "PROTO_NOT_INTERRUPTIBLE");
        assert_eq!(stage.connection.state(), State::AiSpeaking);
    }
    stage.feed(Input::Voice(packet(response, 15_000)));
    stage.send("input.barge_in", Some("t-1"), json!({ "trigger": "manual", "played_ms": 15_000 }));
    assert_eq!(stage.connection.state(), State::UserSpeaking);
}

#[test]
fn what_others_are_answered_is_announced_once_it_is_complete() {
    let mut stage = Stage::new(|_, _| {});
    let ended = |turn: &TurnId, end: TurnEnd| Event::TurnEnded { turn: turn.clone(), end: Box::new(end) };
    let said = |turn: &TurnId, text: &str| {
        let output = model::Output::Text(text.to_owned());
        Event::TurnOutput { turn: turn.clone(), output }
    };
    for (name, end) in
        [("stopped", TurnEnd::new(TurnOutcome::Interrupted { abandoned: false })), ("t", TurnEnd::complete())]
    {
        let turn = TurnId::from(name);
        stage.commit(accepted(&turn));
        stage.commit(said(&turn, "Half a "));
        stage.commit(said(&turn, "word."));
        stage.said();
        stage.commit(ended(&turn, end));
    }
    let told = stage.said();
    assert_eq!(kinds(&told), ["server.announce", "state.changed"], "{told:?}");
    assert_eq!(told[0]["data"]["content"], "Half a word.");
    assert_eq!(told[0]["data"]["reason"], "notification");
}

#[test]
fn what_was_heard_of_an_answer_is_put_right_once_its_turn_is_over() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "tell me");
    let turn = stage.turn.clone().unwrap();
    let output = model::Output::Text("A whole sentence. And another one. And a third. ".to_owned());
    stage.commit(Event::TurnOutput { turn: turn.clone(), output });
    stage.feed(Input::Voice(packet(stage.response(), 0)));
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": 10 }));
    let edits = |stage: &Stage| stage.ops.iter().filter(|op| matches!(op, Op::Edit { .. })).count();
    assert_eq!(edits(&stage), 0, "it is still being written");
    let end = Box::new(TurnEnd::new(TurnOutcome::Interrupted { abandoned: false }));
    stage.commit(Event::TurnEnded { turn, end });
    assert_eq!(edits(&stage), 1);
}

/// A turn of somebody else.
fn accepted(turn: &TurnId) -> Event {
    Event::TurnAccepted {
        turn: turn.clone(),
        request: Box::new(TurnRequest::Chat { parts: Vec::new() }),
        agent: "butler".into(),
        device: None,
        origin: Box::new(Origin {
            principal: "ann".into(),
            protocol: "asp".to_owned(),
            attachment: None,
            handle: None,
            bound: false,
            options: Value::Null,
        }),
        serial: false,
        once: false,
        setting: None,
        deadline: Timestamp::NEVER,
        parent: None,
        names: None,
        recall: None,
        workspace: None,
        key: None,
        meta: Box::new(Value::Null),
    }
}

#[test]
fn vip_062_success_without_a_sequel_leads_to_idle() {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "switch the lamp on");
    stage.said();
    let turn = stage.turn.clone().unwrap();
    let call = Arc::new(Call {
        id: CallId::new("call-1"),
        kind: CallKind::Tool { name: "lamp.on".into(), args: json!({}).into() },
        executor: Executor::Attachment(stage.connection.attachment.clone()),
        deadline: Timestamp::NEVER,
        batch: None,
        options: json!({ "follow_up": false }).into(),
    });
    stage.commit(Event::CallRequested { turn: turn.clone(), call });
    let said = stage.said();
    assert_eq!(kinds(&said), ["action.invoke", "state.changed"]);
    assert_eq!(said[0]["data"]["follow_up"], false);
    let invocation = said[0]["data"]["invocation_id"].clone();
    let result = json!({ "invocation_id": invocation, "action_id": "lamp.on", "status": "success",
        "event": "action.success", "executed": true, "duration_ms": 1 });
    stage.send("action.result", None, result);
    let said = stage.said();
    assert_eq!(kinds(&said), ["action.done", "state.changed", "response.done"]);
    assert_eq!(said[0]["data"]["invocation_id"], invocation);
    assert_eq!(said[1]["data"]["state"], "idle");
    assert_eq!(said[1]["data"]["trigger"], "action.done");
    assert!(stage.ops.iter().any(|op| matches!(op, Op::Answer { call, .. } if call.as_str() == "call-1")));
    assert!(stage.ops.iter().any(|op| matches!(op, Op::Interrupt { turn: stopped, .. } if *stopped == turn)));
}
