//! Every ERROR code of §11, the close codes, and what can be wrong with received bytes.
//!
//! Invariant: a number, a name, a retry flag or a close code of ASP is written in this file only.

use std::fmt;

use crate::message::{Opcode, Reason};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal $on:ident $fatal:expr, $retry:literal, $http:expr;)*) => {
        /// Codes of ERROR frames, in the order of §11.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Code { $($(#[$doc])* $variant = $number,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code with this number; `None` for private and unknown ones.
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// The `name` member.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Where the error is reported.
            pub fn scope(self) -> Scope {
                match self { $(Self::$variant => Scope::$on,)* }
            }

            /// Whether, and with which close code, it ends the connection.
            pub fn fatal(self) -> Fatal {
                match self { $(Self::$variant => $fatal,)* }
            }

            /// Whether the same request may succeed later.
            pub fn retry(self) -> bool {
                match self { $(Self::$variant => $retry,)* }
            }

            /// HTTP status when the upgrade is refused for this reason.
            pub fn http_status(self) -> Option<u16> {
                match self { $(Self::$variant => $http,)* }
            }
        }
    };
}

use Fatal::{Always, Never, Sometimes};

codes! {
    /// Success: with `complete06`, the terminal frame of a request.
    Ok = 0 "OK" Request Never, false, None;
    /// A violation without a code of its own.
    ProtocolError = 2000 "PROTOCOL_ERROR" Connection Always(Close::Protocol), false, Some(400);
    /// Ver is not 1, or no common version.
    UnsupportedVersion = 2001 "UNSUPPORTED_VERSION" Connection Always(Close::Version), false, Some(400);
    /// Opcode nobody assigned.
    UnknownOpcode = 2002 "UNKNOWN_OPCODE" Connection Never, false, None;
    /// STREAM or TOOL_DEF from a client, INVOKE or INTERRUPT from a server.
    WrongDirection = 2003 "WRONG_DIRECTION" Connection Never, false, None;
    /// The message ends inside a frame.
    FrameTruncated = 2004 "FRAME_TRUNCATED" Connection Always(Close::Protocol), false, None;
    /// The payload cannot be decoded.
    BadPayload = 2005 "BAD_PAYLOAD" Request Never, false, None;
    /// Flags contradict each other or were not agreed.
    BadFlags = 2006 "BAD_FLAGS" Request Never, false, None;
    /// The request id is not allowed for this opcode.
    BadRequestId = 2007 "BAD_REQUEST_ID" Connection Never, false, None;
    /// The request id is in use.
    DuplicateRequest = 2008 "DUPLICATE_REQUEST" Connection Never, false, None;
    /// The request id was never used.
    UnknownRequest = 2009 "UNKNOWN_REQUEST" Connection Never, false, None;
    /// A text message on a binary protocol.
    TextMessage = 2010 "TEXT_MESSAGE" Connection Always(Close::Text), false, None;
    /// Fragments too slow, interleaved or inconsistent.
    FragmentError = 2011 "FRAGMENT_ERROR" Request Never, true, None;
    /// HELLO at the wrong time.
    HelloState = 2012 "HELLO_STATE" Connection Never, false, None;
    /// No credential.
    AuthRequired = 2100 "AUTH_REQUIRED" Upgrade Never, false, Some(401);
    /// Bad credential.
    AuthInvalid = 2101 "AUTH_INVALID" Connection Always(Close::Auth), false, Some(401);
    /// Credential ran out.
    AuthExpired = 2102 "AUTH_EXPIRED" Connection Always(Close::Auth), true, Some(401);
    /// Not permitted.
    Forbidden = 2103 "FORBIDDEN" Either Sometimes(Close::Forbidden), false, Some(403);
    /// Credential runs out in 60 s.
    AuthExpiring = 2104 "AUTH_EXPIRING" Connection Never, false, None;
    /// Over a token bucket.
    RateLimited = 2200 "RATE_LIMITED" Either Never, true, Some(429);
    /// More than `max_inflight` requests.
    TooManyRequests = 2201 "TOO_MANY_REQUESTS" Request Never, true, None;
    /// Payload above the limit; fatal above the hard cap.
    PayloadTooLarge = 2202 "PAYLOAD_TOO_LARGE" Either Sometimes(Close::TooBig), false, None;
    /// Inbound queue full.
    QueueFull = 2203 "QUEUE_FULL" Request Never, true, Some(503);
    /// The peer reads too slowly; fatal after 10 s.
    SlowConsumer = 2204 "SLOW_CONSUMER" Request Sometimes(Close::Dead), true, None;
    /// Persistent flooding.
    Flood = 2205 "FLOOD" Connection Always(Close::Flood), true, Some(429);
    /// Quota of the principal used up.
    QuotaExceeded = 2206 "QUOTA_EXCEEDED" Request Never, false, Some(429);
    /// INVOKE decodes but is not valid.
    InvalidInvoke = 2300 "INVALID_INVOKE" Request Never, false, None;
    /// No such tool.
    ToolNotFound = 2301 "TOOL_NOT_FOUND" Request Never, false, None;
    /// Arguments do not fit the tool's schema.
    InvalidArgs = 2302 "INVALID_ARGS" Request Never, false, None;
    /// The call or question answered is no longer open.
    CallGone = 2303 "CALL_GONE" Request Never, false, None;
    /// No such agent.
    AgentNotFound = 2304 "AGENT_NOT_FOUND" Request Never, false, Some(404);
    /// Same idempotency key, different INVOKE.
    IdempotencyConflict = 2305 "IDEMPOTENCY_CONFLICT" Request Never, false, None;
    /// The execution failed.
    ExecutionFailed = 2400 "EXECUTION_FAILED" Request Never, false, None;
    /// A tool failed.
    ToolFailed = 2401 "TOOL_FAILED" Request Never, false, None;
    /// The model cannot be reached.
    ModelUnavailable = 2402 "MODEL_UNAVAILABLE" Request Never, true, None;
    /// The client did not answer a call.
    CallTimeout = 2403 "CALL_TIMEOUT" Request Never, true, None;
    /// `deadline_ms` passed.
    DeadlineExceeded = 2405 "DEADLINE_EXCEEDED" Request Never, true, None;
    /// We broke.
    Internal = 2406 "INTERNAL" Either Sometimes(Close::Internal), true, Some(500);
    /// Relay: the function cannot be reached.
    FunctionUnreachable = 2500 "FUNCTION_UNREACHABLE" Request Never, true, None;
    /// Relay: draining or bus down.
    RelayUnavailable = 2501 "RELAY_UNAVAILABLE" Request Never, true, Some(503);
    /// Relay: the function's answer makes no sense.
    FunctionBadResponse = 2502 "FUNCTION_BAD_RESPONSE" Request Never, false, None;
    /// Relay: the function's answer broke off.
    FunctionAborted = 2503 "FUNCTION_ABORTED" Request Never, true, None;
    /// Relay: the worker vanished after output.
    WorkerLost = 2504 "WORKER_LOST" Request Never, false, None;
    /// Relay: the function took too long.
    FunctionTimeout = 2505 "FUNCTION_TIMEOUT" Request Never, true, None;
    /// Resume refused; the connection continues fresh.
    ResumeRejected = 2600 "RESUME_REJECTED" Connection Never, false, None;
    /// Records asked for are gone.
    ReplayGone = 2601 "REPLAY_GONE" Request Never, false, None;
}

