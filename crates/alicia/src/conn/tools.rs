//! Tools that a client runs: declared, and their results (§4.6, §4.7, §5.4).

use std::collections::BTreeSet;

use serde_json::json;
use switchboard_core::model::{CallEnd, CallError, Executor, Tool, ToolAnnotations, ToolChange};
use switchboard_core::{Op, Reject, SessionId, ToolName, Within};

use super::AliciaConnection;
use super::jobs::{Answer, Job, Task};
use crate::annals::tables;
use crate::error::Code;
use crate::message::{Body, ToolError, ToolUseResult, Word};
use crate::rows;

/// A ToolUseResult is being taken in.
#[derive(Debug)]
pub(super) enum Resulting {
    Answering,
    /// Whether its request ever was is being looked up.
    Seeking,
}

impl AliciaConnection {
    pub(super) fn begin_resulting(&mut self, job: Job) {
        let (Body::ToolUseResult(result), Some(session)) = (&job.body, job.session()) else { return };
        let Some(known) = self.followed.get(&session) else { return };
        let request = result.request().clone();
        match known.annals.call_of(&request) {
            Some(_) if job.stale => self.refuse_stale(&job),
            // Another client of the same user has the tool, or it would not have been asked for.
            Some(_) if is_unknown(result) && !known.has_tool(&request) => self.acknowledge(&job, true),
            Some((turn, call)) => {
                let op = Op::Answer { turn, call, end: end_of(result) };
                self.submit(&session, op);
                self.wait(job, Task::Resulting(Resulting::Answering));
            }
            None if known.annals.is_answered(&request) => self.acknowledge(&job, true),
            None => {
                self.look(rows::by_id(&tables::TOOL_USES, Within::Session(session), &request));
                self.wait(job, Task::Resulting(Resulting::Seeking));
            }
        }
    }

    pub(super) fn go_on_resulting(&mut self, job: Job, resulting: Resulting, answer: Answer) {
        match resulting {
            Resulting::Answering => match answer.reply() {
                Ok(reply) => {
                    self.expect(&job, &reply);
                    self.acknowledge(&job, true);
                }
                // The first result has won, or time has.
                Err(Reject::CallGone(_) | Reject::TurnOver(_) | Reject::UnknownTurn(_)) => {
                    self.acknowledge(&job, true);
                }
                Err(Reject::Forbidden) => {
                    self.refuse(&job, Code::NotFound, "the server runs this tool itself")
                }
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Resulting::Seeking => match answer.rows() {
                Ok(found) if !found.is_empty() => self.acknowledge(&job, true),
                Ok(_) if job.stale => self.refuse_stale(&job),
                Ok(_) => self.refuse(&job, Code::NotFound, "requestId names no request here"),
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
        }
    }

    /// Registers the tools that the client runs, and withdraws those that it runs no longer. What the agent
    /// runs itself is not registered twice: it hears with each turn that the client could run it as well.
    pub(super) fn declare_tools(&mut self, session: &SessionId, known_tools: &[Tool]) {
        let (principal, grace_ms) = (self.principal.id.clone(), self.limits.tool_grace_ms);
        let Some(known) = self.followed.get_mut(session) else { return };
        let agents_own = |name: &str| {
            known_tools.iter().any(|tool| tool.name.as_str() == name && tool.executor == Executor::Agent)
        };
        let wanted: BTreeSet<String> = known
            .manners
            .tools
            .iter()
            .filter(|name| is_tool_name(name) && !agents_own(name))
            .cloned()
            .collect();
        let add: Vec<Tool> = wanted
            .difference(&known.declared)
            .map(|name| declared(name, Executor::Principal(principal.clone()), grace_ms))
            .collect();
        let remove: Vec<ToolName> =
            known.declared.difference(&wanted).map(|name| ToolName::new(name.as_str())).collect();
        known.declared = wanted;
        if !add.is_empty() || !remove.is_empty() {
            self.tell(session, Op::ChangeTools(ToolChange { add, remove, turn: None }));
        }
    }

    /// The client runs nothing more for this conversation.
    pub(super) fn withdraw_tools(&mut self, session: &SessionId) {
        let Some(known) = self.followed.get_mut(session) else { return };
        let remove: Vec<ToolName> =
            std::mem::take(&mut known.declared).into_iter().map(ToolName::new).collect();
        if !remove.is_empty() {
            self.tell(session, Op::ChangeTools(ToolChange { add: Vec::new(), remove, turn: None }));
        }
    }

    /// The client leaves for good. One that is merely cut off keeps its tools: it will be back.
    pub(super) fn withdraw_all_tools(&mut self) {
        for session in self.followed.keys().cloned().collect::<Vec<_>>() {
            self.withdraw_tools(&session);
        }
    }
}

fn is_unknown(result: &ToolUseResult) -> bool {
    !result.success && result.error_code.as_ref().and_then(Word::known) == Some(ToolError::UnknownTool)
}

fn is_tool_name(name: &str) -> bool {
    (1..=MAX_TOOL_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A tool of which nothing is known but its name.
fn declared(name: &str, executor: Executor, grace_ms: u32) -> Tool {
    Tool {
        name: ToolName::new(name),
        description: String::new(),
        input_schema: json!({ "type": "object" }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor,
        grace_ms,
        options: json!({ "grace_ms": grace_ms }),
    }
}

/// What a result means to whoever waits for it.
fn end_of(result: &ToolUseResult) -> CallEnd {
    let output = result.result.as_ref().and_then(|value| serde_json::to_value(value).ok());
    if result.success {
        return CallEnd::done(output.unwrap_or_default());
    }
    let name = match &result.error_code {
        Some(Word::Known(error)) => error.name().to_owned(),
        Some(Word::Other(name)) => name.clone(),
        None => ToolError::ExecutionError.name().to_owned(),
    };
    let message = result.error_message.as_ref().map(|message| message.0.clone()).unwrap_or_default();
    CallEnd::Failed(CallError { name, message, detail: output.unwrap_or_default() })
}

const MAX_TOOL_NAME: usize = 100;
