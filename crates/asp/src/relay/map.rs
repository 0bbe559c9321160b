//! The seam between Relay Mode and the canonical model: requests to payloads, what a function says to what its
//! turn does.

use serde_json::{Value as Json, json};
use switchboard_core::model::{
    self, CallEnd, CallKind, Executor, Failure, FailureKind, NoticeLevel, Output, Standby, Tool, TurnEnd,
    TurnOutcome, TurnRequest,
};
use switchboard_core::{AttachmentId, MessageRow, Pii, ToolName};

use super::answer::{Answer, Answered};
use super::body::{Original, Role, Said};
use crate::error::Code;
use crate::map::{CHECKLIST, FUNCTION_ERROR, client_tool};
use crate::message::{
    Budget, CallFailure, Enc, End, ErrorBody, Feature, Finish, Input, Invoke, InvokeBody, Level, Part,
    RecordBody, State, Step, ToolDef, ToolDefFrame, ToolDefOp, Usage,
};
use crate::value::{Map, Value};

/// The `payload` that asks a function for this: an INVOKE as an ASP client would have written it.
pub fn payload(request: &TurnRequest, meta: &Json) -> Value {
    let body = match request {
        TurnRequest::Chat { parts } => InvokeBody::Chat(match parts.as_slice() {
            [model::Part::Text(text)] => Input::Text(text.clone()),
            parts => Input::Parts(parts.iter().map(part).collect()),
        }),
        TurnRequest::Tool { name, args } => {
            InvokeBody::Tool { tool: name.to_string(), args: as_map(args).unwrap_or_default() }
        }
        TurnRequest::Step { goal, state, budget } => InvokeBody::Step(Step {
            goal: goal.clone(),
            state: (!state.is_null()).then(|| value(state)),
            budget: (*budget != model::Budget::default())
                .then_some(Budget { tokens: budget.tokens, ms: budget.millis }),
        }),
    };
    Invoke { meta: as_map(meta), ..Invoke::new(body) }.to_map().into()
}

fn part(part: &model::Part) -> Part {
    match part {
        model::Part::Text(text) => Part::Text(text.clone()),
        model::Part::Data { mime, data } => Part::Data { mime: mime.clone(), data: data.clone() },
        model::Part::Reference { uri } => Part::Ref { uri: uri.clone() },
    }
}

/// The newest messages that fit, oldest first; what is no text is left out.
pub fn history(rows: &[MessageRow]) -> Vec<Said> {
    let mut room = MAX_HISTORY;
    let mut said: Vec<Said> = Vec::new();
    for row in rows.iter().rev() {
        let texts = row.parts.iter().filter_map(|part| match part {
            model::Part::Text(text) => Some(text.as_str()),
            model::Part::Data { .. } | model::Part::Reference { .. } => None,
        });
        let text: String = texts.collect();
        let Some(left) = room.checked_sub(text.len()) else { break };
        room = left;
        let role = match row.author {
            model::Author::User(_) => Role::User,
            model::Author::Agent(_) => Role::Assistant,
            model::Author::System => Role::System,
        };
        said.push(Said { role, text: Pii(text) });
    }
    said.reverse();
    said
}

/// What the client of a turn can receive, as the turn remembers it. Every protocol but a bare ASP can show more
/// than text.
pub fn features(origin: &model::Origin) -> Vec<String> {
    let agreed = origin.options.get("features").and_then(Json::as_array);
    match agreed {
        Some(names) => names.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        None if origin.protocol == "asp" => Vec::new(),
        None => vec![Feature::Events.name().to_owned()],
    }
}

/// How the client of a turn had written its request.
pub fn original(origin: &model::Origin) -> Original {
    let enc = origin.options.get("enc").and_then(Json::as_str).and_then(Enc::from_name);
    enc.map_or(Original::Json, Original::from)
}

/// The request that a turn is to its client; 1 where the client has no such numbers.
pub fn request_id(origin: &model::Origin) -> u16 {
    let handle = origin.handle.as_deref().unwrap_or_default();
    let number = handle.split('.').next().and_then(|number| number.parse().ok());
    number.filter(|number| *number != 0).unwrap_or(1)
}

/// What a record means for the turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// Nothing.
    Nothing,
    /// A piece of output.
    Output(Output),
    /// The function waits, and says why.
    Standby(Standby),
    /// Use of a tool that the function executes itself.
    Tool(crate::message::ToolActivity),
    /// Something is asked: under which name, what, and how long it may take; none for as long as the turn.
    Ask(String, CallKind, Option<u64>),
    /// The end.
    End(Box<TurnEnd>),
}

