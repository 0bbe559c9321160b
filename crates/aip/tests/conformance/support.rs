//! Clients that speak JSON to connections of the world. Every message that arrives is held against
//! §3.3 and §4, whatever the test is about.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use switchboard_aip::ledger::Bookkeeper;
use switchboard_aip::{Aip, AipLimits, Service};
use switchboard_core::model::FailureKind;
use switchboard_core::{Actor, Frame, Op, OpeningRequest, Principal, Scopes, SessionId};
use switchboard_testkit::{BatchCommand, Order, PeerId, Received, Script, Settings, Step, World};

/// A world with a server of this protocol in it.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) world: World,
    pub(crate) aip: Aip,
    grammar: Grammar,
}

/// What has been used once and may not be used again.
#[derive(Debug, Default)]
struct Grammar {
    /// The ids of the server's own messages, by their reader.
    response_ids: BTreeMap<PeerId, BTreeSet<String>>,
    call_ids: BTreeSet<String>,
    asked: BTreeMap<PeerId, BTreeSet<String>>,
}

/// What a client sees of a transport.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Message(Value),
    Ping,
    Close(u16),
    Lost,
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self::with(AipLimits::default(), Service::default(), Settings::default())
    }

    /// With events in an order that a seed chooses.
    pub(crate) fn seeded(seed: u64) -> Self {
        let settings = Settings { order: Order::Seeded(seed), seed, ..Settings::default() };
        Self::with(AipLimits::default(), Service::default(), settings)
    }

    pub(crate) fn limited(limits: AipLimits) -> Self {
        Self::with(limits, Service::default(), Settings::default())
    }

    /// A server whose constellations may register for no device.
    pub(crate) fn untargeted() -> Self {
        let service = Service { allow_untargeted: true, ..Service::default() };
        Self::with(AipLimits::default(), service, Settings::default())
    }

    pub(crate) fn with(limits: AipLimits, service: Service, settings: Settings) -> Self {
        let mut world = World::with(settings);
        world.set_default_agent("planner", planner());
        world.add_chronicler(Bookkeeper);
        for name in ["ann", "bob"] {
            world.issue(name, Principal::new(name));
        }
        let scoped = [
            ("cat", "device:cat-* constellation:cat@* target:dev* dispatch"),
            ("watcher", "read target:dev*"),
            ("sender", "target:dev* dispatch"),
        ];
        for (name, scopes) in scoped {
            world.issue(name, Principal { scopes: Scopes::parse(scopes), ..Principal::new(name) });
        }
        Self { world, aip: Aip::new(limits, service), grammar: Grammar::default() }
    }

    pub(crate) fn plan(&mut self, on: &str, steps: Vec<Step>) {
        self.world.set_default_agent("planner", planner().on(on, steps));
    }

    /// Opens a connection that has said nothing yet.
    pub(crate) fn enter(&mut self, token: &str) -> PeerId {
        self.world.knock(&self.aip, &socket(token)).unwrap().0
    }

    /// A registered device of ann's.
    pub(crate) fn device(&mut self, id: &str) -> PeerId {
        self.device_of("ann", id, json!({ "platform": "linux" }))
    }

    pub(crate) fn device_of(&mut self, token: &str, id: &str, metadata: Value) -> PeerId {
        let peer = self.enter(token);
        self.say(peer, &register(id, metadata));
        assert_eq!(self.short(peer), ["ack"], "{id} registers");
        peer
    }

    /// A registered constellation of ann's.
    pub(crate) fn boss(&mut self, id: &str, target: &str) -> PeerId {
        self.boss_of("ann", id, Some(target))
    }

    pub(crate) fn boss_of(&mut self, token: &str, id: &str, target: Option<&str>) -> PeerId {
        let peer = self.enter(token);
        self.say(peer, &register_boss(id, target));
        assert_eq!(self.short(peer), ["ack"], "{id} registers");
        peer
    }

    /// A device and a constellation for it.
    pub(crate) fn pair(&mut self) -> (PeerId, PeerId) {
        (self.device("dev"), self.boss("boss", "dev"))
    }

    /// The same, with a plan `big` for which one command is more than the transport of the device takes: it reads
    /// nothing, for now.
    pub(crate) fn pair_that_is_stalled(&mut self) -> (PeerId, PeerId) {
        let args = json!({ "text": "x".repeat(100_000) });
        let commands = vec![BatchCommand::new("big", args)];
        self.plan("big", vec![Step::Batch { commands, timeout_ms: 300_000 }]);
        let (dev, boss) = self.pair();
        self.world.stall(dev);
        (dev, boss)
    }

    /// Sends one text message.
    pub(crate) fn say(&mut self, peer: PeerId, message: &Value) {
        self.grammar.note(peer, message);
        self.world.send(peer, Frame::Text(message.to_string()));
    }

    /// Sends one text message, and nothing happens yet.
    pub(crate) fn enqueue(&mut self, peer: PeerId, message: &Value) {
        self.grammar.note(peer, message);
        self.world.enqueue(peer, Frame::Text(message.to_string()));
    }

    /// Everything that has arrived since it was last asked, in order.
    pub(crate) fn seen(&mut self, peer: PeerId) -> Vec<Seen> {
        let mut seen = Vec::new();
        for received in self.world.take(peer) {
            seen.push(match received {
                Received::Frame(Frame::Text(text)) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    self.grammar.hold(peer, &message);
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

    /// The one message that has arrived.
    pub(crate) fn one(&mut self, peer: PeerId) -> Value {
        let heard = self.heard(peer);
        assert_eq!(heard.len(), 1, "{heard:#?}");
        heard.into_iter().next().unwrap()
    }

    /// What has arrived, in short.
    pub(crate) fn short(&mut self, peer: PeerId) -> Vec<String> {
        let short = |seen: Seen| match seen {
            Seen::Message(message) => short(&message),
            Seen::Ping => "ping".to_owned(),
            Seen::Close(code) => format!("close {code}"),
            Seen::Lost => "lost".to_owned(),
        };
        self.seen(peer).into_iter().map(short).collect()
    }

    /// Has a constellation submit a task; the command that its device receives.
    pub(crate) fn command(&mut self, boss: PeerId, dev: PeerId, session: &str, request: &str) -> Value {
        self.say(boss, &task("dev", session, request));
        assert_eq!(self.short(boss), [format!("ack {session}")]);
        let command = self.one(dev);
        assert_eq!(command["type"], "command");
        command
    }

    /// A device does what it was asked: each command is a success that names its tool.
    pub(crate) fn obey(&mut self, dev: PeerId, command: &Value) {
        self.say(dev, &done(command));
    }

    /// A call of one of the HTTP endpoints: the status and the body.
    pub(crate) fn http(&mut self, key: &str, path: &'static str, target: &str, body: &Value) -> (u16, Value) {
        let request = endpoint(key, path, target);
        match self.world.exchange(&self.aip, &request, body.to_string().as_bytes()) {
            Ok((head, body)) => (head.status, serde_json::from_str(&body).unwrap()),
            Err(refusal) => {
                use switchboard_core::Protocol as _;
                let reply = self.aip.refuse(&refusal, "req-1");
                (reply.status, serde_json::from_str(&reply.body).unwrap())
            }
        }
    }

    /// An administrator releases the name of a device.
    pub(crate) fn release(&mut self, device: &str) {
        for owner in ["ann", "bob", "cat"] {
            let home = SessionId::named(&Principal::new(owner), &format!("\0aip\0{device}"));
            let release = Op::ReleaseDevice { device: device.into(), by: "root".into() };
            // Whoever never had it has nothing to release.
            let _ = self.world.ask(&home, Actor::server(), release);
        }
    }

    pub(crate) fn dispatch(&mut self, key: &str, body: &Value) -> (u16, Value) {
        self.http(key, "/api/dispatch", "", body)
    }

    pub(crate) fn task_result(&mut self, key: &str, name: &str) -> Value {
        let target = format!("/api/task_result/{name}");
        let (status, body) = self.http(key, "/api/task_result/{task_name}", &target, &Value::Null);
        assert_eq!(status, 200, "{body}");
        body
    }

    pub(crate) fn online(&mut self, key: &str) -> Vec<String> {
        let (status, body) = self.http(key, "/api/clients", "", &Value::Null);
        assert_eq!(status, 200, "{body}");
        serde_json::from_value(body["online_clients"].clone()).unwrap()
    }

    /// The names of the events of a session.
    pub(crate) fn events(&self, session: &SessionId) -> Vec<&'static str> {
        self.world.log(session).iter().map(|committed| committed.event.name()).collect()
    }

    /// How many events of this name there are, over all sessions.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.world.history().iter().filter(|(_, committed)| committed.event.name() == name).count()
    }
}

impl Grammar {
    /// Remembers what a client sent, since errors may repeat it.
    fn note(&mut self, peer: PeerId, message: &Value) {
        let id = message["request_id"].as_str().unwrap_or_default().to_owned();
        self.asked.entry(peer).or_default().insert(id);
    }

    /// Holds what the server sent against the tables of the reference.
    fn hold(&mut self, peer: PeerId, message: &Value) {
        let fields: Vec<&str> = message.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, FIELDS, "AIP-010: {message}");
        let time = message["timestamp"].as_str().unwrap();
        assert!(time.ends_with("+00:00") && time.contains('T'), "AIP-015: {message}");
        let (kind, status) = (text(message, "type"), text(message, "status"));
        let response_id = message["response_id"].as_str().unwrap_or_default().to_owned();
        let set: Vec<&str> = fields[2..]
            .iter()
            .copied()
            .filter(|field| *field != "timestamp" && *field != "response_id" && !message[*field].is_null())
            .collect();
        let allowed: &[&str] = match (kind.as_str(), status.as_str()) {
            ("heartbeat", "ok") => &["session_id"],
            ("error", "error") => {
                assert!(text(message, "error").chars().count() <= 1024, "AIP-078: {message}");
                &["error", "session_id"]
            }
            ("task", "continue") => &["user_request", "session_id", "task_name"],
            ("command", "continue") => {
                self.hold_command(message);
                &["agent_name", "process_name", "root_name", "actions", "messages", "session_id", "task_name"]
            }
            ("task_end", "completed") => &["session_id", "result"],
            ("task_end", "failed") => {
                assert!(message["error"].is_string() || !message["result"].is_null(), "AIP-055: {message}");
                let length = message["error"].as_str().unwrap_or_default().chars().count();
                assert!(length <= 1024, "AIP-078: {message}");
                &["error", "session_id", "result"]
            }
            ("device_info_request", "ok") => &[],
            ("device_info_response", "ok") => &["result"],
            ("device_info_response", "error") => &["error", "result"],
            _ => panic!("§4 has no {kind} with {status}: {message}"),
        };
        for field in set {
            assert!(allowed.contains(&field), "§4 has no {field} here: {message}");
        }
        if kind == "device_info_response" {
            return;
        }
        assert!(!response_id.is_empty(), "{message}");
        let echoed = kind == "error" && self.asked.get(&peer).is_some_and(|ids| ids.contains(&response_id));
        let fresh = self.response_ids.entry(peer).or_default().insert(response_id);
        assert!(fresh || echoed, "an id is used twice: {message}");
    }

    fn hold_command(&mut self, message: &Value) {
        let actions = message["actions"].as_array().unwrap();
        assert!(!actions.is_empty() && actions.len() <= 128, "AIP-048: {message}");
        assert!(message["session_id"].is_string() && message["agent_name"].is_string(), "{message}");
        for action in actions {
            let fields: Vec<&str> = action.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(fields, ["tool_name", "parameters", "tool_type", "call_id"], "{message}");
            assert!(self.call_ids.insert(text(action, "call_id")), "AIP-048: {message}");
        }
    }
}

