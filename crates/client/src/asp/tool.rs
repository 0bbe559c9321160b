//! Tools that this client executes.

use std::time::Duration;

use switchboard_asp::error::FieldError;
use switchboard_asp::message::{Call, CallFailure, ToolDef};
use switchboard_asp::value::{Map, Value};

use crate::tool;

/// A tool of this client, from its name, its description and the JSON Schema of its arguments.
///
/// # Errors
/// The name or the schema is not valid.
pub fn tool(name: &str, description: &str, input_schema: serde_json::Value) -> Result<ToolDef, FieldError> {
    let schema = Value::try_from(input_schema).unwrap_or(Value::Null);
    let map = Map::new().with("name", name).with("description", description).with("input_schema", schema);
    ToolDef::from_map(map)
}

/// A call to execute.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The request that needs it.
    pub request: u16,
    /// The call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Its arguments, an object.
    pub args: serde_json::Value,
    /// How long the server waits.
    pub timeout: Duration,
}

impl ToolCall {
    pub(super) fn new(request: u16, call: &Call) -> Self {
        Self {
            request,
            call_id: call.call_id.clone(),
            name: call.name.clone(),
            args: serde_json::Value::Object(call.args.clone().into_serde()),
            timeout: Duration::from_millis(call.timeout_ms),
        }
    }
}

/// Why a call failed; the agent reads it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ToolFailure {
    /// Kind of failure, in capitals.
    pub name: String,
    /// What happened.
    pub message: String,
}

impl ToolFailure {
    /// A failure.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), message: message.into() }
    }
}

/// Executes calls.
pub(super) type Handler = tool::Handler<ToolCall, Result<serde_json::Value, ToolFailure>>;

/// Executes a call within its time.
pub(super) async fn run(handler: Handler, call: ToolCall) -> Result<Option<Value>, CallFailure> {
    let failure = match tokio::time::timeout(call.timeout, handler.run(call)).await {
        Ok(Some(Ok(output))) => match Value::try_from(output) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => ToolFailure::new("BAD_OUTPUT", error.to_string()),
        },
        Ok(Some(Err(failure))) => failure,
        Ok(None) => ToolFailure::new("PANICKED", "the tool broke"),
        Err(_) => ToolFailure::new("TIMEOUT", "the tool took too long"),
    };
    Err(failure.into())
}

impl From<ToolFailure> for CallFailure {
    fn from(failure: ToolFailure) -> Self {
        Self { name: failure.name, msg: failure.message }
    }
}
