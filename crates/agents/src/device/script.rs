//! A planner without a mind of its own: the request says which commands the device gets, and how
//! the turn ends.
//!
//! A request that begins with `aip-script:` goes on with a JSON object. Everything in it may be left
//! out but the `tool_name` of a command, whose type is `action` then:
//!
//! ```json
//! {
//!   "turns": [[{"tool_name": "open", "tool_type": "action", "parameters": {"path": "a.log"}}]],
//!   "end": "completed",
//!   "result": 42,
//!   "error": null,
//!   "stop_on_failure": false,
//!   "delay_s": 0,
//!   "command_timeout_s": 300,
//!   "agent_name": null, "process_name": null, "root_name": null
//! }
//! ```
//!
//! Each of its turns is one batch of commands, and each batch begins after `delay_s`. The script is
//! checked as a whole before its first command is sent.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};
use switchboard_core::model::{FailureKind, TurnEnd, TurnRequest};
use switchboard_core::{ToolName, wide};

use super::context::{CommandContext, ToolType};
use super::outcome::Outcome;
use crate::agent::{Agent, AgentError, Recovery};
use crate::command::Command;
use crate::turn::Turn;

/// Sends the device of a turn the commands that the request spells out, and ends with what came of
/// them: `{"turns": [[Result, …], …], "result": …}`.
///
/// * `end` says how: `completed`; `failed`, with the text of `error`; or `raise`, which fails in the
///   same way but has no output.
/// * With `stop_on_failure` the first failure of a command ends the turn as failed, with its text.
/// * `command_timeout_s` bounds each batch; more than 6000 count as 6000.
/// * Any other text is sent as one command `echo`, and the turn completes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceScript;

#[async_trait]
impl Agent for DeviceScript {
    fn kind(&self) -> &'static str {
        "aip-script"
    }

    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        if let TurnRequest::Tool { name, .. } = turn.request() {
            return Err(AgentError::failed(FailureKind::ToolNotFound, format!("no such tool: {name}")));
        }
        if turn.brief().device.is_none() {
            return Err(AgentError::failed(FailureKind::Unprepared, "the turn is for no device"));
        }
        Plan::new(turn.request().text())?.play(turn).await
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replay
    }

    fn reacts_at_once(&self) -> bool {
        true
    }
}

/// What the device is to do, and how the turn ends then.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Plan {
    turns: Vec<Vec<Step>>,
    end: Option<Ending>,
    result: Value,
    error: Option<String>,
    stop_on_failure: Option<bool>,
    delay_s: Option<f64>,
    command_timeout_s: Option<f64>,
    agent_name: Option<String>,
    process_name: Option<String>,
    root_name: Option<String>,
}

impl Plan {
    fn new(request: String) -> Result<Self, AgentError> {
        let Some(script) = request.strip_prefix(PREFIX) else {
            let step = Step {
                tool_name: "echo".to_owned(),
                tool_type: ToolType::Action,
                parameters: Some(Map::from_iter([("text".to_owned(), Value::String(request))])),
            };
            return Ok(Self { turns: vec![vec![step]], ..Self::default() });
        };
        if !script.trim_start().starts_with('{') {
            return Err(broken("the script cannot be read: it is not a JSON object"));
        }
        let plan: Self = serde_json::from_str(&wide::shelter(script))
            .map_err(|error| broken(format!("the script cannot be read: {error}")))?;
        for (number, commands) in (1..).zip(&plan.turns) {
            if !(1..=MAX_COMMANDS).contains(&commands.len()) {
                let count = commands.len();
                return Err(broken(format!(
                    "turn {number} of the script has {count} commands; there have to be 1 to {MAX_COMMANDS}"
                )));
            }
            if commands.iter().any(|step| step.tool_name.is_empty()) {
                return Err(broken(format!("turn {number} of the script has a command without a tool_name")));
            }
        }
        Ok(plan)
    }

    async fn play(self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let delay = seconds("delay_s", self.delay_s)?.unwrap_or_default();
        let timeout = seconds("command_timeout_s", self.command_timeout_s)?.unwrap_or(COMMAND_TIMEOUT);
        let timeout = timeout.min(MAX_COMMAND_TIMEOUT);
        let stop = self.stop_on_failure.unwrap_or_default();
        let context = CommandContext {
            agent_name: self.agent_name,
            process_name: self.process_name,
            root_name: self.root_name,
        };
        let options = |tool_type| Arc::new(Value::Object(context.options(tool_type)));
        let (acting, looking) = (options(ToolType::Action), options(ToolType::DataCollection));
        let mut turns = Vec::with_capacity(self.turns.len());
        let mut failure = None;
        for steps in self.turns {
            turn.pause(delay).await?;
            let commands = steps.into_iter().map(|step| match step.tool_type {
                ToolType::Action => step.into_command(acting.clone()),
                ToolType::DataCollection => step.into_command(looking.clone()),
            });
            let commands = commands.collect();
            let ends = turn.batch(commands, timeout).await?;
            let outcomes: Vec<Outcome> = ends.into_iter().map(Outcome::from).collect();
            if stop {
                failure = outcomes.iter().find_map(Outcome::failure).map(str::to_owned);
            }
            turns.push(outcomes);
            if failure.is_some() {
                break;
            }
        }
        let output = Value::Object(Map::from_iter([
            ("turns".to_owned(), turns.into_iter().map(Value::from_iter).collect()),
            ("result".to_owned(), self.result),
        ]));
        let error = self.error.unwrap_or_else(|| "the script says so".to_owned());
        let end = match (failure, self.end.unwrap_or_default()) {
            (Some(failure), _) => TurnEnd::failed(FailureKind::Execution, failure),
            (None, Ending::Completed) => TurnEnd::complete(),
            (None, Ending::Failed) => TurnEnd::failed(FailureKind::Execution, error),
            (None, Ending::Raise) => return Err(broken(error)),
        };
        Ok(TurnEnd { output: Some(output.into()), ..end })
    }
}

/// One command of a plan.
#[derive(Debug, Deserialize)]
struct Step {
    tool_name: String,
    #[serde(default)]
    tool_type: ToolType,
    parameters: Option<Map<String, Value>>,
}

impl Step {
    fn into_command(self, options: Arc<Value>) -> Command {
        Command {
            name: ToolName::new(self.tool_name),
            args: self.parameters.map_or(Value::Null, Value::Object),
            options,
        }
    }
}

/// How the turn ends when all commands are through.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    #[default]
    Completed,
    Failed,
    Raise,
}

fn seconds(field: &str, value: Option<f64>) -> Result<Option<Duration>, AgentError> {
    let duration = value.map(Duration::try_from_secs_f64).transpose();
    duration.map_err(|error| broken(format!("{field} of the script makes no sense: {error}")))
}

fn broken(message: impl Into<String>) -> AgentError {
    AgentError::failed(FailureKind::Execution, message)
}

const PREFIX: &str = "aip-script:";
/// What the protocol allows in one message.
const MAX_COMMANDS: usize = 128;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);
const MAX_COMMAND_TIMEOUT: Duration = Duration::from_secs(6000);
