//! A peer of AIP on its WebSocket, written from the reference alone.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::check::{Outcome, Run, Stop, must};
use super::super::inbox::{Inbox, read_json};
use crate::probe::{Over, Request, Socket, Target};

pub(super) const PATH: &str = "/ws";

/// The fields of a message of a server, in order.
const FIELDS: [&str; 14] = [
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

/// A connection, as a device or as a constellation.
pub(super) struct Link {
    socket: Socket,
    inbox: VecDeque<Value>,
    /// Under which name it is registered.
    pub(super) name: String,
    /// The device that it is for, if it is a constellation.
    pub(super) target: Option<String>,
}

/// A command for the deterministic planner.
pub(super) fn command(tool: &str, parameters: &Value) -> Value {
    json!({ "tool_name": tool, "tool_type": "action", "parameters": parameters })
}

/// A request for the deterministic planner: these turns of commands, and other members.
pub(super) fn script(turns: &[Vec<Value>], more: &Value) -> String {
    let mut plan = json!({ "turns": turns });
    for (name, value) in more.as_object().into_iter().flatten() {
        plan[name] = value.clone();
    }
    format!("aip-script:{plan}")
}

impl Link {
    /// A connection that has not said a word.
    pub(super) async fn open(run: &Run<'_>) -> Outcome<Self> {
        Self::open_as(run, run.target).await
    }

    /// The same as somebody else.
    pub(super) async fn open_as(run: &Run<'_>, target: &Target) -> Outcome<Self> {
        let socket = target.socket(&run.log, &Request::upgrade(PATH, &[])).await?;
        Ok(Self { socket, inbox: VecDeque::new(), name: format!("conform-{}", run.fresh()?), target: None })
    }

    /// A registered device.
    pub(super) async fn device(run: &Run<'_>) -> Outcome<Self> {
        let mut link = Self::open(run).await?;
        let facts = json!({ "device_id": link.name, "platform": "linux", "cpu_count": 3 });
        link.register(json!({ "metadata": { "platform": "linux", "system_info": facts } })).await?;
        Ok(link)
    }

    /// A constellation for a device.
    pub(super) async fn constellation(run: &Run<'_>, device: &Self) -> Outcome<Self> {
        let mut link = Self::open(run).await?;
        link.target = Some(device.name.clone());
        link.register(json!({ "target_id": device.name })).await?;
        Ok(link)
    }

    /// A device and a constellation for it.
    pub(super) async fn pair(run: &Run<'_>) -> Outcome<(Self, Self)> {
        let device = Self::device(run).await?;
        let constellation = Self::constellation(run, &device).await?;
        Ok((device, constellation))
    }

    async fn register(&mut self, fields: Value) -> Outcome {
        self.send("register", "ok", fields).await;
        let answer = self.wait("the confirmation of a registration", |_| true).await?;
        let fits =
            answer["type"] == "heartbeat" && answer["status"] == "ok" && answer["response_id"].is_string();
        must!(fits, "heartbeat ok with a response_id, got {answer}");
        Ok(())
    }

    /// Sends a message under its own name and role, with these fields.
    pub(super) async fn send(&mut self, kind: &str, status: &str, fields: Value) {
        let role = if self.target.is_some() { "constellation" } else { "device" };
        let mut message =
            json!({ "type": kind, "status": status, "client_type": role, "client_id": self.name });
        for (name, value) in fields.as_object().into_iter().flatten() {
            message[name] = value.clone();
        }
        self.raw(&message.to_string()).await;
    }

    /// Sends text.
    pub(super) async fn raw(&mut self, text: &str) {
        self.socket.text(text).await;
    }

    /// Sends a binary message.
    pub(super) async fn binary(&mut self, text: &str) {
        self.socket.binary(text.as_bytes().to_vec(), &format!("binary: {text}")).await;
    }

    /// Sends text as fragments of the transport.
    pub(super) async fn fragments(&mut self, pieces: &[&str]) {
        self.socket.fragments(pieces).await;
    }

    /// The next of a kind in a session.
    pub(super) async fn kind(&mut self, kind: &str, session: &str) -> Outcome<Value> {
        let own = |message: &Value| message["type"] == kind && message["session_id"] == session;
        self.wait(&format!("{kind} of {session}"), own).await
    }

    /// The next error.
    pub(super) async fn error(&mut self) -> Outcome<Value> {
        let error = self.wait("an error", |message| message["type"] == "error").await?;
        let fits = error["status"] == "error"
            && error["error"].as_str().is_some_and(|text| !text.is_empty() && text.chars().count() <= 1_024);
        must!(fits, "an error with a short text, got {error}");
        Ok(error)
    }

    /// That the link is heard: a heartbeat is answered.
    pub(super) async fn beat(&mut self) -> Outcome<Value> {
        self.send("heartbeat", "ok", json!({})).await;
        self.wait("the answer to a heartbeat", |message| {
            message["type"] == "heartbeat" && message["session_id"].is_null()
        })
        .await
    }

    /// Submits a task under this session, and waits until it is accepted.
    pub(super) async fn task(&mut self, session: &str, request: &str) -> Outcome {
        self.submit(session, request).await;
        let ack =
            self.wait("the acknowledgement of a task", |message| message["session_id"] == session).await?;
        must!(ack["type"] == "heartbeat" && ack["status"] == "ok", "heartbeat ok first, got {ack}");
        Ok(())
    }

    /// Submits a task.
    pub(super) async fn submit(&mut self, session: &str, request: &str) {
        let fields = json!({ "session_id": session, "request": request, "task_name": "conform", "target_id": self.target });
        self.send("task", "continue", fields).await;
    }

    /// Answers a command: each of its actions succeeded, with what it was given.
    pub(super) async fn succeed(&mut self, command: &Value) {
        self.results(command, "success", "continue").await;
    }

    /// Answers a command.
    pub(super) async fn results(&mut self, command: &Value, each: &str, status: &str) {
        let actions = command["actions"].as_array().cloned().unwrap_or_default();
        let results: Vec<Value> = actions
            .iter()
            .map(|action| json!({ "status": each, "result": action["parameters"], "call_id": action["call_id"] }))
            .collect();
        let fields = json!({ "session_id": command["session_id"], "action_results": results,
            "prev_response_id": command["response_id"] });
        self.send("command_results", status, fields).await;
    }

    /// How a task ended.
    pub(super) async fn end(&mut self, session: &str) -> Outcome<Value> {
        let end = self.kind("task_end", session).await?;
        let known = end["status"] == "completed" || end["status"] == "failed";
        must!(known, "completed or failed, got {end}");
        Ok(end)
    }

    /// That the server closes with this code.
    pub(super) async fn closed(&mut self, code: u16, patience: Duration) -> Outcome {
        let end = Instant::now() + patience;
        loop {
            match self.read(end).await? {
                Ok(_) => {}
                Err(Over::Closed(closed)) if closed == code => return Ok(()),
                Err(over) => return Err(Stop::fault(format!("expected a close with {code}: {over}"))),
            }
        }
    }

    /// That a ping is answered.
    pub(super) async fn pong(&mut self) -> Outcome {
        self.socket.pong().await.map_err(|over| Stop::fault(format!("expected a pong: {over}")))
    }

    /// Whether the server pings within this time.
    pub(super) async fn pinged(&mut self, patience: Duration) -> bool {
        self.socket.pinged(patience).await.is_ok()
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        self.socket.close().await;
    }

    /// Goes away without a word.
    pub(super) fn cut(self) {
        self.socket.cut();
    }
}

impl Inbox for Link {
    type Message = Value;

    fn inbox(&mut self) -> &mut VecDeque<Value> {
        &mut self.inbox
    }

    async fn read(&mut self, end: Instant) -> Outcome<Result<Value, Over>> {
        let message = read_json(&mut self.socket, end).await?;
        if let Ok(message) = &message {
            let names: Vec<&str> =
                message.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            must!(names == FIELDS, "the fourteen fields in order, got {names:?}");
        }
        Ok(message)
    }
}
