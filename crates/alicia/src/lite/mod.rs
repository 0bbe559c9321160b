//! The lite profile (Appendix A): the type numbers of the full one, other bodies, no stanzas.
//!
//! Types that are neither here nor asked of a server (8, 43, 60, 90 to 93) are kept as [`LiteBody::Unknown`]
//! like any other unknown one.

use std::fmt;

use switchboard_core::Pii;

use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::message::{Direction, MemoryTrace, ReasoningStep, Side, Trace};
use crate::value::{Map, Value};

mod extras;
pub mod serve;
mod turn;

pub use extras::{
    BranchUpdate, DeviceHeartbeat, DeviceTool, DeviceToolsAck, DeviceToolsRegister, LiteSubscribe,
    LiteSubscribeAck, LiteUnsubscribe, Sibling, TitleUpdate, VoiceJoinAck, VoiceJoinRequest, VoiceLeaveAck,
    VoiceLeaveRequest, VoiceSpeaking, VoiceState, VoiceStatus,
};
pub use turn::{
    GenerationComplete, GenerationRequest, LiteAssistantMessage, LiteAssistantSentence, LiteError,
    LiteStartAnswer, LiteToolUseRequest, LiteToolUseResult, LiteUserMessage, RequestType, ThinkingSummary,
};

/// One envelope of the lite profile.
#[derive(Debug, Clone, PartialEq)]
pub struct LiteEnvelope {
    /// The conversation, if there is one.
    pub conversation_id: Option<Id>,
    /// What it says.
    pub body: LiteBody,
    /// Where it stands in a distributed trace.
    pub trace: Option<LiteTrace>,
    /// Normally the conversation.
    pub session_id: Option<String>,
    /// Who the sender says it is: never proof of it.
    pub user_id: Option<Pii<String>>,
}

impl LiteEnvelope {
    /// An envelope without side information.
    pub fn new(conversation_id: Option<Id>, body: impl Into<LiteBody>) -> Self {
        Self { conversation_id, body: body.into(), trace: None, session_id: None, user_id: None }
    }

    /// The map it is sent as.
    pub fn to_map(&self) -> Map {
        let conversation = self.conversation_id.as_ref();
        let mut map = Map::new();
        if let Some(conversation) = conversation {
            map.insert("conversationId", conversation.as_str());
        }
        map.insert("type", i64::from(self.body.number()));
        map.insert("body", self.body.to_map(conversation));
        if let Some(LiteTrace { trace, flags }) = &self.trace {
            map.insert("trace_id", trace.trace_id());
            map.insert("span_id", trace.span_id());
            map.insert("trace_flags", i64::from(*flags));
        }
        if let Some(session_id) = &self.session_id {
            map.insert("session_id", session_id.as_str());
        }
        if let Some(Pii(user_id)) = &self.user_id {
            map.insert("user_id", user_id.as_str());
        }
        map
    }
}

/// A trace with its flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiteTrace {
    /// The trace.
    pub trace: Trace,
    /// 1 = sampled.
    pub flags: u8,
}

impl LiteTrace {
    /// From the top level of an envelope; a trace that is not well-formed is none.
    pub(crate) fn read(map: &Map) -> Option<Self> {
        let trace = Trace::new(map.get_str("trace_id")?, map.get_str("span_id")?)?;
        let flags = map.get("trace_flags").and_then(Value::as_int).and_then(|flags| u8::try_from(flags).ok());
        Some(Self { trace, flags: flags.unwrap_or_default() })
    }
}

/// The table of Appendix A: one line per type.
macro_rules! registry {
    ($($(#[$doc:meta])* $name:ident = $number:literal $body:ident $direction:ident;)*) => {
        /// The type of a message of the lite profile.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum LiteType { $($(#[$doc])* $name = $number,)* }

        impl LiteType {
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
        }

        /// What an envelope of the lite profile says.
        #[derive(Debug, Clone, PartialEq)]
        pub enum LiteBody {
            $($(#[$doc])* $name($body),)*
            /// A type nobody here knows; to be skipped silently.
            Unknown {
                /// Its number.
                number: u16,
                /// Its body as it came.
                body: Map,
            },
        }

        impl LiteBody {
            /// Reads the body of a type.
            pub fn from_map(kind: LiteType, map: Map, limits: &AliciaLimits) -> Result<Self, FieldError> {
                Ok(match kind { $(LiteType::$name => Self::$name($body::from_map(map, limits)?),)* })
            }

            /// Its type; `None` if nobody here knows it.
            pub fn kind(&self) -> Option<LiteType> {
                match self {
                    $(Self::$name(_) => Some(LiteType::$name),)*
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
        }

        $(impl From<$body> for LiteBody {
            fn from(body: $body) -> Self {
                Self::$name(body)
            }
        })*
    };
}

registry! {
    /// A request cannot be honoured, or a turn failed.
    Error = 1 LiteError ToClient;
    /// A typed turn.
    UserMessage = 2 LiteUserMessage Both;
    /// The authoritative text of an answer.
    AssistantMessage = 3 LiteAssistantMessage ToClient;
    /// One thought.
    ReasoningStep = 5 ReasoningStep ToClient;
    /// A tool is run.
    ToolUseRequest = 6 LiteToolUseRequest ToClient;
    /// What a tool gave.
    ToolUseResult = 7 LiteToolUseResult Both;
    /// An answer begins.
    StartAnswer = 13 LiteStartAnswer ToClient;
    /// A memory was used.
    MemoryTrace = 14 MemoryTrace ToClient;
    /// A piece of an answer.
    AssistantSentence = 16 LiteAssistantSentence ToClient;
    /// Regenerate, edit or continue.
    GenerationRequest = 33 GenerationRequest ToServer;
    /// What the assistant is thinking about.
    ThinkingSummary = 34 ThinkingSummary ToClient;
    /// The title changed.
    TitleUpdate = 35 TitleUpdate ToClient;
    /// Follow a conversation.
    Subscribe = 40 LiteSubscribe ToServer;
    /// Follow it no longer; never answered.
    Unsubscribe = 41 LiteUnsubscribe ToServer;
    /// Answer to Subscribe.
    SubscribeAck = 42 LiteSubscribeAck ToClient;
    /// A message has a new sibling.
    BranchUpdate = 50 BranchUpdate ToClient;
    /// Speak in this conversation.
    VoiceJoinRequest = 51 VoiceJoinRequest ToServer;
    /// Its answer.
    VoiceJoinAck = 52 VoiceJoinAck ToClient;
    /// Speak no longer.
    VoiceLeaveRequest = 53 VoiceLeaveRequest ToServer;
    /// Its answer.
    VoiceLeaveAck = 54 VoiceLeaveAck ToClient;
    /// State of speech.
    VoiceStatus = 55 VoiceStatus ToClient;
    /// Speech begins or ends.
    VoiceSpeaking = 56 VoiceSpeaking ToClient;
    /// The tools of a device.
    DeviceToolsRegister = 70 DeviceToolsRegister ToServer;
    /// Its answer.
    DeviceToolsAck = 71 DeviceToolsAck ToClient;
    /// A device lives.
    DeviceHeartbeat = 72 DeviceHeartbeat ToServer;
    /// A generation ended.
    GenerationComplete = 80 GenerationComplete ToClient;
}

impl LiteType {
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
}

impl fmt::Display for LiteType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
