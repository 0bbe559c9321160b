//! Tools: what an agent may ask for, and who executes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::ToolName;
use crate::model::Executor;

/// The definition of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Unique within the session.
    pub name: ToolName,
    /// What it is for, for a model and a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The shape of its arguments, as JSON Schema. Shared, since every session and connection has the definition.
    pub input_schema: Arc<Value>,
    /// The shape of its result, as JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::model::present")]
    pub output_schema: Option<Arc<Value>>,
    /// What is known about its effects.
    #[serde(default)]
    pub annotations: ToolAnnotations,
    /// The version of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Who executes it.
    pub executor: Executor,
    /// What the executor gets on top of the time that a call gives it, in milliseconds, for the way there
    /// and back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub grace_ms: u32,
    /// What the protocol that carries a call to the executor has to know; its own business.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

impl Tool {
    /// The MCP server whose tool this is, if it is one of a server's.
    pub fn mcp_server(&self) -> Option<&str> {
        self.options.get(MCP_SERVER).filter(|_| self.executor == Executor::Agent)?.as_str()
    }
}

/// Where the options of a tool name its MCP server.
pub const MCP_SERVER: &str = "mcp";

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(grace_ms: &u32) -> bool {
    *grace_ms == 0
}

/// What is known about the effects of a tool; absent means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolAnnotations {
    /// Changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// May destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Doing it twice is as good as once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// A person has to confirm each use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<bool>,
}