impl Code {
    /// The `code` member.
    pub fn number(self) -> u16 {
        self as u16
    }
}

/// Prints the name.
impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The id an ERROR is sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Id 0, with `ref` where a request is meant.
    Connection,
    /// The request's id; terminal for it.
    Request,
    /// Depends on what was refused.
    Either,
    /// Only as an HTTP answer to the upgrade.
    Upgrade,
}

/// Whether an error closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fatal {
    /// The connection stays.
    Never,
    /// Close follows.
    Always(Close),
    /// Close follows in the case §11 names, or when sent on id 0.
    Sometimes(Close),
}

impl Fatal {
    /// The close code, if the error can close the connection at all.
    pub fn close(self) -> Option<Close> {
        match self {
            Never => None,
            Always(close) | Sometimes(close) => Some(close),
        }
    }
}

/// WebSocket close codes of §11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Close {
    /// Done.
    Normal = 1000,
    /// The client leaves.
    GoingAway = 1001,
    /// Text message.
    Text = 1003,
    /// Transport lost; never sent.
    Abnormal = 1006,
    /// Above the hard cap.
    TooBig = 1009,
    /// Planned restart.
    Restart = 1012,
    /// Try again later.
    TryLater = 1013,
    /// Protocol violation.
    Protocol = 4400,
    /// Authentication.
    Auth = 4401,
    /// Not permitted.
    Forbidden = 4403,
    /// Version.
    Version = 4406,
    /// Heartbeat missed or slow consumer.
    Dead = 4408,
    /// A newer connection took over.
    TakenOver = 4409,
    /// Flood.
    Flood = 4429,
    /// Internal.
    Internal = 4500,
}

