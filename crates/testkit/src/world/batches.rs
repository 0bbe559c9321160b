//! Several calls at once, asked of the device of a turn, and what became of them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard_core::model::{
    Batch, CallEnd, CallKind, CallRequest, Executor, FailureKind, Finish, TurnEnd, TurnOutcome,
};
use switchboard_core::{CallId, Op, SessionId, ToolName, TurnId};

use super::World;
use super::executor::{Asked, Calls, Execution, State, object};
use crate::script::BatchCommand;

/// How one call of a batch ended.
#[derive(Debug)]
pub(super) struct Ended {
    call: CallId,
    end: CallEnd,
}

impl World {
    /// Asks the device of the turn for several calls; without a device, whoever offers the tools.
    pub(super) fn request_batch(
        &mut self,
        id: &SessionId,
        turn: &TurnId,
        commands: Vec<BatchCommand>,
        timeout_ms: u64,
    ) {
        let deadline = self.now.after(Duration::from_millis(timeout_ms));
        let Some(execution) = self.execution(id, turn) else { return };
        let executor = execution.device.clone().map(Executor::Device);
        let number = execution.batches.len() + 1;
        let size = u32::try_from(commands.len()).unwrap_or(u32::MAX);
        let batch = Batch { id: format!("batch_{turn}_{number}").into(), size };
        let (mut names, mut requests, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for BatchCommand { tool, args, options } in commands {
            let kind = CallKind::Tool { name: ToolName::from(tool.as_str()), args: object(args).into() };
            let Some((call, known)) = self.name_call(id, turn, &kind) else { return };
            names.push(call.clone());
            match known {
                // Asked for by an earlier run; without an end it is still with the device.
                Some(attempt) => ends.extend(attempt.end.map(|end| (call, end))),
                None => requests.push(CallRequest {
                    id: call,
                    kind,
                    executor: executor.clone(),
                    deadline,
                    batch: Some(batch.clone()),
                    options: options.into(),
                }),
            }
        }
        let Some((worker, fence)) = self.claim_of(id, turn) else { return };
        let Some(execution) = self.execution(id, turn) else { return };
        execution.ended_calls.extend(ends);
        if requests.is_empty() {
            execution.state = State::Calling(Calls::Batch(names));
            return;
        }
        execution.state = State::Requesting(Calls::Batch(names));
        let op = Op::Request { turn: turn.clone(), fence, calls: requests };
        self.post(id, turn, &worker, op, Asked::Request);
    }
}

impl Execution {
    /// Remembers how the calls of a batch ended; false if they were cancelled.
    pub(super) fn end_batch(&mut self, calls: Vec<CallId>) -> bool {
        let ended = &mut self.ended_calls;
        let batch: Vec<Ended> =
            calls.into_iter().filter_map(|call| ended.remove(&call).map(|end| Ended { call, end })).collect();
        let cancelled = batch.iter().any(|ended| ended.end == CallEnd::Cancelled);
        self.batches.push(batch);
        !cancelled
    }

    /// What the calls of the last batch came to.
    pub(super) fn last_results(&self) -> Value {
        self.batches.last().map_or(Value::Null, |batch| batch.iter().map(Ended::result).collect())
    }

    /// Whether something went wrong in the last batch.
    pub(super) fn last_batch_failed(&self) -> bool {
        let failed = |ended: &Ended| !matches!(ended.end, CallEnd::Done { .. });
        self.batches.last().is_some_and(|batch| batch.iter().any(failed))
    }

    /// The end of a turn that tells what every batch came to.
    pub(super) fn end_with_results(&self, result: Option<Value>, error: Option<String>) -> TurnEnd {
        let turns: Vec<Value> =
            self.batches.iter().map(|batch| batch.iter().map(Ended::result).collect()).collect();
        let mut end = match error {
            Some(message) => TurnEnd::failed(FailureKind::Execution, message),
            None => TurnEnd::new(TurnOutcome::Done(Finish::Complete)),
        };
        end.output = Some(json!({ "turns": turns, "result": result }).into());
        end
    }
}

impl Ended {
    /// In the words of whoever gives commands to devices; what the device added is laid over them.
    fn result(&self) -> Value {
        let skipped = |name: &str| if name == "skipped" { "skipped" } else { "failure" };
        let (status, error, result, detail) = match &self.end {
            CallEnd::Done { output, detail } => ("success", None, Value::clone(output), detail.clone()),
            CallEnd::Failed(error) => {
                (skipped(&error.name), Some(error.message.clone()), Value::Null, error.detail.clone())
            }
            CallEnd::TimedOut => ("failure", Some("timed out".to_owned()), Value::Null, Value::Null),
            CallEnd::Cancelled => ("failure", Some("cancelled".to_owned()), Value::Null, Value::Null),
        };
        let mut map = Map::new();
        map.insert("status".to_owned(), json!(status));
        map.insert("error".to_owned(), json!(error));
        map.insert("result".to_owned(), result);
        map.insert("call_id".to_owned(), json!(self.call));
        if let Value::Object(detail) = detail {
            map.extend(detail);
        }
        Value::Object(map)
    }
}
