//! The body of a request to a function (§14.1, §14.8).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::value::RawValue;
use switchboard_core::Pii;

use super::answer::Answer;
use super::document::{BodyError, MAX_BODY, Members, to_json};
use crate::error::FieldError;
use crate::message::fields::{Fields, Required as _, map as as_map};
use crate::message::{Enc, Reason, Secret, names};
use crate::value::{Map, Value, decode_json};

/// What a relay asks of a function.
#[derive(Clone, PartialEq)]
pub struct Invocation {
    /// What happened.
    pub event: Event,
    /// How often the function was continued.
    pub leg: u32,
    /// The connection.
    pub cid: String,
    /// The request; 0 where there is none.
    pub rid: u16,
    /// The invocation; the same over attempts and legs.
    pub inv: String,
    /// Counts from 1 within a leg.
    pub attempt: u32,
    /// How the client had written the payload.
    pub enc: Option<Original>,
    /// What the client sent.
    pub payload: Option<Payload>,
    /// Conversation.
    pub session: Option<String>,
    /// Agent that is meant.
    pub agent: Option<String>,
    /// Time left.
    pub deadline_ms: Option<u64>,
    /// When it was sent, in milliseconds since 1970.
    pub sent_at: Option<u64>,
    /// Who asks; the relay has checked.
    pub principal: Option<Principal>,
    /// What the client can receive; empty for a bare one.
    pub features: Vec<String>,
    /// How to push.
    pub push: Option<PushGrant>,
    /// How to learn that the request was cancelled.
    pub cancel: Option<CancelGrant>,
    /// With `continue`: what the function had left for itself.
    pub state: Option<Value>,
    /// With `continue`: what it had waited for.
    pub answers: Vec<Answer>,
    /// With `continue`: the index of the next record.
    pub next_n: Option<u64>,
    /// Ours: what was said before in the session, oldest first, if the function is to be told.
    pub history: Vec<Said>,
}

impl Invocation {
    /// A first attempt of this kind, without anything that may be absent.
    pub fn new(event: Event, cid: impl Into<String>, rid: u16, inv: impl Into<String>) -> Self {
        Self {
            event,
            leg: 0,
            cid: cid.into(),
            rid,
            inv: inv.into(),
            attempt: 1,
            enc: None,
            payload: None,
            session: None,
            agent: None,
            deadline_ms: None,
            sent_at: None,
            principal: None,
            features: Vec::new(),
            push: None,
            cancel: None,
            state: None,
            answers: Vec::new(),
            next_n: None,
            history: Vec::new(),
        }
    }

    /// Reads a body. A function may have been written for a later relay, or a relay that says less: unknown
    /// members are ignored, and only `event`, `cid`, `inv` and an invocation's payload are required.
    pub fn from_json(body: &[u8]) -> Result<Self, BodyError> {
        let mut members = Members::read(body, MAX_BODY)?;
        let payload = match members.text("payload_b64")? {
            Some(text) => {
                let bytes = STANDARD.decode(text).map_err(|_| BodyError::Base64)?;
                Some(Payload::Bytes(bytes.into()))
            }
            None => members.value("payload")?.map(Payload::Json),
        };
        let answers = members.list("answers")?.unwrap_or_default();
        let answers = answers.into_iter().map(Answer::read).collect::<Result<_, _>>()?;
        let history = members.list("history")?.unwrap_or_default();
        let history = history.into_iter().map(Said::read).collect::<Result<_, _>>()?;
        let state = members.value("state")?;
        let mut fields = members.fields(MEMBERS)?;
        let asp = fields.count("asp")?;
        if asp.is_some_and(|version| version != VERSION) {
            return Err(BodyError::Version(VERSION));
        }
        let event = fields.name("event", Event::from_name, Event::NAMES)?.unwrap_or(Event::Invoke);
        if payload.is_none() && event == Event::Invoke {
            return Err(FieldError::new("payload", Reason::Missing).into());
        }
        let rid = fields.number("rid", 0..=u64::from(u16::MAX))?.unwrap_or(0);
        let rid = u16::try_from(rid).unwrap_or(0);
        Ok(Self {
            event,
            leg: fields.small("leg")?.unwrap_or(0),
            cid: fields.text("cid", MAX_ID)?.required("cid")?,
            rid,
            inv: fields.text("inv", MAX_INV)?.required("inv")?,
            attempt: fields.small("attempt")?.unwrap_or(1),
            enc: fields.name("enc", Original::from_name, Original::NAMES)?,
            payload,
            session: fields.text("session", usize::MAX)?,
            agent: fields.text("agent", usize::MAX)?,
            deadline_ms: fields.count("deadline_ms")?,
            sent_at: fields.count("sent_at")?,
            principal: fields.nested("principal", Principal::read)?,
            features: fields.texts("features")?.unwrap_or_default(),
            push: fields.nested("push", PushGrant::read)?,
            cancel: fields.nested("cancel", CancelGrant::read)?,
            state,
            answers,
            next_n: fields.count("next_n")?,
            history,
        })
    }