impl Close {
    /// Every close code.
    pub const ALL: &'static [Self] = &[
        Self::Normal,
        Self::GoingAway,
        Self::Text,
        Self::Abnormal,
        Self::TooBig,
        Self::Restart,
        Self::TryLater,
        Self::Protocol,
        Self::Auth,
        Self::Forbidden,
        Self::Version,
        Self::Dead,
        Self::TakenOver,
        Self::Flood,
        Self::Internal,
    ];

    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The close code with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|close| close.number() == number)
    }

    /// Whether a client that agreed `resume` may come back for its requests.
    pub fn resumable(self) -> bool {
        match self {
            Self::GoingAway
            | Self::Abnormal
            | Self::Restart
            | Self::TryLater
            | Self::Dead
            | Self::Internal => true,
            Self::Normal
            | Self::Text
            | Self::TooBig
            | Self::Protocol
            | Self::Auth
            | Self::Forbidden
            | Self::Version
            | Self::TakenOver
            | Self::Flood => false,
        }
    }
}

/// Anything wrong with received bytes, from the header to the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The frame itself.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Right opcode, wrong side.
    #[error("{0} is not sent in this direction")]
    Direction(Opcode),
    /// The request id.
    #[error("{0} cannot carry this request id")]
    RequestId(Opcode),
    /// The flags.
    #[error(transparent)]
    Flags(#[from] FlagsError),
    /// Its fragments.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// Its compression.
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// Its encoding.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A payload that is neither a map nor anything else this opcode may carry.
    #[error("{0} needs a map")]
    Shape(Opcode),
    /// A member of an INVOKE.
    #[error("INVOKE {0}")]
    Invoke(FieldError),
    /// A member of anything else.
    #[error(transparent)]
    Field(#[from] FieldError),
}

impl DecodeError {
    /// The ERROR code that answers it.
    pub fn code(&self) -> Code {
        match self {
            Self::Frame(error) => error.code(),
            Self::Direction(_) => Code::WrongDirection,
            Self::RequestId(_) => Code::BadRequestId,
            Self::Flags(_) => Code::BadFlags,
            Self::Assemble(error) => error.code(),
            Self::Compression(error) => error.code(),
            Self::Value(_) | Self::Shape(_) | Self::Field(_) => Code::BadPayload,
            Self::Invoke(_) => Code::InvalidInvoke,
        }
    }

    /// The close code that must follow, if any.
    pub fn close(&self) -> Option<Close> {
        if let Self::Frame(error) = self { Some(error.close()) } else { None }
    }
}

/// A frame whose layout cannot be trusted; always ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The message ends inside a frame.
    #[error("frame needs {need} bytes, {have} left")]
    Truncated {
        /// Bytes of the frame as far as known, header included.
        need: u64,
        /// Bytes left in the message.
        have: usize,
    },
    /// Ver is not ours.
    #[error("frame version {0}")]
    Version(u8),
    /// Declared length above the hard cap.
    #[error("payload of {length} bytes exceeds the cap of {cap}")]
    TooLarge {
        /// Declared payload length.
        length: u64,
        /// The cap.
        cap: u32,
    },
}

