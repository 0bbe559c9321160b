//! Clients that speak JSON to connections of the world. Every message that arrives is held against
//! the grammar of §5.2, whatever the test is about.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_acolyte::codec::{StreamReader, Streamed};
use switchboard_acolyte::{Acolyte, AcolyteLimits, Service};
use switchboard_core::{Frame, Head, OpeningRequest, Pii, Principal, SessionId, Timestamp};
use switchboard_testkit::{PeerId, Received, Script, Settings, Step, World};

/// A world with a server of this protocol in it, and one client.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) world: World,
    pub(crate) acolyte: Acolyte,
    pub(crate) peer: PeerId,
    limits: AcolyteLimits,
    service: Service,
    grammar: BTreeMap<(PeerId, String), Place>,
    next_id: u32,
}

/// Where a chat is, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Accepted,
    Started,
}

/// What a client sees of a transport.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Message(Value),
    Ping,
    Close(u16),
    Lost,
}

/// What came over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) head: Option<Head>,
    pub(crate) body: String,
    pub(crate) closed: bool,
}

impl Talk {
    pub(crate) fn new(script: Script) -> Self {
        Self::with(script, AcolyteLimits::default(), Settings::default())
    }

    pub(crate) fn with(script: Script, limits: AcolyteLimits, settings: Settings) -> Self {
        let service = Service {
            server: "switchboard/test".into(),
            model: Some("demo".into()),
            providers: vec!["openai".into()],
            provider_auth: vec!["openai (api key)".into()],
            deny_questions: true,
        };
        Self::serving(script, limits, service, settings)
    }

    pub(crate) fn serving(
        script: Script,
        limits: AcolyteLimits,
        service: Service,
        settings: Settings,
    ) -> Self {
        let mut world = World::with(settings);
        world.set_default_agent("demo", script);
        for name in ["ann", "bob"] {
            world.issue(name, Principal::new(name));
        }
        let acolyte = Acolyte::new(limits.clone(), service.clone());
        let (peer, _) = world.knock(&acolyte, &rpc("ann")).unwrap();
        let grammar = BTreeMap::new();
        Self { world, acolyte, peer, limits, service, grammar, next_id: 0 }
    }

    /// One more connection of ann's.
    pub(crate) fn connect(&mut self) -> PeerId {
        self.connect_as("ann")
    }

    pub(crate) fn connect_as(&mut self, token: &str) -> PeerId {
        self.world.knock(&self.acolyte, &rpc(token)).unwrap().0
    }

    /// The server dies and starts again; it remembers nothing but its log.
    pub(crate) fn restart(&mut self) {
        self.world.crash();
        self.acolyte = Acolyte::new(self.limits.clone(), self.service.clone());
        self.world.restart();
        self.peer = self.connect();
    }

    /// Sends one text message.
    pub(crate) fn say(&mut self, peer: PeerId, message: &Value) {
        self.world.send(peer, Frame::Text(message.to_string()));
    }

    /// Sends one text message, and nothing happens yet.
    pub(crate) fn enqueue(&mut self, peer: PeerId, message: &Value) {
        self.world.enqueue(peer, Frame::Text(message.to_string()));
    }

    /// Starts a chat without a session.
    pub(crate) fn start(&mut self, id: &str, message: &str) {
        self.say(self.peer, &start(id, message));
    }

    /// Starts a chat in a session.
    pub(crate) fn start_in(&mut self, peer: PeerId, id: &str, session: &str, message: &str) {
        self.say(peer, &start_in(id, session, message));
    }

    pub(crate) fn abort(&mut self, id: &str, request: &str) {
        self.say(self.peer, &abort(id, request));
    }

    /// Makes an offer; what was agreed.
    pub(crate) fn offer(&mut self, peer: PeerId, capabilities: &str) -> String {
        self.next_id += 1;
        let id = format!("rpc_offer{}", self.next_id);
        let payload = json!({"protocol_version": "1", "capabilities": capabilities});
        self.say(peer, &json!({"id": id, "type": "status.get", "payload": payload}));
        let heard = self.heard(peer);
        heard.last().unwrap()["status"]["capabilities_agreed"].as_str().unwrap().to_owned()
    }

