//! What a function says, whatever the format it came in.

use std::fmt;

use bytes::Bytes;

use super::MAX_STATE;
use crate::Frame;
use crate::codec::{Payload, decode_payload};
use crate::error::{FieldError, FlagsError, ValueError};
use crate::message::fields::Required as _;
use crate::message::{
    Completion, End, ErrorBody, ErrorFrame, Feature, Features, Finish, Flags, Opcode, Record, RecordBody,
    ToolDefFrame,
};
use crate::value::{Map, Value, decode_json, json_size};

/// One thing that a function says.
#[derive(Clone, PartialEq)]
pub enum Piece {
    /// A record of §8.2; `end` is terminal.
    Record(Record),
    /// A failure, terminal.
    Error(ErrorBody),
    /// Tools it found.
    ToolDef(ToolDefFrame),
    /// Terminal for this leg, not for the request: the state to continue with (§14.8).
    Suspend(Value),
    /// Bytes that are not text.
    Raw(Bytes),
    /// Still alive.
    Ping,
}

impl Piece {
    /// An answer delta.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Record(Record::new(RecordBody::Text(text.into())))
    }

    /// A terminal record with nothing but its reason.
    pub fn end(finish: Finish) -> Self {
        Self::Record(Record::new(RecordBody::End(End::new(finish))))
    }

    /// Whether nothing may follow it.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Record(record) => record.is_terminal(),
            Self::Error(_) | Self::Suspend(_) => true,
            Self::ToolDef(_) | Self::Raw(_) | Self::Ping => false,
        }
    }

    /// One line of NDJSON, one event of an event stream; `None` for a `t` that nobody knows.
    pub(super) fn from_line(line: &[u8]) -> Result<Option<Self>, PieceError> {
        let Value::Map(mut map) = decode_json(line)? else { return Err(PieceError::NotAMap) };
        Ok(match map.get_str("t") {
            Some("error") => Some(Self::from_error(ErrorFrame::from_map(map))),
            Some("tool_def") => {
                map.remove("t");
                Some(Self::ToolDef(ToolDefFrame::from_map(map)?))
            }
            _ => Self::from_record(map)?,
        })
    }

    /// What STREAM may carry; `None` for a `t` that nobody knows.
    pub(super) fn from_record(mut map: Map) -> Result<Option<Self>, PieceError> {
        match map.get_str("t") {
            Some("ping") => return Ok(Some(Self::Ping)),
            Some("suspend") => {
                let state = map.remove("state").required("state")?;
                let fits = json_size(&state) <= MAX_STATE;
                return if fits { Ok(Some(Self::Suspend(state))) } else { Err(PieceError::StateTooLarge) };
            }
            _ => {}
        }
        let record = Record::from_map(map)?;
        Ok(if matches!(record.body, RecordBody::Unknown { .. }) { None } else { Some(Self::Record(record)) })
    }

    /// A function speaks for its request only: it can neither close the connection nor point at another request.
    pub(super) fn from_error(frame: ErrorFrame) -> Self {
        match frame {
            ErrorFrame::Error(body) => Self::Error(ErrorBody { fatal: false, reference: None, ..body }),
            ErrorFrame::Complete(Completion { finish, metrics }) => {
                let end = End { metrics, ..End::new(finish.unwrap_or(Finish::Complete)) };
                Self::Record(Record::new(RecordBody::End(end)))
            }
        }
    }

    /// A frame of Type 3, 5 or 6; gives two pieces if END is set on something that does not end by itself.
    pub(super) fn from_frame(frame: &Frame, out: &mut Vec<Self>) -> Result<(), PieceError> {
        let flags = frame.flags.agreed(features())?;
        let payload = decode_payload(frame.opcode, flags, features(), &frame.payload)?;
        let piece = match frame.opcode {
            Opcode::Stream => match payload {
                Payload::None => Some(Self::end(Finish::Complete)),
                Payload::Text(text) => Some(Self::text(text)),
                Payload::Raw(bytes) => Some(from_raw(bytes)),
                Payload::Value(Value::Map(map)) => Self::from_record(map)?,
                Payload::Value(_) => return Err(PieceError::NotAMap),
            },
            Opcode::ToolDef => match payload {
                Payload::Value(Value::Map(map)) => Some(Self::ToolDef(ToolDefFrame::from_map(map)?)),
                Payload::Value(_) | Payload::None | Payload::Text(_) | Payload::Raw(_) => {
                    return Err(PieceError::NotAMap);
                }
            },
            Opcode::Error => Some(Self::from_error(ErrorFrame::from_payload(payload))),
            Opcode::Hello | Opcode::Invoke | Opcode::Interrupt => {
                return Err(PieceError::Type(frame.opcode.nibble()));
            }
        };
        let ends = frame.opcode == Opcode::Stream && flags.has(Flags::END);
        let ended = piece.as_ref().is_some_and(Self::is_terminal);
        out.extend(piece);
        if ends && !ended {
            out.push(Self::end(Finish::Complete));
        }
        Ok(())
    }
}

/// Says what it is, not what is in it.
impl fmt::Debug for Piece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(Record { n, body: RecordBody::Unknown { .. } }) => {
                formatter.debug_struct("Record").field("n", n).finish_non_exhaustive()
            }
            Self::Record(record) => formatter
                .debug_struct("Record")
                .field("t", &record.t())
                .field("n", &record.n)
                .finish_non_exhaustive(),
            Self::Error(body) => {
                formatter.debug_struct("Error").field("code", &body.code).finish_non_exhaustive()
            }
            Self::ToolDef(frame) => formatter
                .debug_struct("ToolDef")
                .field("op", &frame.op)
                .field("rev", &frame.rev)
                .finish_non_exhaustive(),
            Self::Suspend(_) => formatter.debug_tuple("Suspend").finish_non_exhaustive(),
            Self::Raw(bytes) => write!(formatter, "Raw({} bytes)", bytes.len()),
            Self::Ping => formatter.write_str("Ping"),
        }
    }
}

/// Why something a function said cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    /// Not a value of the data model.
    #[error("{0}")]
    Value(#[from] ValueError),
    /// A value of another kind where a map is needed.
    #[error("a map is needed here")]
    NotAMap,
    /// A member that is missing or wrong.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// `state` of a suspend above [`MAX_STATE`].
    #[error("the state of a suspended function may have {MAX_STATE} bytes of JSON")]
    StateTooLarge,
    /// A frame of a Type that functions do not send.
    #[error("a function sends frames of Type 3, 5 and 6, not {0}")]
    Type(u8),
    /// A frame for another request.
    #[error("the frame carries another request id than the invocation's")]
    RequestId,
    /// Flags that are not agreed here: a function's frames are neither fragmented nor compressed.
    #[error("{0}")]
    Flags(#[from] FlagsError),
}

/// What holds for frames of a function, which negotiates nothing: flags for ENC and END, records in STREAM.
const fn features() -> Features {
    Features::BARE.with(Feature::Flags).with(Feature::Events)
}

/// ENC raw is a shortcut for text (§8.1).
fn from_raw(bytes: Bytes) -> Piece {
    match std::str::from_utf8(&bytes) {
        Ok(text) => Piece::text(text),
        Err(_) => Piece::Raw(bytes),
    }
}
