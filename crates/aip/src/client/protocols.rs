//! The specialised protocols: which message each call makes, and what it puts into it.
//!
//! Each makes messages and nothing else; a [`Channel`](super::Channel) writes them. Where the
//! reference makes up an id, the caller may give one or leave it to the [`Ids`].

use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_core::Timestamp;

use super::Ids;
use crate::codec::timestamp;
use crate::message::{
    ClientMessage, ClientMessageType, ClientType, Command, Outcome, ServerMessage, ServerMessageType,
    TaskStatus,
};
use crate::validate;

/// Who is speaking.
#[derive(Clone, Debug)]
pub struct Registration {
    ids: Ids,
}

impl Registration {
    /// With ids from there.
    pub const fn new(ids: Ids) -> Self {
        Self { ids }
    }

    /// A device introduces itself. What the metadata say of the platform goes before `platform`.
    pub fn register_as_device(
        &self,
        device_id: &str,
        mut metadata: Map<String, Value>,
        platform: &str,
        now: Timestamp,
    ) -> ClientMessage {
        metadata.entry("platform").or_insert_with(|| platform.into());
        metadata.insert("registration_time".to_owned(), timestamp(now).into());
        ClientMessage {
            client_id: Some(device_id.to_owned()),
            metadata: Some(metadata),
            ..said(ClientMessageType::Register, TaskStatus::Ok, now)
        }
    }

    /// A constellation introduces itself, and names the device it is there for.
    pub fn register_as_constellation(
        &self,
        constellation_id: &str,
        target_device: &str,
        mut metadata: Map<String, Value>,
        now: Timestamp,
    ) -> ClientMessage {
        metadata.insert("type".to_owned(), "constellation_client".into());
        metadata.insert("targeted_device_id".to_owned(), target_device.into());
        metadata.insert("registration_time".to_owned(), timestamp(now).into());
        ClientMessage {
            client_type: ClientType::Constellation,
            client_id: Some(constellation_id.to_owned()),
            target_id: Some(target_device.to_owned()),
            metadata: Some(metadata),
            ..said(ClientMessageType::Register, TaskStatus::Ok, now)
        }
    }

    /// Whether the first reply to a registration takes it.
    pub fn is_accepted(reply: &ServerMessage) -> bool {
        reply.status == TaskStatus::Ok
    }

    /// A server takes a registration.
    pub fn confirmation(&mut self, response_id: Option<String>, now: Timestamp) -> ServerMessage {
        ack(&mut self.ids, None, response_id, now)
    }

    /// A server refuses a registration.
    pub fn refusal(
        &mut self,
        error: impl Into<String>,
        response_id: Option<String>,
        now: Timestamp,
    ) -> ServerMessage {
        error_message(&mut self.ids, error, response_id, now)
    }
}

/// What becomes of a task.
#[derive(Clone, Debug)]
pub struct TaskExecution {
    ids: Ids,
}

impl TaskExecution {
    /// With ids from there.
    pub const fn new(ids: Ids) -> Self {
        Self { ids }
    }

    /// A client wants something done.
    pub fn task_request(&mut self, task: TaskRequest, now: Timestamp) -> ClientMessage {
        ClientMessage {
            client_type: task.client_type,
            session_id: task.session_id,
            task_name: task.task_name,
            client_id: Some(task.client_id),
            target_id: task.target_id,
            request: Some(task.request),
            request_id: Some(self.ids.fresh()),
            metadata: task.metadata,
            ..said(ClientMessageType::Task, TaskStatus::Continue, now)
        }
    }

    /// A server has work for a device.
    pub fn task_assignment(&self, task: TaskAssignment, now: Timestamp) -> ServerMessage {
        ServerMessage {
            user_request: Some(task.user_request),
            agent_name: task.agent_name,
            process_name: task.process_name,
            session_id: Some(task.session_id),
            task_name: Some(task.task_name),
            response_id: Some(task.response_id),
            ..told(ServerMessageType::Task, TaskStatus::Continue, now)
        }
    }

    /// A server has commands for a device, several in one message.
    pub fn commands(&self, batch: CommandBatch, now: Timestamp) -> ServerMessage {
        ServerMessage {
            agent_name: batch.agent_name,
            process_name: batch.process_name,
            root_name: batch.root_name,
            actions: Some(batch.actions),
            session_id: Some(batch.session_id),
            task_name: batch.task_name,
            response_id: Some(batch.response_id),
            ..told(ServerMessageType::Command, batch.status, now)
        }
    }

