//! Wire types under the names of the reference, both directions.
//!
//! A body is read from a decoded [`Map`] and written back to one in the order of the reference. Unknown
//! members are ignored, unknown types are kept as [`Body::Unknown`]. No body holds a `conversationId`: it is
//! the envelope's, and written from there.

use std::fmt;

use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::value::{Cursor, Map, encode_int, encode_map, encode_map_length, encode_str};

pub(crate) mod kinds;
mod reason;
pub(crate) mod rows;
pub(crate) mod sink;
pub(crate) mod wire;
mod words;

mod answer;
mod control;
mod feedback;
mod info;
mod memory;
mod meta;
mod optimization;
mod subscription;
mod sync;
mod tool;
mod user;

pub(crate) use words::names;

pub use answer::{AnswerType, AssistantMessage, AssistantSentence, ReasoningStep, StartAnswer};
pub use control::{
    Acknowledgement, Configuration, ControlStop, ControlVariation, ErrorMessage, Feature, Mode, StopType,
};
pub use feedback::{
    Aggregates, Commentary, CommentaryType, Feedback, FeedbackConfirmation, NoteAction, NoteCategory,
    NoteConfirmation, QuickFeedback, SpecialVotes, TargetType, UserNote, Vote,
};
pub use info::{
    ConnectionInfo, ConnectionStatus, ConversationStatus, ConversationUpdate, McpServer, McpStatus,
    ModelInfo, ServerInfo, SessionStats,
};
pub use memory::{
    MemoryAction, MemoryActionKind, MemoryCategory, MemoryConfirmation, MemoryContent, MemoryTrace, Ratio,
};
pub use meta::{Meta, Trace};
pub use optimization::{DimensionPreference, Dimensions, Elite, EliteOptions, EliteSelect, Preset, Weights};
pub use reason::Reason;
pub use subscription::{Subscribe, SubscribeAck, SubscribeError, Unsubscribe, UnsubscribeAck};
pub use sync::{
    MessageResponse, Role, SyncConflict, SyncMessage, SyncRequest, SyncResponse, SyncStatus, SyncedMessage,
    ToolUseResponse,
};
pub use tool::{Execution, ToolError, ToolUseRequest, ToolUseResult};
pub use user::{AudioChunk, Superset, Transcription, UserMessage};
pub use words::Word;

/// One envelope (§2.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Order and sender: above 0 the client's, below 0 the server's, 0 unsequenced.
    pub stanza_id: i32,
    /// The conversation; `None` before one exists, or for notes and memories.
    pub conversation_id: Option<Id>,
    /// Side information.
    pub meta: Meta,
    /// What it says.
    pub body: Body,
}

impl Envelope {
    /// An unsequenced envelope without side information.
    pub fn new(conversation_id: Option<Id>, body: impl Into<Body>) -> Self {
        Self { stanza_id: 0, conversation_id, meta: Meta::default(), body: body.into() }
    }

    /// The same envelope with a place in the order.
    #[must_use]
    pub fn numbered(mut self, stanza_id: i32) -> Self {
        self.stanza_id = stanza_id;
        self
    }

    /// The map it is sent as.
    pub fn to_map(&self) -> Map {
        let conversation = self.conversation_id.as_ref();
        let mut map = Map::new()
            .with("stanzaId", i64::from(self.stanza_id))
            .with("conversationId", conversation.map_or("", Id::as_str))
            .with("type", i64::from(self.body.number()));
        if !self.meta.is_empty() {
            map.insert("meta", self.meta.as_map().clone());
        }
        map.with("body", self.body.to_map(conversation))
    }
}

impl Envelope {
    /// Appends the canonical form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let conversation = self.conversation_id.as_ref();
        encode_map_length(if self.meta.is_empty() { 4 } else { 5 }, out);
        encode_str("stanzaId", out);
        encode_int(self.stanza_id.into(), out);
        encode_str("conversationId", out);
        encode_str(conversation.map_or("", Id::as_str), out);
        encode_str("type", out);
        encode_int(self.body.number().into(), out);
        if !self.meta.is_empty() {
            encode_str("meta", out);
            encode_map(self.meta.as_map(), out);
        }
        encode_str("body", out);
        self.body.encode(conversation, out);
    }
}

