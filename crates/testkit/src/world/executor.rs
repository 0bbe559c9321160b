//! Scripted agents at work: claim, run, finish.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::model::{
    CallEnd, CallError, CallKind, CallRequest, Executor, FailureKind, Output, ToolChange, TurnEnd,
    TurnOutcome, Usage,
};
use switchboard_core::{
    Actor, Attempt, CallId, Callsign, Event, Journal, Op, Reject, Repeat, Reply, SessionId, Timestamp,
    ToolName, TurnId, WorkerId,
};
use switchboard_engine::{Command, Lease, ReplyTo, Start, Submission};

use super::World;
use super::batches::Ended;
use super::node::{Asker, Process};
use crate::script::{Recovery, Step};

/// What an execution waits to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The turn.
    Claim,
    /// A call.
    Request,
    /// Nothing.
    Output,
    /// The end.
    Finish,
}

/// One execution of a turn.
#[derive(Debug)]
pub(super) struct Execution {
    worker: WorkerId,
    fence: u32,
    steps: Vec<Step>,
    next: usize,
    pub(super) state: State,
    /// The turn was interrupted.
    pub(super) stopped: bool,
    /// Interrupts are not noticed.
    deaf: bool,
    /// The sign of life that it has to renew.
    pub(super) lease: Arc<Lease>,
    /// It gives no sign of life any more.
    pub(super) is_silent: bool,
    /// How the turn has to end, when the session found something wrong.
    pub(super) verdict: Option<TurnEnd>,
    pub(super) ended_calls: BTreeMap<CallId, CallEnd>,
    calls: u32,
    result: Option<CallEnd>,
    /// How the calls of each batch ended.
    pub(super) batches: Vec<Vec<Ended>>,
    input: String,
    /// The device that the turn is for.
    pub(super) device: Option<Callsign>,
    journal: Journal,
    continues: bool,
    deadline: Timestamp,
    /// When it last took a step, so that executions take turns.
    pub(super) last_run: u64,
}

#[derive(Debug, PartialEq)]
pub(super) enum State {
    Claiming,
    Running,
    Until(Timestamp),
    Requesting(Calls),
    Calling(Calls),
    Hanging,
    Finishing,
}

/// What an execution waits for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Calls {
    /// One call; it may fail the turn if nobody answers.
    One { call: CallId, give_up: bool },
    /// All calls of a batch.
    Batch(Vec<CallId>),
}

impl Execution {
    /// Whether it can take a step now.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        if self.notices_stop() && !matches!(self.state, State::Claiming | State::Finishing) {
            return true;
        }
        match &self.state {
            State::Running => true,
            State::Until(at) => *at <= now,
            State::Calling(Calls::One { call, .. }) => self.ended_calls.contains_key(call),
            State::Calling(Calls::Batch(calls)) => {
                calls.iter().all(|call| self.ended_calls.contains_key(call))
            }
            State::Claiming | State::Requesting(_) | State::Hanging | State::Finishing => false,
        }
    }

    /// When it wants to go on by itself.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        match self.state {
            State::Until(at) => Some(at),
            _ => None,
        }
    }

    fn notices_stop(&self) -> bool {
        self.stopped && (!self.deaf || self.verdict.is_some())
    }
}

