//! The agents of the server, and the servers of tools.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};
use switchboard_agents::{Condition, McpState};
use switchboard_core::{AgentId, Principal};

use super::AdminState;
use crate::agents::Workshop;
use crate::host::Host;

/// Who knows the agents.
#[derive(Clone, Debug)]
pub(crate) struct Agents {
    pub(crate) host: Arc<Host>,
    pub(crate) workshop: Arc<Workshop>,
}

/// The agents that the caller may ask.
pub(super) async fn list(
    State(state): State<AdminState>,
    Extension(caller): Extension<Principal>,
) -> Response {
    let directory = state.agents.host.directory();
    let now = state.clock.now();
    let reachable = |agent: &&AgentId| caller.scopes.allows_agent(agent);
    let entries = directory.agents.keys().filter(reachable).filter_map(|name| {
        let agent = directory.agents.get(name)?;
        let (state, problem) = match agent.condition(now) {
            Condition::Ready => ("ready", None),
            Condition::Unavailable(problem) => ("unavailable", Some(problem)),
        };
        let tools: Vec<String> = agent.tools().iter().map(|tool| tool.name.to_string()).collect();
        Some(json!({
            "agent": name, "kind": agent.kind(), "default": *name == directory.default,
            "state": state, "problem": problem, "tools": tools,
        }))
    });
    Json(json!({ "agents": entries.collect::<Vec<Value>>(), "mcp": servers(&state, &caller) }))
        .into_response()
}

/// How the servers of tools are; only operators learn why one is down.
fn servers(state: &AdminState, caller: &Principal) -> Vec<Value> {
    let operator = caller.scopes.allows(switchboard_core::Scope::Admin);
    let status = state.agents.workshop.mcp.status();
    let entry = |server: switchboard_agents::McpStatus| {
        let (state, problem) = match server.state {
            McpState::Starting => ("starting", None),
            McpState::Ready => ("ready", None),
            McpState::Down { why, .. } => ("down", operator.then_some(why)),
        };
        json!({
            "server": server.name, "state": state, "problem": problem, "tools": server.tools,
            "restarts": server.restarts,
        })
    };
    status.into_iter().map(entry).collect()
}
