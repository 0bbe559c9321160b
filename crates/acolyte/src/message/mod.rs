//! What travels, under the names of the reference.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use switchboard_core::{TurnId, hex};

mod capability;
mod event;
mod request;

pub use capability::Capabilities;
pub(crate) use capability::{CHECKLIST, RESUME, TASKLIST};
pub use event::{
    Item, ItemStatus, Level, ListSnapshot, Marker, OutputPart, PendingState, Stream, StreamEvent,
};
pub(crate) use request::Strictness;
pub use request::{ChatRequest, HistoryEntry, HistoryKind, HistoryRole, Skill};

use crate::error::ErrorBody;
use crate::ledger::Task;

/// What a client sends over RPC.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// `status.get`
    StatusGet(Offer),
    /// `chat.start`
    ChatStart(Box<ChatRequest>),
    /// `chat.abort`
    ChatAbort {
        /// The chat.
        request: RpcId,
    },
    /// `task.status`
    TaskStatus {
        /// The task.
        task: TaskId,
        /// Ours: the conversation it belongs to, for tasks that outlive their connection.
        session: Option<String>,
    },
    /// Ours, with the capability `task.resume`: `chat.attach`
    ChatAttach(Attach),
}

/// What a client offers with `status.get` (§10, H2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The version it speaks.
    pub version: Option<String>,
    /// What else it understands.
    pub capabilities: Option<Capabilities>,
}

/// Which running or recent task to follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// The task; none for whatever runs in the session.
    pub task: Option<TaskId>,
    /// Its conversation; none for a task that was started without one.
    pub session: Option<String>,
    /// Events up to this position are known already.
    pub after: u64,
}

/// What a server sends over RPC, without the id it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum ServerMessage {
    /// The answer to `status.get`.
    #[serde(rename = "status.result")]
    StatusResult {
        /// What the server says of itself.
        status: Map<String, Value>,
    },
    /// The chat has a task.
    #[serde(rename = "chat.accepted")]
    ChatAccepted {
        /// The task.
        #[serde(rename = "taskId")]
        task: TaskId,
    },
    /// The chat waits.
    #[serde(rename = "chat.queued")]
    ChatQueued {
        /// From 1.
        position: u64,
    },
    /// The chat is being worked on.
    #[serde(rename = "chat.started")]
    ChatStarted,
    /// Something happened in the chat.
    #[serde(rename = "chat.event")]
    ChatEvent {
        /// What.
        event: StreamEvent<'static>,
        /// Ours, with `task.resume`: where to go on after a cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        position: Option<u64>,
    },
    /// The chat is over, with an answer.
    #[serde(rename = "chat.done")]
    ChatDone {
        /// The answer.
        reply: Box<Reply>,
    },
    /// The chat is over, without one.
    #[serde(rename = "chat.error")]
    ChatError(ErrorBody),
    /// The answer to `chat.abort`.
    #[serde(rename = "chat.abort.result")]
    ChatAbortResult {
        /// The chat.
        #[serde(rename = "requestId")]
        request: RpcId,
        /// Whether it was stopped by this.
        aborted: bool,
    },
    /// The answer to `task.status`.
    #[serde(rename = "task.status.result")]
    TaskStatusResult {
        /// The task; none if there is none.
        task: Option<Task>,
    },
    /// The message was refused and has no effect.
    #[serde(rename = "error")]
    Error {
        /// Why, for a person.
        error: String,
    },
}

/// The answer of a chat (§5.3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    /// The final answer.
    pub output: String,
    /// Whether it has been streamed already.
    pub output_streamed: bool,
    /// The model used.
    pub model: String,
    /// The turn ended, but badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The names of the tools used, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<String>>,
    /// How often the model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// The skills of the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_skills: Option<Vec<Skill>>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ReplyUsage>,
    /// Where the tokens of the prompt went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_breakdown: Option<PromptBreakdown>,
}

/// Tokens of a whole chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplyUsage {
    /// Read by the model.
    pub input_tokens: u64,
    /// Written by it.
    pub output_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// How many it may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_budget_tokens: Option<u64>,
}

/// Where the tokens of a prompt went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptBreakdown {
    /// How many there may be.
    pub budget_tokens: u64,
    /// How many there were.
    pub used_tokens: u64,
    /// Of these, instructions.
    pub system_tokens: u64,
    /// Definitions of tools.
    pub tool_tokens: u64,
    /// Skills.
    pub skill_tokens: u64,
    /// Memory.
    pub memory_tokens: u64,
    /// Messages.
    pub message_tokens: u64,
}

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Reads an identifier; none if it does not fit the pattern.
            pub fn parse(text: &str) -> Option<Self> {
                is_id(text, $prefix).then(|| Self(text.into()))
            }

            /// The identifier with its prefix.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                Self::parse(&text).ok_or_else(|| format!("not a {} id", $prefix))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

identifiers! {
    /// `rpc_…`: one client message, and the chat that it opens.
    RpcId = "rpc",
    /// `task_…`: one chat execution.
    TaskId = "task",
    /// `err_…`: one error occurrence.
    ErrorId = "err",
}

impl RpcId {
    /// What the server uses when it cannot read an id.
    pub fn unknown() -> Self {
        Self("rpc_unknown".into())
    }
}

impl TaskId {
    /// The task that a turn is.
    pub fn of(turn: &TurnId) -> Self {
        match turn.as_str().strip_prefix(TURN_PREFIX) {
            Some(rest) if is_body(rest) => Self(format!("task_{rest}").into()),
            _ => {
                let hex = hex(turn.as_str().as_bytes());
                Self(format!("task_{hex}").into())
            }
        }
    }

    /// The turn that it is, if it was made here.
    pub fn turn(&self) -> TurnId {
        TurnId::new(self.0.replacen("task_", TURN_PREFIX, 1))
    }
}

impl ErrorId {
    /// From some random bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let hex = hex(bytes);
        Self(format!("err_{hex}").into())
    }
}

/// Whether a text is an id with this prefix: lower case and digits only (§3).
pub fn is_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).is_some_and(is_body)
}

fn is_body(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Of turns that are made here.
const TURN_PREFIX: &str = "inv_";