impl World {
    /// Starts work on a turn that waits for an executor, or that was claimed for this one.
    pub(super) fn begin_execution(&mut self, id: &SessionId, start: Start<Process>) {
        let Start { turn, worker, slot: _, lease } = start;
        let Some(live) = self.sessions.get(id) else { return };
        let Some(turn) = live.worker.session().turns().find(|known| known.turn == turn).cloned() else {
            return;
        };
        self.started += 1;
        let claim = turn.claim.as_ref().filter(|claim| claim.worker == worker).map(|claim| claim.fence);
        let input = turn.request.text();
        let agents = self.process.agents();
        let script = agents.get(&turn.agent);
        let steps = match script {
            Some(script) => script.steps_for(&input),
            None => vec![Step::Fail {
                kind: FailureKind::Execution,
                message: format!("no such agent: {}", turn.agent),
            }],
        };
        let began = turn.first_output_at.is_some();
        let events = if began { self.log.events(id) } else { &[] };
        let own = events.iter().filter(|committed| committed.event.turn() == Some(&turn.turn));
        let journal = Journal::new(own.map(|committed| committed.event.clone()));
        let execution = Execution {
            worker: worker.clone(),
            fence: claim.unwrap_or(0),
            steps,
            next: 0,
            state: if claim.is_some() { State::Running } else { State::Claiming },
            stopped: false,
            deaf: false,
            lease,
            is_silent: false,
            verdict: None,
            ended_calls: BTreeMap::new(),
            calls: 0,
            result: None,
            batches: Vec::new(),
            input,
            device: turn.device.clone(),
            journal,
            continues: script.is_some_and(|script| script.recovery == Recovery::Replay),
            deadline: turn.deadline,
            last_run: self.started,
        };
        if let Some(live) = self.sessions.get_mut(id) {
            live.executing.insert(turn.turn.clone(), execution);
        }
        if claim.is_none() {
            let op = Op::Claim { turn: turn.turn.clone(), relayed: false };
            self.post(id, &turn.turn, &worker, op, Asked::Claim);
        }
    }

    /// Lets an execution take one step.
    pub(super) fn run_execution(&mut self, id: &SessionId, turn: &TurnId) {
        self.ticks += 1;
        let (now, tick) = (self.now, self.ticks);
        let Some(execution) = self.execution(id, turn) else { return };
        execution.last_run = tick;
        if execution.notices_stop() {
            let interrupted = TurnEnd::new(TurnOutcome::Interrupted { abandoned: false });
            let end = execution.verdict.take().unwrap_or(interrupted);
            return self.finish(id, turn, end);
        }
        match &execution.state {
            State::Until(at) if *at <= now => execution.state = State::Running,
            State::Calling(Calls::Batch(calls)) => {
                let calls = calls.clone();
                execution.state = State::Running;
                if !execution.end_batch(calls) {
                    let over = TurnEnd::new(TurnOutcome::Interrupted { abandoned: false });
                    return self.finish(id, turn, over);
                }
            }
            State::Calling(Calls::One { call, give_up }) => {
                let give_up = *give_up;
                let Some(end) = execution.ended_calls.remove(call) else { return };
                execution.state = State::Running;
                match &end {
                    CallEnd::Cancelled => {
                        let over = TurnEnd::new(TurnOutcome::Interrupted { abandoned: false });
                        return self.finish(id, turn, over);
                    }
                    CallEnd::TimedOut if give_up => {
                        let end = TurnEnd::failed(FailureKind::CallTimeout, "nobody answered in time");
                        return self.finish(id, turn, end);
                    }
                    CallEnd::TimedOut | CallEnd::Done { .. } | CallEnd::Failed(_) => {}
                }
                execution.result = Some(end);
            }
            State::Running => {}
            State::Until(_) | State::Claiming | State::Requesting(_) | State::Hanging | State::Finishing => {
                return;
            }
        }
        let Some(step) = execution.steps.get(execution.next).cloned() else {
            let end = self.verdict_or(id, turn, TurnEnd::complete());
            return self.finish(id, turn, end);
        };
        execution.next += 1;
        self.take_step(id, turn, step);
    }

