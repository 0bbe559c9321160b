//! The only seam between the protocol and the model (§15).

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use switchboard_core::model::{
    Call, CallEnd, CallError, CallKind, Executor, Failure, Finish, Origin, Output, TurnEnd, TurnOutcome,
    TurnRequest,
};
use switchboard_core::{CallId, Callsign, Event, Seed, SessionId, TurnId};

use crate::codec::{self, CommandParts};
use crate::error::{bounded, words};
use crate::ledger;
use crate::message::{Outcome, ResultStatus, ServerMessage, ServerMessageType, TaskStatus, ToolType};

/// The protocol's name in the log.
pub const PROTOCOL: &str = "aip";

/// What a task is called on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The session id that its client chose, or was given.
    pub session_id: String,
    /// Its name, fit for a path.
    pub task_name: Option<String>,
}

impl Names {
    /// What the log has to remember, so that the other end calls it the same.
    pub fn options(&self) -> Value {
        json!({ "session_id": self.session_id, "task_name": self.task_name })
    }

    /// What a turn is called; one of another protocol by its canonical names.
    pub fn of(origin: &Origin, session: &SessionId) -> Self {
        let text = |key: &str| origin.options.get(key).and_then(Value::as_str).map(str::to_owned);
        match text("session_id").filter(|_| origin.protocol == PROTOCOL) {
            Some(session_id) => Self { session_id, task_name: text("task_name") },
            None => Self::canonical(session),
        }
    }

    /// What a turn is called of which nothing else is known.
    pub fn canonical(session: &SessionId) -> Self {
        Self { session_id: session.to_string(), task_name: None }
    }
}

/// What an event means to a connection that owns a task, or works for one.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// A task is there.
    Accepted {
        /// Which turn.
        turn: &'a TurnId,
        /// The device that it is for.
        device: Option<&'a Callsign>,
        /// Where it came from.
        origin: &'a Origin,
        /// What is to be done.
        request: &'a TurnRequest,
    },
    /// A piece of the answer.
    Text(&'a TurnId, &'a str),
    /// Something is asked of a device.
    Asked(&'a TurnId, &'a Arc<Call>, &'a Callsign),
    /// A call is over.
    Answered(&'a TurnId, &'a CallId),
    /// The task is being stopped.
    Stopped(&'a TurnId, Option<&'a str>),
    /// The task is over.
    Ended(&'a TurnId, &'a TurnEnd),
    /// Nothing that this protocol shows.
    Nothing,
}

impl<'a> Seen<'a> {
    /// What an event means.
    pub fn of(event: &'a Event) -> Self {
        match event {
            Event::TurnAccepted { turn, request, device, origin, .. } => {
                Seen::Accepted { turn, device: device.as_ref(), origin, request }
            }
            Event::TurnOutput { turn, output: Output::Text(text) } => Seen::Text(turn, text),
            Event::TurnOutput {
                output:
                    Output::Reasoning(_)
                    | Output::Status(_)
                    | Output::Usage(_)
                    | Output::Checklist(_)
                    | Output::Data { .. }
                    | Output::Notice { .. }
                    | Output::Began { .. }
                    | Output::Standby(_)
                    | Output::Remembered(_)
                    | Output::Suspended(_),
                ..
            } => Seen::Nothing,
            Event::CallRequested { turn, call } => match &call.executor {
                Executor::Device(device) => Seen::Asked(turn, call, device),
                Executor::Agent | Executor::Attachment(_) | Executor::Principal(_) | Executor::Anyone => {
                    Seen::Nothing
                }
            },
            Event::CallEnded { turn, call, end: _ } => Seen::Answered(turn, call),
            Event::TurnInterrupted { turn, reason, .. } => Seen::Stopped(turn, reason.as_deref()),
            Event::TurnEnded { turn, end } => Seen::Ended(turn, end),
            // Registries, messages, queues and claims have no frame here.
            Event::SessionOpened { .. }
            | Event::ParticipantJoined { .. }
            | Event::ParticipantLeft { .. }
            | Event::AttachmentOpened { .. }
            | Event::AttachmentLinked { .. }
            | Event::AttachmentDetached { .. }
            | Event::AttachmentClosed { .. }
            | Event::DeviceJoined { .. }
            | Event::DeviceReported { .. }
            | Event::DeviceLeft { .. }
            | Event::DeviceReleased { .. }
            | Event::ToolsChanged { .. }
            | Event::MessageAdded { .. }
            | Event::MessageEdited { .. }
            | Event::TipMoved { .. }
            | Event::SessionRenamed { .. }
            | Event::StandingChanged { .. }
            | Event::ChronicleBegun { .. }
            | Event::Recorded { .. }
            | Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::TurnReleased { .. }
            | Event::CallProgress { .. } => Seen::Nothing,
        }
    }
}

/// A call as a command.
pub(crate) fn command(call: &Call) -> CommandParts<'_> {
    let option = |key: &str| call.options.get(key).and_then(Value::as_str);
    let (name, parameters) = match &call.kind {
        CallKind::Tool { name, args } => (name.as_str(), parameters(args)),
        CallKind::Question { text, schema, .. } => {
            let asked = [("text", json!(text)), ("schema", json!(schema))];
            let asked = asked.into_iter().map(|(key, value)| (key.to_owned(), value));
            ("ask", Some(Cow::Owned(asked.collect())))
        }
    };
    let tool_type = match option("tool_type") {
        Some("data_collection") => ToolType::DataCollection,
        _ => ToolType::Action,
    };
    CommandParts {
        tool_name: option("tool_name").unwrap_or(name),
        parameters,
        tool_type,
        call_id: call_id(call),
    }
}

