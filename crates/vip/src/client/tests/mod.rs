//! A client against a server that says what the test wants it to.

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_core::{Seed, Timestamp};

use super::*;
use crate::audio::{AudioFrame, Direction};
use crate::codec::decode_client;
use crate::message::*;

mod actions;
mod consent;
mod internal;
mod link;
mod playback;
mod screen;
mod turns;

/// The client, and what came of it.
struct Rig {
    client: VipClient,
    now: Timestamp,
    /// The server's numbers.
    seq: u64,
    state: State,
    state_seq: u64,
    sent: Vec<(Head, ClientEvent)>,
    frames: Vec<AudioFrame>,
    events: Vec<Event>,
    closed: Option<u16>,
    wake: Option<Timestamp>,
}

fn shop() -> Value {
    json!({
        "route": {"id": "orders"},
        "routes": [{"target": "home"}, {"target": "orders"}],
        "narration": "Orders.",
        "actions": {
            "go": {"type": "navigation", "description": "Open a page"},
            "press": {
                "type": "button", "description": "Press", "element_id": "b",
                "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            },
            "cancel": {
                "type": "button", "description": "Cancel", "element_id": "c", "sensitive": true,
                "confirmation": {"prompt": "Really?", "channels": ["ui", "voice"], "ttl_ms": 30_000},
            },
            "secret": {"type": "input", "description": "Password", "element_id": "p", "input_type": "password"},
            "count": {"type": "input", "description": "Count", "element_id": "n", "input_type": "number"},
            "hidden": {"type": "button", "description": "Hidden", "element_id": "h"},
            "off": {"type": "button", "description": "Off", "element_id": "o", "enabled": false},
            "aside": {"type": "button", "description": "Aside", "element_id": "a", "parallel": true},
            "lookup": {"type": "button", "description": "Look up", "element_id": "l", "executor": "server"},
        },
        "visibility": ["press", "cancel", "secret", "count", "off", "aside", "lookup"],
    })
}

fn connected() -> SessionConnected {
    SessionConnected {
        speech: None,
        session_id: "vs_1".into(),
        mode: Mode::External,
        environment: Environment::Production,
        resumed: false,
        resume_token: Some("token-1".into()),
        resume_window_s: 60,
        context_version: 0,
        replay_from: None,
        audio: AudioChoice {
            input: crate::audio::Format::Pcm16k,
            output: crate::audio::Format::Pcm24k,
            frame_ms: 20,
            framing: Framing::Binary,
        },
        turn_detection: TurnDetection::default(),
    }
}

impl Rig {
    /// Not connected.
    fn new(config: ClientConfig) -> Self {
        Self::with(VipClient::new(config, Seed::new([7; 32])))
    }

    fn with(client: VipClient) -> Self {
        Self {
            client,
            now: Timestamp::from_millis(1_000_000),
            seq: 0,
            state: State::NotConnected,
            state_seq: 0,
            sent: Vec::new(),
            frames: Vec::new(),
            events: Vec::new(),
            closed: None,
            wake: None,
        }
    }

    /// Idle, with the shop on the screen and nothing left to look at.
    fn idle() -> Self {
        Self::idle_as(ClientConfig::new("vs_1"), connected())
    }

    fn idle_as(config: ClientConfig, answer: SessionConnected) -> Self {
        let mut rig = Self::new(config);
        rig.client.show(shop(), rig.now).unwrap();
        rig.input(Input::Opened);
        rig.say(ServerEvent::SessionConnected(Box::new(answer)));
        rig.state = State::Connecting;
        rig.say(ServerEvent::ServerReady(ServerReady { context_version: 1 }));
        rig.go(State::Idle, "server.ready");
        rig.forget();
        rig
    }

    /// The state that a test begins with; as if the user had said something before.
    fn idle_then(states: &[(State, &str)]) -> Self {
        let mut rig = Self::idle();
        for (state, trigger) in states {
            rig.go(*state, trigger);
        }
        rig.forget();
        rig
    }

    fn thinking() -> Self {
        Self::idle_then(&[(State::UserSpeaking, "input.start"), (State::AiThinking, "input.end")])
    }

    /// Speaking, with 200 ms of audio that have come.
    fn speaking() -> Self {
        let mut rig = Self::thinking();
        rig.respond("r-1", |_| {});
        rig.say(ServerEvent::AudioStart(AudioStart {
            response_id: "r-1".into(),
            stream_id: 40_000,
            format: crate::audio::Format::Pcm24k,
        }));
        rig.play(40_000, 0, 200);
        rig.forget();
        rig
    }

    fn respond(&mut self, id: &str, change: impl FnOnce(&mut ResponseAudio)) {
        let mut response = ResponseAudio::new(id);
        change(&mut response);
        self.say(ServerEvent::ResponseAudio(response));
        self.go(State::AiSpeaking, "response.audio");
    }

    fn play(&mut self, stream: u16, offset_ms: u32, length_ms: usize) {
        let frame = AudioFrame {
            direction: Direction::Output,
            end: false,
            monitor: false,
            gap: false,
            stream,
            seq: 0,
            offset_ms,
            payload: vec![0; length_ms * 48].into(),
        };
        self.input(Input::Binary(frame.encode()));
    }

    fn input(&mut self, input: Input) {
        self.client.handle_input(input, self.now);
        self.drain();
    }

    /// Time passes.
    fn pass(&mut self, millis: u64) {
        self.now = self.now.after(std::time::Duration::from_millis(millis));
        if self.wake.is_some_and(|at| at <= self.now) {
            self.input(Input::Timeout);
        }
    }

    fn drain(&mut self) {
        loop {
            match self.client.poll_output() {
                Output::Text(text) => self.sent.push(decode_client(&text).expect(&text)),
                Output::Binary(bytes) => self.frames.push(AudioFrame::decode(bytes).unwrap()),
                Output::Dial | Output::Ping => {}
                Output::Close(code) => self.closed = Some(code),
                Output::Event(event) => self.events.push(event),
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
            }
        }
    }

    /// The server says something.
    fn say(&mut self, event: ServerEvent) {
        self.seq += 1;
        self.say_as(self.seq, event, |_| {});
    }

    fn say_as(&mut self, seq: u64, event: ServerEvent, change: impl FnOnce(&mut Head)) {
        let mut head = Head {
            id: format!("s-{seq}"),
            seq,
            ts: self.now.as_millis(),
            state_seq: self.state_seq,
            ..Head::default()
        };
        change(&mut head);
        self.input(Input::Text(crate::codec::encode_server(&head, &event)));
    }

    /// The server changes the state.
    fn go(&mut self, state: State, trigger: &str) {
        let previous = self.state;
        self.state = state;
        self.state_seq += 1;
        self.say(ServerEvent::StateChanged(StateChanged {
            state,
            previous,
            trigger: trigger.into(),
            state_seq: self.state_seq,
            turn_id: None,
            reason: None,
        }));
    }

    /// The server refuses the last event.
    fn refuse(&mut self, code: crate::error::Code) {
        let (head, _) = self.sent.last().unwrap();
        let fault = crate::error::Fault::new(code)
            .about(head.id.clone())
            .with(json!({"state": self.state, "state_seq": self.state_seq}));
        self.say(ServerEvent::error(&fault));
    }

    fn invoke(&mut self, id: &str, action_id: &str, kind: &str, parameters: Value) {
        self.invoke_as(id, action_id, kind, parameters, |_| {});
    }

    fn invoke_as(
        &mut self,
        id: &str,
        action_id: &str,
        kind: &str,
        parameters: Value,
        change: impl FnOnce(&mut ActionInvoke),
    ) {
        let mut invoke = ActionInvoke {
            invocation_id: id.into(),
            action_id: action_id.into(),
            kind: kind.into(),
            parameters,
            context_version: self.client.screen.version(),
            response_id: "r-1".into(),
            timeout_ms: 10_000,
            follow_up: true,
            parallel: false,
            attempt: 1,
            confirmation_id: None,
        };
        change(&mut invoke);
        self.say(ServerEvent::ActionInvoke(Box::new(invoke)));
        if self.state == State::AiThinking {
            self.go(State::InvokeAction, "response.tool");
        }
    }

    /// The server has taken the last result.
    fn take_result(&mut self) -> ActionResult {
        let result = self.results().pop().expect("a result");
        self.go(State::AiThinking, "action.result");
        result
    }

    fn results(&self) -> Vec<ActionResult> {
        let results = self.sent.iter().filter_map(|(_, event)| {
            if let ClientEvent::ActionResult(result) = event { Some(result.as_ref().clone()) } else { None }
        });
        results.collect()
    }

    fn executed(&self) -> Vec<Execution> {
        let executed = self.events.iter().filter_map(|event| {
            if let Event::Execute(execution) = event { Some(execution.clone()) } else { None }
        });
        executed.collect()
    }

    /// The types of what was sent.
    fn said(&self) -> Vec<&'static str> {
        self.sent.iter().map(|(_, event)| event.name()).collect()
    }

    fn updates(&self) -> Vec<Value> {
        let updates = self.sent.iter().filter_map(|(_, event)| {
            if let ClientEvent::StateUpdate(update) = event { Some(update.0.clone()) } else { None }
        });
        updates.collect()
    }

    fn forget(&mut self) {
        self.sent.clear();
        self.frames.clear();
        self.events.clear();
    }
}

fn code(result: &ActionResult) -> &str {
    result.error.as_ref().map_or("", |error| error.code.as_str())
}

/// A packet of 20 ms from the microphone.
fn packet() -> Bytes {
    Bytes::from(vec![1; 640])
}