pub(crate) fn text(message: &Value, field: &str) -> String {
    message[field].as_str().unwrap_or_else(|| panic!("{field} in {message}")).to_owned()
}

/// One message in short: what it is, and what matters about it.
pub(crate) fn short(message: &Value) -> String {
    let part = |field: &str| message[field].as_str().map(|text| format!(" {text}")).unwrap_or_default();
    match message["type"].as_str().unwrap() {
        "heartbeat" => format!("ack{}", part("session_id")),
        "error" => format!("error{}", part("error")),
        "task" => format!("task{}{}", part("task_name"), part("user_request")),
        "command" => {
            let tools = message["actions"].as_array().unwrap().iter().map(|action| text(action, "tool_name"));
            format!("command{} {}", part("session_id"), tools.collect::<Vec<_>>().join(","))
        }
        "task_end" => format!("end{}{}{}", part("session_id"), part("status"), part("error")),
        "device_info_request" => "info?".to_owned(),
        _ => format!("info{}{}", part("status"), part("error")),
    }
}

/// A request for the socket, with the token where the reference has it.
pub(crate) fn socket(token: &str) -> OpeningRequest {
    OpeningRequest {
        path: "/ws",
        query: format!("token={token}"),
        websocket: true,
        ..OpeningRequest::default()
    }
}