    /// Writes a body, in the order of the reference.
    pub fn to_json(&self) -> Bytes {
        let mut map = Map::new().with("asp", Value::count(VERSION)).with("event", self.event.name());
        map.insert("leg", self.leg);
        map.insert("cid", self.cid.as_str());
        map.insert("rid", self.rid);
        map.insert("inv", self.inv.as_str());
        map.insert("attempt", self.attempt);
        map.insert_some("enc", self.enc.map(Original::name));
        match &self.payload {
            Some(Payload::Json(value)) => map.insert("payload", value.clone()),
            Some(Payload::Bytes(bytes)) => map.insert("payload_b64", STANDARD.encode(bytes)),
            None => {}
        }
        map.insert_some("session", self.session.as_deref());
        map.insert_some("agent", self.agent.as_deref());
        map.insert_some("deadline_ms", self.deadline_ms.map(Value::count));
        map.insert_some("sent_at", self.sent_at.map(Value::count));
        map.insert_some("principal", self.principal.as_ref().map(Principal::to_map));
        let features = self.features.iter().map(|feature| feature.as_str().into()).collect();
        map.insert("features", Value::Array(features));
        map.insert_some("push", self.push.as_ref().map(PushGrant::to_map));
        map.insert_some("cancel", self.cancel.as_ref().map(CancelGrant::to_map));
        map.insert_some("state", self.state.clone());
        map.insert_some("answers", some_list(&self.answers, |answer| answer.to_map().into()));
        map.insert_some("next_n", self.next_n.map(Value::count));
        map.insert_some("history", some_list(&self.history, |said| said.to_map().into()));
        to_json(&map)
    }
}

/// Shows what identifies it, not what is in it.
impl fmt::Debug for Invocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Invocation")
            .field("event", &self.event)
            .field("leg", &self.leg)
            .field("cid", &self.cid)
            .field("rid", &self.rid)
            .field("inv", &self.inv)
            .field("attempt", &self.attempt)
            .field("deadline_ms", &self.deadline_ms)
            .field("push", &self.push)
            .field("answers", &self.answers)
            .field("next_n", &self.next_n)
            .finish_non_exhaustive()
    }
}

names! {
    /// Why a function is called.
    Event {
        /// A request.
        Invoke = "invoke",
        /// What a suspended function waited for has come.
        Continue = "continue",
        /// The request was cancelled.
        Interrupt = "interrupt",
        /// A client came.
        Connect = "connect",
        /// A client is gone.
        Disconnect = "disconnect",
    }
}

names! {
    /// How a client had written a payload.
    Original {
        /// JSON.
        Json = "json",
        /// MessagePack, here as JSON.
        Msgpack = "msgpack",
        /// Bytes.
        Raw = "raw",
    }
}

impl From<Enc> for Original {
    fn from(enc: Enc) -> Self {
        match enc {
            Enc::Json => Self::Json,
            Enc::Msgpack => Self::Msgpack,
        }
    }
}

