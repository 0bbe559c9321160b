//! INVOKE (§7).

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::fields::{Fields, Required as _, map as as_map};
use super::{Opcode, Reason};
use crate::codec::Payload;
use crate::error::{DecodeError, FieldError, ValueError};
use crate::value::{Map, Value, canonical_json, json_size};

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Invoke {
    /// What to do; carries the members of its `kind`.
    pub body: InvokeBody,
    /// Conversation key.
    pub session: Option<String>,
    /// Agent to use instead of the upgrade's.
    pub agent: Option<String>,
    /// Whether to wait for earlier INVOKEs of the same session.
    pub serial: bool,
    /// Time allowed from receipt.
    pub deadline_ms: u32,
    /// Idempotency key.
    pub idem: Option<String>,
    /// Whether output is streamed; false: only `end` with `output`.
    pub stream: bool,
    /// Record types wanted besides those always sent.
    pub want: Option<Vec<String>>,
    /// Opaque, echoed to the function.
    pub meta: Option<Map>,
}

impl Invoke {
    /// A request with every optional member at its default.
    pub fn new(body: InvokeBody) -> Self {
        Self {
            body,
            session: None,
            agent: None,
            serial: true,
            deadline_ms: DEFAULT_DEADLINE_MS,
            idem: None,
            stream: true,
            want: None,
            meta: None,
        }
    }

    /// A chat request with one text.
    pub fn chat(text: impl Into<String>) -> Self {
        Self::new(InvokeBody::Chat(Input::Text(text.into())))
    }

    /// In this conversation.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// By this agent instead of the connection's.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Executed once, however often it is sent with this key.
    #[must_use]
    pub fn idem(mut self, key: impl Into<String>) -> Self {
        self.idem = Some(key.into());
        self
    }

    /// With this much time from receipt, in milliseconds.
    #[must_use]
    pub const fn deadline_ms(mut self, millis: u32) -> Self {
        self.deadline_ms = millis;
        self
    }

    /// With only these record types, besides those that are always sent.
    #[must_use]
    pub fn want<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.want = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Beside other requests of the same conversation, rather than behind them.
    #[must_use]
    pub const fn parallel(mut self) -> Self {
        self.serial = false;
        self
    }

    /// Reads a payload: bare text and lists are the input of a chat.
    pub fn from_payload(payload: Payload) -> Result<Self, DecodeError> {
        let missing = || DecodeError::Invoke(FieldError::new("kind", Reason::Missing));
        match payload {
            Payload::None => Err(missing()),
            Payload::Text(text) => Ok(Self::chat(text)),
            Payload::Raw(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) => Ok(Self::chat(text)),
                Err(_) => Err(ValueError::Utf8.into()),
            },
            Payload::Value(list @ Value::Array(_)) => {
                let input = Input::read(list, "input").map_err(DecodeError::Invoke)?;
                Ok(Self::new(InvokeBody::Chat(input)))
            }
            Payload::Value(Value::Map(map)) => Self::from_map(map).map_err(DecodeError::Invoke),
            Payload::Value(_) => Err(DecodeError::Shape(Opcode::Invoke)),
        }
    }

    /// Reads a map.
    pub fn from_map(map: Map) -> Result<Self, FieldError> {
        let mut fields = Fields::new(map);
        let kind = match fields.name("kind", Kind::from_name, Kind::NAMES)? {
            Some(kind) => kind,
            None if fields.has("tool") => Kind::Tool,
            None if CHAT_ALIASES.iter().any(|alias| fields.has(alias)) => Kind::Chat,
            None => return Err(FieldError::new("kind", Reason::Missing)),
        };
        let deadline = fields.number("deadline_ms", DEADLINE_RANGE)?;
        let invoke = Self {
            session: fields.text("session", 64)?,
            agent: fields.text("agent", 64)?,
            serial: fields.boolean("serial")?.unwrap_or(true),
            deadline_ms: deadline.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(DEFAULT_DEADLINE_MS),
            idem: fields.text("idem", 64)?,
            stream: fields.boolean("stream")?.unwrap_or(true),
            want: fields.texts("want")?,
            meta: read_meta(&mut fields)?,
            body: InvokeBody::read(kind, &mut fields)?,
        };
        Ok(invoke)
    }

    /// Writes a map; members at their default are left out.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("kind", self.body.kind().name());
        map.insert_some("session", self.session.as_deref());
        map.insert_some("agent", self.agent.as_deref());
        map.insert_some("serial", (!self.serial).then_some(false));
        map.insert_some("deadline_ms", (self.deadline_ms != DEFAULT_DEADLINE_MS).then_some(self.deadline_ms));
        map.insert_some("idem", self.idem.as_deref());
        map.insert_some("stream", (!self.stream).then_some(false));
        let list = |want: &Vec<String>| Value::Array(want.iter().map(|name| name.as_str().into()).collect());
        map.insert_some("want", self.want.as_ref().map(list));
        map.insert_some("meta", self.meta.clone());
        self.body.write(&mut map);
        map
    }

    /// Whether records of this type are to be sent.
    pub fn wants(&self, record_type: &str) -> bool {
        matches!(record_type, "start" | "status" | "call" | "ask" | "end")
            || match &self.want {
                Some(want) => want.iter().any(|name| name == record_type),
                None => DEFAULT_WANT.contains(&record_type),
            }
    }
}

