//! What a device lists as its tools, and the tools that an agent is offered for it.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use switchboard_core::model::{Executor, Tool, ToolAnnotations};
use switchboard_core::{Callsign, ToolName};

use super::context::{CommandContext, ToolType};
use crate::names::free_name;

/// The tools of a listing, under the names that the device has for them; none if it is no listing.
/// What cannot be used is left out.
pub(super) fn read(listing: Value, device: &Callsign, context: &CommandContext) -> Option<Vec<Tool>> {
    let Value::Array(entries) = listing else { return None };
    let mut seen = BTreeSet::new();
    let infos = entries.into_iter().filter_map(|entry| ToolInfo::deserialize(entry).ok());
    let tools = infos.filter(|info| !info.tool_name.is_empty() && info.tool_name != LIST_TOOLS);
    // A device tells its tools apart by type and name.
    let tools = tools.filter(|info| seen.insert((info.tool_type.clone(), info.tool_name.clone())));
    Some(tools.filter_map(|info| info.into_tool(device, context)).take(MAX_TOOLS).collect())
}

/// The same tools under names that models take and nobody else in the session has.
pub(super) fn offered(listed: &[Tool], taken: impl IntoIterator<Item = ToolName>) -> Vec<Tool> {
    let mut taken: BTreeSet<String> = taken.into_iter().map(|name| name.to_string()).collect();
    let rename = |tool: &Tool| {
        let mut tool = tool.clone();
        let name = free_name(tool.name.as_str(), |name| taken.contains(name));
        if name != tool.name.as_str() {
            tool.options["tool_name"] = Value::from(tool.name.as_str());
            tool.name = ToolName::from(name.as_str());
        }
        taken.insert(name);
        tool
    };
    listed.iter().map(rename).collect()
}

/// A tool as a device describes it; what else it says of it is of no use here.
#[derive(Debug, Deserialize)]
struct ToolInfo {
    tool_name: String,
    #[serde(default)]
    tool_type: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    input_schema: Option<Value>,
    #[serde(default)]
    output_schema: Option<Value>,
    #[serde(default)]
    annotations: Option<Value>,
}

impl ToolInfo {
    /// None if it is too large to be shown to a model.
    fn into_tool(self, device: &Callsign, context: &CommandContext) -> Option<Tool> {
        let large = |schema: &Option<Value>| {
            schema.as_ref().is_some_and(|schema| schema.to_string().len() > MAX_SCHEMA_BYTES)
        };
        if large(&self.input_schema) || large(&self.output_schema) {
            return None;
        }
        let tool_type = if self.tool_type == ToolType::DataCollection.as_str() {
            ToolType::DataCollection
        } else {
            ToolType::Action
        };
        let texts = [self.description, self.title];
        let text = texts.into_iter().flatten().find(|text| !text.trim().is_empty()).unwrap_or_default();
        Some(Tool {
            name: ToolName::new(self.tool_name),
            description: text.chars().take(MAX_DESCRIPTION).collect(),
            input_schema: self
                .input_schema
                .filter(Value::is_object)
                .unwrap_or_else(|| json!({ "type": "object" }))
                .into(),
            output_schema: self.output_schema.filter(Value::is_object).map(Into::into),
            annotations: annotations(self.annotations.as_ref().and_then(Value::as_object)),
            version: None,
            executor: Executor::Device(device.clone()),
            grace_ms: 0,
            options: Value::Object(context.options(tool_type)),
        })
    }
}

fn annotations(hints: Option<&Map<String, Value>>) -> ToolAnnotations {
    let hint = |name: &str| hints.and_then(|hints| hints.get(name)).and_then(Value::as_bool);
    ToolAnnotations {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        confirm: None,
    }
}

/// The command that every device has, and that no model needs.
pub(super) const LIST_TOOLS: &str = "list_tools";
/// More than this no model takes.
const MAX_TOOLS: usize = 128;
const MAX_DESCRIPTION: usize = 1024;
const MAX_SCHEMA_BYTES: usize = 32 << 10;
