//! Tools that an answer uses (§4.6, §4.7, §5.4).

use bytes::BytesMut;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use switchboard_core::model::{Call, CallEnd, CallError, CallKind, Executor};
use switchboard_core::{CallId, Pii};

use crate::id::{Id, Prefix};
use crate::message::{Execution, ToolError, ToolUseRequest, ToolUseResult, Word};
use crate::value::{MAX_DEPTH, MAX_VALUES, Map, Value, encode_msgpack};

use super::answer::Answer;
use super::conversation::Conversation;
use super::page::{Desk, millis};
use super::{clip, tables};

/// A tool that is being used.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolUse {
    pub(super) id: Id,
    pub(super) name: String,
    /// Whether somebody else than the client runs it.
    here: bool,
    timeout_ms: i64,
}

impl Answer {
    /// Something is asked: of the server's own tools, or of a client.
    pub(super) fn ask(&mut self, call: &Call, book: &mut Conversation, desk: &mut Desk) {
        if self.is_settled() {
            return;
        }
        self.end_thought(book, desk);
        self.end_sentence(book, desk);
        self.call_count = self.call_count.saturating_add(1);
        book.tool_calls = book.tool_calls.saturating_add(1);
        let (mut name, args) = match &call.kind {
            CallKind::Tool { name, args } => (name.to_string(), Json::clone(args)),
            CallKind::Question { text, schema, .. } => {
                ("question".to_owned(), json!({ "text": text, "schema": schema }))
            }
        };
        clip(&mut name, MOST_NAME);
        let here = match call.executor {
            // Clients of another protocol, and devices, are on the far side of the server.
            Executor::Agent | Executor::Attachment(_) | Executor::Device(_) => true,
            Executor::Principal(_) | Executor::Anyone => false,
        };
        // The agent runs it itself if the client does not.
        let either = call.options.get("either").and_then(Json::as_bool).unwrap_or_default();
        let time = millis(call.deadline).saturating_sub(millis(desk.at));
        // What whoever runs it gets on top is not for it to use up.
        let grace = call.options.get("grace_ms").and_then(Json::as_i64).unwrap_or_default();
        let time = time.saturating_sub(grace.max(0));
        let tool = ToolUse {
            id: book.derived(Prefix::ToolUse, &[self.turn.as_str(), call.id.as_str()]),
            name,
            here,
            timeout_ms: time.clamp(1, MOST_MS),
        };
        desk.make(&tables::TOOL_USES, || {
            vec![
                ("conversation_id", book.id.as_str().into()),
                ("id", tool.id.as_str().into()),
                ("message_id", self.id().as_str().into()),
                ("tool_name", tool.name.as_str().into()),
                ("tool_arguments", args.to_string().into()),
                ("status", "running".into()),
                ("sequence_number", i64::from(self.call_count).into()),
            ]
        });
        let request = ToolUseRequest {
            id: tool.id.clone(),
            message_id: self.id().clone(),
            tool_name: tool.name.clone(),
            parameters: parameters(&args),
            execution: match (here, either) {
                (true, _) => Execution::Server,
                (false, true) => Execution::Either,
                (false, false) => Execution::Client,
            },
            timeout_ms: Some(tool.timeout_ms),
        };
        self.calls.insert(call.id.clone(), tool);
        book.stanza(request, self.trace().as_ref(), desk);
    }

    /// What was asked has an end. Answers the use that is over.
    pub(super) fn learn(
        &mut self,
        call: &CallId,
        end: &CallEnd,
        book: &mut Conversation,
        desk: &mut Desk,
    ) -> Option<Id> {
        let tool = self.calls.remove(call)?;
        let outcome = Outcome::of(end, &tool);
        let now = millis(desk.at);
        desk.set(&tables::TOOL_USES, || {
            vec![
                ("conversation_id", book.id.as_str().into()),
                ("id", tool.id.as_str().into()),
                ("status", outcome.status.into()),
                ("tool_result", outcome.output.map(Json::to_string).into()),
                ("error_message", outcome.row_message().into()),
                ("completed_at", now.into()),
            ]
        });
        // Whoever ran it knows what it gave.
        if tool.here || matches!(end, CallEnd::TimedOut | CallEnd::Cancelled) {
            let result = outcome.result(&tool.id);
            book.stanza(result, self.trace().as_ref(), desk);
        }
        Some(tool.id)
    }
}

/// What a tool gave.
struct Outcome<'a> {
    status: &'static str,
    output: Option<&'a Json>,
    /// Code and words.
    error: Option<(Word<ToolError>, String)>,
}

