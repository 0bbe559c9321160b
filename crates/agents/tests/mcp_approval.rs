//! What is asked of a person before a tool of an MCP server runs, whoever wants it to run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod mcp_support;
mod support;

use std::sync::Arc;
use std::time::Duration;

use mcp_support::{start, tools};
use serde_json::json;
use support::{Port, run, tool};
use switchboard_agents::{Agent as _, AgentError, Echo, EchoConfig, McpConfig, McpServers, WithTools};
use switchboard_core::ToolName;
use switchboard_core::model::{CallEnd, CallKind, Executor, FailureKind, TurnEnd};

fn echo(servers: &Arc<McpServers>) -> WithTools<Echo> {
    WithTools::new(Echo::new(EchoConfig::default()), servers.clone())
}

/// A turn that asks for a tool by its name, while whoever is asked says this.
async fn direct(
    servers: &Arc<McpServers>,
    name: &str,
    said: CallEnd,
) -> (Arc<Port>, Result<TurnEnd, AgentError>) {
    let port = Port::new(move |call| call.kind.is_approval().then(|| said.clone()));
    let end = run(&echo(servers), &port, tool(name, json!({}))).await;
    (port, end)
}

#[tokio::test]
async fn a_destructive_tool_that_is_asked_for_by_name_runs_only_with_approval() {
    let servers = Arc::new(start(McpConfig { approval_timeout_ms: 7_000, ..tools() }).await);
    assert_eq!(servers.approval(&ToolName::from("py.wipe")), Some(Duration::from_secs(7)));
    let (port, end) = direct(&servers, "py.wipe", CallEnd::done(json!("yes"))).await;
    assert!(end.unwrap().output.is_some());
    let calls = port.calls();
    let [question, use_of_tool] = calls.as_slice() else { panic!("{calls:?}") };
    let CallKind::Question { text, approves, .. } = &question.kind else { panic!("{question:?}") };
    assert_eq!(text, "\"ann\" asks: may the tool \"py.wipe\" be used with these arguments?\n{}");
    assert_eq!(approves.as_ref(), Some(&ToolName::from("py.wipe")));
    assert_eq!((question.deadline.as_secs(), &question.executor), (1_007, &Executor::Anyone));
    assert_eq!(use_of_tool.executor, Executor::Agent);

    for said in [CallEnd::done(json!("no")), CallEnd::done(json!({ "approve": false })), CallEnd::TimedOut] {
        let (port, end) = direct(&servers, "py.wipe", said.clone()).await;
        let Err(AgentError::Failed(failure)) = end else { panic!("{said:?}: {end:?}") };
        assert_eq!(failure.kind, FailureKind::Forbidden, "{said:?}");
        assert_eq!(port.calls().len(), 1, "nothing ran");
    }
}

#[tokio::test]
async fn a_tool_that_has_to_be_confirmed_is_asked_about_and_others_are_not() {
    let servers = Arc::new(start(McpConfig { confirm: vec!["pid".into()], ..tools() }).await);
    let (port, end) = direct(&servers, "py.pid", CallEnd::done(json!("no"))).await;
    assert!(matches!(end, Err(AgentError::Failed(failure)) if failure.kind == FailureKind::Forbidden));
    assert!(port.calls()[0].kind.is_approval());
    let servers = Arc::new(start(tools()).await);
    let (port, end) = direct(&servers, "py.pid", CallEnd::done(json!("no"))).await;
    assert!(end.is_ok() && !port.calls()[0].kind.is_approval());
}

#[tokio::test]
async fn an_agent_reaches_the_servers_that_it_names_and_no_others() {
    let servers = Arc::new(start(tools()).await);
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        WithTools::of(Echo::new(EchoConfig::default()), servers.clone(), &names)
    };
    let (reaches, does_not) = (named(&["py"]), named(&["other"]));
    assert_eq!((reaches.tools().len(), does_not.tools().len()), (servers.tools().len(), 0));
    let sum = || tool("py.add", json!({ "a": 1, "b": 2 }));
    assert!(run(&reaches, &Port::silent(), sum()).await.is_ok());
    let port = Port::silent();
    let Err(AgentError::Failed(failure)) = run(&does_not, &port, sum()).await else { panic!() };
    assert_eq!((failure.kind, port.calls().len()), (FailureKind::ToolNotFound, 0));
}