    /// Everything that has arrived since it was last asked, in order.
    pub(crate) fn seen(&mut self, peer: PeerId) -> Vec<Seen> {
        let mut seen = Vec::new();
        for received in self.world.take(peer) {
            seen.push(match received {
                Received::Frame(Frame::Text(text)) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    self.hold_against_grammar(peer, &message);
                    Seen::Message(message)
                }
                Received::Frame(Frame::Ping(_)) => Seen::Ping,
                Received::Frame(other) => panic!("the server sent {other:?}"),
                Received::Close(close) => Seen::Close(close.code),
                Received::Lost => Seen::Lost,
            });
        }
        seen
    }

    /// The messages that have arrived; nothing else may have.
    pub(crate) fn heard(&mut self, peer: PeerId) -> Vec<Value> {
        let seen = self.seen(peer).into_iter().map(|seen| match seen {
            Seen::Message(message) => message,
            other => panic!("not a message: {other:?}"),
        });
        seen.collect()
    }

    /// The messages for the first client.
    pub(crate) fn here(&mut self) -> Vec<Value> {
        self.heard(self.peer)
    }

    /// The one message for the first client.
    pub(crate) fn one(&mut self) -> Value {
        let heard = self.here();
        assert_eq!(heard.len(), 1, "{heard:#?}");
        heard.into_iter().next().unwrap()
    }

    /// Asks for a task on a connection; null if there is none.
    pub(crate) fn task(&mut self, peer: PeerId, task: &str) -> Value {
        self.task_in(peer, task, None)
    }

    pub(crate) fn task_in(&mut self, peer: PeerId, task: &str, session: Option<&str>) -> Value {
        self.next_id += 1;
        let id = format!("rpc_task{}", self.next_id);
        let mut payload = json!({"taskId": task});
        if let Some(session) = session {
            payload["sessionId"] = session.into();
        }
        self.say(peer, &json!({"id": id, "type": "task.status", "payload": payload}));
        let heard = self.heard(peer);
        let answer = heard.into_iter().find(|message| message["id"] == id.as_str()).unwrap();
        assert_eq!(answer["type"], "task.status.result");
        assert!(answer.as_object().unwrap().contains_key("task"), "the key is always there");
        answer["task"].clone()
    }

    pub(crate) fn state(&mut self, peer: PeerId, task: &str) -> String {
        self.task(peer, task)["state"].as_str().unwrap().to_owned()
    }

    /// What the server says of itself.
    pub(crate) fn status(&mut self, peer: PeerId) -> Value {
        self.next_id += 1;
        let id = format!("rpc_status{}", self.next_id);
        self.say(peer, &json!({"id": id, "type": "status.get"}));
        let heard = self.heard(peer);
        heard.into_iter().find(|message| message["id"] == id.as_str()).unwrap()["status"].clone()
    }

    /// Posts a request over HTTP.
    pub(crate) fn post(&mut self, body: &str) -> PeerId {
        let request = OpeningRequest { path: "/v1/chat/stream", websocket: false, ..rpc("ann") };
        let (peer, _) = self.world.knock(&self.acolyte, &request).unwrap();
        self.world.send_bytes(peer, body.as_bytes());
        peer
    }

    /// What has arrived over HTTP.
    pub(crate) fn answer(&mut self, peer: PeerId) -> Answer {
        let mut answer = Answer { head: None, body: String::new(), closed: false };
        for received in self.world.take(peer) {
            match received {
                Received::Frame(Frame::Head(head)) => {
                    assert!(answer.head.is_none() && answer.body.is_empty(), "the head comes first, once");
                    answer.head = Some(*head);
                }
                Received::Frame(Frame::Text(text)) => answer.body.push_str(&text),
                Received::Close(_) => answer.closed = true,
                other => panic!("the server sent {other:?}"),
            }
        }
        answer
    }

    /// The session that ann calls so.
    pub(crate) fn session(name: &str) -> SessionId {
        SessionId::named(&Principal::new("ann"), name)
    }

    fn hold_against_grammar(&mut self, peer: PeerId, message: &Value) {
        let id = message["id"].as_str().unwrap().to_owned();
        let kind = message["type"].as_str().unwrap();
        assert!(is_id(&id, "rpc"), "{message}");
        for (key, prefix) in [("taskId", "task"), ("errorId", "err"), ("requestId", "rpc")] {
            if let Some(value) = message.get(key) {
                assert!(is_id(value.as_str().unwrap(), prefix), "{message}");
            }
        }
        let place = self.grammar.get(&(peer, id.clone())).copied();
        let next = match (place, kind) {
            (None, "chat.accepted") => Some(Place::Accepted),
            (Some(Place::Accepted), "chat.queued") => {
                assert!(message["position"].as_u64().unwrap() >= 1);
                place
            }
            (Some(Place::Accepted), "chat.started") => Some(Place::Started),
            (Some(Place::Started), "chat.event") => place,
            (Some(Place::Started), "chat.done") => {
                let reply = &message["reply"];
                assert!(reply["output"].is_string() && reply["outputStreamed"].is_boolean(), "{message}");
                assert!(!reply["model"].as_str().unwrap().is_empty(), "{message}");
                None
            }
            (Some(_), "chat.error") => {
                // A chat that waits may end without a start: aborted, or since it can never be one.
                let early = ["E_ABORTED", "E_UNKNOWN"].iter().any(|code| message["errorCode"] == *code);
                assert!(early || place == Some(Place::Started), "started comes first: {message}");
                assert!(message["errorMessage"].is_string() && message["errorId"].is_string());
                assert_eq!(message["errorCode"], message["error"]["code"]);
                for key in ["code", "category", "kind", "source"] {
                    assert!(message["error"][key].is_string(), "{message}");
                }
                None
            }
            (place, "error" | "status.result" | "task.status.result" | "chat.abort.result") => place,
            (place, _) => panic!("{message} at {place:?}"),
        };
        match next {
            Some(next) => self.grammar.insert((peer, id), next),
            None => self.grammar.remove(&(peer, id)),
        };
    }
}

