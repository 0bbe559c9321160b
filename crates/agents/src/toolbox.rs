//! Tools that are executed in this process, offered beside those that an agent has itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use switchboard_core::model::{CallEnd, Executor, FailureKind, Tool, TurnEnd, TurnRequest};
use switchboard_core::{Callsign, Timestamp, ToolName};
use tokio::sync::mpsc;

use crate::agent::{Agent, AgentError, Condition, Recovery, Visit};
use crate::mcp::McpServers;
use crate::turn::{Toolbox, Turn, is_denied};

/// An agent with the tools of MCP servers: it can use them, and so can clients that ask for one of
/// them by name.
#[derive(Debug)]
pub struct WithTools<A> {
    inner: A,
    tools: Arc<McpTools>,
}

impl<A: Agent> WithTools<A> {
    /// This agent with the tools of these servers.
    pub fn new(inner: A, servers: Arc<McpServers>) -> Self {
        Self { inner, tools: Arc::new(McpTools { servers, only: None }) }
    }

    /// This agent with the tools of those of these servers that are named.
    pub fn of(inner: A, servers: Arc<McpServers>, names: &[String]) -> Self {
        let only = Some(names.iter().cloned().collect());
        Self { inner, tools: Arc::new(McpTools { servers, only }) }
    }
}

/// The tools of MCP servers that an agent reaches.
#[derive(Debug)]
struct McpTools {
    servers: Arc<McpServers>,
    /// The servers by name; none for all of them.
    only: Option<BTreeSet<String>>,
}

impl McpTools {
    fn reaches(&self, server: &str) -> bool {
        self.only.as_ref().is_none_or(|names| names.contains(server))
    }

    fn offered(&self) -> Vec<Tool> {
        let mut tools = self.servers.tools();
        tools.retain(|tool| tool.mcp_server().is_some_and(|server| self.reaches(server)));
        tools
    }
}

#[async_trait]
impl<A: Agent> Agent for WithTools<A> {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        turn.equip(self.tools.clone());
        let (name, args) = match turn.request() {
            TurnRequest::Tool { name, args } if self.tools.knows(name) => (name.clone(), args.clone()),
            TurnRequest::Tool { .. } | TurnRequest::Chat { .. } | TurnRequest::Step { .. } => {
                return self.inner.run(turn).await;
            }
        };
        let left = turn.brief().deadline.since(turn.now());
        match turn.call(&name, args, left).await? {
            CallEnd::Done { output, .. } => Ok(TurnEnd { output: Some(output), ..TurnEnd::complete() }),
            CallEnd::Failed(error) if is_denied(&error) => {
                Err(AgentError::failed(FailureKind::Forbidden, error.message))
            }
            CallEnd::Failed(error) => Err(AgentError::failed(FailureKind::Tool, error.message)),
            CallEnd::TimedOut => {
                Err(AgentError::failed(FailureKind::Tool, format!("{name} did not answer in time")))
            }
            CallEnd::Cancelled => Err(AgentError::Over),
        }
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools = self.inner.tools();
        let offered = self.tools.offered().into_iter();
        // What the agent has itself goes by its name.
        let others: Vec<Tool> =
            offered.filter(|tool| tools.iter().all(|own| own.name != tool.name)).collect();
        tools.extend(others);
        tools
    }

    fn recovery(&self) -> Recovery {
        self.inner.recovery()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn condition(&self, now: Timestamp) -> Condition {
        self.inner.condition(now)
    }

    fn came(&self, visit: &Visit, now: Timestamp) {
        self.inner.came(visit, now);
    }

    fn left(&self, visit: &Visit, now: Timestamp) {
        self.inner.left(visit, now);
    }
}

/// Whether a turn for this device can use a tool: one that somebody else executes (of devices, only the one that
/// the turn is for), or one of the agents' that is executed in this process.
pub(crate) fn is_usable(
    tool: &Tool,
    device: Option<&Callsign>,
    executes: impl Fn(&ToolName) -> bool,
) -> bool {
    match &tool.executor {
        Executor::Agent => executes(&tool.name),
        Executor::Device(owner) => device == Some(owner),
        Executor::Attachment(_) | Executor::Principal(_) | Executor::Anyone => true,
    }
}

#[async_trait]
impl Toolbox for McpTools {
    fn knows(&self, name: &ToolName) -> bool {
        self.servers.server_of(name).is_some_and(|server| self.reaches(&server))
    }

    fn approval(&self, name: &ToolName) -> Option<Duration> {
        self.servers.approval(name)
    }

    async fn run(
        &self,
        name: &ToolName,
        args: Value,
        timeout: Duration,
        progress: mpsc::Sender<String>,
    ) -> CallEnd {
        // A report that nobody has time for is not worth waiting for.
        self.servers.call(name, args, timeout, |report| drop(progress.try_send(report))).await
    }
}