/// A request for an HTTP endpoint; without a key if it is empty.
pub(crate) fn endpoint(key: &str, path: &'static str, target: &str) -> OpeningRequest {
    let headers = if key.is_empty() { Vec::new() } else { vec![("x-api-key", key.to_owned())] };
    OpeningRequest { path, target: target.to_owned(), headers, ..OpeningRequest::default() }
}

pub(crate) fn register(id: &str, metadata: Value) -> Value {
    json!({ "type": "register", "status": "ok", "client_id": id, "metadata": metadata })
}

pub(crate) fn register_boss(id: &str, target: Option<&str>) -> Value {
    json!({
        "type": "register", "status": "ok", "client_type": "constellation", "client_id": id,
        "target_id": target,
    })
}

/// A task of a constellation.
pub(crate) fn task(target: &str, session: &str, request: &str) -> Value {
    json!({
        "type": "task", "status": "continue", "client_type": "constellation", "target_id": target,
        "session_id": session, "task_name": "t1", "request": request,
    })
}

/// A task of a device, for itself.
pub(crate) fn own_task(session: &str, request: &str) -> Value {
    json!({
        "type": "task", "status": "continue", "session_id": session, "task_name": "own", "request": request,
    })
}

pub(crate) fn beat() -> Value {
    json!({ "type": "heartbeat", "status": "ok" })
}