/// Digest that an idempotency key is bound to: SHA-256 of the canonical JSON of the INVOKE's map as it was
/// received, without `idem`, `meta` and `deadline_ms`. Independent of encoding and member order.
pub fn digest(map: &Map) -> [u8; 32] {
    let kept = map.iter().filter(|(key, _)| !matches!(*key, "idem" | "meta" | "deadline_ms"));
    let kept: Map = kept.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    Sha256::digest(canonical_json(&Value::Map(kept))).into()
}

names! {
    /// `kind` of an INVOKE.
    Kind {
        /// Input for the agent.
        Chat = "chat",
        /// Run one server tool.
        Tool = "tool",
        /// Run one reasoning step.
        Step = "step",
        /// Answer to a `call` record.
        Result = "result",
        /// Answer to an `ask` record.
        Reply = "reply",
        /// Push all tools again.
        List = "list",
        /// Ours, with `watch`: follow a turn that runs already.
        Watch = "watch",
    }
}

/// The members each kind needs.
#[derive(Debug, Clone, PartialEq)]
pub enum InvokeBody {
    /// `input`.
    Chat(Input),
    /// `tool` and `args`.
    Tool {
        /// Name of the tool.
        tool: String,
        /// Its arguments.
        args: Map,
    },
    /// `step`.
    Step(Step),
    /// `parent`, `call_id`, `ok`, `output`, `error`.
    Result(CallResult),
    /// `parent`, `ask_id`, `text`, `data`.
    Reply(AskReply),
    /// Nothing.
    List,
    /// `turn`; none for whatever runs in the session.
    Watch {
        /// The turn, as its owner's `started` or an admin knows it.
        turn: Option<String>,
    },
}

impl InvokeBody {
    /// The `kind` member.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Chat(_) => Kind::Chat,
            Self::Tool { .. } => Kind::Tool,
            Self::Step(_) => Kind::Step,
            Self::Result(_) => Kind::Result,
            Self::Reply(_) => Kind::Reply,
            Self::List => Kind::List,
            Self::Watch { .. } => Kind::Watch,
        }
    }

    fn read(kind: Kind, fields: &mut Fields) -> Result<Self, FieldError> {
        Ok(match kind {
            Kind::Chat => {
                let given = CHAT_ALIASES.iter().find_map(|alias| fields.optional(alias).map(|v| (v, *alias)));
                let (value, alias) = given.required("input")?;
                Self::Chat(Input::read(value, alias)?)
            }
            Kind::Tool => Self::Tool {
                tool: fields.text("tool", 64)?.required("tool")?,
                args: fields.map("args")?.required("args")?,
            },
            Kind::Step => Self::Step(fields.nested("step", Step::read)?.required("step")?),
            Kind::Result => Self::Result(CallResult {
                parent: fields.request_id("parent")?.required("parent")?,
                call_id: fields.text("call_id", usize::MAX)?.required("call_id")?,
                ok: fields.boolean("ok")?.required("ok")?,
                output: fields.any("output"),
                error: fields.nested("error", CallFailure::read)?,
            }),
            Kind::Reply => Self::Reply(AskReply {
                parent: fields.request_id("parent")?.required("parent")?,
                ask_id: fields.text("ask_id", usize::MAX)?.required("ask_id")?,
                text: fields.text("text", usize::MAX)?,
                data: fields.any("data"),
            }),
            Kind::List => Self::List,
            Kind::Watch => Self::Watch { turn: fields.text("turn", 64)? },
        })
    }

    fn write(&self, map: &mut Map) {
        match self {
            Self::Chat(Input::Text(text)) => map.insert("input", text.as_str()),
            Self::Chat(Input::Parts(parts)) => {
                let parts = parts.iter().map(|part| part.to_map().into()).collect();
                map.insert("input", Value::Array(parts));
            }
            Self::Tool { tool, args } => {
                map.insert("tool", tool.as_str());
                map.insert("args", args.clone());
            }
            Self::Step(step) => map.insert("step", step.to_map()),
            Self::Result(result) => {
                map.insert("parent", result.parent);
                map.insert("call_id", result.call_id.as_str());
                map.insert("ok", result.ok);
                map.insert_some("output", result.output.clone());
                let failure = |error: &CallFailure| {
                    Map::new().with("name", error.name.as_str()).with("msg", error.msg.as_str())
                };
                map.insert_some("error", result.error.as_ref().map(failure));
            }
            Self::Reply(reply) => {
                map.insert("parent", reply.parent);
                map.insert("ask_id", reply.ask_id.as_str());
                map.insert_some("text", reply.text.as_deref());
                map.insert_some("data", reply.data.clone());
            }
            Self::List => {}
            Self::Watch { turn } => map.insert_some("turn", turn.as_deref()),
        }
    }
}

