//! A turn as its agent sees it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sha2::{Digest, Sha256};
use switchboard_core::model::{
    Batch, CallEnd, CallError, CallKind, CallRequest, Executor, FailureKind, Output, Tool, ToolChange,
    TurnRequest,
};
use switchboard_core::{
    AgentId, AttachmentId, Attempt, CallId, Callsign, Event, Journal, MessageRow, Op, PrincipalId, Reject,
    Repeat, SessionId, Timestamp, ToolName, TurnId,
};
use tokio::sync::watch;

use crate::agent::AgentError;
use crate::command::{self, Command, CommandEnd};

/// What a [`Turn`] stands on; the server implements it over a session, tests over a script.
#[async_trait]
pub trait TurnPort: Send + Sync {
    /// Submits an op on behalf of the executor and waits until it is committed.
    async fn submit(&self, op: Op) -> Result<(), Reject>;

    /// Submits an op without waiting for the commit; order is kept. Waits only while the session
    /// has no room for it.
    async fn post(&self, op: Op) -> Result<(), Reject>;

    /// Waits for the end of a call.
    async fn call_end(&self, call: &CallId) -> CallEnd;

    /// The messages that lead to this turn's input, oldest first, at most `limit`.
    async fn history(&self, limit: usize) -> Vec<MessageRow>;

    /// The tools of the session now.
    async fn tools(&self) -> Vec<Tool>;

    /// The time.
    fn now(&self) -> Timestamp;
}

/// What a turn is about.
#[derive(Clone, Debug)]
pub struct Brief {
    /// The session it runs in.
    pub session: SessionId,
    /// Which turn.
    pub turn: TurnId,
    /// The agent that was asked for.
    pub agent: AgentId,
    /// Who asked.
    pub principal: PrincipalId,
    /// The attachment through which they asked.
    pub attachment: Option<AttachmentId>,
    /// What is asked.
    pub request: TurnRequest,
    /// The device that the turn is for, if it is about one.
    pub device: Option<Callsign>,
    /// The folder in which to work, if the client named one; it was there when the turn began.
    pub workspace: Option<Box<str>>,
    /// How many messages before the input are shown; none for all.
    pub recall: Option<u32>,
    /// Opaque data of the client.
    pub meta: Value,
    /// After this the turn ends as expired.
    pub deadline: Timestamp,
    /// From the claim; shown with every op.
    pub fence: u32,
}

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
}

impl Turn {
    /// A turn on a port. `journal` holds what earlier, lost runs of it have committed.
    pub fn new(
        brief: Brief,
        port: Arc<dyn TurnPort>,
        interrupted: watch::Receiver<bool>,
        journal: Vec<Event>,
    ) -> Self {
        Self { brief, port, interrupted, journal: Journal::new(journal), repeated: BTreeMap::new(), calls: 0 }
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

    /// Asks whoever offers the tool to run it, and waits for the result.
    ///
    /// # Errors
    /// The tool is unknown, or the turn is over.
    pub async fn call(
        &mut self,
        name: &ToolName,
        args: Value,
        timeout: Duration,
    ) -> Result<CallEnd, AgentError> {
        self.request_call(CallKind::Tool { name: name.clone(), args }, timeout).await
    }

    /// Asks the device of the turn to execute commands in their order, all of them at once, and
    /// waits for every end. A command that an earlier run has asked for is not asked for again: its
    /// end is the one that it had, or still will have.
    ///
    /// # Errors
    /// The turn is for no device, the session refuses the commands, or the turn is over.
    pub async fn batch(
        &mut self,
        commands: Vec<Command>,
        timeout: Duration,
    ) -> Result<Vec<CommandEnd>, AgentError> {
        let first = self.calls.saturating_add(1);
        self.calls = self.calls.saturating_add(u32::try_from(commands.len()).unwrap_or(u32::MAX));
        self.request_batch(first, commands, timeout).await?.ok_or_else(diverged)
    }

    /// Asks the device for something before the agent begins, under a name of its own, so that the
    /// agent's calls are named the same without it; none if an earlier run has begun without it.
    pub(crate) async fn ask_first(
        &mut self,
        command: Command,
        timeout: Duration,
    ) -> Result<Option<CallEnd>, AgentError> {
        let ended = self.request_batch(0, vec![command], timeout).await?;
        Ok(ended.and_then(|ended| ended.into_iter().next()).map(|ended| ended.end))
    }

    /// Asks a person, and waits for the answer.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn ask(
        &mut self,
        text: impl Into<String>,
        schema: Option<Value>,
        timeout: Duration,
    ) -> Result<CallEnd, AgentError> {
        self.request_call(CallKind::Question { text: text.into(), schema }, timeout).await
    }

