//! INTERRUPT (§9) and ERROR (§11).

use super::Reason;
use super::fields::{Fields, clip};
use super::record::{Finish, Metrics};
use crate::codec::Payload;
use crate::error::{Code, FieldError};
use crate::value::{Map, Value};

/// INTERRUPT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// What to do.
    pub mode: Mode,
    /// Why, at most 128 bytes.
    pub reason: Option<String>,
    /// Bytes of credit.
    pub bytes: Option<u64>,
}

impl Interrupt {
    /// Cancels.
    pub fn cancel() -> Self {
        Self { mode: Mode::Cancel, reason: None, bytes: None }
    }

    /// Returns credit.
    pub fn credit(bytes: u64) -> Self {
        Self { mode: Mode::Credit, reason: None, bytes: Some(bytes) }
    }

    /// Reads a payload; anything but a map cancels (ASP-037).
    pub fn from_payload(payload: Payload) -> Result<Self, FieldError> {
        match payload {
            Payload::Value(Value::Map(map)) => Self::from_map(map),
            Payload::Value(_) | Payload::None | Payload::Text(_) | Payload::Raw(_) => Ok(Self::cancel()),
        }
    }

    /// Reads a map. A reason that is too long is cut: it must not keep a cancel from being heard.
    pub fn from_map(map: Map) -> Result<Self, FieldError> {
        let mut fields = Fields::new(map);
        let mode = fields.name("mode", Mode::from_name, Mode::NAMES)?.unwrap_or(Mode::Cancel);
        let reason = fields.optional("reason");
        let reason = reason.as_ref().and_then(Value::as_str).map(|text| clip(text, MAX_REASON).to_owned());
        let bytes = match mode {
            Mode::Credit => match fields.number("bytes", 1..=u64::MAX)? {
                None => return Err(FieldError::new("bytes", Reason::Missing)),
                bytes => bytes,
            },
            Mode::Cancel | Mode::Pause | Mode::Resume => None,
        };
        Ok(Self { mode, reason, bytes })
    }

    /// Writes a map.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("mode", self.mode.name());
        map.insert_some("reason", self.reason.as_deref());
        map.insert_some("bytes", self.bytes.map(Value::count));
        map
    }
}

names! {
    /// `mode` of an INTERRUPT.
    Mode {
        /// Stop.
        Cancel = "cancel",
        /// Withhold output.
        Pause = "pause",
        /// Send what was withheld.
        Resume = "resume",
        /// Widen the window.
        Credit = "credit",
    }
}

/// A frame with opcode 0x06: failure, or success when it says so (§8.3).
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorFrame {
    /// `code:0`, or no `code` but `metrics`: never a failure (ASP-033).
    Complete(Completion),
    /// A failure.
    Error(ErrorBody),
}

impl ErrorFrame {
    /// Reads any payload; what cannot be understood is an `EXECUTION_FAILED` with the text at hand.
    pub fn from_payload(payload: Payload) -> Self {
        match payload {
            Payload::Value(Value::Map(map)) => Self::from_map(map),
            Payload::Text(text) => Self::Error(ErrorBody::from_text(&text)),
            Payload::Raw(bytes) => Self::Error(ErrorBody::from_text(&String::from_utf8_lossy(&bytes))),
            Payload::Value(_) | Payload::None => Self::Error(ErrorBody::from_text("")),
        }
    }

