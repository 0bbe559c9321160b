//! Records of STREAM (§8.2).

use super::fields::{Fields, Required as _, number};
use crate::error::FieldError;
use crate::value::{MAX_INT, Map, Value};

/// One record with its index.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Index `n`, given by whatever executes the request.
    pub n: Option<u64>,
    /// The rest.
    pub body: RecordBody,
}

impl Record {
    /// A record without index.
    pub fn new(body: RecordBody) -> Self {
        Self { n: None, body }
    }

    /// The same record with an index.
    #[must_use]
    pub fn numbered(mut self, n: u64) -> Self {
        self.n = Some(n);
        self
    }

    /// Whether it ends its request.
    pub fn is_terminal(&self) -> bool {
        matches!(self.body, RecordBody::End(_))
    }

    /// The `t` member.
    pub fn t(&self) -> &str {
        match &self.body {
            RecordBody::Start { .. } => "start",
            RecordBody::Status(_) => "status",
            RecordBody::Text(_) => "text",
            RecordBody::Reason(_) => "reason",
            RecordBody::Tool(_) => "tool",
            RecordBody::Call(_) => "call",
            RecordBody::Ask(_) => "ask",
            RecordBody::Data { .. } => "data",
            RecordBody::Usage(_) => "usage",
            RecordBody::Notice(_) => "notice",
            RecordBody::End(_) => "end",
            RecordBody::Unknown { t, .. } => t,
        }
    }

    /// Reads a map; a `t` nobody knows is kept as it is.
    pub fn from_map(map: Map) -> Result<Self, FieldError> {
        let mut fields = Fields::new(map);
        let n = fields.count("n")?;
        let t = fields.text("t", usize::MAX)?.required("t")?;
        let fields = &mut fields;
        let body = match t.as_str() {
            "start" => read_start(fields)?,
            "status" => RecordBody::Status(Status::read(fields)?),
            "text" => RecordBody::Text(read_delta(fields)?),
            "reason" => RecordBody::Reason(read_delta(fields)?),
            "tool" => RecordBody::Tool(ToolActivity::read(fields)?),
            "call" => RecordBody::Call(Call::read(fields)?),
            "ask" => RecordBody::Ask(Ask::read(fields)?),
            "data" => read_data(fields)?,
            "usage" => RecordBody::Usage(Usage::from_map(&fields.rest())),
            "notice" => RecordBody::Notice(Notice::read(fields)?),
            "end" => RecordBody::End(End::read(fields)?),
            _ => RecordBody::Unknown { t, members: fields.rest() },
        };
        Ok(Self { n, body })
    }

    /// Writes a map: `t`, then `n`, then the members in the order of the reference.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("t", self.t());
        map.insert_some("n", self.n.map(Value::count));
        match &self.body {
            RecordBody::Start { run, model } => {
                map.insert("run", run.as_str());
                map.insert_some("model", model.as_deref());
            }
            RecordBody::Status(status) => {
                map.insert("state", status.state.name());
                map.insert_some("pos", status.pos.map(Value::count));
                map.insert_some("msg", status.msg.as_deref());
            }
            RecordBody::Text(d) | RecordBody::Reason(d) => map.insert("d", d.as_str()),
            RecordBody::Tool(tool) => {
                map.insert("call_id", tool.call_id.as_str());
                map.insert("name", tool.name.as_str());
                map.insert("phase", tool.phase.name());
                map.insert_some("args", tool.args.clone());
                map.insert_some("d", tool.d.as_deref());
                map.insert_some("output", tool.output.clone());
            }
            RecordBody::Call(call) => {
                map.insert("call_id", call.call_id.as_str());
                map.insert("name", call.name.as_str());
                map.insert("args", call.args.clone());
                map.insert("timeout_ms", Value::count(call.timeout_ms));
            }
            RecordBody::Ask(ask) => {
                map.insert("ask_id", ask.ask_id.as_str());
                map.insert("text", ask.text.as_str());
                map.insert_some("schema", ask.schema.clone());
            }
            RecordBody::Data { mime, value } => {
                map.insert_some("mime", mime.as_deref());
                map.insert("value", value.clone());
            }
            RecordBody::Usage(usage) => usage.write_members(&mut map),
            RecordBody::Notice(notice) => {
                map.insert("level", notice.level.name());
                map.insert("text", notice.text.as_str());
                map.insert_some("data", notice.data.clone());
            }
            RecordBody::End(end) => end.write(&mut map),
            RecordBody::Unknown { members, .. } => {
                members.iter().for_each(|(key, value)| map.insert(key.to_owned(), value.clone()));
            }
        }
        map
    }
}