/// `input` of a chat.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// One text.
    Text(String),
    /// Several parts.
    Parts(Vec<Part>),
}

impl Input {
    fn read(value: Value, key: &str) -> Result<Self, FieldError> {
        match value {
            Value::Str(text) => Ok(Self::Text(text)),
            Value::Array(items) => {
                let parts = items.into_iter().enumerate().map(|(index, item)| {
                    let path = format!("{key}[{index}]");
                    let part = Fields::new(as_map(item, &path)?);
                    Part::read(part).map_err(|error| error.below(&path))
                });
                parts.collect::<Result<_, _>>().map(Self::Parts)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Bin(_)
            | Value::Map(_) => Err(FieldError::new(key, Reason::Type("text or a list of parts"))),
        }
    }
}

/// One part of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Bytes of some media type.
    Data {
        /// Media type.
        mime: String,
        /// The bytes.
        data: Bytes,
    },
    /// Something to be fetched.
    Ref {
        /// Where from.
        uri: String,
    },
}

impl Part {
    const TYPES: &'static [&'static str] = &["text", "data", "ref"];

    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        let kind = fields.text("type", usize::MAX)?.required("type")?;
        Ok(match kind.as_str() {
            "text" => Self::Text(fields.text("text", usize::MAX)?.required("text")?),
            "data" => {
                let mime = fields.text("mime", usize::MAX)?.required("mime")?;
                let Value::Bin(data) = fields.optional("data").required("data")? else {
                    return Err(FieldError::new("data", Reason::Type("bytes")));
                };
                Self::Data { mime, data }
            }
            "ref" => Self::Ref { uri: fields.text("uri", usize::MAX)?.required("uri")? },
            _ => return Err(FieldError::new("type", Reason::Choice(Self::TYPES))),
        })
    }

    fn to_map(&self) -> Map {
        match self {
            Self::Text(text) => Map::new().with("type", "text").with("text", text.as_str()),
            Self::Data { mime, data } => Map::new()
                .with("type", "data")
                .with("mime", mime.as_str())
                .with("data", Value::Bin(data.clone())),
            Self::Ref { uri } => Map::new().with("type", "ref").with("uri", uri.as_str()),
        }
    }
}

/// `step` of an INVOKE.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What to reach.
    pub goal: String,
    /// State returned by the step before.
    pub state: Option<Value>,
    /// What the step may use.
    pub budget: Option<Budget>,
}

impl Step {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            goal: fields.text("goal", usize::MAX)?.required("goal")?,
            state: fields.any("state"),
            budget: fields.nested("budget", |mut budget| {
                Ok(Budget { tokens: budget.count("tokens")?, ms: budget.count("ms")? })
            })?,
        })
    }

    fn to_map(&self) -> Map {
        let mut map = Map::new().with("goal", self.goal.as_str());
        map.insert_some("state", self.state.clone());
        let budget = |budget: Budget| {
            let mut map = Map::new();
            map.insert_some("tokens", budget.tokens.map(Value::count));
            map.insert_some("ms", budget.ms.map(Value::count));
            map
        };
        map.insert_some("budget", self.budget.map(budget));
        map
    }
}

/// `budget` of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Milliseconds.
    pub ms: Option<u64>,
}

/// Answer to a `call` record.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// Request the call belongs to.
    pub parent: u16,
    /// The call.
    pub call_id: String,
    /// Whether it worked.
    pub ok: bool,
    /// What it gave.
    pub output: Option<Value>,
    /// Why it failed.
    pub error: Option<CallFailure>,
}

/// `error` of a call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailure {
    /// Kind of failure.
    pub name: String,
    /// Text for people.
    pub msg: String,
}

impl CallFailure {
    pub(crate) fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name", usize::MAX)?.required("name")?,
            msg: fields.text("msg", usize::MAX)?.required("msg")?,
        })
    }
}

/// Answer to an `ask` record.
#[derive(Debug, Clone, PartialEq)]
pub struct AskReply {
    /// Request the question belongs to.
    pub parent: u16,
    /// The question.
    pub ask_id: String,
    /// Answer as text.
    pub text: Option<String>,
    /// Answer as data.
    pub data: Option<Value>,
}

/// `deadline_ms` when absent.
pub const DEFAULT_DEADLINE_MS: u32 = 300_000;
/// `want` when absent.
pub const DEFAULT_WANT: &[&str] = &["text", "tool", "usage"];
const DEADLINE_RANGE: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;
const CHAT_ALIASES: [&str; 3] = ["input", "prompt", "message"];
const MAX_META: usize = 4096;

fn read_meta(fields: &mut Fields) -> Result<Option<Map>, FieldError> {
    match fields.optional("meta") {
        None => Ok(None),
        Some(meta) if json_size(&meta) > MAX_META => Err(FieldError::new("meta", Reason::TooLarge(MAX_META))),
        Some(meta) => as_map(meta, "meta").map(Some),
    }
}
