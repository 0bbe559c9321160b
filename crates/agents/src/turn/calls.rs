//! What a turn asks of others: tools, commands, answers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::Value;
use sha2::{Digest, Sha256};
use switchboard_core::model::{
    Batch, CallEnd, CallError, CallKind, CallRequest, Executor, Failure, FailureKind,
};
use switchboard_core::{Attempt, CallId, Op, Timestamp, ToolName, hex};
use tokio::sync::mpsc;

use super::approval::denial;
use super::either::is_left_to_agent;
use super::{Turn, diverged, over};
use crate::agent::AgentError;
use crate::command::{self, Command, CommandEnd};

/// Tools that are executed in this process, on behalf of whichever agent the turn has.
#[async_trait]
pub trait Toolbox: std::fmt::Debug + Send + Sync {
    /// Whether it has a tool of this name now.
    fn knows(&self, name: &ToolName) -> bool;

    /// For how long a person is asked before this tool is used; none if nobody has to be.
    fn approval(&self, name: &ToolName) -> Option<Duration>;

    /// Runs a tool to its end; dropping the future cancels it. What it reports on the way goes into
    /// `progress`.
    async fn run(
        &self,
        name: &ToolName,
        args: Value,
        timeout: Duration,
        progress: mpsc::Sender<String>,
    ) -> CallEnd;
}

/// One use of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// Which tool.
    pub name: ToolName,
    /// Its arguments.
    pub args: Value,
}

/// Who is to carry out a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Whoever has the tool; anyone for a question.
    Owner,
    /// Whoever asks, though the tool is the agent's own.
    Asker,
}

impl Turn {
    /// Asks whoever offers the tool to run it, and waits for the result. If its use has to be approved, a person
    /// is asked first; where they do not approve, it ends as failed.
    ///
    /// # Errors
    /// The tool is unknown, or the turn is over.
    pub async fn call(
        &mut self,
        name: &ToolName,
        args: Value,
        timeout: Duration,
    ) -> Result<CallEnd, AgentError> {
        let tool = ToolUse { name: name.clone(), args };
        if let Some(denied) = self.approve(std::slice::from_ref(&tool)).await?.into_iter().next().flatten() {
            return Ok(denied);
        }
        let ToolUse { args, .. } = tool;
        if self.executes(name)
            && let Some(end) = self.offer(name, args.clone(), timeout).await?
        {
            return Ok(end);
        }
        self.request_call(CallKind::Tool { name: name.clone(), args: args.into() }, timeout).await
    }

    /// Has several tools run at the same time, and waits for all of them. What has to be approved is asked about
    /// before any of them runs. A use that cannot even begin, for example because nobody offers the tool any
    /// more, fails alone.
    ///
    /// # Errors
    /// The turn is over.
    pub async fn call_all(
        &mut self,
        uses: Vec<ToolUse>,
        timeout: Duration,
    ) -> Result<Vec<Result<CallEnd, Failure>>, AgentError> {
        let denied = self.approve(&uses).await?;
        let allowed = uses.into_iter().zip(&denied).filter(|(_, denied)| denied.is_none());
        let allowed = allowed.map(|(tool, _)| tool).collect();
        let mut ended = self.call_allowed(allowed, timeout).await?.into_iter();
        let end = |denied: Option<CallEnd>| denied.map(Ok).or_else(|| ended.next());
        Ok(denied.into_iter().filter_map(end).collect())
    }

    async fn call_allowed(
        &mut self,
        uses: Vec<ToolUse>,
        timeout: Duration,
    ) -> Result<Vec<Result<CallEnd, Failure>>, AgentError> {
        let first = |tool: &ToolUse| {
            if self.executes(&tool.name) && self.asker_runs(&tool.name) { By::Asker } else { By::Owner }
        };
        let first: Vec<By> = uses.iter().map(first).collect();
        let uses: Vec<(ToolUse, By)> = uses.into_iter().zip(first).collect();
        let mut ended = self.carry_out_all(&uses, timeout).await?;
        let (mut again, mut places) = (Vec::new(), Vec::new());
        for ((tool, by), place) in uses.into_iter().zip(&mut ended) {
            if by == By::Asker && place.as_ref().is_ok_and(is_left_to_agent) {
                again.push((tool, By::Owner));
                places.push(place);
            }
        }
        for (end, place) in self.carry_out_all(&again, timeout).await?.into_iter().zip(places) {
            *place = end;
        }
        Ok(ended)
    }