/// What a record says, by its `t`.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordBody {
    /// Execution began.
    Start {
        /// Name of the run.
        run: String,
        /// Model used.
        model: Option<String>,
    },
    /// Progress.
    Status(Status),
    /// Answer delta, member `d`.
    Text(String),
    /// Reasoning delta, member `d`.
    Reason(String),
    /// Server-side tool activity.
    Tool(ToolActivity),
    /// The client must execute this and answer with `kind:"result"`.
    Call(Call),
    /// A question, answered with `kind:"reply"`.
    Ask(Ask),
    /// Structured output.
    Data {
        /// Media type.
        mime: Option<String>,
        /// The output.
        value: Value,
    },
    /// Token counts, one member each.
    Usage(Usage),
    /// Unsolicited, on id 0 only.
    Notice(Notice),
    /// Terminal.
    End(End),
    /// A `t` this version does not know.
    Unknown {
        /// Its name.
        t: String,
        /// The other members except `n`.
        members: Map,
    },
}

/// `status` record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where the request is.
    pub state: State,
    /// Place in the queue.
    pub pos: Option<u64>,
    /// Text for people.
    pub msg: Option<String>,
}

impl Status {
    fn read(fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(Self {
            state: fields.name("state", State::from_name, State::NAMES)?.required("state")?,
            pos: fields.count("pos")?,
            msg: fields.text("msg", usize::MAX)?,
        })
    }
}

names! {
    /// `state` of a status.
    State {
        /// Waits for its turn.
        Queued = "queued",
        /// Cold start.
        Starting = "starting",
        /// Runs.
        Running = "running",
        /// Waits for a call or an answer.
        Waiting = "waiting",
        /// Tries again.
        Retrying = "retrying",
    }
}

/// `tool` record.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolActivity {
    /// The call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Where the call is.
    pub phase: Phase,
    /// Arguments.
    pub args: Option<Value>,
    /// Output delta.
    pub d: Option<String>,
    /// Whole output.
    pub output: Option<Value>,
}

impl ToolActivity {
    fn read(fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(Self {
            call_id: fields.text("call_id", usize::MAX)?.required("call_id")?,
            name: fields.text("name", usize::MAX)?.required("name")?,
            phase: fields.name("phase", Phase::from_name, Phase::NAMES)?.required("phase")?,
            args: fields.any("args"),
            d: fields.text("d", usize::MAX)?,
            output: fields.any("output"),
        })
    }
}

names! {
    /// `phase` of tool activity.
    Phase {
        /// Began.
        Start = "start",
        /// Partial output.
        Delta = "delta",
        /// Worked.
        Done = "done",
        /// Failed.
        Error = "error",
    }
}

/// `call` record.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The call.
    pub call_id: String,
    /// Name of the client's tool.
    pub name: String,
    /// Arguments.
    pub args: Map,
    /// Time the client has.
    pub timeout_ms: u64,
}

impl Call {
    fn read(fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(Self {
            call_id: fields.text("call_id", MAX_CALL_ID)?.required("call_id")?,
            name: fields.text("name", usize::MAX)?.required("name")?,
            args: fields.map("args")?.required("args")?,
            timeout_ms: fields.count("timeout_ms")?.unwrap_or(DEFAULT_CALL_TIMEOUT_MS),
        })
    }
}

/// `ask` record.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The question's id.
    pub ask_id: String,
    /// The question.
    pub text: String,
    /// Schema of the answer's `data`.
    pub schema: Option<Map>,
}

impl Ask {
    fn read(fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(Self {
            ask_id: fields.text("ask_id", MAX_CALL_ID)?.required("ask_id")?,
            text: fields.text("text", usize::MAX)?.required("text")?,
            schema: fields.map("schema")?,
        })
    }
}

/// Token counts by name, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage(pub Vec<(String, u64)>);

impl Usage {
    /// Members that are not counts are unknown members, hence ignored.
    fn from_map(map: &Map) -> Self {
        let count = |value: &Value| value.as_int().and_then(|int| u64::try_from(int).ok());
        Self(map.iter().filter_map(|(name, value)| Some((name.to_owned(), count(value)?))).collect())
    }

    fn write_members(&self, map: &mut Map) {
        for (name, count) in self.0.iter().filter(|(name, _)| !matches!(name.as_str(), "t" | "n")) {
            map.insert(name.clone(), Value::count(*count));
        }
    }
}

/// `notice` record.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// How serious.
    pub level: Level,
    /// Text for people.
    pub text: String,
    /// Anything else.
    pub data: Option<Value>,
}

