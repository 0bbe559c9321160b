//! The only seam between ASP and the canonical model: client messages to ops, events to records.
//! Conversions only; every event is named.

use serde_json::Value as Json;
use switchboard_core::model::{
    self, Author, CallEnd, CallError, CallKind, Claim, Executor, Failure, FailureKind, NoticeLevel, Output,
    Standby, Tool, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{AttachmentId, CallId, Event, PrincipalId, Reject, Timestamp, ToolName};

mod options;

pub(crate) use options::{ESCAPED, RECORD_ROOM};
pub use options::{Options, json_weight};

use crate::error::Code;
use crate::message::{
    Annotations, Ask, AskReply, Call, CallResult, End, ErrorBody, ErrorFrame, Finish, Input, InvokeBody,
    Level, Metrics, Notice, Part, Phase, RecordBody, State, Status, ToolActivity, ToolDef, Usage,
};
use crate::value::{Map, Value};

/// What the turn of an INVOKE is asked to do; none for kinds that start no turn.
pub fn turn_request(body: &InvokeBody) -> Option<TurnRequest> {
    match body {
        InvokeBody::Chat(Input::Text(text)) => {
            Some(TurnRequest::Chat { parts: vec![model::Part::Text(text.clone())] })
        }
        InvokeBody::Chat(Input::Parts(parts)) => {
            Some(TurnRequest::Chat { parts: parts.iter().map(part).collect() })
        }
        InvokeBody::Tool { tool, args } => Some(TurnRequest::Tool {
            name: ToolName::from(tool.as_str()),
            args: Json::from(Value::Map(args.clone())),
        }),
        InvokeBody::Step(step) => Some(TurnRequest::Step {
            goal: step.goal.clone(),
            state: step.state.clone().map_or(Json::Null, Json::from),
            budget: model::Budget {
                tokens: step.budget.as_ref().and_then(|budget| budget.tokens),
                millis: step.budget.as_ref().and_then(|budget| budget.ms),
            },
        }),
        InvokeBody::Result(_) | InvokeBody::Reply(_) | InvokeBody::List | InvokeBody::Watch { .. } => None,
    }
}

fn part(part: &Part) -> model::Part {
    match part {
        Part::Text(text) => model::Part::Text(text.clone()),
        Part::Data { mime, data } => model::Part::Data { mime: mime.clone(), data: data.clone() },
        Part::Ref { uri } => model::Part::Reference { uri: uri.clone() },
    }
}

/// How the call that a `result` answers has ended.
pub fn call_end(result: CallResult) -> CallEnd {
    if result.ok {
        return CallEnd::done(result.output.map_or(Json::Null, Json::from));
    }
    CallEnd::Failed(match result.error {
        Some(error) => CallError::new(error.name, error.msg),
        None => CallError::new("error", "the client reported a failure"),
    })
}

/// The answer to a question.
pub fn answer(reply: AskReply) -> CallEnd {
    let output = match (reply.data, reply.text) {
        (Some(data), _) => Json::from(data),
        (None, Some(text)) => Json::String(text),
        (None, None) => Json::Null,
    };
    CallEnd::done(output)
}

/// A tool that the client executes.
pub fn client_tool(definition: ToolDef, attachment: &AttachmentId) -> Tool {
    let annotations = definition.annotations.unwrap_or_default();
    Tool {
        name: ToolName::new(definition.name),
        description: definition.description.unwrap_or_default(),
        input_schema: Json::from(Value::Map(definition.input_schema)).into(),
        output_schema: definition.output_schema.map(|schema| Json::from(Value::Map(schema)).into()),
        annotations: model::ToolAnnotations {
            read_only: annotations.read_only,
            destructive: annotations.destructive,
            idempotent: annotations.idempotent,
            confirm: annotations.confirm,
        },
        version: definition.version,
        executor: Executor::Attachment(attachment.clone()),
        grace_ms: 0,
        options: Json::Null,
    }
}

/// A tool as TOOL_DEF shows it; none if ASP cannot express it.
pub fn tool_def(tool: &Tool) -> Option<ToolDef> {
    let schema = |schema: &Json| match Value::try_from(schema.clone()) {
        Ok(Value::Map(map)) => Some(map),
        Ok(_) | Err(_) => None,
    };
    let known = &tool.annotations;
    let annotations = Annotations {
        read_only: known.read_only,
        destructive: known.destructive,
        idempotent: known.idempotent,
        confirm: known.confirm,
    };
    let definition = ToolDef {
        name: tool.name.to_string(),
        description: Some(tool.description.clone()).filter(|text| !text.is_empty()),
        input_schema: schema(&tool.input_schema)?,
        output_schema: tool.output_schema.as_deref().and_then(schema),
        annotations: (annotations != Annotations::default()).then_some(annotations),
        version: tool.version.clone(),
        ttl_s: None,
    };
    // What we would refuse from a client is not sent to one.
    ToolDef::from_map(definition.to_map()).ok()
}

/// What an event of a turn means for the request that stands for it.
#[derive(Debug, PartialEq)]
pub enum Rendered<'a> {
    /// Nothing to show.
    Nothing,
    /// A piece of the answer.
    Text(&'a str),
    /// A piece of reasoning.
    Reason(&'a str),
    /// A record of the executor, with an index of its own.
    Record(RecordBody),
    /// A record that the server adds by itself; it has no index.
    Aside(RecordBody),
    /// A remark on id 0.
    Notice(Notice),
    /// A call is open; show the record if there is one.
    CallOpened(&'a CallId, OpenCall, Option<RecordBody>),
    /// A piece of output of a call.
    CallDelta(&'a CallId, &'a str),
    /// A call is over.
    CallOver(&'a CallId, &'a CallEnd),
    /// Nothing of this turn is to be sent any more but its end.
    Stopped,
    /// The end.
    End(&'a TurnEnd),
}

/// An open call, as it concerns the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenCall {
    /// Others execute the tool of this name.
    Watched(String),
    /// The client executes it, and answers with `result`.
    Executed,
    /// A question, which is answered with `reply`.
    Asked,
}

/// Whoever sees the records: their own calls are to be executed, those of others only watched.
#[derive(Debug)]
pub struct Viewer<'a> {
    /// The attachment.
    pub attachment: &'a AttachmentId,
    /// The principal.
    pub principal: &'a PrincipalId,
    /// What it wants to see.
    pub options: &'a Options,
    /// Whether it can execute calls.
    pub client_tools: bool,
    /// The tools that it has.
    pub tools: &'a [Tool],
    /// Whether the execution has been seen to begin.
    pub started: bool,
    /// The time.
    pub now: Timestamp,
}

/// What `event` means for a request that stands for its turn.
pub fn render<'a>(event: &'a Event, viewer: &Viewer<'_>) -> Rendered<'a> {
    let wants = |record| viewer.options.wants(record);
    let streamed = |body| if viewer.options.stream { Rendered::Aside(body) } else { Rendered::Nothing };
    match event {
        Event::TurnQueued { position, .. } => {
            streamed(status(State::Queued, Some(u64::from(*position)), None))
        }
        Event::TurnStarted { .. } if viewer.started => streamed(status(State::Running, None, None)),
        // Whoever produces the answer says so, and numbers it.
        Event::TurnStarted { claim: Claim { relayed: true, .. }, .. } => Rendered::Nothing,
        Event::TurnStarted { turn, .. } if viewer.options.stream => {
            Rendered::Record(RecordBody::Start { run: turn.to_string(), model: None })
        }
        Event::TurnStarted { .. } => Rendered::Nothing,
        Event::TurnReleased { deadline: Some(_), .. } => Rendered::Nothing,
        Event::TurnReleased { deadline: None, .. } => streamed(status(State::Retrying, None, None)),
        Event::TurnOutput { output, .. } => render_output(output, viewer),
        Event::CallRequested { call, .. } => match &call.kind {
            CallKind::Tool { name, args } if executes(name, &call.executor, viewer) => {
                let args = match Value::try_from(Json::clone(args)) {
                    Ok(Value::Map(map)) => map,
                    Ok(_) | Err(_) => Map::new(),
                };
                // Begun milliseconds count, so that a call of five seconds does not come as 4999.
                let left = call.deadline.since(viewer.now).as_micros().div_ceil(1000);
                let timeout_ms = u64::try_from(left).unwrap_or(u64::MAX);
                Rendered::CallOpened(
                    &call.id,
                    OpenCall::Executed,
                    Some(RecordBody::Call(Call {
                        call_id: call.id.to_string(),
                        name: name.to_string(),
                        args,
                        timeout_ms,
                    })),
                )
            }
            CallKind::Tool { name, args } => {
                let record = (wants("tool") && call.is_announced()).then(|| {
                    RecordBody::Tool(ToolActivity {
                        call_id: call.id.to_string(),
                        name: name.to_string(),
                        phase: Phase::Start,
                        args: Value::try_from(Json::clone(args)).ok(),
                        d: None,
                        output: None,
                    })
                });
                Rendered::CallOpened(&call.id, OpenCall::Watched(name.to_string()), record)
            }
            CallKind::Question { text, schema, .. } => {
                let schema = schema.as_ref().and_then(|schema| match Value::try_from(schema.clone()) {
                    Ok(Value::Map(map)) => Some(map),
                    Ok(_) | Err(_) => None,
                });
                let ask = Ask { ask_id: call.id.to_string(), text: text.clone(), schema };
                Rendered::CallOpened(&call.id, OpenCall::Asked, Some(RecordBody::Ask(ask)))
            }
        },
        Event::CallProgress { call, delta, .. } if wants("tool") => Rendered::CallDelta(call, delta),
        Event::CallProgress { .. } => Rendered::Nothing,
        Event::CallEnded { call, end, .. } => Rendered::CallOver(call, end),
        Event::TurnInterrupted { .. } => Rendered::Stopped,
        Event::TurnEnded { end, .. } => Rendered::End(end),
        Event::MessageAdded { message } => match &message.author {
            Author::User(_) | Author::Agent(_) | Author::System => Rendered::Nothing,
        },
        Event::SessionOpened { .. }
        | Event::ParticipantJoined { .. }
        | Event::ParticipantLeft { .. }
        | Event::AttachmentOpened { .. }
        | Event::AttachmentLinked { .. }
        | Event::AttachmentDetached { .. }
        | Event::AttachmentClosed { .. }
        | Event::DeviceJoined { .. }
        | Event::DeviceReported { .. }
        | Event::DeviceLeft { .. }
        | Event::DeviceReleased { .. }
        | Event::ToolsChanged { .. }
        | Event::MessageEdited { .. }
        | Event::TipMoved { .. }
        | Event::SessionRenamed { .. }
        | Event::StandingChanged { .. }
        | Event::ChronicleBegun { .. }
        | Event::Recorded { .. }
        | Event::TurnAccepted { .. } => Rendered::Nothing,
    }
}

fn render_output<'a>(output: &'a Output, viewer: &Viewer<'_>) -> Rendered<'a> {
    let wants = |record| viewer.options.wants(record);
    match output {
        // Without streaming the text is collected for the end.
        Output::Text(text) if wants("text") || !viewer.options.stream => Rendered::Text(text),
        Output::Reasoning(text) if wants("reason") => Rendered::Reason(text),
        Output::Status(text) if viewer.options.stream => {
            let msg = Some(text.clone()).filter(|text| !text.is_empty());
            Rendered::Record(status(State::Running, None, msg))
        }
        Output::Usage(counts) if wants("usage") => Rendered::Record(RecordBody::Usage(usage(counts))),
        Output::Checklist(checklist) if wants("data") => {
            let value = serde_json::to_value(checklist).unwrap_or_default();
            Rendered::Record(RecordBody::Data {
                mime: Some(CHECKLIST.into()),
                value: Value::try_from(value).unwrap_or(Value::Null),
            })
        }
        Output::Data { mime, value } if wants("data") => Rendered::Record(RecordBody::Data {
            mime: mime.clone(),
            value: Value::try_from(value.clone()).unwrap_or(Value::Null),
        }),
        Output::Notice { level, text } => Rendered::Notice(Notice {
            level: match level {
                NoticeLevel::Info => Level::Info,
                NoticeLevel::Warn => Level::Warn,
            },
            text: text.clone(),
            data: None,
        }),
        Output::Began { run, model } if viewer.options.stream => {
            Rendered::Record(RecordBody::Start { run: run.clone(), model: model.clone() })
        }
        Output::Standby(standby) if viewer.options.stream => {
            let state = match standby {
                Standby::Queued => State::Queued,
                Standby::Starting => State::Starting,
                Standby::Retrying => State::Retrying,
            };
            Rendered::Aside(status(state, None, None))
        }
        // It is laid before the agent, and no part of the answer.
        Output::Remembered(_)
        | Output::Text(_)
        | Output::Reasoning(_)
        | Output::Status(_)
        | Output::Usage(_)
        | Output::Checklist(_)
        | Output::Data { .. }
        | Output::Began { .. }
        | Output::Standby(_)
        | Output::Suspended(_) => Rendered::Nothing,
    }
}

/// The record for a piece of output of a call.
pub fn call_delta(call: &CallId, name: &str, delta: &str) -> RecordBody {
    RecordBody::Tool(ToolActivity {
        call_id: call.to_string(),
        name: name.to_owned(),
        phase: Phase::Delta,
        args: None,
        d: Some(delta.to_owned()),
        output: None,
    })
}

/// The record for the end of a call that others execute; none if it was cancelled with its turn.
pub fn call_over(call: &CallId, name: &str, end: &CallEnd) -> Option<RecordBody> {
    let (phase, output) = match end {
        CallEnd::Done { output, .. } => (Phase::Done, Value::try_from(Json::clone(output)).ok()),
        CallEnd::Failed(error) => {
            let error = Map::new().with("name", error.name.as_str()).with("msg", error.message.as_str());
            (Phase::Error, Some(error.into()))
        }
        CallEnd::TimedOut => (Phase::Error, Some(Map::new().with("name", "timeout").into())),
        CallEnd::Cancelled => return None,
    };
    Some(RecordBody::Tool(ToolActivity {
        call_id: call.to_string(),
        name: name.to_owned(),
        phase,
        args: None,
        d: None,
        output,
    }))
}

fn executes(name: &ToolName, executor: &Executor, viewer: &Viewer<'_>) -> bool {
    viewer.client_tools
        && match executor {
            Executor::Agent => false,
            Executor::Attachment(attachment) => attachment == viewer.attachment,
            // Another client of the principal may have the tool, in whatever protocol.
            Executor::Principal(principal) => {
                principal == viewer.principal && viewer.tools.iter().any(|tool| tool.name == *name)
            }
            // No ASP client is enrolled.
            Executor::Device(_) => false,
            Executor::Anyone => true,
        }
}

fn status(state: State, pos: Option<u64>, msg: Option<String>) -> RecordBody {
    RecordBody::Status(Status { state, pos, msg })
}

fn usage(counts: &model::Usage) -> Usage {
    Usage(counts.0.iter().map(|(name, count)| (name.clone(), *count)).collect())
}

/// The media type of a plan and how far it is.
pub(crate) const CHECKLIST: &str = "application/vnd.switchboard.checklist+json";
/// Where the detail of a failure holds the ERROR of a function.
pub const FUNCTION_ERROR: &str = "asp";

/// How a request ends on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// With an `end` record, or its like.
    End(End),
    /// With an ERROR.
    Error(ErrorBody),
}

impl Ending {
    /// The end of a request that its client has cancelled: text that came after that was not sent, so it is not
    /// complete even if its turn is.
    #[must_use]
    pub fn cut_short(self) -> Self {
        match self {
            Self::End(end) => Self::End(End { finish: Finish::Interrupted, output: None, ..end }),
            Self::Error(error) => Self::Error(error),
        }
    }
}

/// How the end of a turn is told.
pub fn ending(end: &TurnEnd) -> Ending {
    let finish = match &end.outcome {
        TurnOutcome::Done(model::Finish::Complete) => Finish::Complete,
        TurnOutcome::Done(model::Finish::Length) => Finish::Length,
        TurnOutcome::Done(model::Finish::Filtered) => Finish::Filtered,
        TurnOutcome::Done(model::Finish::Empty) => Finish::Empty,
        TurnOutcome::Interrupted { .. } => Finish::Interrupted,
        TurnOutcome::Failed(failure) if failure.is_too_long() => Finish::Length,
        TurnOutcome::Failed(failure) => {
            return Ending::Error(failed(failure));
        }
        TurnOutcome::Expired => {
            let message = "the deadline of the request has passed";
            return Ending::Error(ErrorBody::new(Code::DeadlineExceeded, message));
        }
    };
    let metrics = Metrics {
        cpu_ms: end.metrics.cpu_ms,
        wall_ms: end.metrics.wall_ms,
        queue_ms: end.metrics.queue_ms,
        first_ms: end.metrics.first_ms,
    };
    Ending::End(End {
        finish,
        output: end.output.as_deref().and_then(|output| Value::try_from(Json::clone(output)).ok()),
        usage: end.usage.as_ref().map(usage),
        metrics: (metrics != Metrics::default()).then_some(metrics),
        abandoned: matches!(end.outcome, TurnOutcome::Interrupted { abandoned: true }),
    })
}

/// The ERROR for a failure: in the words of the executor, if it speaks this protocol.
fn failed(failure: &Failure) -> ErrorBody {
    let own = failure.detail.as_ref().and_then(|detail| detail.get(FUNCTION_ERROR)).cloned();
    let own = own.and_then(|own| Value::try_from(own).ok());
    if let Some(Value::Map(map)) = own
        && let ErrorFrame::Error(error) = ErrorFrame::from_map(map)
    {
        return ErrorBody { fatal: false, reference: None, ..error };
    }
    ErrorBody::new(failure_code(failure.kind), &failure.message)
}

pub(crate) fn failure_code(kind: FailureKind) -> Code {
    match kind {
        FailureKind::Execution => Code::ExecutionFailed,
        FailureKind::ToolNotFound => Code::ToolNotFound,
        FailureKind::InvalidArgs => Code::InvalidArgs,
        FailureKind::Tool => Code::ToolFailed,
        FailureKind::ModelUnavailable => Code::ModelUnavailable,
        FailureKind::CallTimeout => Code::CallTimeout,
        FailureKind::WorkerLost => Code::WorkerLost,
        FailureKind::Unreachable => Code::FunctionUnreachable,
        FailureKind::BadResponse => Code::FunctionBadResponse,
        FailureKind::Aborted => Code::FunctionAborted,
        FailureKind::Overdue => Code::FunctionTimeout,
        FailureKind::InvalidRequest => Code::InvalidInvoke,
        FailureKind::UnknownAgent => Code::AgentNotFound,
        FailureKind::Forbidden => Code::Forbidden,
        FailureKind::SlowConsumer => Code::SlowConsumer,
        FailureKind::Unprepared | FailureKind::BudgetExhausted => Code::ExecutionFailed,
        FailureKind::Internal => Code::Internal,
    }
}

/// The ERROR that answers a refused INVOKE, with a delay where one is known.
pub fn reject_code(reject: &Reject) -> (Code, Option<u64>) {
    let code = match reject {
        Reject::Forbidden => Code::Forbidden,
        Reject::UnknownTool(_) => Code::ToolNotFound,
        Reject::InvalidArgs(_) => Code::InvalidArgs,
        Reject::UnknownAgent(_) => Code::AgentNotFound,
        Reject::KeyConflict => Code::IdempotencyConflict,
        Reject::CallGone(_) | Reject::TurnOver(_) | Reject::UnknownTurn(_) => Code::CallGone,
        Reject::Invalid(_)
        | Reject::UnknownMessage(_)
        | Reject::DuplicateMessage(_)
        | Reject::Inactive
        | Reject::Unserved { .. } => Code::InvalidInvoke,
        Reject::Limit { .. } | Reject::Busy => Code::QueueFull,
        Reject::Quota { .. } => Code::QuotaExceeded,
        Reject::RateLimited { retry_after } => {
            return (
                Code::RateLimited,
                Some(u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).max(1)),
            );
        }
        Reject::Draining => Code::RelayUnavailable,
        Reject::NotFound
        | Reject::Unavailable { .. }
        | Reject::Fenced(_)
        | Reject::DuplicateTurn(_)
        | Reject::AttachmentGone
        | Reject::Enrolled(_) => Code::Internal,
        Reject::Offline(_) => Code::ToolNotFound,
        Reject::Unauthenticated => Code::AuthInvalid,
    };
    (code, None)
}
