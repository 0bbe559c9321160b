//! What a device can do.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use switchboard_aip::client::Run;
use switchboard_aip::message::{Outcome, ResultStatus, ToolInfo, ToolType};

/// What a device can do. A function from a [`ToolCall`] to a future is enough.
pub trait Tools: Send + Sync + 'static {
    /// Runs one command. Commands come one at a time. The future is dropped when nobody wants the
    /// outcome any more: the task was cancelled, or the connection is lost.
    fn run(&self, call: ToolCall) -> impl Future<Output = Result<Value, ToolFailure>> + Send;

    /// The tools there are; asked for with the command `list_tools`, which is answered from this.
    fn list(&self) -> Vec<ToolInfo> {
        Vec::new()
    }

    /// What the device is like now; asked for at every registration and whenever the server wants to
    /// know, and must be quick. None for what the configuration says.
    fn facts(&self) -> Option<Map<String, Value>> {
        None
    }

    /// Which tool server the outcomes come from.
    fn namespace(&self) -> Option<String> {
        None
    }
}

impl<F, R> Tools for F
where
    F: Fn(ToolCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolFailure>> + Send,
{
    fn run(&self, call: ToolCall) -> impl Future<Output = Result<Value, ToolFailure>> + Send {
        self(call)
    }
}

/// A command to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// What it is given.
    pub parameters: Map<String, Value>,
    /// What it is for.
    pub tool_type: ToolType,
    /// The task.
    pub session_id: Option<String>,
    /// The agent whose command it is; a device may have other tools for each.
    pub agent_name: Option<String>,
    /// The process of the application in use.
    pub process_name: Option<String>,
    /// The application in use.
    pub root_name: Option<String>,
    /// Who asks for it and for which task, for people to read, if the device wants to know
    /// ([`DeviceConfig::names_askers`](switchboard_aip::client::DeviceConfig::names_askers)) and the server says so.
    pub asked: Vec<String>,
}

/// Why a command failed; the agent reads it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// What happened.
    pub message: String,
    /// What there is of a result.
    pub result: Value,
}

impl ToolFailure {
    /// A failure without a result.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), result: Value::Null }
    }
}

/// Any tools.
#[derive(Clone)]
pub(super) struct AnyTools(Arc<dyn Erased>);

impl AnyTools {
    pub(super) fn new(tools: impl Tools) -> Self {
        Self(Arc::new(tools))
    }

    pub(super) fn facts(&self) -> Option<Map<String, Value>> {
        self.0.facts()
    }

    /// Runs a command to its end, whatever happens.
    pub(super) async fn run(self, run: Run) -> Outcome {
        let (tools, namespace) = (self.0.clone(), self.0.namespace());
        let call = ToolCall {
            name: run.command.tool_name,
            parameters: run.command.parameters.unwrap_or_default(),
            tool_type: run.command.tool_type,
            session_id: run.session_id,
            agent_name: run.agent_name,
            process_name: run.process_name,
            root_name: run.root_name,
            asked: run.asked,
        };
        // Also what a tool does before its first await may panic.
        let ran = AssertUnwindSafe(async move {
            if call.name == LIST_TOOLS {
                listing(tools.list(), &call.parameters)
            } else {
                tools.run(call).await
            }
        });
        match ran.catch_unwind().await {
            Ok(Ok(result)) => Outcome { result, namespace, ..Outcome::new(ResultStatus::Success) },
            Ok(Err(ToolFailure { message, result })) => {
                let error = Some(message);
                Outcome { error, result, namespace, ..Outcome::new(ResultStatus::Failure) }
            }
            Err(_) => {
                let error = Some("the tool broke".to_owned());
                Outcome { error, namespace, ..Outcome::new(ResultStatus::Failure) }
            }
        }
    }
}

impl std::fmt::Debug for AnyTools {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("AnyTools(…)")
    }
}

/// [`Tools`] whose futures have one size.
trait Erased: Send + Sync {
    fn run(&self, call: ToolCall) -> Pin<Box<dyn Future<Output = Result<Value, ToolFailure>> + Send + '_>>;
    fn list(&self) -> Vec<ToolInfo>;
    fn facts(&self) -> Option<Map<String, Value>>;
    fn namespace(&self) -> Option<String>;
}

impl<T: Tools> Erased for T {
    fn run(&self, call: ToolCall) -> Pin<Box<dyn Future<Output = Result<Value, ToolFailure>> + Send + '_>> {
        Box::pin(Tools::run(self, call))
    }

    fn list(&self) -> Vec<ToolInfo> {
        Tools::list(self)
    }

    fn facts(&self) -> Option<Map<String, Value>> {
        Tools::facts(self)
    }

    fn namespace(&self) -> Option<String> {
        Tools::namespace(self)
    }
}

/// The answer to `list_tools`.
fn listing(mut tools: Vec<ToolInfo>, parameters: &Map<String, Value>) -> Result<Value, ToolFailure> {
    let wanted = |key: &str| parameters.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(tool_type) = wanted("tool_type") {
        tools.retain(|tool| tool.tool_type == tool_type);
    }
    if let Some(namespace) = wanted("namespace") {
        tools.retain(|tool| tool.namespace == namespace);
    }
    if parameters.get("remove_meta") != Some(&Value::Bool(false)) {
        for tool in &mut tools {
            tool.meta = None;
        }
    }
    serde_json::to_value(tools).map_err(|error| ToolFailure::new(error.to_string()))
}

const LIST_TOOLS: &str = "list_tools";
