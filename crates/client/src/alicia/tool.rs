//! Tools that this client runs.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use switchboard_alicia::Id;
use switchboard_alicia::client::{ToolOutcome, ToolRun};
use switchboard_core::Pii;

use crate::tool;

/// A tool that is to be run.
#[derive(Clone, PartialEq)]
pub struct ToolCall {
    /// The request.
    pub id: Id,
    /// The assistant message that needs it.
    pub message: Id,
    /// The tool.
    pub name: String,
    /// Its arguments, an object.
    pub parameters: Value,
    /// How long it may take; the client sees to it.
    pub budget: Duration,
}

impl ToolCall {
    pub(super) fn new(run: ToolRun) -> Self {
        Self {
            id: run.id,
            message: run.message,
            name: run.name,
            parameters: serde_json::to_value(&run.parameters.0).unwrap_or_default(),
            budget: Duration::from_millis(run.budget_ms.into()),
        }
    }
}

/// Does not show the arguments.
impl fmt::Debug for ToolCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ToolCall")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a tool failed; the assistant reads it.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum ToolFailure {
    /// Its arguments are wrong.
    #[error("{0}")]
    Invalid(String),
    /// It failed, possibly with a part of what it was to give.
    #[error("{message}")]
    Failed {
        /// What happened.
        message: String,
        /// What there is.
        partial: Option<Value>,
    },
}

/// Shows none of what there is.
impl fmt::Debug for ToolFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Invalid(_) => "Invalid(…)",
            Self::Failed { .. } => "Failed(…)",
        })
    }
}

impl ToolFailure {
    /// A failure without a part of a result.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), partial: None }
    }

    /// Wrong arguments.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

/// Runs a tool.
pub(super) type Handler = tool::Handler<ToolCall, Result<Value, ToolFailure>>;

/// Runs a tool to its end, whatever happens. The state machine keeps its time.
pub(super) async fn run(handler: Handler, call: ToolCall) -> ToolOutcome {
    let failed = |message: String, partial| ToolOutcome::Failed { message: Pii(message), partial };
    match handler.run(call).await {
        Some(Ok(value)) => match value.try_into() {
            Ok(value) => ToolOutcome::Done(value),
            Err(_) => failed("the result cannot be sent".to_owned(), None),
        },
        Some(Err(ToolFailure::Invalid(message))) => ToolOutcome::Invalid(Pii(message)),
        Some(Err(ToolFailure::Failed { message, partial })) => {
            failed(message, partial.and_then(|partial| partial.try_into().ok()))
        }
        None => failed("the tool broke".to_owned(), None),
    }
}