/// The registry of §3: one line per type.
macro_rules! registry {
    ($($(#[$doc:meta])* $name:ident = $number:literal $direction:ident $class:ident $transports:ident;)*) => {
        /// The type of a message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum MessageType { $($(#[$doc])* $name = $number,)* }

        impl MessageType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The type with this number.
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Who sends it.
            pub const fn direction(self) -> Direction {
                match self { $(Self::$name => Direction::$direction,)* }
            }

            /// Whether a server numbers it.
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }

            /// Where it travels.
            pub const fn transports(self) -> Transports {
                match self { $(Self::$name => Transports::$transports,)* }
            }
        }

        /// What an envelope says.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Body {
            $($(#[$doc])* $name($name),)*
            /// A type nobody here knows; to be skipped silently.
            Unknown {
                /// Its number.
                number: u16,
                /// Its body as it came.
                body: Map,
            },
        }

        impl Body {
            /// Reads the body of a type.
            pub fn from_map(kind: MessageType, map: Map, limits: &AliciaLimits) -> Result<Self, FieldError> {
                Ok(match kind { $(MessageType::$name => Self::$name($name::from_map(map, limits)?),)* })
            }

            /// Reads the body of a type from a packet that holds its members in the order of the reference;
            /// none if it does not, or if anything is wrong with it.
            pub(crate) fn from_packet(
                kind: MessageType,
                cursor: Cursor<'_>,
                limits: &AliciaLimits,
            ) -> Option<Self> {
                let mut fields = rows::Fields::in_order(cursor, limits);
                let body = match kind {
                    $(MessageType::$name => Self::$name(rows::Members::read(&mut fields).ok()?),)*
                };
                fields.finish().then_some(body)
            }

            /// Its type; `None` if nobody here knows it.
            pub fn kind(&self) -> Option<MessageType> {
                match self {
                    $(Self::$name(_) => Some(MessageType::$name),)*
                    Self::Unknown { .. } => None,
                }
            }

            /// The number of its type.
            pub fn number(&self) -> u16 {
                match self {
                    $(Self::$name(_) => $number,)*
                    Self::Unknown { number, .. } => *number,
                }
            }

            /// The map it is sent as, for this conversation.
            pub fn to_map(&self, conversation: Option<&Id>) -> Map {
                match self {
                    $(Self::$name(body) => body.to_map(conversation),)*
                    Self::Unknown { body, .. } => body.clone(),
                }
            }

            /// Appends the same in the canonical form.
            fn encode(&self, conversation: Option<&Id>, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(body) => rows::encode(body, conversation, out),)*
                    Self::Unknown { body, .. } => encode_map(body, out),
                }
            }
        }

        $(impl From<$name> for Body {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        })*
    };
}

