//! A turn as its agent sees it.

mod approval;
mod calls;
mod either;
mod port;
mod resumption;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::{
    CallEnd, CallKind, CallRequest, Executor, FailureKind, Output, Standby, Tool, ToolChange, TurnRequest,
    UNANNOUNCED,
};
use switchboard_core::{
    Attempt, CallId, Event, Journal, MessageRow, Op, Reject, Repeat, Timestamp, ToolName,
};
use tokio::sync::watch;

use crate::agent::AgentError;

pub use approval::Approval;
pub(crate) use approval::{ApprovalPolicy, OfClients, is_denied};
pub use calls::{ToolUse, Toolbox};
pub use port::{Brief, TurnPort};
pub use resumption::{PastCall, Resumption};

/// A turn as its agent sees it: what is asked, and the ways to answer.
///
/// A turn may be the repetition of one whose process died. What the agent then repeats of what is
/// committed already is not sent again, so that an agent with
/// [`Recovery::Replay`](crate::Recovery::Replay) need not know about it.
pub struct Turn {
    brief: Brief,
    port: Arc<dyn TurnPort>,
    interrupted: watch::Receiver<bool>,
    journal: Journal,
    /// Tools that the agent is executing, as far as an earlier run has executed them already.
    repeated: BTreeMap<CallId, Attempt>,
    calls: u32,
    /// Where an earlier run has let go of the turn.
    resumption: Option<Resumption>,
    toolbox: Option<Arc<dyn Toolbox>>,
    /// About which uses of tools a person is asked.
    policy: Option<ApprovalPolicy>,
}

impl Turn {
    /// A turn on a port. `journal` holds what earlier, lost runs of it have committed.
    pub fn new(
        brief: Brief,
        port: Arc<dyn TurnPort>,
        interrupted: watch::Receiver<bool>,
        journal: Vec<Event>,
    ) -> Self {
        let resumption = Resumption::of(&journal);
        let journal = if resumption.is_some() { Journal::default() } else { Journal::new(journal) };
        let repeated = BTreeMap::new();
        Self {
            brief,
            port,
            interrupted,
            journal,
            repeated,
            calls: 0,
            resumption,
            toolbox: None,
            policy: None,
        }
    }

    /// The same turn for work that goes on beside the agent's own, and repeats nothing.
    fn beside(&self) -> Self {
        Self {
            brief: self.brief.clone(),
            port: self.port.clone(),
            interrupted: self.interrupted.clone(),
            journal: Journal::default(),
            repeated: BTreeMap::new(),
            calls: 0,
            resumption: None,
            toolbox: self.toolbox.clone(),
            policy: self.policy,
        }
    }

    /// Gives the agent tools that are executed in this process.
    pub fn equip(&mut self, toolbox: Arc<dyn Toolbox>) {
        self.toolbox = Some(toolbox);
    }

    /// Whether a tool is one of those.
    pub fn executes(&self, name: &ToolName) -> bool {
        self.toolbox.as_ref().is_some_and(|toolbox| toolbox.knows(name))
    }

    /// Where an earlier run has let go of the turn, for an agent that suspends its turns.
    pub fn resumption(&mut self) -> Option<Resumption> {
        self.resumption.take()
    }