    fn take_step(&mut self, id: &SessionId, turn: &TurnId, step: Step) {
        let now = self.now;
        let Some(execution) = self.execution(id, turn) else { return };
        if let Some(end) = step.end() {
            let end = self.verdict_or(id, turn, end);
            return self.finish(id, turn, end);
        }
        match step {
            Step::Wait(millis) => {
                if execution.journal.is_empty() {
                    execution.state = State::Until(now.after(Duration::from_millis(millis)));
                }
            }
            Step::Text(text) => self.emit(id, turn, Output::Text(text)),
            Step::Reason(text) => self.emit(id, turn, Output::Reasoning(text)),
            Step::Status(text) => self.emit(id, turn, Output::Status(text)),
            Step::Usage(counts) => self.emit(id, turn, Output::Usage(Usage(counts))),
            Step::Data { mime, value } => self.emit(id, turn, Output::Data { mime, value }),
            Step::Notice { level, text } => self.emit(id, turn, Output::Notice { level, text }),
            Step::Checklist(checklist) => self.emit(id, turn, Output::Checklist(checklist)),
            Step::Echo => {
                let text = execution.input.clone();
                self.emit(id, turn, Output::Text(text));
            }
            Step::Result => {
                let text = match &execution.result {
                    Some(CallEnd::Done { output, .. }) => {
                        output.as_str().map_or_else(|| output.to_string(), str::to_owned)
                    }
                    Some(CallEnd::Failed(error)) => format!("{}: {}", error.name, error.message),
                    Some(CallEnd::TimedOut) => "timeout".into(),
                    Some(CallEnd::Cancelled) | None => "nothing".into(),
                };
                self.emit(id, turn, Output::Text(text));
            }
            Step::Call { tool, args, timeout_ms, give_up } => {
                let kind = CallKind::Tool { name: ToolName::from(tool.as_str()), args: object(args).into() };
                self.request(id, turn, kind, timeout_ms, give_up);
            }
            Step::Ask { text, schema, timeout_ms, give_up } => {
                self.request(id, turn, CallKind::question(text, schema), timeout_ms, give_up);
            }
            Step::Batch { commands, timeout_ms } => self.request_batch(id, turn, commands, timeout_ms),
            Step::Results => {
                let value = execution.last_results();
                self.emit(id, turn, Output::Data { mime: Some("application/json".into()), value });
            }
            Step::FailIfFailed(message) => {
                if execution.last_batch_failed() {
                    let end = execution.end_with_results(None, Some(message));
                    let end = self.verdict_or(id, turn, end);
                    self.finish(id, turn, end);
                }
            }
            Step::EndWithResults { result, error } => {
                let end = execution.end_with_results(result, error);
                let end = self.verdict_or(id, turn, end);
                self.finish(id, turn, end);
            }
            Step::Tool { name, args, progress, output, error } => {
                let kind = CallKind::Tool { name: ToolName::from(name.as_str()), args: object(args).into() };
                let end = match error {
                    Some(message) => CallEnd::Failed(CallError::new("error", message)),
                    None => CallEnd::done(output),
                };
                self.show_tool(id, turn, kind, progress, end);
            }
            Step::AddTools(specs) => {
                let add: Vec<_> = specs.iter().map(crate::script::ToolSpec::tool).collect();
                self.change_tools(id, turn, ToolChange { add, remove: Vec::new(), turn: Some(turn.clone()) });
            }
            Step::RemoveTools(names) => {
                let remove = names.iter().map(|name| ToolName::from(name.as_str())).collect();
                self.change_tools(id, turn, ToolChange { add: Vec::new(), remove, turn: Some(turn.clone()) });
            }
            Step::Hang => execution.state = State::Hanging,
            Step::Deaf => execution.deaf = true,
            Step::Lose => {
                let continues = execution.continues;
                execution.state = State::Finishing;
                self.insist(id, Op::Lose { turn: turn.clone(), continues });
            }
            // Written out or ended above.
            Step::Fill { .. }
            | Step::Repeat { .. }
            | Step::End(_)
            | Step::EndWith { .. }
            | Step::Fail { .. }
            | Step::Panic => {}
        }
    }

    fn emit(&mut self, id: &SessionId, turn: &TurnId, output: Output) {
        let same =
            |event: &Event| matches!(event, Event::TurnOutput { output: known, .. } if *known == output);
        match self.repeats(id, turn, same) {
            Repeat::Known => {}
            Repeat::Diverged => self.diverged(id, turn),
            Repeat::New => {
                let Some((worker, fence)) = self.claim_of(id, turn) else { return };
                let op = Op::Emit { turn: turn.clone(), fence, output };
                self.post(id, turn, &worker, op, Asked::Output);
            }
        }
    }