registry! {
    /// A request cannot be honoured, or a turn failed.
    ErrorMessage = 1 Both Depends Any;
    /// A typed turn.
    UserMessage = 2 Both Unsequenced Any;
    /// A whole answer.
    AssistantMessage = 3 ToClient Sequenced Any;
    /// Audio, or what describes it.
    AudioChunk = 4 Both Unsequenced Any;
    /// One thought.
    ReasoningStep = 5 ToClient Sequenced Any;
    /// A tool is to be run.
    ToolUseRequest = 6 ToClient Sequenced Any;
    /// What a tool gave.
    ToolUseResult = 7 Both Sequenced Any;
    /// A stanza was accepted or refused.
    Acknowledgement = 8 Both Unsequenced Any;
    /// A spoken turn.
    Transcription = 9 ToClient Depends Any;
    /// Stop.
    ControlStop = 10 ToServer Never Any;
    /// Regenerate, edit or continue.
    ControlVariation = 11 ToServer Never Any;
    /// Handshake.
    Configuration = 12 Both Unsequenced Any;
    /// An answer begins.
    StartAnswer = 13 ToClient Sequenced Any;
    /// A memory was used.
    MemoryTrace = 14 ToClient Sequenced Any;
    /// A remark beside the turns.
    Commentary = 15 Both Sequenced Any;
    /// A piece of an answer.
    AssistantSentence = 16 ToClient Sequenced Any;
    /// Messages written offline.
    SyncRequest = 17 ToServer Never WebSocket;
    /// What became of them.
    SyncResponse = 18 ToClient Unsequenced WebSocket;
    /// A vote.
    Feedback = 20 ToServer Never Any;
    /// The votes now.
    FeedbackConfirmation = 21 ToClient Unsequenced Any;
    /// A note on a message.
    UserNote = 22 ToServer Never Any;
    /// What became of it.
    NoteConfirmation = 23 ToClient Unsequenced Any;
    /// A memory is to be changed.
    MemoryAction = 24 ToServer Never Any;
    /// What became of it.
    MemoryConfirmation = 25 ToClient Unsequenced Any;
    /// Connection, model and MCP servers.
    ServerInfo = 26 ToClient Unsequenced Any;
    /// Totals of the conversation.
    SessionStats = 27 ToClient Unsequenced Any;
    /// Title or status changed.
    ConversationUpdate = 28 ToClient Unsequenced WebSocket;
    /// How answers are to be weighed.
    DimensionPreference = 29 ToServer Never Any;
    /// One elite is chosen.
    EliteSelect = 30 ToServer Never Any;
    /// The elites on offer.
    EliteOptions = 31 ToClient Unsequenced Any;
    /// Follow a conversation.
    Subscribe = 40 ToServer Never WebSocket;
    /// Follow it no longer.
    Unsubscribe = 41 ToServer Never WebSocket;
    /// Answer to Subscribe.
    SubscribeAck = 42 ToClient Unsequenced WebSocket;
    /// Answer to Unsubscribe.
    UnsubscribeAck = 43 ToClient Unsequenced WebSocket;
}

impl MessageType {
    /// The number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether this side sends it.
    pub fn is_sent_by(self, side: Side) -> bool {
        match self.direction() {
            Direction::Both => true,
            Direction::ToServer => side == Side::Client,
            Direction::ToClient => side == Side::Server,
        }
    }

    /// Whether the server acknowledges it once it is stored (§5.9).
    pub fn is_acknowledged(self) -> bool {
        ACKNOWLEDGED.contains(&self)
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Body {
    /// Whether a server numbers it. Only an ErrorMessage still depends on more: on whether a turn failed.
    pub fn class(&self) -> Class {
        if let Self::Transcription(transcription) = self {
            return if transcription.is_final { Class::Sequenced } else { Class::Unsequenced };
        }
        self.kind().map_or(Class::Never, MessageType::class)
    }

    /// The id that becomes a new row when a client sends this.
    pub fn new_row(&self) -> Option<&Id> {
        let (Self::UserMessage(UserMessage { id, .. })
        | Self::Commentary(Commentary { id, .. })
        | Self::Feedback(Feedback { id, .. })
        | Self::UserNote(UserNote { id, action: Word::Known(NoteAction::Create), .. })
        | Self::MemoryAction(MemoryAction { id, action: Word::Known(MemoryActionKind::Create), .. })) = self
        else {
            return None;
        };
        Some(id)
    }
}

/// Who sends something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// A user's app.
    Client,
    /// Agent and backend.
    Server,
}

/// Where a type travels to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From clients only.
    ToServer,
    /// From the server only.
    ToClient,
    /// Both.
    Both,
}

/// Whether a server gives a type a place in the order of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `Q`: numbered, logged, replayed.
    Sequenced,
    /// `U`: stanza 0.
    Unsequenced,
    /// `Q` or `U`, as its content says.
    Depends,
    /// A server never sends it.
    Never,
}

/// On which transports a type travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transports {
    /// In rooms and on sockets.
    Any,
    /// On sockets alone.
    WebSocket,
}

const ACKNOWLEDGED: &[MessageType] = &[
    MessageType::UserMessage,
    MessageType::ToolUseResult,
    MessageType::ControlStop,
    MessageType::ControlVariation,
    MessageType::Commentary,
    MessageType::DimensionPreference,
    MessageType::EliteSelect,
];
