//! Tools that the agent has, and that whoever asks can run as well.
//!
//! A protocol in which clients declare such tools names them as the `tools` of the turn's origin. Then the
//! client goes first, because it is closer to the person; the agent runs the tool itself only if the client
//! does not know it, or does not answer in time.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::{CallEnd, CallKind, CallRequest, Executor, TurnRequest};
use switchboard_core::{CallId, Op, ToolName};

use super::Turn;
use super::calls::By;
use crate::agent::AgentError;

impl Turn {
    /// Has whoever asks run a tool of the agent's own, if they have said that they can; none if it is left
    /// to the agent. [`Turn::call`] and [`Turn::call_all`] do so by themselves.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn offer(
        &mut self,
        name: &ToolName,
        args: Value,
        timeout: Duration,
    ) -> Result<Option<CallEnd>, AgentError> {
        if !self.asker_runs(name) {
            return Ok(None);
        }
        let kind = CallKind::Tool { name: name.clone(), args: args.into() };
        let (id, known) = self.next_call(&kind)?;
        let end = self.carry_out(id, kind, known, By::Asker, timeout).await?;
        Ok((!is_left_to_agent(&end)).then_some(end))
    }

    /// Whether whoever asks runs this tool, too. One that they have asked the agent for by its name, they do
    /// not want to run themselves.
    pub(super) fn asker_runs(&self, name: &ToolName) -> bool {
        let asked_for = matches!(&self.brief.request, TurnRequest::Tool { name: asked, .. } if asked == name);
        let theirs = self.brief.origin.options.get(TOOLS).and_then(Value::as_array);
        !asked_for && theirs.is_some_and(|tools| tools.iter().any(|tool| tool == name.as_str()))
    }

    /// The request of such a call, which says that the agent could run the tool as well.
    pub(super) fn asking_asker(&self, id: CallId, kind: CallKind, timeout: Duration) -> Op {
        let call = CallRequest {
            id,
            kind,
            executor: Some(Executor::Principal(self.brief.origin.principal.clone())),
            deadline: self.port.now().after(timeout.min(MAX_TIME) + Duration::from_millis(GRACE_MS)),
            batch: None,
            options: json!({ "either": true, "grace_ms": GRACE_MS }).into(),
        };
        Op::Request { turn: self.brief.turn.clone(), fence: self.brief.fence, calls: vec![call] }
    }
}

/// Whether the end of such a call means that the agent has to run the tool. A tool that has failed has run.
pub(super) fn is_left_to_agent(end: &CallEnd) -> bool {
    match end {
        CallEnd::TimedOut => true,
        CallEnd::Failed(error) => error.name == "unknown_tool",
        CallEnd::Done { .. } | CallEnd::Cancelled => false,
    }
}

/// Where the origin of a turn names the tools that whoever asks can run.
const TOOLS: &str = "tools";
/// What the client gets on top of the time, for the way there and back.
const GRACE_MS: u64 = 2_000;
/// How long nobody waits for a tool that the agent could run itself.
const MAX_TIME: Duration = Duration::from_secs(300);