/// Arguments as a command has them: by name, or none at all.
fn parameters(args: &Value) -> Option<Cow<'_, Map<String, Value>>> {
    match args {
        Value::Object(parameters) => Some(Cow::Borrowed(parameters)),
        Value::Null => None,
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Some(Cow::Owned(Map::from_iter([("value".to_owned(), other.clone())])))
        }
    }
}

/// What a call is called on the wire, where names are UUIDs (§3).
pub fn call_id(call: &Call) -> Cow<'_, str> {
    let name = call.id.as_str();
    if is_uuid(name) { name.into() } else { id_for(name, 2).into() }
}

fn is_uuid(name: &str) -> bool {
    name.len() == 36
        && name.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// What the device reports of a command.
pub fn call_end(outcome: Outcome) -> CallEnd {
    let Outcome { status, error, result, namespace, call_id: _ } = outcome;
    let mut detail = Map::new();
    if let Some(namespace) = namespace {
        detail.insert("namespace".into(), namespace.into());
    }
    let name = match status {
        ResultStatus::Success | ResultStatus::None => {
            if status == ResultStatus::None {
                detail.insert("status".into(), "none".into());
            }
            if let Some(error) = error {
                detail.insert("error".into(), error.into());
            }
            return CallEnd::Done { output: result.into(), detail: object(detail) };
        }
        ResultStatus::Failure => "failure",
        ResultStatus::Skipped => "skipped",
    };
    if !result.is_null() {
        detail.insert("result".into(), result);
    }
    let message = error.unwrap_or_else(|| {
        // Whoever reads the results is told what the device said, which is nothing.
        detail.insert("error".into(), Value::Null);
        format!("the device reported {name}")
    });
    CallEnd::Failed(CallError { name: name.into(), message, detail: object(detail) })
}

/// A command for which the device returned nothing.
pub fn no_result() -> CallEnd {
    CallEnd::Failed(CallError::new("failure", words::NO_RESULT))
}

fn object(detail: Map<String, Value>) -> Value {
    if detail.is_empty() { Value::Null } else { Value::Object(detail) }
}

/// What has become of a task so far, as far as its end tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// What was asked for.
    pub request: String,
    /// The answer, for agents that answer in words.
    text: String,
    /// Why it is being stopped.
    reason: Option<String>,
}

impl Course {
    /// A task that has just been asked for.
    pub const fn new(request: String) -> Self {
        Self { request, text: String::new(), reason: None }
    }

    /// Takes in a piece of the answer.
    pub fn say(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The task is being stopped.
    pub fn stop(&mut self, reason: Option<&str>) {
        self.reason = reason.map(str::to_owned);
    }

    /// The end of the task, the same for everybody who is told.
    pub fn end(&self, turn: &TurnId, names: &Names, end: &TurnEnd) -> ServerMessage {
        let (status, error) = match &end.outcome {
            TurnOutcome::Done(Finish::Complete | Finish::Length | Finish::Filtered | Finish::Empty) => {
                (TaskStatus::Completed, None)
            }
            TurnOutcome::Failed(Failure { message, .. }) => (TaskStatus::Failed, Some(message.clone())),
            TurnOutcome::Interrupted { .. } => {
                (TaskStatus::Failed, Some(words::cancelled(self.reason.as_deref())))
            }
            TurnOutcome::Expired => (TaskStatus::Failed, Some(words::EXPIRED.to_owned())),
        };
        let result = match (&end.output, status) {
            (Some(output), _) => Some(output.clone()),
            (None, TaskStatus::Completed) => {
                Some(Arc::new(json!([{ "request": self.request, "result": self.text }])))
            }
            (None, _) => None,
        };
        ServerMessage {
            error: error.as_deref().map(bounded),
            session_id: Some(names.session_id.clone()),
            response_id: Some(id_for(turn.as_str(), 0)),
            result,
            ..ServerMessage::new(ServerMessageType::TaskEnd, status)
        }
    }
}

/// The id of a message that several connections send, or that has to be the same again.
pub fn id_for(name: &str, number: u64) -> String {
    let mut tail = [0; 32];
    for (place, byte) in tail.iter_mut().rev().zip(name.bytes().rev()) {
        *place = byte;
    }
    codec::uuid(&Seed::new(tail), number)
}

/// Who asked for a turn, and for what as far as that is known, in lines for people to read.
pub fn asked(origin: &Origin, request: Option<&str>) -> Vec<String> {
    let option =
        |key: &str| origin.options.get(key).and_then(Value::as_str).filter(|_| origin.protocol == PROTOCOL);
    let (principal, protocol) = (&origin.principal, &origin.protocol);
    let mut lines = vec![match option(ledger::READER) {
        Some(dispatcher) => format!("asked by {dispatcher}, over HTTP"),
        None => format!("asked by {principal}, over {protocol}"),
    }];
    let named = option("task_name").map(|name| format!("task {name}"));
    lines.extend(match (named, request.filter(|request| !request.is_empty())) {
        (Some(task), Some(request)) => Some(format!("{task}: {}", bounded(request))),
        (None, Some(request)) => Some(format!("to: {}", bounded(request))),
        (task, None) => task,
    });
    lines
}

/// The agent whose tools a device of this platform looks up (§5.4).
pub fn agent_name(platform: &str) -> &'static str {
    match platform {
        "linux" | "darwin" => "LinuxAgent",
        "android" | "ios" => "MobileAgent",
        _ => "HostAgent",
    }
}
