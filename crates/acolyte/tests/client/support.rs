//! A client whose other end is a test.

use serde_json::{Value, json};
use switchboard_acolyte::client::{
    AcolyteClient, ChatEvent, ChatId, ClientConfig, Ending, Event, Fault, Input, Output,
};
use switchboard_acolyte::message::{ChatRequest, StreamEvent};
use switchboard_core::client::{Cause, Down};
use switchboard_core::{ClientMachine as _, Seed, Timestamp};

pub(crate) struct World {
    pub(crate) client: AcolyteClient,
    pub(crate) now: u64,
    pub(crate) sent: Vec<Value>,
    pub(crate) events: Vec<Event>,
    pub(crate) pings: usize,
    pub(crate) dials: usize,
    pub(crate) closed: Option<u16>,
    pub(crate) wake: Option<u64>,
}

impl World {
    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    /// Without a connection.
    pub(crate) fn new() -> Self {
        let client = AcolyteClient::new(ClientConfig::default(), Seed::new([7; 32]));
        Self {
            client,
            now: 0,
            sent: Vec::new(),
            events: Vec::new(),
            pings: 0,
            dials: 0,
            closed: None,
            wake: None,
        }
    }

    /// Connected to a server that understands this.
    pub(crate) fn up(capabilities: &str) -> Self {
        let mut world = Self::new();
        world.open(capabilities);
        world.events.clear();
        world
    }

    /// The next connection, agreed upon.
    pub(crate) fn open(&mut self, capabilities: &str) {
        self.give(Input::Opened);
        let offer = self.take("status.get");
        self.hear(&json!({"id": offer["id"], "type": "status.result", "status": status(capabilities)}));
    }

    pub(crate) fn give(&mut self, input: Input) {
        self.client.handle_input(input, self.at());
        self.drain();
    }

    pub(crate) fn hear(&mut self, message: &Value) {
        self.give(Input::Text(message.to_string()));
    }

    /// A message about a chat.
    pub(crate) fn tell(&mut self, wire: &str, name: &str, mut fields: Value) {
        fields["id"] = wire.into();
        fields["type"] = name.into();
        self.hear(&fields);
    }

    /// An event of a chat.
    pub(crate) fn stream(&mut self, wire: &str, event: &Value) {
        self.tell(wire, "chat.event", json!({"event": event}));
    }

    /// An event of a chat, with its place.
    pub(crate) fn placed(&mut self, wire: &str, event: &Value, position: u64) {
        self.tell(wire, "chat.event", json!({"event": event, "position": position}));
    }

    pub(crate) fn drain(&mut self) {
        loop {
            match self.client.poll_output() {
                Output::Text(text) => self.sent.push(serde_json::from_str(&text).unwrap()),
                Output::Ping => self.pings += 1,
                Output::Close(code) => self.closed = Some(code),
                Output::Event(Event::Down(Down { cause, retry_at })) => {
                    assert_eq!(retry_at.is_some(), cause.is_temporary(), "{cause}");
                    self.events.push(down(cause));
                }
                Output::Event(event) => self.events.push(event),
                Output::Dial => self.dials += 1,
                Output::Binary(_) => panic!("a binary message"),
                Output::Idle { wake } => {
                    self.wake = wake.map(Timestamp::as_millis);
                    return;
                }
            }
        }
    }

    /// The one message that was sent, which must be of this type.
    pub(crate) fn take(&mut self, method: &str) -> Value {
        assert_eq!(self.sent.len(), 1, "{:?}", self.sent);
        let message = self.sent.remove(0);
        assert_eq!(message["type"], method, "{message}");
        message
    }

    /// Starts a chat; answers it and its id on the wire.
    pub(crate) fn start(&mut self, message: &str) -> (ChatId, String) {
        let chat = self.client.start(request(message)).unwrap();
        self.drain();
        let sent = self.take("chat.start");
        (chat, sent["id"].as_str().unwrap().to_owned())
    }

    /// Starts a chat that the server accepts and begins.
    pub(crate) fn begin(&mut self, message: &str) -> (ChatId, String) {
        let (chat, wire) = self.start(message);
        self.tell(&wire, "chat.accepted", json!({"taskId": "task_1"}));
        self.tell(&wire, "chat.started", json!({}));
        self.events.clear();
        (chat, wire)
    }

    pub(crate) fn abort(&mut self, chat: ChatId) {
        self.client.abort(chat, self.at());
        self.drain();
    }

    /// Time passes, and the client is woken whenever it wants to be.
    pub(crate) fn pass(&mut self, millis: u64) {
        let until = self.now + millis;
        while let Some(wake) = self.wake.filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.give(Input::Timeout);
        }
        self.now = until;
    }

    /// What was told since the last time.
    pub(crate) fn told(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The text that was told so far.
    pub(crate) fn text(&self) -> String {
        let text = |event: &Event| match event {
            Event::Chat(_, ChatEvent::Stream(StreamEvent::TextDelta { text })) => text.to_string(),
            _ => String::new(),
        };
        self.events.iter().map(text).collect()
    }

    /// How the one chat that ended has ended.
    pub(crate) fn ending(&self) -> Ending {
        let endings: Vec<&Ending> = self
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Ended(_, ending) => Some(ending),
                _ => None,
            })
            .collect();
        match endings.as_slice() {
            [ending] => (*ending).clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// Not connected any more, whenever that is tried again.
pub(crate) fn down(cause: impl Into<Cause<Fault>>) -> Event {
    Event::Down(Down { cause: cause.into(), retry_at: None })
}

pub(crate) fn request(message: &str) -> ChatRequest {
    ChatRequest {
        message: message.to_owned(),
        model: "m".to_owned(),
        session_id: Some("sess_a".to_owned()),
        ..ChatRequest::default()
    }
}

pub(crate) fn status(agreed: &str) -> Value {
    json!({
        "ok": true, "providers": [], "provider_auth": [], "model": "m", "protocol_version": "1",
        "capabilities": agreed, "service": "http://h", "tasks_total": 0, "tasks_running": 0,
        "rpc_queue_length": 0, "protocol_versions": ["1"], "capabilities_agreed": agreed,
    })
}

pub(crate) fn delta(text: &str) -> Value {
    json!({"type": "text-delta", "text": text})
}

pub(crate) fn reply(output: &str, streamed: bool) -> Value {
    json!({"reply": {"output": output, "outputStreamed": streamed, "model": "m"}})
}

pub(crate) const RESUME: &str = "task.resume";
