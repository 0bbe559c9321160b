//! What a client has to see of a turn, derived from the log a second time and independently.

use std::collections::BTreeMap;

use serde_json::json;
use switchboard_asp::message::{Ask, Call, Phase, RecordBody, State, Status, ToolActivity, Usage};
use switchboard_asp::{Map, Value};
use switchboard_core::model::{CallEnd, CallKind, Output};
use switchboard_core::{AttachmentId, CallId, Event, PrincipalId};

use super::ledger::{TurnLog, executes};

/// How a client looks at a turn.
#[derive(Clone, Debug)]
pub(super) struct Perspective {
    pub(super) attachment: AttachmentId,
    pub(super) principal: PrincipalId,
    /// Whether it executes calls.
    pub(super) client_tools: bool,
    /// Whether it is shown records at all.
    pub(super) events: bool,
    /// Whether the end has no room for output, so that a record before it carries it.
    pub(super) complete06: bool,
    /// Whether output is streamed; otherwise only what has to be answered is shown.
    pub(super) stream: bool,
    /// Record types that it asked for; none for the usual ones.
    pub(super) want: Option<Vec<String>>,
}

impl Perspective {
    fn wants(&self, record: &str) -> bool {
        self.stream
            && match &self.want {
                Some(want) => want.iter().any(|name| name == record),
                None => matches!(record, "text" | "tool" | "usage"),
            }
    }
}

/// The numbered records of a turn so far, in order. Nothing follows an interrupt.
pub(super) fn records(turn: &TurnLog, perspective: &Perspective) -> Vec<RecordBody> {
    let mut records = Vec::new();
    let mut started = false;
    let mut watched: BTreeMap<&CallId, String> = BTreeMap::new();
    for committed in &turn.events {
        match &committed.event {
            Event::TurnStarted { turn, .. } if perspective.stream && !started => {
                started = true;
                records.push(RecordBody::Start { run: turn.to_string(), model: None });
            }
            Event::TurnOutput { output, .. } => records.extend(output_record(output, perspective)),
            Event::CallRequested { call, .. } => {
                let own = perspective.client_tools
                    && executes(&call.executor, &perspective.attachment, &perspective.principal);
                match &call.kind {
                    CallKind::Question { text, .. } => records.push(RecordBody::Ask(Ask {
                        ask_id: call.id.to_string(),
                        text: text.clone(),
                        schema: None,
                    })),
                    CallKind::Tool { name, args } if own => records.push(RecordBody::Call(Call {
                        call_id: call.id.to_string(),
                        name: name.to_string(),
                        args: map(args),
                        timeout_ms: 0,
                    })),
                    CallKind::Tool { name, args } => {
                        watched.insert(&call.id, name.to_string());
                        if perspective.wants("tool") {
                            let args = Value::try_from(serde_json::Value::clone(args)).ok();
                            records.push(activity(&call.id, name.as_str(), Phase::Start, args, None, None));
                        }
                    }
                }
            }
            Event::CallProgress { call, delta, .. } => {
                if let Some(name) = watched.get(call).filter(|_| perspective.wants("tool")) {
                    records.push(activity(call, name, Phase::Delta, None, Some(delta.clone()), None));
                }
            }
            Event::CallEnded { call, end, .. } => {
                if let Some(name) = watched.remove(call).filter(|_| perspective.wants("tool")) {
                    records.extend(call_over(call, &name, end));
                }
            }
            Event::TurnInterrupted { .. } | Event::TurnEnded { .. } => break,
            _ => {}
        }
    }
    records
}

/// The record that carries the output of a turn, where its end cannot.
pub(super) fn output(turn: &TurnLog, stream: bool) -> Option<RecordBody> {
    let end = turn.end.as_ref()?;
    let collected = || (!stream && !turn.text.is_empty()).then(|| json!(turn.text));
    let value = Value::try_from(end.output.as_deref().cloned().or_else(collected)?).ok()?;
    Some(RecordBody::Data { mime: None, value })
}

/// Whether two records say the same, apart from what depends on when they were sent.
pub(super) fn same(seen: &RecordBody, expected: &RecordBody) -> bool {
    match (seen, expected) {
        (RecordBody::Call(seen), RecordBody::Call(expected)) => {
            (&seen.call_id, &seen.name, &seen.args) == (&expected.call_id, &expected.name, &expected.args)
        }
        _ => seen == expected,
    }
}

fn output_record(output: &Output, perspective: &Perspective) -> Option<RecordBody> {
    let wants = |record| perspective.wants(record);
    match output {
        Output::Text(text) if wants("text") => Some(RecordBody::Text(text.clone())),
        Output::Reasoning(text) if wants("reason") => Some(RecordBody::Reason(text.clone())),
        Output::Status(text) if perspective.stream => {
            Some(RecordBody::Status(Status { state: State::Running, pos: None, msg: Some(text.clone()) }))
        }
        Output::Usage(usage) if wants("usage") => {
            let counts = usage.0.iter().map(|(name, count)| (name.clone(), *count)).collect();
            Some(RecordBody::Usage(Usage(counts)))
        }
        Output::Checklist(checklist) if wants("data") => Some(RecordBody::Data {
            mime: Some("application/vnd.switchboard.checklist+json".into()),
            value: Value::try_from(json!(checklist)).unwrap_or(Value::Null),
        }),
        Output::Data { mime, value } if wants("data") => Some(RecordBody::Data {
            mime: mime.clone(),
            value: Value::try_from(value.clone()).unwrap_or(Value::Null),
        }),
        _ => None,
    }
}

fn call_over(call: &CallId, name: &str, end: &CallEnd) -> Option<RecordBody> {
    let (phase, output) = match end {
        CallEnd::Done { output, .. } => (Phase::Done, Value::try_from(serde_json::Value::clone(output)).ok()),
        CallEnd::Failed(error) => {
            let map = Map::new().with("name", error.name.as_str()).with("msg", error.message.as_str());
            (Phase::Error, Some(Value::Map(map)))
        }
        CallEnd::TimedOut => (Phase::Error, Some(Value::Map(Map::new().with("name", "timeout")))),
        CallEnd::Cancelled => return None,
    };
    Some(activity(call, name, phase, None, None, output))
}

fn activity(
    call: &CallId,
    name: &str,
    phase: Phase,
    args: Option<Value>,
    d: Option<String>,
    output: Option<Value>,
) -> RecordBody {
    RecordBody::Tool(ToolActivity {
        call_id: call.to_string(),
        name: name.to_owned(),
        phase,
        args,
        d,
        output,
    })
}

fn map(json: &serde_json::Value) -> Map {
    match Value::try_from(json.clone()) {
        Ok(Value::Map(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    }
}