    /// Shows the use of a tool that the agent executes itself; report through the handle. A use
    /// that was lost half-way is shown again as a whole, under a new name.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn begin_tool(&mut self, name: &ToolName, args: Value) -> Result<CallId, AgentError> {
        let kind = CallKind::Tool { name: name.clone(), args };
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
            options: Value::Null,
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
        let end = match end {
            CallEnd::Cancelled => CallEnd::Failed(CallError::new("cancelled", "cancelled")),
            CallEnd::Done { .. } | CallEnd::Failed(_) | CallEnd::TimedOut => end,
        };
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

    async fn request_call(&mut self, kind: CallKind, timeout: Duration) -> Result<CallEnd, AgentError> {
        let (id, known) = self.next_call(&kind)?;
        match known.map(|attempt| attempt.end) {
            Some(Some(end)) => return Ok(end),
            // Asked for by an earlier run, and still with whoever is to answer.
            Some(None) => {}
            None => {
                let deadline = self.port.now().after(timeout);
                let call = CallRequest {
                    id: id.clone(),
                    kind,
                    executor: None,
                    deadline,
                    batch: None,
                    options: Value::Null,
                };
                let op =
                    Op::Request { turn: self.brief.turn.clone(), fence: self.brief.fence, calls: vec![call] };
                self.port.submit(op).await.map_err(over)?;
            }
        }
        self.end_of(&id).await
    }

    /// Asks for commands whose numbers begin with `first`; none if that is not what an earlier run
    /// has done in its place.
    async fn request_batch(
        &mut self,
        first: u32,
        commands: Vec<Command>,
        timeout: Duration,
    ) -> Result<Option<Vec<CommandEnd>>, AgentError> {
        let Some(device) = &self.brief.device else {
            return Err(AgentError::failed(FailureKind::Unprepared, "the turn is for no device"));
        };
        let (turn, fence) = (&self.brief.turn, self.brief.fence);
        let deadline = self.port.now().after(timeout);
        let size = u32::try_from(commands.len()).unwrap_or(u32::MAX);
        let batch = Batch { id: command::uuid(turn, "batch", first), size };
        let mut asked = Vec::with_capacity(commands.len());
        let mut new = Vec::with_capacity(commands.len());
        for (number, command) in (first..).zip(commands) {
            let base = command::uuid(turn, "command", number);
            let kind = CallKind::Tool { name: command.name, args: command.args };
            let Some((id, known)) = self.journal.call(&base, &kind, fence) else { return Ok(None) };
            match known {
                Some(attempt) => asked.push((id, attempt.end)),
                None if id.as_str() != base => asked.push((CallId::new(base), Some(command::not_repeated()))),
                None => {
                    asked.push((id.clone(), None));
                    new.push(CallRequest {
                        id,
                        kind,
                        executor: Some(Executor::Device(device.clone())),
                        deadline,
                        batch: Some(batch.clone()),
                        options: command.options,
                    });
                }
            }
        }
        if !new.is_empty() {
            // The commands of a batch are committed together, or none of them is.
            if new.len() != asked.len() {
                return Ok(None);
            }
            let op = Op::Request { turn: turn.clone(), fence, calls: new };
            self.post(op).await?;
        }
        let mut ended = Vec::with_capacity(asked.len());
        for (call, end) in asked {
            let end = match end {
                Some(end) => end,
                None => self.end_of(&call).await?,
            };
            ended.push(CommandEnd { call, end });
        }
        Ok(Some(ended))
    }

    /// Waits for the end of a call, unless the turn ends first.
    async fn end_of(&self, call: &CallId) -> Result<CallEnd, AgentError> {
        tokio::select! {
            end = self.port.call_end(call) => match end {
                CallEnd::Cancelled => Err(AgentError::Over),
                CallEnd::Done { .. } | CallEnd::Failed(_) | CallEnd::TimedOut => Ok(end),
            },
            () = self.interrupted() => Err(AgentError::Over),
        }
    }

    /// Names the next call, and finds what an earlier run knows about it. The names of a turn's
    /// calls depend on nothing but their order, so that a repetition finds its own again.
    fn next_call(&mut self, kind: &CallKind) -> Result<(CallId, Option<Attempt>), AgentError> {
        self.calls += 1;
        let digest = Sha256::digest(self.brief.turn.as_str().as_bytes());
        let token: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let base = format!("call_{token}_{}", self.calls);
        self.journal.call(&base, kind, self.brief.fence).ok_or_else(diverged)
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
        Reject::Limit { what } => {
            AgentError::failed(FailureKind::Execution, format!("limit reached: {what}"))
        }
        Reject::Unavailable { .. } | Reject::Busy | Reject::RateLimited { .. } => {
            AgentError::failed(FailureKind::Internal, reject.to_string())
        }
        _ => AgentError::Over,
    }
}