    /// Lets go of the turn until what it has asked for is answered: if this process is lost
    /// meanwhile, the next run is given `state` and goes on.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn suspend(&mut self, state: Value) -> Result<(), AgentError> {
        self.emit(Output::Suspended(state)).await
    }

    /// Says why there is nothing to say yet.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn stand_by(&self, standby: Standby) -> Result<(), AgentError> {
        let (turn, fence) = (self.brief.turn.clone(), self.brief.fence);
        self.post(Op::Emit { turn, fence, output: Output::Standby(standby) }).await
    }

    /// Waits until everything that was said so far is committed.
    pub async fn settled(&self) {
        self.port.settled().await;
    }

    /// Does something once the end of the turn is committed; not at all if it never is.
    pub fn when_ended(&self, then: Box<dyn FnOnce() + Send>) {
        self.port.when_ended(then);
    }

    /// What it stands on, for what outlives the turn's own run.
    pub fn port(&self) -> &Arc<dyn TurnPort> {
        &self.port
    }

    /// What it is about.
    pub fn brief(&self) -> &Brief {
        &self.brief
    }

    /// What is asked.
    pub fn request(&self) -> &TurnRequest {
        &self.brief.request
    }

    /// The messages that lead to this turn's input, oldest first, at most `limit`.
    pub async fn history(&self, limit: usize) -> Vec<MessageRow> {
        let told = self.brief.recall.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        self.port.history(limit.min(told)).await
    }

    /// The tools of the session now, whoever executes them.
    pub async fn tools(&self) -> Vec<Tool> {
        self.port.tools().await
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.port.now()
    }

    /// Whether the agent still repeats what an earlier run has committed.
    pub fn is_replaying(&self) -> bool {
        !self.journal.is_empty() || !self.repeated.is_empty()
    }

    /// Adds output to the answer. Waits only while the session has no room for it.
    ///
    /// # Errors
    /// [`AgentError::Over`] when the turn takes no more output.
    pub async fn emit(&mut self, output: Output) -> Result<(), AgentError> {
        let same =
            |event: &Event| matches!(event, Event::TurnOutput { output: known, .. } if *known == output);
        match self.journal.pass(same) {
            Repeat::Known => return Ok(()),
            Repeat::Diverged => return Err(diverged()),
            Repeat::New => {}
        }
        let op = Op::Emit { turn: self.brief.turn.clone(), fence: self.brief.fence, output };
        self.post(op).await
    }

    /// Adds text to the answer.
    ///
    /// # Errors
    /// As [`Turn::emit`].
    pub async fn text(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        self.emit(Output::Text(text.into())).await
    }

    /// Lets time pass, unless the agent only repeats what was done before.
    ///
    /// # Errors
    /// [`AgentError::Over`] as soon as the turn is interrupted.
    pub async fn pause(&self, delay: Duration) -> Result<(), AgentError> {
        if delay.is_zero() || self.is_replaying() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            () = self.interrupted() => Err(AgentError::Over),
        }
    }

    /// Shows the use of a tool that the agent executes itself; report through the handle. A use
    /// that was lost half-way is shown again as a whole, under a new name.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn begin_tool(&mut self, name: &ToolName, args: Value) -> Result<CallId, AgentError> {
        self.begin_tool_with(name, args, Arc::default()).await
    }

    /// The same where the agent itself has not said that the tool begins.
    pub(crate) async fn begin_tool_unannounced(
        &mut self,
        name: &ToolName,
        args: Value,
    ) -> Result<CallId, AgentError> {
        self.begin_tool_with(name, args, json!({ UNANNOUNCED: true }).into()).await
    }

    async fn begin_tool_with(
        &mut self,
        name: &ToolName,
        args: Value,
        options: Arc<Value>,
    ) -> Result<CallId, AgentError> {
        let kind = CallKind::Tool { name: name.clone(), args: args.into() };
        let (id, known) = self.next_call(&kind)?;
        if let Some(attempt) = known {
            self.repeated.insert(id.clone(), attempt);
            return Ok(id);
        }
        let call = CallRequest {
            id: id.clone(),
            kind,
            executor: Some(Executor::Agent),
            deadline: self.brief.deadline,
            batch: None,
            options,
        };
        self.post(Op::Request { turn: self.brief.turn.clone(), fence: self.brief.fence, calls: vec![call] })
            .await?;
        Ok(id)
    }

    /// Reports a piece of output of a tool that the agent executes itself.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn tool_progress(&mut self, call: &CallId, delta: impl Into<String>) -> Result<(), AgentError> {
        let delta = delta.into();
        if let Some(attempt) = self.repeated.get_mut(call) {
            return match attempt.progress.pop_front() {
                Some(known) if known == delta => Ok(()),
                _ => Err(diverged()),
            };
        }
        self.post(Op::Progress { turn: self.brief.turn.clone(), call: call.clone(), delta }).await
    }

    /// Reports the end of a tool that the agent executes itself. [`CallEnd::Cancelled`] belongs to
    /// the session, so an agent that cancels its tool reports it as a failure.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn end_tool(&mut self, call: &CallId, end: CallEnd) -> Result<(), AgentError> {
        if let Some(attempt) = self.repeated.remove(call) {
            return if attempt.progress.is_empty() { Ok(()) } else { Err(diverged()) };
        }
        let end = calls::reportable(end);
        self.post(Op::Answer { turn: self.brief.turn.clone(), call: call.clone(), end }).await
    }

    /// Offers tools that were found while working, or withdraws some.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn change_tools(&mut self, add: Vec<Tool>, remove: Vec<ToolName>) -> Result<(), AgentError> {
        let change = ToolChange { add, remove, turn: Some(self.brief.turn.clone()) };
        match self.journal.pass(|event| change.led_to(event)) {
            Repeat::Known => return Ok(()),
            // To withdraw what nobody offers changes nothing, and left no event.
            Repeat::Diverged if change.add.is_empty() => return Ok(()),
            Repeat::Diverged => return Err(diverged()),
            Repeat::New => {}
        }
        self.post(Op::ChangeTools(change)).await
    }

    /// Whether an earlier run is still repeated here, which has seen to the tools of such executors
    /// already; if it did so with a change, that is stepped over.
    pub(crate) fn pass_tools(&mut self, same: impl FnOnce(&[Tool]) -> bool) -> bool {
        let repeat = self.journal.pass(
            |event| matches!(event, Event::ToolsChanged { added, .. } if !added.is_empty() && same(added)),
        );
        match repeat {
            Repeat::Known | Repeat::Diverged => true,
            Repeat::New => false,
        }
    }

    /// Waits until the turn is interrupted, or ends for another reason.
    pub async fn interrupted(&self) {
        let mut interrupted = self.interrupted.clone();
        // An error means that the session has let go of the turn, which is the same thing.
        let _ = interrupted.wait_for(|stop| *stop).await;
    }

    async fn post(&self, op: Op) -> Result<(), AgentError> {
        if *self.interrupted.borrow() {
            return Err(AgentError::Over);
        }
        self.port.post(op).await.map_err(over)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("turn", &self.brief.turn).finish_non_exhaustive()
    }
}

fn diverged() -> AgentError {
    AgentError::failed(
        FailureKind::WorkerLost,
        "the agent did not repeat what it had done before it was lost",
    )
}

/// Whatever the reason of a refusal, the agent has nothing left to say in this turn, except when
/// what it asked for is at fault.
#[expect(clippy::wildcard_enum_match_arm, reason = "a new refusal means the same as most")]
fn over(reject: Reject) -> AgentError {
    match reject {
        Reject::UnknownTool(name) => {
            AgentError::failed(FailureKind::ToolNotFound, format!("no such tool: {name}"))
        }
        Reject::InvalidArgs(reason) => AgentError::failed(FailureKind::InvalidArgs, reason),
        Reject::Invalid(reason) => AgentError::failed(FailureKind::Execution, reason),
        Reject::Limit { .. } => AgentError::Failed(reject.as_failure()),
        Reject::Unavailable { .. } | Reject::Busy | Reject::RateLimited { .. } => {
            AgentError::failed(FailureKind::Internal, reject.to_string())
        }
        _ => AgentError::Over,
    }
}
