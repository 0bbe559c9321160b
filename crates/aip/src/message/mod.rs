//! What travels, under the names of the reference (§3).

use std::sync::Arc;

use serde_json::{Map, Value};

#[macro_use]
mod wire;
mod payload;
mod usual;
mod words;

pub use payload::{AppWindowControlInfo, ControlInfo, Rect, SystemInfo, ToolInfo, WindowInfo};
pub(crate) use usual::{Rest, Usual};
pub(crate) use wire::{Written, is_sheltered};
pub use words::{ClientMessageType, ClientType, ResultStatus, ServerMessageType, TaskStatus, ToolType};

wire_object! {
    /// What a client sends (§3.2).
    pub struct ClientMessage {
        /// What it is.
        "type" => kind: ClientMessageType,
        /// How the task stands, or [`TaskStatus::Ok`].
        "status" => status: TaskStatus,
        /// The role the sender has registered with. Heartbeats say `device` whoever sends them.
        "client_type" => client_type: ClientType = ClientType::default(),
        /// The task's session.
        "session_id" => session_id: Option<String> = None,
        /// What a person calls the task.
        "task_name" => task_name: Option<String> = None,
        /// The sender, as it has registered.
        "client_id" => client_id: Option<String> = None,
        /// The device a constellation means.
        "target_id" => target_id: Option<String> = None,
        /// What is to be done.
        "request" => request: Option<String> = None,
        /// What became of the commands, one for each, in their order.
        "action_results" => action_results: Option<Vec<Outcome>> = None,
        /// When it was written; never read.
        "timestamp" => timestamp: Option<String> = None,
        /// The sender's name for this message.
        "request_id" => request_id: Option<String> = None,
        /// The `response_id` that is answered.
        "prev_response_id" => prev_response_id: Option<String> = None,
        /// What went wrong.
        "error" => error: Option<String> = None,
        /// Anything else.
        "metadata" => metadata: Option<Map<String, Value>> = None,
    }
}

impl ClientMessage {
    /// A message that says only this.
    pub const fn new(kind: ClientMessageType, status: TaskStatus) -> Self {
        Self {
            kind,
            status,
            client_type: ClientType::Device,
            session_id: None,
            task_name: None,
            client_id: None,
            target_id: None,
            request: None,
            action_results: None,
            timestamp: None,
            request_id: None,
            prev_response_id: None,
            error: None,
            metadata: None,
        }
    }
}

wire_object! {
    /// What a server sends (§3.3).
    pub struct ServerMessage {
        /// What it is.
        "type" => kind: ServerMessageType,
        /// How the task stands, [`TaskStatus::Ok`] or [`TaskStatus::Error`].
        "status" => status: TaskStatus,
        /// What is to be done, in a task.
        "user_request" => user_request: Option<String> = None,
        /// The agent whose commands these are; devices look their tools up by it.
        "agent_name" => agent_name: Option<String> = None,
        /// The process of the application in use.
        "process_name" => process_name: Option<String> = None,
        /// The application in use.
        "root_name" => root_name: Option<String> = None,
        /// The commands to run, in this order.
        "actions" => actions: Option<Vec<Command>> = None,
        /// Log lines.
        "messages" => messages: Option<Vec<String>> = None,
        /// What went wrong.
        "error" => error: Option<String> = None,
        /// The task's session.
        "session_id" => session_id: Option<String> = None,
        /// What a person calls the task, fit for a path.
        "task_name" => task_name: Option<String> = None,
        /// When it was written; never read.
        "timestamp" => timestamp: Option<String> = None,
        /// The server's name for this message, or the `request_id` it answers.
        "response_id" => response_id: Option<String> = None,
        /// What came of it; null if nothing.
        "result" => result: Option<Arc<Value>> = None,
    }
}

impl ServerMessage {
    /// A message that says only this.
    pub const fn new(kind: ServerMessageType, status: TaskStatus) -> Self {
        Self {
            kind,
            status,
            user_request: None,
            agent_name: None,
            process_name: None,
            root_name: None,
            actions: None,
            messages: None,
            error: None,
            session_id: None,
            task_name: None,
            timestamp: None,
            response_id: None,
            result: None,
        }
    }

    /// Takes out what came of it; null if nothing did.
    pub fn take_result(&mut self) -> Value {
        self.result.take().map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}

wire_object! {
    /// One thing for a device to do (§3.4).
    pub struct Command {
        /// The tool; empty for nothing at all.
        "tool_name" => tool_name: String,
        /// What the tool is given.
        "parameters" => parameters: Option<Map<String, Value>> = None,
        /// What it is for.
        "tool_type" => tool_type: ToolType,
        /// The server's name for it, to be repeated in its outcome.
        "call_id" => call_id: Option<String> = None,
    }
}

wire_object! {
    /// What became of a command (§3.4, where it is called `Result`).
    pub struct Outcome {
        /// How it ended.
        "status" => status: ResultStatus,
        /// What went wrong.
        "error" => error: Option<String> = None,
        /// What the tool answered; null if nothing.
        "result" => result: Value = Value::Null,
        /// Which of the device's tool servers ran it.
        "namespace" => namespace: Option<String> = None,
        /// The command.
        "call_id" => call_id: Option<String> = None,
    }
}

impl Outcome {
    /// An outcome that says only this.
    pub const fn new(status: ResultStatus) -> Self {
        Self { status, error: None, result: Value::Null, namespace: None, call_id: None }
    }
}