    /// A device tells what became of the commands of one message.
    pub fn command_results(&mut self, results: CommandResults, now: Timestamp) -> ClientMessage {
        ClientMessage {
            session_id: results.session_id,
            client_id: Some(results.client_id.unwrap_or_else(|| "unknown_client".to_owned())),
            action_results: Some(results.action_results),
            request_id: Some(self.ids.fresh()),
            prev_response_id: Some(results.prev_response_id),
            ..said(ClientMessageType::CommandResults, results.status, now)
        }
    }

    /// A server tells how a task ended.
    pub fn task_end(&mut self, end: TaskEnd, now: Timestamp) -> ServerMessage {
        ServerMessage {
            error: end.error,
            session_id: Some(end.session_id),
            response_id: Some(end.response_id.unwrap_or_else(|| self.ids.fresh())),
            result: Some(Arc::new(end.result)),
            ..told(ServerMessageType::TaskEnd, end.status, now)
        }
    }

    /// A client is done with a task; with [`TaskStatus::Failed`] it wants the server to be, too.
    pub fn task_end_ack(
        &self,
        session_id: &str,
        client_id: &str,
        status: TaskStatus,
        error: Option<String>,
        now: Timestamp,
    ) -> ClientMessage {
        ClientMessage {
            session_id: Some(session_id.to_owned()),
            client_id: Some(client_id.to_owned()),
            error,
            ..said(ClientMessageType::TaskEnd, status, now)
        }
    }
}

/// What a client wants done.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRequest {
    /// What is to be done.
    pub request: String,
    /// What a person calls it.
    pub task_name: Option<String>,
    /// What it is called otherwise; the server makes a name if there is none.
    pub session_id: Option<String>,
    /// Who wants it.
    pub client_id: String,
    /// Which device is to do it; none for the client itself.
    pub target_id: Option<String>,
    /// The client's role.
    pub client_type: ClientType,
    /// Anything else.
    pub metadata: Option<Map<String, Value>>,
}

impl TaskRequest {
    /// A device wants this done by itself.
    pub fn new(request: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self {
            request: request.into(),
            task_name: None,
            session_id: None,
            client_id: client_id.into(),
            target_id: None,
            client_type: ClientType::Device,
            metadata: None,
        }
    }
}

/// Work for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskAssignment {
    /// What is to be done.
    pub user_request: String,
    /// What a person calls it.
    pub task_name: String,
    /// What it is called otherwise.
    pub session_id: String,
    /// What the message is called.
    pub response_id: String,
    /// Which of the device's agents is to do it.
    pub agent_name: Option<String>,
    /// In which process.
    pub process_name: Option<String>,
}

/// Commands for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandBatch {
    /// What to run, in this order.
    pub actions: Vec<Command>,
    /// The task.
    pub session_id: String,
    /// What the message is called; the results will say so.
    pub response_id: String,
    /// Whether more is to come.
    pub status: TaskStatus,
    /// The agent whose commands these are.
    pub agent_name: Option<String>,
    /// The process of the application in use.
    pub process_name: Option<String>,
    /// The application in use.
    pub root_name: Option<String>,
    /// What a person calls the task.
    pub task_name: Option<String>,
}

impl CommandBatch {
    /// These commands, with more to come.
    pub fn new(actions: Vec<Command>, session_id: impl Into<String>, response_id: impl Into<String>) -> Self {
        Self {
            actions,
            session_id: session_id.into(),
            response_id: response_id.into(),
            status: TaskStatus::Continue,
            agent_name: None,
            process_name: None,
            root_name: None,
            task_name: None,
        }
    }
}

/// What became of commands.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandResults {
    /// One for each command, in their order.
    pub action_results: Vec<Outcome>,
    /// The task.
    pub session_id: Option<String>,
    /// Who ran them; `unknown_client` if nobody says.
    pub client_id: Option<String>,
    /// What the message with the commands was called.
    pub prev_response_id: String,
    /// The status of that message.
    pub status: TaskStatus,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEnd {
    /// The task.
    pub session_id: String,
    /// [`TaskStatus::Completed`] or [`TaskStatus::Failed`].
    pub status: TaskStatus,
    /// What came of it.
    pub result: Value,
    /// What went wrong.
    pub error: Option<String>,
    /// What the message is called; made up if there is none.
    pub response_id: Option<String>,
}

/// Whether commands and results may be sent. For reasons, see [`validate`].
#[derive(Clone, Copy, Debug)]
pub struct Commands;

impl Commands {
    /// Whether this can be run.
    pub fn is_command(command: &Command) -> bool {
        validate::command(command).is_ok()
    }

    /// Whether every one can be run.
    pub fn are_commands(commands: &[Command]) -> bool {
        validate::commands(commands).is_ok()
    }