    fn change_tools(&mut self, id: &SessionId, turn: &TurnId, change: ToolChange) {
        match self.repeats(id, turn, |event| change.led_to(event)) {
            Repeat::Known => {}
            // To withdraw what nobody offers changes nothing, and left no event.
            Repeat::Diverged if change.add.is_empty() => {}
            Repeat::Diverged => self.diverged(id, turn),
            Repeat::New => {
                let Some((worker, _)) = self.claim_of(id, turn) else { return };
                self.post(id, turn, &worker, Op::ChangeTools(change), Asked::Output);
            }
        }
    }

    fn show_tool(
        &mut self,
        id: &SessionId,
        turn: &TurnId,
        kind: CallKind,
        progress: Vec<String>,
        end: CallEnd,
    ) {
        let Some((call, known)) = self.name_call(id, turn, &kind) else { return };
        if known.is_some() {
            return;
        }
        let Some(deadline) = self.execution(id, turn).map(|execution| execution.deadline) else { return };
        let Some((worker, fence)) = self.claim_of(id, turn) else { return };
        let request = CallRequest {
            id: call.clone(),
            kind,
            executor: Some(Executor::Agent),
            deadline,
            batch: None,
            options: Value::Null.into(),
        };
        let op = Op::Request { turn: turn.clone(), fence, calls: vec![request] };
        self.post(id, turn, &worker, op, Asked::Output);
        for delta in progress {
            let op = Op::Progress { turn: turn.clone(), call: call.clone(), delta };
            self.post(id, turn, &worker, op, Asked::Output);
        }
        self.post(id, turn, &worker, Op::Answer { turn: turn.clone(), call, end }, Asked::Output);
    }

    fn request(&mut self, id: &SessionId, turn: &TurnId, kind: CallKind, timeout_ms: u64, give_up: bool) {
        let Some((call, known)) = self.name_call(id, turn, &kind) else { return };
        if let Some(attempt) = known {
            let Some(execution) = self.execution(id, turn) else { return };
            // Without an end it is still with whoever is to answer.
            execution.ended_calls.extend(attempt.end.map(|end| (call.clone(), end)));
            execution.state = State::Calling(Calls::One { call, give_up });
            return;
        }
        let deadline = self.now.after(Duration::from_millis(timeout_ms));
        let Some((worker, fence)) = self.claim_of(id, turn) else { return };
        let request = CallRequest {
            id: call.clone(),
            kind,
            executor: None,
            deadline,
            batch: None,
            options: Value::Null.into(),
        };
        if let Some(execution) = self.execution(id, turn) {
            execution.state = State::Requesting(Calls::One { call, give_up });
        }
        self.post(
            id,
            turn,
            &worker,
            Op::Request { turn: turn.clone(), fence, calls: vec![request] },
            Asked::Request,
        );
    }

    /// Names the next call, and finds what an earlier run knows about it.
    pub(super) fn name_call(
        &mut self,
        id: &SessionId,
        turn: &TurnId,
        kind: &CallKind,
    ) -> Option<(CallId, Option<Attempt>)> {
        let execution = self.execution(id, turn)?;
        execution.calls += 1;
        let short: String = turn.as_str().chars().rev().filter(char::is_ascii_alphanumeric).take(8).collect();
        let base = format!("call_{short}_{}", execution.calls);
        let named = execution.journal.call(&base, kind, execution.fence);
        if named.is_none() {
            self.diverged(id, turn);
        }
        named
    }

    fn repeats(&mut self, id: &SessionId, turn: &TurnId, same: impl Fn(&Event) -> bool) -> Repeat {
        self.execution(id, turn).map_or(Repeat::New, |execution| execution.journal.pass(same))
    }

    fn diverged(&mut self, id: &SessionId, turn: &TurnId) {
        let what = "the agent did not repeat what it had done before it was lost";
        self.finish(id, turn, TurnEnd::failed(FailureKind::WorkerLost, what));
    }

    fn verdict_or(&mut self, id: &SessionId, turn: &TurnId, end: TurnEnd) -> TurnEnd {
        self.execution(id, turn).and_then(|execution| execution.verdict.take()).unwrap_or(end)
    }

