//! Turns: one request until its single end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::id::{AttachmentId, PrincipalId, ToolName, WorkerId};
use crate::model::message::text_of;
use crate::model::{Part, Usage};

/// What a turn is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnRequest {
    /// Answer a message.
    Chat {
        /// What was said.
        parts: Vec<Part>,
    },
    /// Run one tool of the agent's.
    Tool {
        /// Which one.
        name: ToolName,
        /// Its arguments, already checked against its schema.
        args: Value,
    },
    /// Take one reasoning step.
    Step {
        /// What it is for.
        goal: String,
        /// State from the step before.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        state: Value,
        /// What it may cost.
        #[serde(default)]
        budget: Budget,
    },
}

impl TurnRequest {
    /// Answers this.
    pub fn chat(text: impl Into<String>) -> Self {
        Self::Chat { parts: vec![Part::Text(text.into())] }
    }

    /// The words of the request, for agents that read text.
    pub fn text(&self) -> String {
        match self {
            Self::Chat { parts } => text_of(parts),
            Self::Tool { name, .. } => name.to_string(),
            Self::Step { goal, .. } => goal.clone(),
        }
    }
}

/// What an agent is told beside what is asked, for this turn only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What it is to do, in the words of whoever runs the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What whoever asks has before their eyes: data, never instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scene: Option<String>,
}

/// What a reasoning step may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
}

/// Where a turn came from, and what it hangs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Who asked.
    pub principal: PrincipalId,
    /// The protocol through which they did.
    pub protocol: String,
    /// The attachment through which they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<AttachmentId>,
    /// What that attachment calls the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Whether the turn is interrupted when that attachment is over.
    #[serde(default)]
    pub bound: bool,
    /// What the protocol has to remember to render the turn again; its own business.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

impl Origin {
    /// A turn that hangs on nothing: it goes on, whoever leaves.
    pub fn new(principal: PrincipalId, protocol: &str) -> Self {
        Self {
            principal,
            protocol: protocol.to_owned(),
            attachment: None,
            handle: None,
            bound: false,
            options: Value::Null,
        }
    }
}

/// A key under which a repetition of the same request is harmless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// Chosen by the client, unique per principal.
    pub key: String,
    /// Digest of what was asked; another one under the same key is refused.
    pub digest: String,
}

/// The right of one executor to produce a turn's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Who holds it.
    pub worker: WorkerId,
    /// Grows with each claim of the same turn; an older one is void.
    pub fence: u32,
    /// Whether it only passes on what somebody else produces, who says by itself when it begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relayed: bool,
}

/// The one end of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// A structured result beside the streamed text; it may be large, and many are told of it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::model::present")]
    pub output: Option<Arc<Value>>,
    /// Final token counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost.
    #[serde(default)]
    pub metrics: Metrics,
}

impl TurnEnd {
    /// An end with nothing but its outcome.
    pub fn new(outcome: TurnOutcome) -> Self {
        Self { outcome, output: None, usage: None, metrics: Metrics::default() }
    }

    /// An ordinary, complete answer.
    pub fn complete() -> Self {
        Self::new(TurnOutcome::Done(Finish::Complete))
    }

    /// A failure.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::new(TurnOutcome::Failed(Failure::new(kind, message)))
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// With an answer.
    Done(Finish),
    /// With an error.
    Failed(Failure),
    /// Stopped by somebody.
    Interrupted {
        /// The executor did not stop in time; what it still does is ignored.
        abandoned: bool,
    },
    /// Not done before its deadline.
    Expired,
}

impl TurnOutcome {
    /// Whether whoever asked could have known better, and nothing is out of order here.
    pub const fn is_fault_of_asker(&self) -> bool {
        match self {
            Self::Failed(failure) => match failure.kind {
                FailureKind::ToolNotFound
                | FailureKind::InvalidArgs
                | FailureKind::InvalidRequest
                | FailureKind::Forbidden
                | FailureKind::SlowConsumer
                | FailureKind::Unprepared
                | FailureKind::BudgetExhausted => true,
                FailureKind::Execution
                | FailureKind::Tool
                | FailureKind::ModelUnavailable
                | FailureKind::CallTimeout
                | FailureKind::WorkerLost
                | FailureKind::Unreachable
                | FailureKind::BadResponse
                | FailureKind::Aborted
                | FailureKind::Overdue
                | FailureKind::UnknownAgent
                | FailureKind::Internal => false,
            },
            Self::Done(_) | Self::Interrupted { .. } | Self::Expired => false,
        }
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It is complete.
    Complete,
    /// It was cut at a length limit.
    Length,
    /// It was withheld by a content filter.
    Filtered,
    /// There was nothing to say.
    Empty,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which class of failure.
    pub kind: FailureKind,
    /// For a person; holds no secrets.
    pub message: String,
    /// What the executor calls it, in the words of its protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Value>>,
}

impl Failure {
    /// A failure with nothing added.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), detail: None }
    }

    /// With the status that an endpoint has answered over HTTP.
    #[must_use]
    pub fn with_http_status(mut self, status: u16) -> Self {
        self.detail = Some(Box::new(json!({ HTTP_STATUS: status })));
        self
    }

    /// With the name of the limit that was reached.
    #[must_use]
    pub fn with_limit(mut self, limit: &str) -> Self {
        self.detail = Some(Box::new(json!({ LIMIT: limit })));
        self
    }

    /// Whether the answer became longer than it may be: what there is of it is good.
    pub fn is_too_long(&self) -> bool {
        self.detail.as_ref().is_some_and(|detail| detail.get(LIMIT) == Some(&json!(ANSWER_BYTES)))
    }

    /// The status that an endpoint has answered over HTTP, where that was the matter.
    pub fn http_status(&self) -> Option<u16> {
        u16::try_from(self.detail.as_ref()?.get(HTTP_STATUS)?.as_u64()?).ok()
    }
}

/// Classes of failure; each protocol has one table from these to its own codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The agent failed.
    Execution,
    /// The tool that was to run does not exist.
    ToolNotFound,
    /// The arguments do not fit the tool.
    InvalidArgs,
    /// The tool failed.
    Tool,
    /// The model cannot be reached, or is overloaded.
    ModelUnavailable,
    /// A call was not answered, and the agent gave up.
    CallTimeout,
    /// The executor was lost after it had produced output.
    WorkerLost,
    /// The executor could not be reached.
    Unreachable,
    /// What the executor answered makes no sense.
    BadResponse,
    /// The executor broke off in the middle of its answer.
    Aborted,
    /// The executor took too long.
    Overdue,
    /// The executor does not take such a request.
    InvalidRequest,
    /// The executor does not know the agent.
    UnknownAgent,
    /// The agent may not do this.
    Forbidden,
    /// The client did not take its output.
    SlowConsumer,
    /// What the turn needs before it can begin is not there.
    Unprepared,
    /// What the turn may cost is used up.
    BudgetExhausted,
    /// Something broke on our side.
    Internal,
}

/// What a turn cost, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Processor time, where the executor reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// From acceptance to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// From acceptance to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<u64>,
    /// From start to first output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
}

/// Where a failure keeps the status that an endpoint has answered.
const HTTP_STATUS: &str = "http_status";
/// Where the detail of a failure names the limit that was reached.
const LIMIT: &str = "limit";
/// The limit on the length of an answer, as refusals name it.
pub const ANSWER_BYTES: &str = "answer_bytes";
