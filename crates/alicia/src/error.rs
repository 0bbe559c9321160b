//! Every code of ErrorMessage and every close code, in one table, and what can be wrong with received bytes.
//!
//! Invariant: a number, a name, a severity or a flag of an error is written in this file only.

use std::fmt;

use switchboard_core::{Close, Pii};

use crate::id::Id;
use crate::lite::LiteError;
use crate::message::{ErrorMessage, MessageType, Reason};
use crate::value::MAX_DEPTH;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal $severity:ident $recovers:ident;)*) => {
        /// Codes of ErrorMessage, in the order of §11.2.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Code { $($(#[$doc])* $variant = $number,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code with this number.
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// A name for logs and metrics; never on the wire.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How bad it is, unless the situation says otherwise.
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// Whether the client may go on with the conversation.
            pub fn recovers(self) -> Recovers {
                match self { $(Self::$variant => Recovers::$recovers,)* }
            }
        }
    };
}

codes! {
    /// Malformed data, or a discriminating field is missing or invalid.
    Malformed = 101 "malformed" Error Always;
    /// A type that this side does not send.
    WrongSide = 102 "wrong_side" Warning Always;
    /// Stanza order violated.
    StanzaOrder = 103 "stanza_order" Warning Always;
    /// Too large.
    TooLarge = 104 "too_large" Error Always;
    /// The value of a field is out of range.
    OutOfRange = 105 "out_of_range" Error Always;
    /// No such conversation, or two in one envelope.
    Conversation = 201 "conversation" Error Depends;
    /// Not possible in this state.
    InvalidState = 202 "invalid_state" Error Depends;
    /// No such message, target or elite.
    NotFound = 203 "not_found" Error Always;
    /// The server cannot run its own tool.
    ToolNotFound = 301 "tool_not_found" Error Always;
    /// A tool took too long and ended the turn.
    ToolTimeout = 304 "tool_timeout" Error Always;
    /// We broke; critical and final if storage is lost.
    Internal = 501 "internal" Error Depends;
    /// Model, recogniser or synthesiser failed; a warning for speech.
    Provider = 502 "provider" Error Always;
    /// Temporarily unavailable.
    Unavailable = 503 "unavailable" Error Always;
    /// Queue overflow: slow down.
    QueueOverflow = 504 "queue_overflow" Warning Always;
    /// Too many envelopes.
    RateLimited = 505 "rate_limited" Warning Always;
}

impl Code {
    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The message that reports it: as bad as the table says and recoverable, which
    /// [`ErrorMessage::with_severity`] and [`ErrorMessage::unrecoverable`] change where the situation decides.
    pub fn report(self, id: Id, message: &str) -> ErrorMessage {
        ErrorMessage {
            id: Some(id),
            code: self.number(),
            message: Pii(clip(message).to_owned()),
            severity: self.severity(),
            recoverable: true,
            originating_id: None,
        }
    }
}

/// Whether an error leaves the conversation usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovers {
    /// Always.
    Always,
    /// The situation decides: see the sections that raise the code.
    Depends,
}

/// How bad an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Severity {
    /// For information.
    Info = 0,
    /// A warning.
    Warning = 1,
    /// An error.
    Error = 2,
    /// Nothing goes on.
    Critical = 3,
}

impl Severity {
    /// Every severity.
    pub const ALL: &'static [Self] = &[Self::Info, Self::Warning, Self::Error, Self::Critical];

    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The severity with this number.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|severity| i64::from(severity.number()) == number)
    }
}

/// A frame beyond the hard cap (§8.2).
pub const TOO_BIG: Close = Close { code: 1009, reason: "frame too big" };
/// More waits to be sent than is kept: come back and resume (§8.2).
pub const OVERRUN: Close = Close { code: 1013, reason: "too slow, resume" };
/// Undecodable input again and again (§11.2).
pub const UNDECODABLE: Close = Close { code: 1008, reason: "too much undecodable input" };
/// No sign of life for too long (§8.2).
pub const SILENT: Close = Close { code: 1001, reason: "no sign of life" };

/// Why an envelope was not taken, and what is known of it nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct DecodeError {
    /// What is wrong.
    pub fault: Fault,
    /// What was read before it was found.
    pub origin: Box<Origin>,
}

impl DecodeError {
    /// The code that answers it.
    pub fn code(&self) -> Code {
        self.fault.code()
    }

    /// How the connection ends, if it has to.
    pub fn close(&self) -> Option<Close> {
        match self.fault {
            Fault::TooLarge { fatal: true, .. } => Some(TOO_BIG),
            Fault::TooLarge { fatal: false, .. }
            | Fault::Value(_)
            | Fault::NotAMap
            | Fault::Batch { .. }
            | Fault::Envelope(_)
            | Fault::Stanza
            | Fault::Direction(_)
            | Fault::Conversation
            | Fault::Body(_, _)
            | Fault::LiteDirection(_)
            | Fault::LiteBody(_, _) => None,
        }
    }

    /// Whether it counts as undecodable input, of which a connection bears only so much: no envelope could be
    /// read, whatever its body.
    pub fn is_undecodable(&self) -> bool {
        matches!(self.fault, Fault::Value(_) | Fault::NotAMap | Fault::Envelope(_))
    }