    /// Reads a map; members of a wrong type count as absent.
    pub fn from_map(map: Map) -> Self {
        let mut fields = Fields::new(map);
        let code = fields.count("code").ok().flatten();
        let measured = fields.has("metrics");
        let metrics = fields.nested("metrics", |mut fields| Metrics::read(&mut fields)).ok().flatten();
        if code == Some(0) || code.is_none() && measured {
            let finish = fields.name("finish", Finish::from_name, Finish::NAMES).ok().flatten();
            return Self::Complete(Completion { finish, metrics });
        }
        let code =
            code.and_then(|code| u16::try_from(code).ok()).unwrap_or_else(|| Code::ExecutionFailed.number());
        let known = Code::from_number(code);
        let name = fields.text("name", usize::MAX).ok().flatten();
        let msg = fields.text("msg", usize::MAX).ok().flatten().unwrap_or_default();
        Self::Error(ErrorBody {
            code,
            name: name.unwrap_or_else(|| known.map_or("", Code::name).to_owned()),
            msg: clip(&msg, MAX_MSG).to_owned(),
            retry: fields.boolean("retry").ok().flatten().unwrap_or(false),
            retry_ms: fields.count("retry_ms").ok().flatten(),
            fatal: fields.boolean("fatal").ok().flatten().unwrap_or(false),
            reference: fields
                .number("ref", 0..=u64::from(u16::MAX))
                .ok()
                .flatten()
                .and_then(|id| u16::try_from(id).ok()),
            detail: fields.map("detail").ok().flatten(),
        })
    }

    /// Writes a map.
    pub fn to_map(&self) -> Map {
        match self {
            Self::Complete(completion) => completion.to_map(),
            Self::Error(body) => body.to_map(),
        }
    }
}

/// Success under opcode 0x06, the terminal frame of `complete06`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// How the request ended; absent means complete.
    pub finish: Option<Finish>,
    /// Times.
    pub metrics: Option<Metrics>,
}

impl Completion {
    /// Writes a map.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("code", Code::Ok.number());
        map.insert_some("finish", self.finish.map(Finish::name));
        map.insert_some("metrics", self.metrics.map(Metrics::to_map));
        map
    }
}

/// Body of an ERROR.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorBody {
    /// Number; private and unknown ones are kept.
    pub code: u16,
    /// Name of the code.
    pub name: String,
    /// Text for people, at most 512 bytes.
    pub msg: String,
    /// Whether the same request may succeed later.
    pub retry: bool,
    /// When to try again.
    pub retry_ms: Option<u64>,
    /// Whether the connection closes.
    pub fatal: bool,
    /// `ref`: the request meant, on id 0.
    pub reference: Option<u16>,
    /// More.
    pub detail: Option<Map>,
}

impl ErrorBody {
    /// An error of the table, with its name and retry flag.
    pub fn new(code: Code, msg: &str) -> Self {
        Self {
            code: code.number(),
            name: code.name().to_owned(),
            msg: clip(msg, MAX_MSG).to_owned(),
            retry: code.retry(),
            retry_ms: None,
            fatal: false,
            reference: None,
            detail: None,
        }
    }

    /// What a bare or undecodable ERROR means.
    pub fn from_text(text: &str) -> Self {
        Self::new(Code::ExecutionFailed, text)
    }

    /// The same error, ending the connection.
    #[must_use]
    pub fn fatal(mut self) -> Self {
        self.fatal = true;
        self
    }

    /// The same error, about this request.
    #[must_use]
    pub fn about(mut self, id: u16) -> Self {
        self.reference = Some(id);
        self
    }

    /// The same error, with a time to try again.
    #[must_use]
    pub fn retry_in(mut self, ms: u64) -> Self {
        self.retry_ms = Some(ms);
        self
    }

    /// The code, if it is one of the table.
    pub fn known(&self) -> Option<Code> {
        Code::from_number(self.code)
    }

    /// Writes a map.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new()
            .with("code", self.code)
            .with("name", self.name.as_str())
            .with("msg", self.msg.as_str())
            .with("retry", self.retry);
        map.insert_some("retry_ms", self.retry_ms.map(Value::count));
        map.insert_some("fatal", self.fatal.then_some(true));
        map.insert_some("ref", self.reference);
        map.insert_some("detail", self.detail.clone());
        map
    }
}

const MAX_REASON: usize = 128;
const MAX_MSG: usize = 512;
