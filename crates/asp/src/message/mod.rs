//! Wire types under the names of the reference, both directions.
//!
//! A type is read from a decoded [`Payload`] or [`Map`] and written back to a [`Map`] in the order of the
//! reference. Unknown members are ignored; unknown record types are kept verbatim.

use std::fmt;

use bytes::Bytes;

use crate::codec::Payload;
use crate::error::DecodeError;
use crate::value::{Map, Value};

/// A closed set of names, in the order of the reference.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $type { $($(#[$variant_doc])* $variant,)* }

        impl $type {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// Every name.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The value with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

pub(crate) use names;

mod control;
mod features;
pub(crate) mod fields;
mod hello;
mod invoke;
mod record;
mod tool;
mod wire;

pub use control::{Completion, ErrorBody, ErrorFrame, Interrupt, Mode};
pub use features::{Feature, Features};
pub use hello::{
    ClientInfo, ClientLimits, Hello, HelloOp, ResumeGrant, ResumeRequest, Secret, ServerHello, ServerHelloOp,
    ServerInfo, ServerLimits, ServerMode,
};
pub use invoke::{
    AskReply, Budget, CallFailure, CallResult, DEFAULT_DEADLINE_MS, DEFAULT_WANT, Input, Invoke, InvokeBody,
    Kind, Part, Step, digest,
};
pub use record::{
    Ask, Call, DEFAULT_CALL_TIMEOUT_MS, End, Finish, Level, Metrics, Notice, Phase, Record, RecordBody,
    State, Status, ToolActivity, Usage,
};
pub use tool::{Annotations, ToolDef, ToolDefFrame, ToolDefOp, is_tool_name};
pub use wire::{Direction, Enc, EncFlag, Flags, Opcode};

/// Anything a client sends.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    /// HELLO.
    Hello(Box<Hello>),
    /// INVOKE.
    Invoke(Box<Invoke>),
    /// INTERRUPT.
    Interrupt(Interrupt),
    /// ERROR: the client cannot go on with a request.
    Error(ErrorFrame),
}

impl ClientMessage {
    /// Reads the payload of a frame that travels to the server.
    pub fn from_payload(opcode: Opcode, payload: Payload) -> Result<Self, DecodeError> {
        Ok(match opcode {
            Opcode::Hello => Self::Hello(Box::new(Hello::from_payload(payload)?)),
            Opcode::Invoke => Self::Invoke(Box::new(Invoke::from_payload(payload)?)),
            Opcode::Interrupt => Self::Interrupt(Interrupt::from_payload(payload)?),
            Opcode::Error => Self::Error(ErrorFrame::from_payload(payload)),
            Opcode::Stream | Opcode::ToolDef => return Err(DecodeError::Direction(opcode)),
        })
    }

    /// The opcode it travels under.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Hello(_) => Opcode::Hello,
            Self::Invoke(_) => Opcode::Invoke,
            Self::Interrupt(_) => Opcode::Interrupt,
            Self::Error(_) => Opcode::Error,
        }
    }

    /// The map it is sent as.
    pub fn to_map(&self) -> Map {
        match self {
            Self::Hello(hello) => hello.to_map(),
            Self::Invoke(invoke) => invoke.to_map(),
            Self::Interrupt(interrupt) => interrupt.to_map(),
            Self::Error(error) => error.to_map(),
        }
    }
}

/// Anything a server sends.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// HELLO.
    Hello(Box<ServerHello>),
    /// STREAM.
    Stream(Stream),
    /// TOOL_DEF.
    ToolDef(ToolDefFrame),
    /// ERROR, or success with `complete06`.
    Error(ErrorFrame),
}

impl ServerMessage {
    /// Reads the payload of a frame that travels to the client.
    pub fn from_payload(opcode: Opcode, payload: Payload) -> Result<Self, DecodeError> {
        Ok(match opcode {
            Opcode::Hello => Self::Hello(Box::new(ServerHello::from_map(payload.into_map(opcode)?)?)),
            Opcode::Stream => Self::Stream(Stream::from_payload(payload)?),
            Opcode::ToolDef => Self::ToolDef(ToolDefFrame::from_map(payload.into_map(opcode)?)?),
            Opcode::Error => Self::Error(ErrorFrame::from_payload(payload)),
            Opcode::Invoke | Opcode::Interrupt => return Err(DecodeError::Direction(opcode)),
        })
    }

    /// The opcode it travels under.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Hello(_) => Opcode::Hello,
            Self::Stream(_) => Opcode::Stream,
            Self::ToolDef(_) => Opcode::ToolDef,
            Self::Error(_) => Opcode::Error,
        }
    }
}

/// The payload of a STREAM frame (§8.1).
#[derive(Debug, Clone, PartialEq)]
pub enum Stream {
    /// Length 0: always terminal, in every profile (ASP-032).
    Terminator,
    /// A bare delta.
    Text(String),
    /// ENC raw: a delta as bytes, usually UTF-8.
    Raw(Bytes),
    /// A typed record.
    Record(Record),
}

impl Stream {
    fn from_payload(payload: Payload) -> Result<Self, DecodeError> {
        Ok(match payload {
            Payload::None => Self::Terminator,
            Payload::Text(text) => Self::Text(text),
            Payload::Raw(bytes) => Self::Raw(bytes),
            Payload::Value(Value::Map(map)) => Self::Record(Record::from_map(map)?),
            Payload::Value(_) => return Err(DecodeError::Shape(Opcode::Stream)),
        })
    }
}

/// What is wrong with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Required and not there.
    Missing,
    /// Of another type than the one named.
    Type(&'static str),
    /// Text longer than this many bytes.
    TooLong(usize),
    /// More than this many items.
    TooMany(usize),
    /// Larger than this many bytes as JSON.
    TooLarge(usize),
    /// A number outside this range.
    Range(u64, u64),
    /// A name that is none of these.
    Choice(&'static [&'static str]),
    /// Text that does not match this pattern.
    Pattern(&'static str),
    /// A schema that refers to something outside itself.
    RemoteRef,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(formatter, "is missing"),
            Self::Type(expected) => write!(formatter, "must be {expected}"),
            Self::TooLong(most) => write!(formatter, "is longer than {most} bytes"),
            Self::TooMany(most) => write!(formatter, "has more than {most} items"),
            Self::TooLarge(most) => write!(formatter, "is larger than {most} bytes"),
            Self::Range(least, most) => write!(formatter, "must be within {least} and {most}"),
            Self::Choice(names) => write!(formatter, "must be one of {}", names.join(", ")),
            Self::Pattern(pattern) => write!(formatter, "must match {pattern}"),
            Self::RemoteRef => write!(formatter, "must not hold a remote $ref"),
        }
    }
}
