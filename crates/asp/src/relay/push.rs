//! What a function pushes by `POST /v1/relay/connections/{cid}/frames` (§14.5).
//!
//! Which requests are open, and whose they are, is for whoever holds the connection to check.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::document::{BodyError, Members, to_json};
use super::piece::{Piece, PieceError};
use crate::codec::{FrameReader, HARD_CAP, Incoming, ReaderOptions, VersionZero};
use crate::error::{FieldError, FrameError};
use crate::message::fields::Required as _;
use crate::message::{ErrorFrame, Opcode, Reason, Record, RecordBody, ToolDefFrame, names};
use crate::value::{Map, Value};

/// One push.
#[derive(Debug, Clone, PartialEq)]
pub struct Pushed {
    /// Key under which a repeated push is known; only the JSON form carries one.
    pub idem: Option<String>,
    /// What was pushed and understood, in order.
    pub frames: Vec<PushedFrame>,
    /// How many frames there were, records that nobody knows included: the `accepted` of the answer.
    pub count: usize,
}

impl Pushed {
    /// Reads a body; nothing is taken from one that is wrong anywhere.
    pub fn read(form: PushForm, body: Bytes, limits: PushLimits) -> Result<Self, PushError> {
        if body.len() > limits.max_bytes {
            return Err(PushError::TooLarge { limit: limits.max_bytes });
        }
        match form {
            PushForm::Json => Self::read_json(&body, limits),
            PushForm::Frames => Self::read_frames(body, limits),
        }
    }

    /// Writes the JSON form.
    pub fn to_json(&self) -> Bytes {
        let frames = self.frames.iter().map(|frame| frame.to_map().into()).collect();
        let mut map = Map::new();
        map.insert_some("idem", self.idem.as_deref());
        map.insert("frames", Value::Array(frames));
        to_json(&map)
    }

    fn read_json(body: &[u8], limits: PushLimits) -> Result<Self, PushError> {
        let mut members = Members::read(body, limits.max_bytes)?;
        let items = members.list("frames")?.required("frames").map_err(BodyError::from)?;
        if items.len() > limits.max_frames {
            return Err(PushError::TooMany { limit: limits.max_frames });
        }
        let idem = members.fields(&["idem"])?.text("idem", MAX_IDEM).map_err(BodyError::from)?;
        let mut frames = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let read = read_item(item).map_err(|cause| PushError::Frame { index, cause })?;
            frames.extend(read);
        }
        Ok(Self { idem, frames, count: items.len() })
    }

    fn read_frames(body: Bytes, limits: PushLimits) -> Result<Self, PushError> {
        let hard_cap = u32::try_from(limits.max_bytes).unwrap_or(HARD_CAP).min(HARD_CAP);
        let options = ReaderOptions { hard_cap, version_zero: VersionZero::Refuse };
        let mut pushed = Self { idem: None, frames: Vec::new(), count: 0 };
        for (index, read) in FrameReader::new(body, options).enumerate() {
            if index >= limits.max_frames {
                return Err(PushError::TooMany { limit: limits.max_frames });
            }
            let at = |cause: FrameFault| PushError::Frame { index, cause };
            let frame = match read.map_err(|error| at(error.into()))? {
                Incoming::Frame(frame) => frame,
                Incoming::Unknown { nibble, .. } | Incoming::Oversized { nibble, .. } => {
                    return Err(at(PieceError::Type(nibble).into()));
                }
            };
            let mut pieces = Vec::new();
            Piece::from_frame(&frame, &mut pieces).map_err(|error| at(error.into()))?;
            for piece in pieces {
                check(frame.opcode, frame.id, &piece).map_err(at)?;
                pushed.frames.push(PushedFrame { rid: frame.id, piece });
            }
            pushed.count += 1;
        }
        Ok(pushed)
    }
}

/// One frame that was pushed.
#[derive(Debug, Clone, PartialEq)]
pub struct PushedFrame {
    /// The request; 0 for the connection.
    pub rid: u16,
    /// What it says.
    pub piece: Piece,
}

impl PushedFrame {
    /// Bytes have no form of their own in JSON, so they become a `data` record.
    fn to_map(&self) -> Map {
        let (opcode, payload): (_, Value) = match &self.piece {
            Piece::Record(record) => (Opcode::Stream, record.to_map().into()),
            Piece::Error(body) => (Opcode::Error, body.to_map().into()),
            Piece::ToolDef(frame) => (Opcode::ToolDef, frame.to_map().into()),
            Piece::Suspend(state) => {
                (Opcode::Stream, Map::new().with("t", "suspend").with("state", state.clone()).into())
            }
            Piece::Raw(bytes) => {
                let body = RecordBody::Data { mime: None, value: Value::Bin(bytes.clone()) };
                (Opcode::Stream, Record::new(body).to_map().into())
            }
            Piece::Ping => (Opcode::Stream, Map::new().with("t", "ping").into()),
        };
        Map::new().with("type", opcode.to_string()).with("rid", self.rid).with("payload", payload)
    }
}

