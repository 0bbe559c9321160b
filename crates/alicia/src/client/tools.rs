//! Tools of this client: which there are, which run, and what those gave that have run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::message::{Execution, ToolError, ToolUseRequest, ToolUseResult, Word};
use crate::{AliciaLimits, Id, Value};
use switchboard_core::{Pii, Timestamp};

use super::ToolRun;

/// The tools of a conversation.
#[derive(Debug, Default)]
pub(super) struct Tools {
    declared: BTreeSet<String>,
    running: BTreeMap<Id, Running>,
    /// Requests of a replay, which may have been settled long ago: what is open at its end is run.
    held: Vec<ToolUseRequest>,
    /// Results, for requests that come again.
    given: VecDeque<(Timestamp, ToolUseResult)>,
}

#[derive(Debug)]
struct Running {
    name: String,
    budget_ms: u32,
    until: Timestamp,
}

/// What a request for a tool leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing: another runs it.
    Leave,
    /// It is run.
    Run(ToolRun),
    /// It has a result at once.
    Answer(ToolUseResult),
}

/// How a tool of this client ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// It gave this.
    Done(Value),
    /// Its arguments are wrong.
    Invalid(Pii<String>),
    /// It failed, possibly with a part of what it was to give.
    Failed {
        /// What happened.
        message: Pii<String>,
        /// What there is.
        partial: Option<Value>,
    },
}

impl Tools {
    /// Adds a tool; answers whether it is new.
    pub(super) fn declare(&mut self, name: &str) -> bool {
        self.declared.insert(name.to_owned())
    }

    pub(super) fn declared(&self) -> impl Iterator<Item = &str> {
        self.declared.iter().map(String::as_str)
    }

    pub(super) fn len(&self) -> usize {
        self.declared.len()
    }

    /// Keeps a request until it is known whether it is open.
    pub(super) fn hold(&mut self, request: ToolUseRequest) {
        if self.held.len() < MAX_HELD {
            self.held.push(request);
        }
    }

    /// Requests that were kept and are open.
    pub(super) fn release(&mut self) -> Vec<ToolUseRequest> {
        std::mem::take(&mut self.held)
    }

    /// What to do about a request that was not here before.
    pub(super) fn take(
        &mut self,
        request: &ToolUseRequest,
        limits: &AliciaLimits,
        most: usize,
        now: Timestamp,
    ) -> Step {
        let name = &request.tool_name;
        let known = self.declared.contains(name);
        match request.execution {
            Execution::Server => return Step::Leave,
            Execution::Either if !known => return Step::Leave,
            Execution::Either | Execution::Client => {}
        }
        let fail = |error, message: String| Step::Answer(failure(&request.id, error, message, None));
        if !known {
            return fail(ToolError::UnknownTool, format!("{name}: this client has no such tool"));
        }
        let budget_ms = match request.time(limits) {
            Ok(budget_ms) => budget_ms,
            Err(error) => {
                let most = limits.tool_most_ms;
                return fail(error, format!("{name}: timeoutMs must be from 1 to {most}"));
            }
        };
        if self.running.len() >= most {
            let message = format!("{name}: this client runs too many tools already");
            return fail(ToolError::ExecutionError, message);
        }
        let until = now.after(Duration::from_millis(budget_ms.into()));
        self.running.insert(request.id.clone(), Running { name: name.clone(), budget_ms, until });
        Step::Run(ToolRun {
            id: request.id.clone(),
            message: request.message_id.clone(),
            name: name.clone(),
            parameters: Pii(request.parameters.clone()),
            budget_ms,
        })
    }

    /// The result of a tool that has run; none if it is not wanted any more.
    pub(super) fn done(&mut self, id: &Id, outcome: ToolOutcome) -> Option<ToolUseResult> {
        self.running.remove(id)?;
        Some(match outcome {
            ToolOutcome::Done(value) => ToolUseResult {
                id: id.result().unwrap_or_else(|_| id.clone()),
                request_id: Some(id.clone()),
                success: true,
                result: Some(value),
                error_code: None,
                error_message: None,
            },
            ToolOutcome::Invalid(message) => failure(id, ToolError::InvalidParameters, message.0, None),
            ToolOutcome::Failed { message, partial } => {
                failure(id, ToolError::ExecutionError, message.0, partial)
            }
        })
    }

    /// Somebody else has settled a request; answers whether this client was running it.
    pub(super) fn settled(&mut self, id: &Id) -> bool {
        self.held.retain(|request| request.id != *id);
        self.running.remove(id).is_some()
    }

    /// The results of tools whose time is over.
    pub(super) fn expire(&mut self, now: Timestamp) -> Vec<ToolUseResult> {
        let late: Vec<Id> =
            self.running.iter().filter(|(_, run)| run.until <= now).map(|(id, _)| id.clone()).collect();
        let results = late.iter().filter_map(|id| {
            let run = self.running.remove(id)?;
            let message = format!("{}: {} ms elapsed", run.name, run.budget_ms);
            Some(failure(id, ToolError::Timeout, message, None))
        });
        results.collect()
    }

    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.running.values().map(|run| run.until).min()
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Id> {
        self.running.keys()
    }

    /// Remembers a result.
    pub(super) fn keep(&mut self, result: &ToolUseResult, now: Timestamp) {
        self.forget(now);
        if self.given.len() >= MAX_GIVEN {
            self.given.pop_front();
        }
        self.given.push_back((now, result.clone()));
    }

    /// What a request that comes again was answered with.
    pub(super) fn given(&mut self, request: &Id, now: Timestamp) -> Option<ToolUseResult> {
        self.forget(now);
        self.given.iter().map(|(_, result)| result).find(|result| result.request() == request).cloned()
    }

    fn forget(&mut self, now: Timestamp) {
        while self.given.front().is_some_and(|(at, _)| now.since(*at) >= KEPT) {
            self.given.pop_front();
        }
    }
}

/// A result that says what went wrong.
pub(super) fn failure(
    request: &Id,
    error: ToolError,
    message: String,
    partial: Option<Value>,
) -> ToolUseResult {
    ToolUseResult {
        // An id too long to be extended is one that no result of a server has either.
        id: request.result().unwrap_or_else(|_| request.clone()),
        request_id: Some(request.clone()),
        success: false,
        result: partial,
        error_code: Some(Word::Known(error)),
        error_message: Some(Pii(message)),
    }
}

/// How long a result is remembered.
const KEPT: Duration = Duration::from_secs(5 * 60);
const MAX_GIVEN: usize = 256;
/// As many as a replay has stanzas.
const MAX_HELD: usize = 1_000;