pub(crate) fn stop(role: &str, session: &str, status: &str, error: Option<&str>) -> Value {
    json!({
        "type": "task_end", "status": status, "client_type": role, "session_id": session, "error": error,
    })
}

/// Results for a command, as they are.
pub(crate) fn results(command: &Value, results: Value) -> Value {
    json!({
        "type": "command_results", "status": "continue", "session_id": command["session_id"],
        "prev_response_id": command["response_id"], "action_results": results,
    })
}

/// Every command of a message is a success that names its tool.
pub(crate) fn done(command: &Value) -> Value {
    let one = |action: &Value| json!({ "status": "success", "result": { "tool": action["tool_name"] }, "call_id": action["call_id"] });
    results(command, command["actions"].as_array().unwrap().iter().map(one).collect())
}

pub(crate) fn batch(tools: &[&str]) -> Step {
    let commands = tools.iter().map(|tool| BatchCommand::new(tool, json!({})));
    Step::Batch { commands: commands.collect(), timeout_ms: 300_000 }
}

pub(crate) fn finish() -> Step {
    Step::EndWithResults { result: Some(json!("fine")), error: None }
}

/// The agent that plans: what it does depends on what it is asked.
pub(crate) fn planner() -> Script {
    Script::new()
        .on("one", vec![batch(&["look"]), finish()])
        .on("two", vec![batch(&["look", "click"]), batch(&["type"]), finish()])
        .on("strict", vec![batch(&["look"]), Step::FailIfFailed("it failed".into()), finish()])
        .on("slow", vec![Step::Wait(1000), batch(&["look"]), finish()])
        .on("raise", vec![Step::Fail { kind: FailureKind::Execution, message: "no plan".into() }])
        .on("panic", vec![Step::Panic])
        .on("deaf", vec![Step::Deaf, batch(&["look"]), Step::Hang])
        .on("hang", vec![Step::Hang])
}

/// The session that ann calls so.
pub(crate) fn session(name: &str) -> SessionId {
    SessionId::named(&Principal::new("ann"), name)
}

pub(crate) const FIELDS: [&str; 14] = [
    "type",
    "status",
    "user_request",
    "agent_name",
    "process_name",
    "root_name",
    "actions",
    "messages",
    "error",
    "session_id",
    "task_name",
    "timestamp",
    "response_id",
    "result",
];

/// How a task ends whose device is gone.
pub(crate) const DEVICE_LOST: &str = "Task was cancelled because target device disconnected";
/// How a task ends whose owner is gone.
pub(crate) const OWNER_LOST: &str = "Task was cancelled due to client disconnection";
