//! What a function learns while it runs: a client's answers (§14.8), and that it was cancelled (§14.4).

use std::fmt;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::document::{BodyError, MAX_BODY, Members, to_json};
use crate::error::FieldError;
use crate::message::CallFailure;
use crate::message::fields::{Fields, Required as _, map as as_map};
use crate::value::{Map, Value, decode_json};

/// A client's answer to a `call` or an `ask`.
#[derive(Clone, PartialEq)]
pub struct Answer {
    /// Counts the answers of an invocation.
    pub k: u64,
    /// Whether it is what was asked for.
    pub ok: bool,
    /// What was answered, and what the answer is.
    pub content: Answered,
    /// Why not; `CALL_TIMEOUT` if none came.
    pub error: Option<CallFailure>,
}

impl Answer {
    pub(super) fn read(raw: &RawValue) -> Result<Self, BodyError> {
        let value = decode_json(raw.get().as_bytes())
            .map_err(|error| BodyError::Value { member: "answers", error })?;
        Self::from_map(as_map(value, "answers")?).map_err(|error| error.below("answers[]").into())
    }

    fn from_map(map: Map) -> Result<Self, FieldError> {
        let mut fields = Fields::new(map);
        let content = match fields.text("call_id", usize::MAX)? {
            Some(call_id) => Answered::Call { call_id, output: fields.any("output") },
            None => Answered::Ask {
                ask_id: fields.text("ask_id", usize::MAX)?.required("call_id or ask_id")?,
                text: fields.text("text", usize::MAX)?,
                data: fields.any("data"),
            },
        };
        Ok(Self {
            k: fields.count("k")?.required("k")?,
            ok: fields.boolean("ok")?.required("ok")?,
            content,
            error: fields.nested("error", CallFailure::read)?,
        })
    }

    pub(super) fn to_map(&self) -> Map {
        let mut map = Map::new().with("k", Value::count(self.k));
        match &self.content {
            Answered::Call { call_id, .. } => map.insert("call_id", call_id.as_str()),
            Answered::Ask { ask_id, .. } => map.insert("ask_id", ask_id.as_str()),
        }
        map.insert("ok", self.ok);
        match &self.content {
            Answered::Call { output, .. } => map.insert_some("output", output.clone()),
            Answered::Ask { text, data, .. } => {
                map.insert_some("text", text.as_deref());
                map.insert_some("data", data.clone());
            }
        }
        let failure = self.error.as_ref();
        map.insert_some(
            "error",
            failure.map(|error| Map::new().with("name", error.name.as_str()).with("msg", error.msg.as_str())),
        );
        map
    }
}

/// Shows which answer it is, not what it says.
impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Answer");
        shown.field("k", &self.k).field("ok", &self.ok);
        match &self.content {
            Answered::Call { call_id, .. } => shown.field("call_id", call_id),
            Answered::Ask { ask_id, .. } => shown.field("ask_id", ask_id),
        };
        shown.finish_non_exhaustive()
    }
}

/// What was answered.
#[derive(Clone, PartialEq)]
pub enum Answered {
    /// A `call` record.
    Call {
        /// The call.
        call_id: String,
        /// What it gave.
        output: Option<Value>,
    },
    /// An `ask` record.
    Ask {
        /// The question.
        ask_id: String,
        /// Answer as text.
        text: Option<String>,
        /// Answer as data.
        data: Option<Value>,
    },
}

impl fmt::Debug for Answered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { call_id, .. } => {
                formatter.debug_struct("Call").field("call_id", call_id).finish_non_exhaustive()
            }
            Self::Ask { ask_id, .. } => {
                formatter.debug_struct("Ask").field("ask_id", ask_id).finish_non_exhaustive()
            }
        }
    }
}

/// What `GET …/answers` gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// Those after the one that was named.
    pub answers: Vec<Answer>,
    /// Whether the request was cancelled.
    pub cancelled: bool,
}

impl Answers {
    /// Reads the document.
    pub fn from_json(body: &[u8]) -> Result<Self, BodyError> {
        let mut members = Members::read(body, MAX_BODY)?;
        let answers = members.list("answers")?.unwrap_or_default();
        let answers = answers.into_iter().map(Answer::read).collect::<Result<_, _>>()?;
        Ok(Self {
            answers,
            cancelled: members.fields(&["cancelled"])?.boolean("cancelled")?.unwrap_or(false),
        })
    }

    /// Writes the document.
    pub fn to_json(&self) -> Bytes {
        let answers = self.answers.iter().map(|answer| answer.to_map().into()).collect();
        to_json(&Map::new().with("answers", Value::Array(answers)).with("cancelled", self.cancelled))
    }
}

/// What `GET cancel.url` gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cancellation {
    /// Whether the request was cancelled.
    pub cancelled: bool,
    /// Why.
    pub reason: Option<String>,
}

impl Cancellation {
    /// Reads the document.
    pub fn from_json(body: &[u8]) -> Result<Self, BodyError> {
        let mut fields = Members::read(body, MAX_BODY)?.fields(&["cancelled", "reason"])?;
        Ok(Self {
            cancelled: fields.boolean("cancelled")?.required("cancelled")?,
            reason: fields.text("reason", usize::MAX)?,
        })
    }

    /// Writes the document.
    pub fn to_json(&self) -> Bytes {
        let mut map = Map::new().with("cancelled", self.cancelled);
        map.insert_some("reason", self.reason.as_deref());
        to_json(&map)
    }
}
