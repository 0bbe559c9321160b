//! Using the tools that the model asks for.

use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_core::model::{CallEnd, CallError, Failure, FailureKind};
use switchboard_core::{CallId, ToolName, wide};

use super::catalogue::Catalogue;
use super::{OpenAi, wire};
use crate::agent::AgentError;
use crate::turn::{ToolUse, Turn};

/// What becomes of a call.
enum Plan {
    /// The tool is used.
    Use(ToolUse),
    /// It cannot be, since the model has it wrong.
    Fail(CallError),
}

impl OpenAi {
    /// Has the tools of one answer run, and says what came of each in words for the model, in the
    /// order in which it asked.
    pub(super) async fn use_tools(
        &self,
        turn: &mut Turn,
        catalogue: &Catalogue,
        calls: &[wire::Call],
    ) -> Result<Vec<String>, AgentError> {
        let mut told = vec![String::new(); calls.len()];
        let (mut uses, mut places, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        for (call, place) in calls.iter().zip(&mut told) {
            match plan(catalogue, call) {
                Plan::Use(tool) => {
                    uses.push(tool);
                    places.push((call, place));
                }
                Plan::Fail(error) => {
                    *place = format!("error: {}", error.message);
                    wrong.push((call, error));
                }
            }
        }
        // Whoever watches is shown every call of the answer: first all of them, then how they end.
        let mut failed = Vec::with_capacity(wrong.len());
        for (call, error) in wrong {
            failed.push((show(turn, catalogue, call).await?, error));
        }
        for (ended, (call, place)) in self.run_tools(turn, uses).await?.into_iter().zip(places) {
            let refused = ended.as_ref().err().map(|failure| CallError::new(REFUSED, &failure.message));
            *place = in_words(ended)?;
            if let Some(error) = refused {
                failed.push((show(turn, catalogue, call).await?, error));
            }
        }
        for (call, error) in failed {
            turn.end_tool(&call, CallEnd::Failed(error)).await?;
        }
        Ok(told.into_iter().map(|text| shortened(text, self.config.tool_result_bytes)).collect())
    }

    async fn run_tools(
        &self,
        turn: &mut Turn,
        uses: Vec<ToolUse>,
    ) -> Result<Vec<Result<CallEnd, Failure>>, AgentError> {
        let timeout = Duration::from_millis(self.config.tool_timeout_ms);
        if self.config.parallel_tool_calls {
            return turn.call_all(uses, timeout).await;
        }
        let mut ended = Vec::with_capacity(uses.len());
        for tool in uses {
            ended.extend(turn.call_all(vec![tool], timeout).await?);
        }
        Ok(ended)
    }
}

/// Whether the model has it right.
fn plan(catalogue: &Catalogue, call: &wire::Call) -> Plan {
    let Some(name) = catalogue.find(&call.name) else {
        let message = format!("there is no tool called {}", unknown(call));
        return Plan::Fail(CallError::new(UNKNOWN, message));
    };
    match arguments(call) {
        Ok(args) => Plan::Use(ToolUse { name: name.clone(), args }),
        Err(reason) => Plan::Fail(CallError::new(INVALID, reason)),
    }
}

/// What the model wants a tool to know, or why that cannot be understood.
fn arguments(call: &wire::Call) -> Result<Value, String> {
    if call.arguments.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(&call.arguments) {
        Ok(args @ Value::Object(_)) => Ok(args),
        Ok(_) => Err("the arguments are not a JSON object".into()),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}

/// Shows a call that nobody runs.
async fn show(turn: &mut Turn, catalogue: &Catalogue, call: &wire::Call) -> Result<CallId, AgentError> {
    let name = match catalogue.find(&call.name) {
        Some(name) => name.clone(),
        None => ToolName::new(unknown(call)),
    };
    let args = arguments(call).unwrap_or_else(|_| Value::Object(Map::new()));
    turn.begin_tool(&name, args).await
}

/// The name of a tool that there is not.
fn unknown(call: &wire::Call) -> String {
    call.name.chars().take(MAX_NAME_CHARS).collect()
}

fn in_words(ended: Result<CallEnd, Failure>) -> Result<String, AgentError> {
    match ended {
        Ok(CallEnd::Done { output, .. }) => {
            Ok(output.as_str().map_or_else(|| wide::restore(output.to_string()), str::to_owned))
        }
        Ok(CallEnd::Failed(error)) => Ok(format!("error: {}: {}", error.name, error.message)),
        Ok(CallEnd::TimedOut) => Ok("error: the tool did not answer in time".into()),
        Ok(CallEnd::Cancelled) => Err(AgentError::Over),
        // The model can do better, or without.
        Err(failure)
            if matches!(
                failure.kind,
                FailureKind::ToolNotFound | FailureKind::InvalidArgs | FailureKind::Execution
            ) =>
        {
            Ok(format!("error: {}", failure.message))
        }
        Err(failure) => Err(AgentError::Failed(failure)),
    }
}

/// At most so many bytes of a text, and a note if there are more.
fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(most));
        let shown = text.len();
        text += &format!("\n[cut: the first {shown} of {whole} bytes]");
    }
    text
}

/// Names of what the model may have wrong.
const UNKNOWN: &str = "unknown_tool";
const INVALID: &str = "invalid_args";
/// The name of a call that the session does not take.
const REFUSED: &str = "refused";
/// Letters of a name that no tool has; those that are offered have no more.
const MAX_NAME_CHARS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_results_are_cut_between_characters() {
        assert_eq!(shortened("äöü".into(), 6), "äöü");
        assert_eq!(shortened("äöü".into(), 5), "äö\n[cut: the first 4 of 6 bytes]");
        assert_eq!(shortened("äöü".into(), 0), "\n[cut: the first 0 of 6 bytes]");
    }

    #[test]
    fn what_the_model_cannot_help_ends_the_turn() {
        let failed = |kind| in_words(Err(Failure::new(kind, "no")));
        assert_eq!(failed(FailureKind::ToolNotFound).unwrap(), "error: no");
        assert_eq!(failed(FailureKind::Execution).unwrap(), "error: no");
        assert!(failed(FailureKind::Internal).is_err());
        assert!(failed(FailureKind::WorkerLost).is_err());
        assert!(in_words(Ok(CallEnd::Cancelled)).is_err());
    }
}