    /// Whether this says how a command ended.
    pub fn is_result(outcome: &Outcome) -> bool {
        validate::outcome(outcome).is_ok()
    }

    /// Whether every one says how a command ended.
    pub fn are_results(outcomes: &[Outcome]) -> bool {
        validate::outcomes(outcomes).is_ok()
    }
}

/// Signs of life.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    ids: Ids,
}

impl Heartbeat {
    /// With ids from there.
    pub const fn new(ids: Ids) -> Self {
        Self { ids }
    }

    /// A client is there. It says `device`, whatever it is (A2).
    pub fn heartbeat(
        &self,
        client_id: &str,
        metadata: Option<Map<String, Value>>,
        now: Timestamp,
    ) -> ClientMessage {
        ClientMessage {
            client_id: Some(client_id.to_owned()),
            metadata,
            ..said(ClientMessageType::Heartbeat, TaskStatus::Ok, now)
        }
    }

    /// The server is there, too.
    pub fn heartbeat_ack(&mut self, response_id: Option<String>, now: Timestamp) -> ServerMessage {
        ack(&mut self.ids, None, response_id, now)
    }
}

/// What kind of a device it is.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    ids: Ids,
}

impl DeviceInfo {
    /// With ids from there.
    pub const fn new(ids: Ids) -> Self {
        Self { ids }
    }

    /// A constellation asks.
    pub fn request_device_info(
        &mut self,
        constellation_id: &str,
        target_device: &str,
        request_id: Option<String>,
        now: Timestamp,
    ) -> ClientMessage {
        ClientMessage {
            client_type: ClientType::Constellation,
            client_id: Some(constellation_id.to_owned()),
            target_id: Some(target_device.to_owned()),
            request_id: Some(request_id.unwrap_or_else(|| self.ids.fresh())),
            ..said(ClientMessageType::DeviceInfoRequest, TaskStatus::Ok, now)
        }
    }

    /// The server answers.
    pub fn device_info_response(
        &self,
        device_info: Value,
        request_id: Option<String>,
        error: Option<String>,
        now: Timestamp,
    ) -> ServerMessage {
        let status = if error.is_some() { TaskStatus::Error } else { TaskStatus::Ok };
        ServerMessage {
            error,
            response_id: request_id,
            result: Some(Arc::new(device_info)),
            ..told(ServerMessageType::DeviceInfoResponse, status, now)
        }
    }

    /// A device tells without being asked.
    pub fn device_info_push(
        &self,
        device_id: &str,
        device_info: Map<String, Value>,
        now: Timestamp,
    ) -> ClientMessage {
        ClientMessage {
            client_id: Some(device_id.to_owned()),
            metadata: Some(device_info),
            ..said(ClientMessageType::DeviceInfoResponse, TaskStatus::Ok, now)
        }
    }

    /// A device answers a server that asks.
    pub fn device_info_reply(
        &self,
        device_id: &str,
        device_info: Map<String, Value>,
        response_id: Option<String>,
        now: Timestamp,
    ) -> ClientMessage {
        ClientMessage {
            request_id: response_id.clone(),
            prev_response_id: response_id,
            ..self.device_info_push(device_id, device_info, now)
        }
    }
}

/// An error for the other side: from a server, with the given id or a fresh one.
pub fn error_message(
    ids: &mut Ids,
    error: impl Into<String>,
    response_id: Option<String>,
    now: Timestamp,
) -> ServerMessage {
    ServerMessage {
        error: Some(error.into()),
        response_id: Some(response_id.unwrap_or_else(|| ids.fresh())),
        ..told(ServerMessageType::Error, TaskStatus::Error, now)
    }
}

/// An acknowledgement: from a server, with the given id or a fresh one.
pub fn ack(
    ids: &mut Ids,
    session_id: Option<String>,
    response_id: Option<String>,
    now: Timestamp,
) -> ServerMessage {
    ServerMessage {
        session_id,
        response_id: Some(response_id.unwrap_or_else(|| ids.fresh())),
        ..told(ServerMessageType::Heartbeat, TaskStatus::Ok, now)
    }
}

fn said(kind: ClientMessageType, status: TaskStatus, now: Timestamp) -> ClientMessage {
    ClientMessage { timestamp: Some(timestamp(now)), ..ClientMessage::new(kind, status) }
}

fn told(kind: ServerMessageType, status: TaskStatus, now: Timestamp) -> ServerMessage {
    ServerMessage { timestamp: Some(timestamp(now)), ..ServerMessage::new(kind, status) }
}