names! {
    /// How a push is written; names are the content types without parameters.
    PushForm {
        /// A JSON document.
        Json = "application/json",
        /// ASP frames.
        Frames = "application/vnd.asp.frames",
    }
}

impl PushForm {
    /// Reads a `Content-Type`, whatever its case and parameters.
    pub fn from_content_type(content_type: &str) -> Option<Self> {
        Self::from_name(&content_type.split(';').next()?.trim().to_ascii_lowercase())
    }
}

/// Bounds of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushLimits {
    /// Longest body.
    pub max_bytes: usize,
    /// Most frames in it.
    pub max_frames: usize,
}

impl Default for PushLimits {
    fn default() -> Self {
        Self { max_bytes: 1024 * 1024, max_frames: 256 }
    }
}

/// Why a push is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Too long.
    #[error("a push may have {limit} bytes; send several")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// Too many frames.
    #[error("a push may have {limit} frames; send several")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// The document around the frames.
    #[error(transparent)]
    Document(#[from] BodyError),
    /// One of the frames.
    #[error("frame {index}: {cause}")]
    Frame {
        /// Which, from 0.
        index: usize,
        /// What is wrong with it.
        cause: FrameFault,
    },
}

impl PushError {
    /// The HTTP status that answers it.
    pub fn status(&self) -> u16 {
        match self {
            Self::TooLarge { .. } | Self::TooMany { .. } => 413,
            Self::Document(_) | Self::Frame { .. } => 400,
        }
    }
}

/// What is wrong with a frame that was pushed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// Its layout.
    #[error(transparent)]
    Layout(#[from] FrameError),
    /// The JSON around its payload.
    #[error(transparent)]
    Document(#[from] BodyError),
    /// What it says.
    #[error(transparent)]
    Piece(#[from] PieceError),
    /// ERROR on id 0: a function speaks for requests.
    #[error("an ERROR needs the rid of a request")]
    NoRequest,
    /// A suspend, which ends the answer to an invocation.
    #[error("suspend ends the body of a response and cannot be pushed")]
    Suspend,
}

const MAX_IDEM: usize = 64;
const TYPES: &[&str] = &["STREAM", "TOOL_DEF", "ERROR"];

fn read_item(item: &RawValue) -> Result<Option<PushedFrame>, FrameFault> {
    let mut members = Members::read(item.get().as_bytes(), usize::MAX)?;
    let payload = members.value("payload")?;
    let mut fields = members.fields(&["type", "rid"])?;
    let opcode = fields.name("type", opcode_of, TYPES).and_then(|opcode| opcode.required("type"));
    let opcode = opcode.map_err(BodyError::from)?;
    let rid = fields.number("rid", 0..=u64::from(u16::MAX)).map_err(BodyError::from)?;
    let rid = match rid.and_then(|rid| u16::try_from(rid).ok()) {
        Some(rid) => rid,
        // Tools belong to the connection unless a request found them.
        None if opcode == Opcode::ToolDef => 0,
        None => return Err(BodyError::from(FieldError::new("rid", Reason::Missing)).into()),
    };
    let payload = payload.required("payload").map_err(BodyError::from)?;
    let piece = match (opcode, payload) {
        (Opcode::Error, Value::Str(text)) => {
            Some(Piece::from_error(ErrorFrame::from_payload(crate::codec::Payload::Text(text))))
        }
        (Opcode::Error, Value::Map(map)) => Some(Piece::from_error(ErrorFrame::from_map(map))),
        (Opcode::ToolDef, Value::Map(map)) => {
            Some(Piece::ToolDef(ToolDefFrame::from_map(map).map_err(PieceError::from)?))
        }
        (Opcode::Stream, Value::Str(text)) => Some(Piece::text(text)),
        (Opcode::Stream, Value::Map(map)) => Piece::from_record(map)?,
        _ => return Err(PieceError::NotAMap.into()),
    };
    if let Some(piece) = &piece {
        check(opcode, rid, piece)?;
    }
    Ok(piece.map(|piece| PushedFrame { rid, piece }))
}

fn check(opcode: Opcode, rid: u16, piece: &Piece) -> Result<(), FrameFault> {
    if opcode == Opcode::Error && rid == 0 {
        return Err(FrameFault::NoRequest);
    }
    if matches!(piece, Piece::Suspend(_)) { Err(FrameFault::Suspend) } else { Ok(()) }
}

fn opcode_of(name: &str) -> Option<Opcode> {
    [Opcode::Stream, Opcode::ToolDef, Opcode::Error].into_iter().find(|opcode| opcode.to_string() == name)
}