impl FrameError {
    /// The ERROR code that answers it.
    pub fn code(self) -> Code {
        match self {
            Self::Truncated { .. } => Code::FrameTruncated,
            Self::Version(_) => Code::UnsupportedVersion,
            Self::TooLarge { .. } => Code::PayloadTooLarge,
        }
    }

    /// The close code that follows.
    pub fn close(self) -> Close {
        match self {
            Self::Truncated { .. } => Close::Protocol,
            Self::Version(_) => Close::Version,
            Self::TooLarge { .. } => Close::TooBig,
        }
    }
}

/// Flags that contradict each other or need a feature that was not agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FlagsError {
    /// END with MORE.
    #[error("END and MORE exclude each other")]
    EndAndMore,
    /// MORE without `frag`.
    #[error("MORE needs the feature frag")]
    MoreNotAgreed,
    /// COMPRESSED without `deflate` or `zstd`.
    #[error("COMPRESSED needs the feature deflate or zstd")]
    CompressedNotAgreed,
}

/// Why the fragments of one message were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// Assembled size above `max_payload`.
    #[error("assembled payload exceeds {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// All unfinished messages together hold too much, or there are too many of them.
    #[error("too many unfinished messages")]
    TooMany,
    /// Another opcode came between fragments of one id.
    #[error("fragments of {0} were interrupted by another opcode")]
    Interleaved(Opcode),
    /// ENC or COMPRESSED changed between fragments.
    #[error("fragments of {0} disagree on ENC or COMPRESSED")]
    Inconsistent(Opcode),
    /// First to last took too long.
    #[error("fragments of {0} took too long")]
    TooSlow(Opcode),
}

impl AssembleError {
    /// The ERROR code that answers it.
    pub fn code(self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::PayloadTooLarge,
            Self::TooMany | Self::Interleaved(_) | Self::Inconsistent(_) | Self::TooSlow(_) => {
                Code::FragmentError
            }
        }
    }
}

/// Why a compressed payload was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// Output above `max_payload` or the ratio of 100:1.
    #[error("decompressed payload exceeds {limit} bytes")]
    TooLarge {
        /// The smaller of the two limits.
        limit: usize,
    },
    /// Not a whole stream of the agreed algorithm.
    #[error("compressed payload is damaged")]
    Damaged,
}

impl CompressionError {
    /// The ERROR code that answers it.
    pub fn code(self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::PayloadTooLarge,
            Self::Damaged => Code::BadPayload,
        }
    }
}

/// Why bytes are not a value of the data model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not JSON.
    #[error("malformed JSON")]
    Json,
    /// A MessagePack value ends early.
    #[error("MessagePack value is cut short")]
    Truncated,
    /// Bytes after the value.
    #[error("bytes after the value")]
    Trailing,
    /// The MessagePack marker nobody assigned.
    #[error("unassigned MessagePack marker")]
    Marker,
    /// A MessagePack extension type.
    #[error("MessagePack extension type")]
    Extension,
    /// A map key that is not a string.
    #[error("map key is not a string")]
    Key,
    /// A map key twice.
    #[error("map key occurs twice")]
    DuplicateKey,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// `{"$b64":…}` with something else inside.
    #[error("$b64 does not hold base64")]
    Base64,
    /// An integer beyond ±2^53.
    #[error("integer beyond 2^53")]
    IntegerRange,
    /// NaN or infinity.
    #[error("number is not finite")]
    NotFinite,
    /// Nested deeper than 32.
    #[error("nested too deeply")]
    TooDeep,
    /// A map with more than 4096 members.
    #[error("map has too many members")]
    TooWide,
    /// More values than one payload may hold.
    #[error("too many values")]
    TooManyNodes,
}

/// One member of a message that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("member {member}: {reason}")]
pub struct FieldError {
    /// Path of the member, for example `tools[2].name`.
    pub member: String,
    /// What is wrong with it.
    pub reason: Reason,
}

impl FieldError {
    /// An error at `member`.
    pub fn new(member: impl Into<String>, reason: Reason) -> Self {
        Self { member: member.into(), reason }
    }

    /// The same error seen from the map that holds `parent`.
    #[must_use]
    pub fn below(mut self, parent: &str) -> Self {
        self.member = format!("{parent}.{}", self.member);
        self
    }
}
