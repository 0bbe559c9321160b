//! The tools that a server lists, within bounds.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::service::ServiceError;
use rmcp::{Peer, RoleClient};
use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{Executor, MCP_SERVER, Tool, ToolAnnotations};
use tracing::warn;

use super::config::McpConfig;

/// A tool as its server knows it.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    description: String,
    input_schema: Arc<Value>,
    output_schema: Option<Arc<Value>>,
    annotations: ToolAnnotations,
}

impl Listed {
    /// The tool as it is offered.
    pub(super) fn offer(&self, name: ToolName, server: &str) -> Tool {
        Tool {
            name,
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            output_schema: self.output_schema.clone(),
            annotations: self.annotations.clone(),
            version: None,
            executor: Executor::Agent,
            grace_ms: 0,
            options: json!({ MCP_SERVER: server }),
        }
    }
}

/// Asks for all pages. What is beyond a bound is left out, and said so.
pub(super) async fn list(
    peer: &Peer<RoleClient>,
    server: &str,
    config: &McpConfig,
) -> Result<Vec<Listed>, ServiceError> {
    let mut listed: Vec<Listed> = Vec::new();
    let mut names = BTreeSet::new();
    let mut beyond = 0_usize;
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        // Not the convenience of the library: that one may answer from a cache.
        let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        let result = peer.send_request(ClientRequest::ListToolsRequest(request)).await?;
        let ServerResult::ListToolsResult(page) = result else {
            return Err(ServiceError::UnexpectedResponse);
        };
        for tool in page.tools {
            let wanted =
                config.tools.as_ref().is_none_or(|tools| tools.iter().any(|name| *name == tool.name));
            if !wanted {
                continue;
            }
            if listed.len() == MAX_TOOLS {
                beyond += 1;
                continue;
            }
            match convert(tool, config) {
                Ok(tool) if names.insert(tool.name.clone()) => listed.push(tool),
                Ok(tool) => warn!(server, tool = short(&tool.name), "a tool is listed twice"),
                Err((name, problem)) => {
                    warn!(server, tool = short(&name), "a tool is not offered: {problem}")
                }
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() || listed.len() == MAX_TOOLS {
            break;
        }
    }
    if beyond > 0 || cursor.is_some() {
        warn!(server, beyond, "a server lists more than {MAX_TOOLS} tools or {MAX_PAGES} pages");
    }
    Ok(listed)
}

fn convert(tool: rmcp::model::Tool, config: &McpConfig) -> Result<Listed, (String, &'static str)> {
    let name = tool.name.into_owned();
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err((name, "its name is empty or too long"));
    }
    let description =
        tool.description.or_else(|| tool.title.map(Into::into)).unwrap_or_default().into_owned();
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        return Err((name, "its description is too long"));
    }
    let schema = |schema: &rmcp::model::JsonObject| Value::Object(schema.clone());
    let input_schema = schema(&tool.input_schema);
    let output_schema = tool.output_schema.as_deref().map(schema);
    let too_large = |schema: &Value| schema.to_string().len() > MAX_SCHEMA_BYTES;
    if too_large(&input_schema) || output_schema.as_ref().is_some_and(too_large) {
        return Err((name, "its schema is too large"));
    }
    let hints = tool.annotations.unwrap_or_default();
    let destructive = hints.destructive_hint == Some(true) && hints.read_only_hint != Some(true);
    let annotations = ToolAnnotations {
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        confirm: (destructive || config.confirm.contains(&name)).then_some(true),
    };
    Ok(Listed {
        name,
        description,
        input_schema: input_schema.into(),
        output_schema: output_schema.map(Into::into),
        annotations,
    })
}

/// The beginning of a name that somebody else has chosen.
fn short(name: &str) -> String {
    name.chars().take(64).filter(|c| !c.is_control()).collect()
}

const MAX_TOOLS: usize = 256;
const MAX_PAGES: usize = 64;
const MAX_NAME_BYTES: usize = 256;
const MAX_DESCRIPTION_CHARS: usize = 1024;
const MAX_SCHEMA_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(value: Value) -> Result<Listed, (String, &'static str)> {
        let config = McpConfig { confirm: vec!["careful".into()], ..McpConfig::default() };
        convert(serde_json::from_value(value).unwrap(), &config)
    }

    #[test]
    fn what_a_server_knows_of_its_tool_is_kept() {
        let value = json!({
            "name": "drop", "description": "Drops it.", "inputSchema": { "type": "object" },
            "outputSchema": { "type": "object", "title": "out" },
            "annotations": { "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true },
        });
        let offered = tool(value).unwrap().offer(ToolName::from("db.drop"), "db");
        assert_eq!(offered.name, ToolName::from("db.drop"));
        assert_eq!(offered.description, "Drops it.");
        assert_eq!(offered.output_schema, Some(json!({ "type": "object", "title": "out" }).into()));
        assert_eq!(offered.options, json!({ "mcp": "db" }));
        assert_eq!(offered.executor, Executor::Agent);
        let expected = ToolAnnotations {
            read_only: Some(false),
            destructive: Some(true),
            idempotent: Some(true),
            confirm: Some(true),
        };
        assert_eq!(offered.annotations, expected);
    }

    #[test]
    fn confirmation_is_asked_for_what_destroys_and_what_is_configured() {
        let confirm = |name: &str, hints: Value| {
            let value = json!({ "name": name, "inputSchema": {}, "annotations": hints });
            tool(value).unwrap().annotations.confirm
        };
        assert_eq!(confirm("careful", json!({ "readOnlyHint": true })), Some(true));
        assert_eq!(confirm("other", json!({ "destructiveHint": true })), Some(true));
        assert_eq!(confirm("other", json!({ "destructiveHint": true, "readOnlyHint": true })), None);
        assert_eq!(confirm("other", json!({})), None);
    }

    #[test]
    fn tools_beyond_the_bounds_are_refused() {
        let with = |name: &str, description: usize, schema: usize| {
            let schema = json!({ "type": "object", "title": "s".repeat(schema) });
            tool(json!({ "name": name, "description": "ä".repeat(description), "inputSchema": schema }))
        };
        assert!(with("fits", 1024, 16_000).is_ok());
        assert!(with("", 0, 0).is_err());
        assert!(with(&"n".repeat(257), 0, 0).is_err());
        assert!(with("described", 1025, 0).is_err());
        assert!(with("large", 0, 17_000).is_err());
    }
}