/// What a record of a function means.
pub fn meaning(body: RecordBody) -> Meaning {
    match body {
        RecordBody::Start { run, model } => Meaning::Output(Output::Began { run, model }),
        RecordBody::Unknown { .. } => Meaning::Nothing,
        RecordBody::Status(status) => match (status.state, status.msg) {
            (State::Starting, None) => Meaning::Standby(Standby::Starting),
            (State::Retrying, None) => Meaning::Standby(Standby::Retrying),
            (State::Queued, None) => Meaning::Standby(Standby::Queued),
            (_, msg) => Meaning::Output(Output::Status(msg.unwrap_or_default())),
        },
        RecordBody::Text(text) => Meaning::Output(Output::Text(text)),
        RecordBody::Reason(text) => Meaning::Output(Output::Reasoning(text)),
        RecordBody::Tool(activity) => Meaning::Tool(activity),
        RecordBody::Call(call) => {
            let kind = CallKind::Tool {
                name: ToolName::new(call.name),
                args: Json::from(Value::Map(call.args)).into(),
            };
            Meaning::Ask(call.call_id, kind, Some(call.timeout_ms))
        }
        RecordBody::Ask(ask) => {
            let schema = ask.schema.map(|schema| Json::from(Value::Map(schema)));
            Meaning::Ask(ask.ask_id, CallKind::question(ask.text, schema), None)
        }
        RecordBody::Data { mime, value } => Meaning::Output(data(mime, Json::from(value))),
        RecordBody::Usage(counts) => Meaning::Output(Output::Usage(usage(counts))),
        RecordBody::Notice(notice) => Meaning::Output(Output::Notice {
            level: match notice.level {
                Level::Info => NoticeLevel::Info,
                Level::Warn => NoticeLevel::Warn,
            },
            text: notice.text,
        }),
        RecordBody::End(end) => Meaning::End(Box::new(turn_end(end))),
    }
}

/// A plan in the form in which it is shown to clients is one; everything else is data.
fn data(mime: Option<String>, value: Json) -> Output {
    if mime.as_deref() == Some(CHECKLIST)
        && let Ok(checklist) = serde_json::from_value(value.clone())
    {
        return Output::Checklist(checklist);
    }
    Output::Data { mime, value }
}

fn turn_end(end: End) -> TurnEnd {
    let outcome = match end.finish {
        Finish::Complete | Finish::Accepted => TurnOutcome::Done(model::Finish::Complete),
        Finish::Length => TurnOutcome::Done(model::Finish::Length),
        Finish::Filtered => TurnOutcome::Done(model::Finish::Filtered),
        Finish::Empty => TurnOutcome::Done(model::Finish::Empty),
        Finish::Interrupted => TurnOutcome::Interrupted { abandoned: end.abandoned },
    };
    let metrics = end.metrics.unwrap_or_default();
    TurnEnd {
        outcome,
        output: end.output.map(|output| Json::from(output).into()),
        usage: end.usage.map(usage),
        metrics: model::Metrics { cpu_ms: metrics.cpu_ms, ..model::Metrics::default() },
    }
}

fn usage(counts: Usage) -> model::Usage {
    model::Usage(counts.0.into_iter().collect())
}

/// A failure in the function's own words.
pub fn failed(error: &ErrorBody) -> Failure {
    let kind = error.known().map_or(FailureKind::Execution, failure_kind);
    let own = Json::from(Value::Map(error.to_map()));
    Failure {
        detail: Some(Box::new(json!({ FUNCTION_ERROR: own }))),
        ..Failure::new(kind, error.msg.as_str())
    }
}

/// A failure that the relay found, in its words.
pub fn failure(code: Code, message: impl Into<String>) -> Failure {
    Failure::new(failure_kind(code), message)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "codes that a function has no reason to use")]
fn failure_kind(code: Code) -> FailureKind {
    match code {
        Code::ToolNotFound => FailureKind::ToolNotFound,
        Code::InvalidArgs => FailureKind::InvalidArgs,
        Code::ToolFailed => FailureKind::Tool,
        Code::ModelUnavailable => FailureKind::ModelUnavailable,
        Code::CallTimeout => FailureKind::CallTimeout,
        Code::WorkerLost => FailureKind::WorkerLost,
        Code::FunctionUnreachable => FailureKind::Unreachable,
        Code::FunctionBadResponse => FailureKind::BadResponse,
        Code::FunctionAborted => FailureKind::Aborted,
        Code::FunctionTimeout => FailureKind::Overdue,
        Code::InvalidInvoke => FailureKind::InvalidRequest,
        Code::AgentNotFound => FailureKind::UnknownAgent,
        Code::Forbidden => FailureKind::Forbidden,
        Code::SlowConsumer => FailureKind::SlowConsumer,
        Code::QuotaExceeded => FailureKind::BudgetExhausted,
        Code::Internal => FailureKind::Internal,
        _ => FailureKind::Execution,
    }
}