impl<'a> Outcome<'a> {
    fn of(end: &'a CallEnd, tool: &ToolUse) -> Self {
        let failed = |status, error: Word<ToolError>, message: String| Self {
            status,
            output: None,
            error: Some((error, message)),
        };
        match end {
            CallEnd::Done { output, .. } => Self { status: "success", output: Some(output), error: None },
            CallEnd::Failed(CallError { name, message, .. }) => {
                let error = in_our_words(name);
                let cancelled = error.known() == Some(ToolError::Cancelled);
                failed(if cancelled { "cancelled" } else { "error" }, error, message.clone())
            }
            CallEnd::TimedOut => {
                let message = format!("{}: {} ms elapsed", tool.name, tool.timeout_ms);
                failed("error", ToolError::Timeout.into(), message)
            }
            CallEnd::Cancelled => {
                failed("cancelled", ToolError::Cancelled.into(), format!("{}: stopped", tool.name))
            }
        }
    }

    fn row_message(&self) -> Option<String> {
        let (error, message) = self.error.as_ref()?;
        let code = match error {
            Word::Known(known) => known.name(),
            Word::Other(other) => other,
        };
        Some(if message.is_empty() { code.to_owned() } else { format!("{code}: {message}") })
    }

    fn result(self, request: &Id) -> ToolUseResult {
        let (error_code, error_message) = self.error.unzip();
        ToolUseResult {
            // An id of ours leaves room for more.
            id: request.result().unwrap_or_else(|_| request.clone()),
            request_id: Some(request.clone()),
            success: error_code.is_none(),
            result: self.output.filter(|output| !output.is_null()).map(fitting),
            error_code,
            error_message: error_message.filter(|message| !message.is_empty()).map(|mut message| {
                clip(&mut message, MOST_MESSAGE);
                Pii(message)
            }),
        }
    }
}

/// The word of §4.7 for what went wrong. Servers of tools, devices and other protocols have names of their own
/// for the same; what is none of them was said by the tool itself, and stays as it said it.
fn in_our_words(name: &str) -> Word<ToolError> {
    if let Some(known) = ToolError::from_name(name) {
        return known.into();
    }
    match name {
        "method_not_found" | "ACT_NOT_FOUND" => ToolError::UnknownTool.into(),
        "invalid_params" | "invalid_request" | "invalid_args" | "ACT_INVALID_PARAMS" => {
            ToolError::InvalidParameters.into()
        }
        "timed_out" | "ACT_TIMEOUT" => ToolError::Timeout.into(),
        "ACT_CANCELLED" => ToolError::Cancelled.into(),
        ""
        | "tool_error"
        | "mcp_error"
        | "parse_error"
        | "internal_error"
        | "resource_not_found"
        | "too_large"
        | "unavailable"
        | "unsupported"
        | "gone"
        | "busy"
        | "error"
        | "failed"
        | "failure"
        | "skipped"
        | "ACT_EXECUTION_FAILED"
        | "E_SANDBOX_VIOLATION" => ToolError::ExecutionError.into(),
        own => Word::Other(own.to_owned()),
    }
}

/// Arguments as a map, whatever they are.
fn parameters(args: &Json) -> Map {
    let value = fitting(args);
    if value == Value::Nil {
        return Map::new();
    }
    if let Value::Map(map) = value { map } else { Map::new().with("value", value) }
}

/// A value as it fits into an envelope; one that does not is only described (§9).
fn fitting(json: &Json) -> Value {
    let mut preview = json.to_string();
    let mut values = MAX_VALUES - BESIDE;
    if preview.len() <= MOST_VALUE
        && is_small(json, MAX_DEPTH - ABOVE, &mut values)
        && let Ok(value) = Value::try_from(json.clone())
        && encoded(&value) <= MOST_VALUE
    {
        return value;
    }
    let bytes = i64::try_from(preview.len()).unwrap_or(i64::MAX);
    clip(&mut preview, MOST_PREVIEW);
    Value::Map(Map::new().with("truncated", true).with("bytes", bytes).with("preview", preview))
}

/// Whether a value is nested no deeper than this, and made of no more than so many.
fn is_small(json: &Json, depth: usize, values: &mut usize) -> bool {
    let Some(left) = values.checked_sub(1) else { return false };
    *values = left;
    match json {
        Json::Array(items) => depth > 0 && items.iter().all(|item| is_small(item, depth - 1, values)),
        Json::Object(members) => {
            depth > 0 && members.values().all(|member| is_small(member, depth - 1, values))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
    }
}

fn encoded(value: &Value) -> usize {
    let mut out = BytesMut::new();
    encode_msgpack(value, &mut out);
    out.len()
}

/// What stands above a value in its envelope: the envelope, the body, and a map around the value.
const ABOVE: usize = 3;
/// More values than an envelope holds beside it.
const BESIDE: usize = 64;
/// Largest value, encoded and as JSON, so that its envelope stays below 1 MiB.
const MOST_VALUE: usize = 1_000_000;
/// How much is shown of a value that is too large.
const MOST_PREVIEW: usize = 4_096;
/// Longest name of a tool, in bytes (§11.1).
const MOST_NAME: usize = 100;
/// Longest `errorMessage`, in bytes.
const MOST_MESSAGE: usize = 16 << 10;
/// Most time that a request gives a tool (§11.1).
const MOST_MS: i64 = 300_000;