/// An upgrade with a key.
pub(crate) fn rpc(token: &str) -> OpeningRequest {
    OpeningRequest {
        path: "/v1/rpc",
        origin: "http://localhost:6767".into(),
        authorization: Some(Pii(format!("Bearer {token}"))),
        websocket: true,
        ..OpeningRequest::default()
    }
}

pub(crate) fn start(id: &str, message: &str) -> Value {
    start_with(id, json!({"message": message, "history": [], "model": "gpt-5-mini"}))
}

pub(crate) fn start_in(id: &str, session: &str, message: &str) -> Value {
    start_with(id, json!({"message": message, "history": [], "model": "gpt-5-mini", "sessionId": session}))
}

pub(crate) fn start_with(id: &str, request: Value) -> Value {
    json!({"id": id, "type": "chat.start", "payload": {"request": request}})
}

pub(crate) fn abort(id: &str, request: &str) -> Value {
    json!({"id": id, "type": "chat.abort", "payload": {"requestId": request}})
}

pub(crate) fn attach(id: &str, task: Option<&str>, session: Option<&str>, after: u64) -> Value {
    let mut payload = json!({"after": after});
    if let Some(task) = task {
        payload["taskId"] = task.into();
    }
    if let Some(session) = session {
        payload["sessionId"] = session.into();
    }
    json!({"id": id, "type": "chat.attach", "payload": payload})
}

pub(crate) fn is_id(text: &str, prefix: &str) -> bool {
    let body = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).unwrap_or_default();
    !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Messages in short: the id, the type, and what matters about it.