impl Notice {
    fn read(fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(Self {
            level: fields.name("level", Level::from_name, Level::NAMES)?.required("level")?,
            text: fields.text("text", usize::MAX)?.required("text")?,
            data: fields.any("data"),
        })
    }
}

names! {
    /// `level` of a notice.
    Level {
        /// For information.
        Info = "info",
        /// Something is wrong.
        Warn = "warn",
    }
}

/// `end` record.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// How the request ended.
    pub finish: Finish,
    /// Result.
    pub output: Option<Value>,
    /// Token counts.
    pub usage: Option<Usage>,
    /// Times.
    pub metrics: Option<Metrics>,
    /// The work could not be stopped and was detached.
    pub abandoned: bool,
}

impl End {
    /// An end with nothing but its reason.
    pub fn new(finish: Finish) -> Self {
        Self { finish, output: None, usage: None, metrics: None, abandoned: false }
    }

    fn read(fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(Self {
            finish: fields.name("finish", Finish::from_name, Finish::NAMES)?.required("finish")?,
            output: fields.any("output"),
            usage: fields.map("usage")?.map(|usage| Usage::from_map(&usage)),
            metrics: fields.nested("metrics", |mut metrics| Metrics::read(&mut metrics))?,
            abandoned: fields.boolean("abandoned")?.unwrap_or(false),
        })
    }

    fn write(&self, map: &mut Map) {
        map.insert("finish", self.finish.name());
        map.insert_some("output", self.output.clone());
        let usage = self.usage.as_ref().map(|usage| {
            let mut counts = Map::new();
            usage.write_members(&mut counts);
            counts
        });
        map.insert_some("usage", usage);
        map.insert_some("metrics", self.metrics.map(Metrics::to_map));
        map.insert_some("abandoned", self.abandoned.then_some(true));
    }
}

names! {
    /// `finish` of an end.
    Finish {
        /// Done.
        Complete = "complete",
        /// Stopped by INTERRUPT.
        Interrupted = "interrupted",
        /// Stopped by a length limit.
        Length = "length",
        /// Stopped by a filter.
        Filtered = "filtered",
        /// A `result` or `reply` was taken.
        Accepted = "accepted",
        /// Nothing came.
        Empty = "empty",
    }
}

/// `metrics` of an end, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Processor time.
    pub cpu_ms: Option<u64>,
    /// Time from receipt to end.
    pub wall_ms: Option<u64>,
    /// Time in the queue.
    pub queue_ms: Option<u64>,
    /// Time to the first output.
    pub first_ms: Option<u64>,
}

impl Metrics {
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(Self {
            cpu_ms: read_ms(fields, "cpu_ms")?,
            wall_ms: read_ms(fields, "wall_ms")?,
            queue_ms: read_ms(fields, "queue_ms")?,
            first_ms: read_ms(fields, "first_ms")?,
        })
    }

    pub(crate) fn to_map(self) -> Map {
        let mut map = Map::new();
        map.insert_some("cpu_ms", self.cpu_ms.map(Value::count));
        map.insert_some("wall_ms", self.wall_ms.map(Value::count));
        map.insert_some("queue_ms", self.queue_ms.map(Value::count));
        map.insert_some("first_ms", self.first_ms.map(Value::count));
        map
    }
}

/// `timeout_ms` of a call when absent.
pub const DEFAULT_CALL_TIMEOUT_MS: u64 = 30_000;
const MAX_CALL_ID: usize = 40;

fn read_start(fields: &mut Fields) -> Result<RecordBody, FieldError> {
    Ok(RecordBody::Start {
        run: fields.text("run", usize::MAX)?.required("run")?,
        model: fields.text("model", usize::MAX)?,
    })
}

fn read_delta(fields: &mut Fields) -> Result<String, FieldError> {
    fields.text("d", usize::MAX)?.required("d")
}

fn read_data(fields: &mut Fields) -> Result<RecordBody, FieldError> {
    Ok(RecordBody::Data {
        mime: fields.text("mime", usize::MAX)?,
        value: fields.any("value").required("value")?,
    })
}

/// Functions report fractions of milliseconds; whole ones are kept.
fn read_ms(fields: &mut Fields, key: &str) -> Result<Option<u64>, FieldError> {
    match fields.optional(key) {
        None => Ok(None),
        Some(Value::Float(ms)) if (0.0..=MAX_INT as f64).contains(&ms) => Ok(Some(ms.round() as u64)),
        Some(value) => number(&value, key, 0..=MAX_INT.unsigned_abs()).map(Some),
    }
}