/// What the client sent.
#[derive(Clone, PartialEq)]
pub enum Payload {
    /// `payload`.
    Json(Value),
    /// `payload_b64`.
    Bytes(Bytes),
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(_) => formatter.write_str("Json(…)"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({} bytes)", bytes.len()),
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Principal {
    /// Subject.
    pub sub: Pii<String>,
    /// What it may do; on the wire one text, names apart by spaces.
    pub scope: Vec<String>,
    /// What else is known.
    pub claims: Option<Pii<Map>>,
}

impl Principal {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        let scope = fields.text("scope", usize::MAX)?.unwrap_or_default();
        Ok(Self {
            sub: Pii(fields.text("sub", usize::MAX)?.required("sub")?),
            scope: scope.split_ascii_whitespace().map(str::to_owned).collect(),
            claims: fields.map("claims")?.map(Pii),
        })
    }

    fn to_map(&self) -> Map {
        let mut map = Map::new().with("sub", self.sub.0.as_str());
        map.insert_some("scope", (!self.scope.is_empty()).then(|| self.scope.join(" ")));
        map.insert_some("claims", self.claims.as_ref().map(|claims| claims.0.clone()));
        map
    }
}

/// Something that was said before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Who said it.
    pub role: Role,
    /// The words.
    pub text: Pii<String>,
}

impl Said {
    fn read(raw: &RawValue) -> Result<Self, BodyError> {
        let value = decode_json(raw.get().as_bytes())
            .map_err(|error| BodyError::Value { member: "history", error })?;
        let mut fields = Fields::new(as_map(value, "history")?);
        Ok(Self {
            role: fields.name("role", Role::from_name, Role::NAMES)?.required("role")?,
            text: Pii(fields.text("text", usize::MAX)?.required("text")?),
        })
    }

    fn to_map(&self) -> Map {
        Map::new().with("role", self.role.name()).with("text", self.text.0.as_str())
    }
}

names! {
    /// Who said something.
    Role {
        /// A person, or whoever asks on their behalf.
        User = "user",
        /// An agent.
        Assistant = "assistant",
        /// Neither.
        System = "system",
    }
}

/// Leave to push (§14.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushGrant {
    /// Where to.
    pub url: String,
    /// Bearer token.
    pub token: Secret,
    /// When it ends, in Unix seconds.
    pub exp: u64,
}

impl PushGrant {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            url: fields.text("url", usize::MAX)?.required("url")?,
            token: Secret::new(fields.text("token", usize::MAX)?.required("token")?),
            exp: fields.count("exp")?.required("exp")?,
        })
    }

    fn to_map(&self) -> Map {
        Map::new()
            .with("url", self.url.as_str())
            .with("token", self.token.expose())
            .with("exp", Value::count(self.exp))
    }
}

/// Where to learn that a request was cancelled (§14.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelGrant {
    /// Where to ask, with the push token.
    pub url: String,
    /// How often.
    pub poll_ms: u64,
}

impl CancelGrant {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            url: fields.text("url", usize::MAX)?.required("url")?,
            poll_ms: fields.count("poll_ms")?.unwrap_or(DEFAULT_POLL_MS),
        })
    }

    fn to_map(&self) -> Map {
        Map::new().with("url", self.url.as_str()).with("poll_ms", Value::count(self.poll_ms))
    }
}

/// `poll_ms` of a [`CancelGrant`] when absent.
pub const DEFAULT_POLL_MS: u64 = 1_000;
const VERSION: u64 = 1;
const MAX_ID: usize = 64;
const MAX_INV: usize = 40;
/// Members that are decoded as they are; `payload`, `state` and `answers` are read on their own.
const MEMBERS: &[&str] = &[
    "asp",
    "event",
    "leg",
    "cid",
    "rid",
    "inv",
    "attempt",
    "enc",
    "session",
    "agent",
    "deadline_ms",
    "sent_at",
    "principal",
    "features",
    "push",
    "cancel",
    "next_n",
];

fn some_list<T>(items: &[T], write: impl Fn(&T) -> Value) -> Option<Value> {
    (!items.is_empty()).then(|| Value::Array(items.iter().map(write).collect()))
}
