//! The function's side of an answer: pieces into NDJSON, events or frames.

use bytes::{BufMut as _, BytesMut};

use super::MAX_STATE;
use super::piece::Piece;
use super::response::ContentKind;
use crate::codec::encode_map_frame;
use crate::error::FrameError;
use crate::message::{Enc, Flags, Opcode, Record, RecordBody};
use crate::value::{Map, Value, json_size};

/// Writes one answer and numbers its records.
#[derive(Debug)]
pub struct Writer {
    format: Format,
    rid: u16,
    next_n: u64,
    ended: bool,
}

impl Writer {
    /// For an answer to the request `rid` whose first record has the index `next_n`: 0, or what the body of a
    /// `continue` says.
    pub fn new(format: Format, rid: u16, next_n: u64) -> Self {
        Self { format, rid, next_n, ended: false }
    }

    /// Appends one piece; on error nothing is appended. Bytes become a `data` record, since ENC raw means text.
    pub fn write(&mut self, piece: &Piece, out: &mut BytesMut) -> Result<(), WriteError> {
        if self.ended {
            return Err(WriteError::Ended);
        }
        let (opcode, map, numbered) = match piece {
            Piece::Record(record) => (Opcode::Stream, record.clone().numbered(self.next_n).to_map(), true),
            Piece::Raw(bytes) => {
                let body = RecordBody::Data { mime: None, value: Value::Bin(bytes.clone()) };
                (Opcode::Stream, Record::new(body).numbered(self.next_n).to_map(), true)
            }
            Piece::Error(body) => (Opcode::Error, body.to_map(), false),
            Piece::ToolDef(frame) => (Opcode::ToolDef, frame.to_map(), false),
            Piece::Suspend(state) if json_size(state) > MAX_STATE => return Err(WriteError::StateTooLarge),
            Piece::Suspend(state) => {
                (Opcode::Stream, Map::new().with("t", "suspend").with("state", state.clone()), false)
            }
            Piece::Ping => (Opcode::Stream, Map::new().with("t", "ping"), false),
        };
        let start = out.len();
        let written = match self.format {
            Format::Ndjson => {
                tagged(opcode, map).encode(Enc::Json, out);
                out.put_u8(b'\n');
                Ok(out.len() - start)
            }
            Format::Sse => {
                out.put_slice(b"data: ");
                // Compact JSON has no line break, so one field holds it.
                tagged(opcode, map).encode(Enc::Json, out);
                out.put_slice(b"\n\n");
                Ok(out.len() - start)
            }
            Format::Frames(enc) => {
                let end =
                    if piece.is_terminal() && opcode == Opcode::Stream { Flags::END } else { Flags::NONE };
                encode_map_frame(out, opcode, end.with_enc(enc.into()), self.rid, enc, &map)
            }
        };
        match written {
            Ok(length) if length <= MAX_UNIT => {
                self.next_n += u64::from(numbered);
                self.ended = piece.is_terminal();
                Ok(())
            }
            Ok(_)
            | Err(FrameError::TooLarge { .. } | FrameError::Truncated { .. } | FrameError::Version(_)) => {
                out.truncate(start);
                Err(WriteError::TooLarge)
            }
        }
    }

    /// Index of the next record.
    pub fn next_n(&self) -> u64 {
        self.next_n
    }

    /// Whether a terminal piece was written.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One record per line.
    Ndjson,
    /// One record per event.
    Sse,
    /// ASP frames with maps in this encoding.
    Frames(Enc),
}

impl Format {
    /// What to answer with.
    pub fn kind(self) -> ContentKind {
        match self {
            Self::Ndjson => ContentKind::Ndjson,
            Self::Sse => ContentKind::Sse,
            Self::Frames(_) => ContentKind::Frames,
        }
    }
}

/// Why a piece cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// After a terminal piece.
    #[error("the answer has ended already")]
    Ended,
    /// More than a relay takes at once.
    #[error("a piece may have {MAX_UNIT} bytes; write several")]
    TooLarge,
    /// `state` of a suspend.
    #[error("the state of a suspended function may have {MAX_STATE} bytes of JSON")]
    StateTooLarge,
}

/// Largest piece, as a relay's [`super::Limits`] have it unless configured.
const MAX_UNIT: usize = 1024 * 1024;

/// In lines and events `t` says what frames say by their Type.
fn tagged(opcode: Opcode, map: Map) -> Map {
    let t = match opcode {
        Opcode::Error => "error",
        Opcode::ToolDef => "tool_def",
        Opcode::Stream | Opcode::Hello | Opcode::Invoke | Opcode::Interrupt => return map,
    };
    let mut tagged = Map::new().with("t", t);
    map.into_iter().for_each(|(key, value)| tagged.insert(key, value));
    tagged
}