    async fn carry_out_all(
        &mut self,
        uses: &[(ToolUse, By)],
        timeout: Duration,
    ) -> Result<Vec<Result<CallEnd, Failure>>, AgentError> {
        let mut named = Vec::with_capacity(uses.len());
        for (ToolUse { name, args }, by) in uses {
            let kind = CallKind::Tool { name: name.clone(), args: args.clone().into() };
            let (id, known) = self.next_call(&kind)?;
            named.push((id, kind, known, *by));
        }
        let turn = &*self;
        let uses =
            named.into_iter().map(|(id, kind, known, by)| turn.carry_out(id, kind, known, by, timeout));
        let ended = join_all(uses).await;
        ended
            .into_iter()
            .map(|ended| match ended {
                Ok(end) => Ok(Ok(end)),
                Err(AgentError::Failed(failure)) => Ok(Err(failure)),
                Err(AgentError::Over) => Err(AgentError::Over),
            })
            .collect()
    }

    /// Asks for something under a name of the agent's own choice, without waiting for the answer;
    /// see [`Turn::answer`]. Not for agents that repeat themselves after a loss.
    ///
    /// # Errors
    /// The tool is unknown, a call of this name is open, or the turn is over.
    pub async fn request_as(&self, id: CallId, kind: CallKind, timeout: Duration) -> Result<(), AgentError> {
        let op = self.asking(id, kind, None, self.port.now().after(timeout));
        self.port.submit(op).await.map_err(over)
    }

    /// As [`request_as`](Self::request_as), of somebody who is named, whether they are known to offer the tool or not.
    ///
    /// # Errors
    /// A call of this name is open, or the turn is over.
    pub(crate) async fn request_of(
        &self,
        executor: Executor,
        id: CallId,
        kind: CallKind,
        timeout: Duration,
    ) -> Result<(), AgentError> {
        let op = self.asking(id, kind, Some(executor), self.port.now().after(timeout));
        self.port.submit(op).await.map_err(over)
    }

    /// Uses a tool of this process under a name of the agent's own choice, after a person has approved it where
    /// that is needed; none if the turn is over first. Runs beside whatever else the agent does. Not for agents
    /// that repeat themselves after a loss.
    pub(crate) fn use_as(
        &self,
        id: CallId,
        tool: ToolUse,
        timeout: Duration,
    ) -> impl Future<Output = Option<CallEnd>> + Send + use<> {
        let turn = self.beside();
        async move {
            match turn.use_named(id, tool, timeout).await {
                Ok(end) => Some(end),
                Err(AgentError::Failed(failure)) => {
                    Some(CallEnd::Failed(CallError::new("unavailable", failure.message)))
                }
                Err(AgentError::Over) => None,
            }
        }
    }

    async fn use_named(&self, id: CallId, tool: ToolUse, timeout: Duration) -> Result<CallEnd, AgentError> {
        if let Some(patience) = self.patience(&tool.name, &[]) {
            let question = CallId::new(format!("{id}{APPROVAL}"));
            let kind = self.approval_of(&tool);
            self.request_as(question.clone(), kind, patience).await?;
            if let Some(denied) = denial(Ok(self.end_of(&question).await?))? {
                return Ok(denied);
            }
        }
        let kind = CallKind::Tool { name: tool.name, args: tool.args.into() };
        self.carry_out(id, kind, None, By::Owner, timeout).await
    }

    /// The answer to a call that was asked for.
    pub fn answer(&self, call: CallId) -> impl Future<Output = CallEnd> + Send + use<> {
        let port = self.port.clone();
        async move { port.call_end(&call).await }
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
        self.request_call(CallKind::question(text, schema), timeout).await
    }

    pub(super) async fn request_call(
        &mut self,
        kind: CallKind,
        timeout: Duration,
    ) -> Result<CallEnd, AgentError> {
        let (id, known) = self.next_call(&kind)?;
        self.carry_out(id, kind, known, By::Owner, timeout).await
    }

