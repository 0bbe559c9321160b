//! What a user of the client sees.

use std::sync::Arc;
use std::time::Duration;

use switchboard_asp::message::{
    Ask, Call, End, ErrorBody, Features, Notice, Record, RecordBody, Status, ToolActivity, ToolDef, Usage,
};
use switchboard_asp::value::Value;

use super::error::Cause;

/// What happens to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestEvent {
    /// Execution began.
    Start {
        /// Name of the run.
        run: String,
        /// Model used.
        model: Option<String>,
    },
    /// Progress.
    Status(Status),
    /// More of the answer.
    Text(String),
    /// More of the reasoning.
    Reason(String),
    /// A tool of the server at work.
    Tool(ToolActivity),
    /// A tool of this client is wanted; the handler answers.
    Call(Call),
    /// A question, to be answered with [`super::Client::answer`].
    Ask(Ask),
    /// Structured output.
    Data {
        /// Media type.
        mime: Option<String>,
        /// The output.
        value: Value,
    },
    /// Token counts.
    Usage(Usage),
    /// Something to know.
    Notice(Notice),
    /// The request runs anew after a loss: output so far is void.
    Restarted,
    /// The end; nothing follows.
    End(End),
}

impl RequestEvent {
    /// The event a record stands for; none for records of unknown type.
    pub(super) fn from_record(record: Record) -> Option<Self> {
        Some(match record.body {
            RecordBody::Start { run, model } => Self::Start { run, model },
            RecordBody::Status(status) => Self::Status(status),
            RecordBody::Text(text) => Self::Text(text),
            RecordBody::Reason(text) => Self::Reason(text),
            RecordBody::Tool(tool) => Self::Tool(tool),
            RecordBody::Call(call) => Self::Call(call),
            RecordBody::Ask(ask) => Self::Ask(ask),
            RecordBody::Data { mime, value } => Self::Data { mime, value },
            RecordBody::Usage(usage) => Self::Usage(usage),
            RecordBody::Notice(notice) => Self::Notice(notice),
            RecordBody::End(end) => Self::End(end),
            RecordBody::Unknown { .. } => return None,
        })
    }
}

/// What happens to the connection.
#[derive(Debug, Clone, PartialEq)]
pub enum ConnectionEvent {
    /// Connected, with nothing of an earlier connection left.
    Connected {
        /// ConnectionId; a bare connection has none.
        cid: Option<String>,
        /// What was agreed.
        features: Features,
    },
    /// Connected again; requests go on.
    Resumed {
        /// Requests that the server does not have any more.
        lost: Vec<u16>,
    },
    /// Not connected; the client tries again.
    Disconnected {
        /// Why.
        cause: Cause,
        /// When it will.
        retry_in: Duration,
    },
    /// The server leaves. Requests in flight go on, new ones wait for the next connection.
    GoAway {
        /// Why.
        reason: Option<String>,
        /// When the client will come back.
        retry_in: Duration,
    },
    /// The server's tools are others; see [`super::Client::tools`].
    ToolsChanged,
    /// The credential runs out within a minute; see [`super::Client::renew`].
    AuthExpiring,
    /// Output that belongs to no request.
    Push(RequestEvent),
    /// An error that concerns the connection.
    Error(ErrorBody),
    /// Not connected, and it stays so; see [`super::Client::online`].
    Closed {
        /// Why.
        cause: Cause,
    },
}

/// Connection events since [`super::Client::events`] was called.
pub type Events = crate::events::Events<ConnectionEvent>;

/// The connection at a glance.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Whether requests are sent right now.
    pub connected: bool,
    /// ConnectionId.
    pub cid: Option<String>,
    /// What is agreed.
    pub features: Features,
    /// The server's tools, by name.
    pub tools: Arc<[ToolDef]>,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { connected: false, cid: None, features: Features::BARE, tools: Arc::new([]) }
    }
}

/// What became of a new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// The live connection goes on with it.
    Live {
        /// When it expires, in Unix seconds.
        expires: Option<u64>,
    },
    /// The next connection will use it.
    NextConnection,
}