/// What the refusal of something that a function has asked is called.
pub fn refusal(kind: FailureKind) -> &'static str {
    crate::map::failure_code(kind).name()
}

/// A tool that a function executes: it is told apart from the tools of other executors by the agent's name.
fn tool(definition: ToolDef, agent: &str) -> Tool {
    let tool = client_tool(definition, &AttachmentId::from(""));
    Tool { executor: Executor::Agent, options: json!({ FUNCTION_TOOL: agent }), ..tool }
}

/// What a TOOL_DEF of a function adds and removes; `known` are the tools of the session, of which it can name
/// its own only.
pub fn tool_change(change: ToolDefFrame, agent: &str, known: &[Tool]) -> (Vec<Tool>, Vec<ToolName>) {
    let add: Vec<Tool> = change.tools.into_iter().map(|definition| tool(definition, agent)).collect();
    let is_own = |tool: &&Tool| tool.options.get(FUNCTION_TOOL).and_then(Json::as_str) == Some(agent);
    let goes = |name: &ToolName| match change.op {
        ToolDefOp::Add => false,
        ToolDefOp::Remove => change.names.iter().any(|removed| removed == name.as_str()),
        ToolDefOp::Set => add.iter().all(|added| added.name != *name),
    };
    let own = known.iter().filter(is_own).map(|tool| &tool.name);
    let remove = own.filter(|name| goes(name)).cloned().collect();
    (add, remove)
}

/// The answer to what a function has asked under the name `id`; none if nobody will answer any more.
pub fn answer(k: u64, id: &str, kind: &CallKind, end: &CallEnd) -> Option<Answer> {
    let (ok, given, error) = match end {
        CallEnd::Done { output, .. } => (true, Some(&**output), None),
        CallEnd::Failed(error) => {
            (false, None, Some(CallFailure { name: error.name.clone(), msg: error.message.clone() }))
        }
        CallEnd::TimedOut => {
            let msg = "nobody has answered in time".to_owned();
            (false, None, Some(CallFailure { name: Code::CallTimeout.name().to_owned(), msg }))
        }
        CallEnd::Cancelled => return None,
    };
    let content = match kind {
        CallKind::Tool { .. } => Answered::Call { call_id: id.to_owned(), output: given.map(value) },
        CallKind::Question { .. } => {
            let text = given.and_then(Json::as_str).map(str::to_owned);
            let data = given.filter(|given| !given.is_string() && !given.is_null()).map(value);
            Answered::Ask { ask_id: id.to_owned(), text, data }
        }
    };
    Some(Answer { k, ok, content, error })
}

fn as_map(json: &Json) -> Option<Map> {
    match Value::try_from(json.clone()) {
        Ok(Value::Map(map)) => Some(map),
        Ok(_) | Err(_) => None,
    }
}

/// What ASP cannot express is left out.
fn value(json: &Json) -> Value {
    Value::try_from(json.clone()).unwrap_or(Value::Null)
}

/// Bytes of history that a function is told.
const MAX_HISTORY: usize = 256 * 1024;
/// Where the options of a tool name the agent whose function executes it.
const FUNCTION_TOOL: &str = "function";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_shows_a_plan_in_the_form_in_which_clients_see_it() {
        let told = |mime: &str, value: Json| {
            let value = Value::try_from(value).unwrap();
            let meant = meaning(RecordBody::Data { mime: Some(mime.to_owned()), value });
            let Meaning::Output(output) = meant else { panic!("{meant:?}") };
            output
        };
        let items = json!([{ "id": "1", "label": "dig", "state": "active" }]);
        let plan = json!({ "group": "plan", "title": "Plan", "items": items });
        let Output::Checklist(checklist) = told(CHECKLIST, plan.clone()) else { panic!() };
        assert_eq!(serde_json::to_value(checklist).unwrap(), plan);
        assert!(matches!(told("application/json", plan), Output::Data { .. }));
        assert!(matches!(told(CHECKLIST, json!({ "items": 5 })), Output::Data { .. }));
    }
}