    pub(super) async fn carry_out(
        &self,
        id: CallId,
        kind: CallKind,
        known: Option<Attempt>,
        by: By,
        timeout: Duration,
    ) -> Result<CallEnd, AgentError> {
        match known.map(|attempt| attempt.end) {
            Some(Some(end)) => return Ok(end),
            // Asked for by an earlier run, and still with whoever is to answer.
            Some(None) => return self.end_of(&id).await,
            None => {}
        }
        if let (By::Owner, CallKind::Tool { name, args }) = (by, &kind)
            && let Some(toolbox) = self.toolbox.as_ref().filter(|toolbox| toolbox.knows(name))
        {
            let (name, args) = (name.clone(), Value::clone(args));
            let op = self.asking(id.clone(), kind, Some(Executor::Agent), self.brief.deadline);
            self.post(op).await?;
            return self.use_own(&**toolbox, id, name, args, timeout).await;
        }
        let op = match by {
            By::Owner => self.asking(id.clone(), kind, None, self.port.now().after(timeout)),
            By::Asker => self.asking_asker(id.clone(), kind, timeout),
        };
        self.port.submit(op).await.map_err(over)?;
        self.end_of(&id).await
    }

    /// Runs a tool of the toolbox, and lets everybody see how it goes.
    async fn use_own(
        &self,
        toolbox: &dyn Toolbox,
        call: CallId,
        name: ToolName,
        args: Value,
        timeout: Duration,
    ) -> Result<CallEnd, AgentError> {
        let (progress, mut reported) = mpsc::channel(PROGRESS_ROOM);
        let mut run = toolbox.run(&name, args, timeout, progress);
        let end = loop {
            tokio::select! {
                biased;
                () = self.interrupted() => return Err(AgentError::Over),
                Some(delta) = reported.recv() => {
                    let turn = self.brief.turn.clone();
                    self.post(Op::Progress { turn, call: call.clone(), delta }).await?;
                }
                end = &mut run => break end,
            }
        };
        let end = reportable(end);
        let answer = Op::Answer { turn: self.brief.turn.clone(), call, end: end.clone() };
        self.post(answer).await?;
        Ok(end)
    }

    fn asking(&self, id: CallId, kind: CallKind, executor: Option<Executor>, deadline: Timestamp) -> Op {
        let call = CallRequest { id, kind, executor, deadline, batch: None, options: Arc::default() };
        Op::Request { turn: self.brief.turn.clone(), fence: self.brief.fence, calls: vec![call] }
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
        let batch = Batch { id: command::uuid(turn, "batch", first).into(), size };
        let mut asked = Vec::with_capacity(commands.len());
        let mut new = Vec::with_capacity(commands.len());
        for (number, command) in (first..).zip(commands) {
            let base = command::uuid(turn, "command", number);
            let kind = CallKind::Tool { name: command.name, args: command.args.into() };
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
    pub(super) fn next_call(&mut self, kind: &CallKind) -> Result<(CallId, Option<Attempt>), AgentError> {
        self.calls += 1;
        let base = self.call_name(self.calls);
        self.journal.call(&base, kind, self.brief.fence).ok_or_else(diverged)
    }

    /// Whether an earlier run has asked for this in the place of the next call; none if it has not come so far.
    pub(super) fn repeats_next(&self, kind: &CallKind) -> Option<bool> {
        self.journal.kind(&self.call_name(self.calls + 1)).map(|known| known == kind)
    }

    fn call_name(&self, number: u32) -> String {
        let digest = Sha256::digest(self.brief.turn.as_str().as_bytes());
        let token = hex(digest.iter().take(6));
        format!("call_{token}_{number}")
    }
}

/// [`CallEnd::Cancelled`] belongs to the session, so a cancelled tool is reported as a failure.
pub(super) fn reportable(end: CallEnd) -> CallEnd {
    match end {
        CallEnd::Cancelled => CallEnd::Failed(CallError::new("cancelled", "cancelled")),
        CallEnd::Done { .. } | CallEnd::Failed(_) | CallEnd::TimedOut => end,
    }
}

/// What the name of an approval adds to that of the use that it is about.
const APPROVAL: &str = ".approval";
/// Reports of a tool that may wait for the session.
const PROGRESS_ROOM: usize = 16;