    /// The ErrorMessage that answers it; `None` for an ErrorMessage, which is never answered with another.
    pub fn report(&self, id: Id) -> Option<ErrorMessage> {
        let answered = self.origin.number != Some(MessageType::ErrorMessage.number());
        answered.then(|| ErrorMessage {
            originating_id: self.origin.name(),
            ..self.code().report(id, &self.to_string())
        })
    }

    /// The same in the lite profile, where codes are text.
    pub fn report_lite(&self) -> LiteError {
        LiteError {
            code: self.code().number().to_string(),
            message: Pii(clip(&self.to_string()).to_owned()),
            message_id: self.origin.id.clone(),
        }
    }
}

/// What is known of an envelope that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Whether it is of the lite profile, as far as it was told apart.
    pub lite: Option<bool>,
    /// Its stanza id, 0 if it cannot be used.
    pub stanza_id: i32,
    /// Its conversation.
    pub conversation_id: Option<Id>,
    /// Its type.
    pub number: Option<u16>,
    /// The `id` of its body.
    pub id: Option<Id>,
}

impl Origin {
    /// How an ErrorMessage names it: by its id, else by its stanza.
    fn name(&self) -> Option<Id> {
        let stanza = || Id::new(self.stanza_id.to_string()).ok().filter(|_| self.stanza_id != 0);
        self.id.clone().or_else(stanza)
    }
}

/// What is wrong with received bytes, from the frame to a member of the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The frame or packet.
    #[error("{size} bytes exceed the limit of {most}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        most: usize,
        /// Whether the connection ends.
        fatal: bool,
    },
    /// Its MessagePack.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Neither a map nor a list of maps.
    #[error("an envelope is a map")]
    NotAMap,
    /// An array of too many envelopes.
    #[error("an array of more than {most} envelopes")]
    Batch {
        /// The limit.
        most: u32,
    },
    /// A key of the envelope.
    #[error("envelope: {0}")]
    Envelope(FieldError),
    /// A stanza id with the sign of the other side.
    #[error("stanzaId has the sign of the other side")]
    Stanza,
    /// Right type, wrong side or transport.
    #[error("{0} is not sent from this side")]
    Direction(MessageType),
    /// Body and envelope name different conversations.
    #[error("conversationId differs between body and envelope")]
    Conversation,
    /// A member of the body.
    #[error("{0}: {1}")]
    Body(MessageType, FieldError),
    /// The same as [`Fault::Direction`] in the lite profile.
    #[error("{0} is not sent from this side")]
    LiteDirection(crate::lite::LiteType),
    /// The same as [`Fault::Body`] in the lite profile.
    #[error("{0}: {1}")]
    LiteBody(crate::lite::LiteType, FieldError),
}

impl Fault {
    /// The code that answers it.
    pub fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } | Self::Batch { .. } => Code::TooLarge,
            Self::Value(error) => error.code(),
            Self::NotAMap => Code::Malformed,
            Self::Stanza => Code::StanzaOrder,
            Self::Direction(_) | Self::LiteDirection(_) => Code::WrongSide,
            Self::Conversation => Code::Conversation,
            Self::Envelope(error) | Self::Body(_, error) | Self::LiteBody(_, error) => error.code(),
        }
    }
}

/// Why bytes are not a value of the data model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// No byte at all.
    #[error("nothing to read")]
    Empty,
    /// It ends early, or declares a length beyond its end.
    #[error("a value is cut short")]
    Truncated,
    /// Bytes after it.
    #[error("bytes after the value")]
    Trailing,
    /// The marker nobody assigned.
    #[error("unassigned marker")]
    Marker,
    /// A map key that is not a string.
    #[error("map key is not a string")]
    Key,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// Nested too deeply.
    #[error("nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// More values than one packet may hold.
    #[error("too many values")]
    TooManyValues,
}

impl ValueError {
    /// The code that answers it.
    pub fn code(self) -> Code {
        match self {
            Self::TooManyValues => Code::TooLarge,
            Self::Empty
            | Self::Truncated
            | Self::Trailing
            | Self::Marker
            | Self::Key
            | Self::Utf8
            | Self::TooDeep => Code::Malformed,
        }
    }
}

/// One member that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the member, for example `messages[2].contents`; made of keys of the reference alone.
    pub member: String,
    /// What is wrong with it.
    pub reason: Reason,
}

impl FieldError {
    /// An error at `member`.
    pub fn new(member: impl Into<String>, reason: Reason) -> Self {
        Self { member: member.into(), reason }
    }

    /// The same error seen from what holds `parent`.
    #[must_use]
    pub fn below(mut self, parent: &str) -> Self {
        self.member = if self.member.is_empty() || self.member.starts_with('[') {
            format!("{parent}{}", self.member)
        } else {
            format!("{parent}.{}", self.member)
        };
        self
    }

    /// The code that answers it.
    pub fn code(&self) -> Code {
        self.reason.code()
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.member, self.reason)
    }
}

impl std::error::Error for FieldError {}

/// A text as an ErrorMessage carries it: no longer than its bound, cut between characters.
fn clip(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_MESSAGE)).unwrap_or_default()
}

const MAX_MESSAGE: usize = 2_048;