pub(crate) fn short(messages: &[Value]) -> Vec<String> {
    let one = |message: &Value| {
        let id = message["id"].as_str().unwrap().trim_start_matches("rpc_");
        let kind = message["type"].as_str().unwrap().trim_start_matches("chat.");
        let detail = match kind {
            "queued" => format!(" {}", message["position"]),
            "event" => match message["event"]["type"].as_str().unwrap() {
                "text-delta" => format!(" {}", message["event"]["text"]),
                other => format!(" {other}"),
            },
            "done" => format!(" {}", message["reply"]["output"]),
            "error" if message.get("errorCode").is_some() => {
                format!(" {}", message["errorCode"].as_str().unwrap())
            }
            "error" => " refused".to_owned(),
            "abort.result" => format!(" {}", message["aborted"]),
            _ => String::new(),
        };
        format!("{id} {kind}{detail}")
    };
    messages.iter().map(one).collect()
}

/// As [`short`], without status and usage.
pub(crate) fn gist(messages: &[Value]) -> Vec<String> {
    let mut short = short(messages);
    short.retain(|line| !line.ends_with(" event usage") && !line.ends_with(" event status"));
    short
}

/// The messages of one chat.
pub(crate) fn of(messages: &[Value], id: &str) -> Vec<Value> {
    messages.iter().filter(|message| message["id"] == id).cloned().collect()
}

/// The events of one chat.
pub(crate) fn events(messages: &[Value], id: &str) -> Vec<Value> {
    let of = messages.iter().filter(|message| message["id"] == id && message["type"] == "chat.event");
    of.map(|message| message["event"].clone()).collect()
}

pub(crate) fn of_type(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == kind).cloned().collect()
}

pub(crate) fn texts(events: &[Value]) -> String {
    of_type(events, "text-delta").iter().map(|event| event["text"].as_str().unwrap()).collect()
}

/// The task of a chat.
pub(crate) fn task_of(messages: &[Value], id: &str) -> String {
    let accepted =
        messages.iter().find(|message| message["id"] == id && message["type"] == "chat.accepted").unwrap();
    accepted["taskId"].as_str().unwrap().to_owned()
}

pub(crate) fn reply_of(messages: &[Value], id: &str) -> Value {
    let done = messages.iter().find(|message| message["id"] == id && message["type"] == "chat.done");
    done.unwrap_or_else(|| panic!("{id} is not done: {messages:#?}"))["reply"].clone()
}

/// The frames of a stream over HTTP.
pub(crate) fn frames(body: &str) -> Vec<Value> {
    let blocks = body.split("\n\n").filter(|block| !block.is_empty() && *block != ":");
    blocks.map(|block| serde_json::from_str(block.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

pub(crate) fn streamed(body: &str) -> Vec<Streamed> {
    StreamReader::default().push(body.as_bytes())
}

pub(crate) fn text(text: &str) -> Step {
    Step::Text(text.into())
}

/// A story that begins to answer and never ends by itself.
pub(crate) fn hang() -> Script {
    Script::new()
        .on("hang", vec![text("x"), Step::Hang])
        .on("deaf", vec![text("x"), Step::Deaf, Step::Hang])
        .on("soon", vec![text("a"), Step::Wait(1000), text("b")])
}

/// Seconds since an ISO 8601 time began its day, and its milliseconds.
pub(crate) fn iso_millis(text: &str) -> u64 {
    let time = text.strip_suffix('Z').unwrap().split_once('T').unwrap().1;
    let (whole, millis) = time.split_once('.').unwrap();
    let mut parts = whole.split(':').map(|part| part.parse::<u64>().unwrap());
    let (hours, minutes, seconds) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis.parse::<u64>().unwrap()
}

/// How many events of this name a session has.
pub(crate) fn count(world: &World, name: &str) -> usize {
    world.history().iter().filter(|(_, committed)| committed.event.name() == name).count()
}

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}