    fn finish(&mut self, id: &SessionId, turn: &TurnId, end: TurnEnd) {
        let Some((worker, fence)) = self.claim_of(id, turn) else { return };
        if let Some(execution) = self.execution(id, turn) {
            execution.state = State::Finishing;
        }
        self.post(id, turn, &worker, Op::Finish { turn: turn.clone(), fence, end }, Asked::Finish);
    }

    /// An execution hears what became of something it asked for.
    pub(super) fn execution_answered(
        &mut self,
        id: &SessionId,
        turn: &TurnId,
        worker: &WorkerId,
        asked: Asked,
        answer: Result<Reply, Reject>,
    ) {
        let Some(execution) = self.execution(id, turn).filter(|execution| execution.worker == *worker) else {
            return;
        };
        match (asked, answer) {
            (Asked::Claim, Ok(Reply::Claimed { fence })) => {
                execution.fence = fence;
                execution.state = State::Running;
            }
            (Asked::Claim, _) => {
                if let Some(live) = self.sessions.get_mut(id) {
                    live.executing.remove(turn);
                }
            }
            (Asked::Request, Ok(_)) => {
                if let State::Requesting(calls) = &execution.state {
                    execution.state = State::Calling(calls.clone());
                }
            }
            (Asked::Request, Err(reject)) => {
                let end = refused(&reject);
                self.finish(id, turn, end);
            }
            (Asked::Output | Asked::Finish, _) => {}
        }
    }

    pub(super) fn claim_of(&mut self, id: &SessionId, turn: &TurnId) -> Option<(WorkerId, u32)> {
        self.execution(id, turn).map(|execution| (execution.worker.clone(), execution.fence))
    }

    pub(super) fn execution(&mut self, id: &SessionId, turn: &TurnId) -> Option<&mut Execution> {
        self.sessions.get_mut(id)?.executing.get_mut(turn)
    }

    pub(super) fn post(&mut self, id: &SessionId, turn: &TurnId, worker: &WorkerId, op: Op, asked: Asked) {
        let (session, turn) = (id.clone(), turn.clone());
        let reply = match asked {
            // Nobody waits for what becomes of a piece of output.
            Asked::Output => ReplyTo::Nobody,
            Asked::Claim | Asked::Request | Asked::Finish => {
                ReplyTo::Waiter(Asker::Execution { session, turn, worker: worker.clone(), asked })
            }
        };
        let submission = Submission { actor: Actor::worker(worker.clone()), op, reply, hold: None };
        self.mail(id, Command::Submit(Box::new(submission)));
    }
}

/// How a turn ends whose call was refused.
fn refused(reject: &Reject) -> TurnEnd {
    match reject {
        Reject::UnknownTool(name) => {
            TurnEnd::failed(FailureKind::ToolNotFound, format!("no such tool: {name}"))
        }
        Reject::Invalid(_) | Reject::Limit { .. } | Reject::Quota { .. } => {
            TurnEnd::failed(FailureKind::Execution, reject.to_string())
        }
        Reject::NotFound
        | Reject::Forbidden
        | Reject::UnknownTurn(_)
        | Reject::TurnOver(_)
        | Reject::Fenced(_)
        | Reject::DuplicateTurn(_)
        | Reject::CallGone(_)
        | Reject::InvalidArgs(_)
        | Reject::UnknownAgent(_)
        | Reject::UnknownMessage(_)
        | Reject::DuplicateMessage(_)
        | Reject::Inactive
        | Reject::Unserved { .. }
        | Reject::KeyConflict
        | Reject::AttachmentGone
        | Reject::Enrolled(_)
        | Reject::Offline(_)
        | Reject::RateLimited { .. }
        | Reject::Draining
        | Reject::Busy
        | Reject::Unavailable { .. }
        | Reject::Unauthenticated => TurnEnd::new(TurnOutcome::Interrupted { abandoned: false }),
    }
}

pub(super) fn object(args: Value) -> Value {
    if args.is_null() { Value::Object(serde_json::Map::new()) } else { args }
}
