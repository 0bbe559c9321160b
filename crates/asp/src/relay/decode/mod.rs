//! A function's answer, from bytes to pieces (§14.3), however the bytes are cut.
//!
//! Invariant: at most one line, event, frame or JSON body is held, and none longer than its limit. Nothing
//! follows the first terminal piece.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use bytes::Bytes;

use super::piece::{Piece, PieceError};
use super::response::ContentKind;
use crate::error::{FrameError, ValueError};
use crate::message::{End, Finish, Record, RecordBody};
use crate::value::decode_json;

mod frames;
mod lines;
mod sse;
mod text;

use frames::Frames;
use lines::{LineEnd, Lines};
use sse::Sse;
use text::Text;

/// Reads one answer.
#[derive(Debug)]
pub struct Decoder {
    format: Format,
    sink: Sink,
    fault: Option<BadBody>,
}

impl Decoder {
    /// For an answer of this kind to the request `rid`.
    pub fn new(kind: ContentKind, rid: u16, limits: Limits) -> Self {
        let format = match kind {
            ContentKind::Ndjson => Format::Ndjson(Lines::new(LineEnd::LineFeed, limits.max_unit)),
            ContentKind::Sse => Format::Sse(Sse::new(limits.max_unit)),
            ContentKind::Frames => Format::Frames(Frames::new(rid, limits.max_unit)),
            ContentKind::Text => Format::Text(Text::new(limits.max_unit)),
            ContentKind::Bytes => Format::Bytes { most: limits.max_unit.max(1) },
            ContentKind::Json => Format::Json { body: Vec::new(), most: limits.max_body },
        };
        Self { format, sink: Sink::default(), fault: None }
    }

    /// Takes the next bytes. After an error every further call gives the same error.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Piece>) -> Result<(), BadBody> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let read = self.read(bytes, out);
        self.fault = read.as_ref().err().cloned();
        read
    }

    /// Takes the end of the body. Not for a transfer that broke off: there nothing more can be said.
    pub fn finish(mut self, out: &mut Vec<Piece>) -> Result<Finished, BadBody> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.sink.ended.is_none() {
            match &mut self.format {
                Format::Ndjson(lines) => self.sink.last_line(&lines.rest(), out)?,
                Format::Text(text) if text.is_whole() => self.sink.put(Piece::end(Finish::Complete), out),
                Format::Bytes { .. } => self.sink.put(Piece::end(Finish::Complete), out),
                Format::Json { body, .. } => {
                    let output = decode_json(body).map_err(PieceError::from)?;
                    let end = End { output: Some(output), ..End::new(Finish::Complete) };
                    self.sink.put(Piece::Record(Record::new(RecordBody::End(end))), out);
                }
                // An event without its blank line, a frame without its end, half a code point: cut off.
                Format::Sse(_) | Format::Frames(_) | Format::Text(_) => {}
            }
        }
        let ended = self.sink.ended.unwrap_or(Ended::WithoutTerminal);
        Ok(Finished { ended, dropped: self.sink.dropped })
    }

    /// How it ended, if it did: what follows is dropped, so there is no need to read on.
    pub fn ended(&self) -> Option<Ended> {
        self.sink.ended
    }

    fn read(&mut self, bytes: &[u8], out: &mut Vec<Piece>) -> Result<(), BadBody> {
        let sink = &mut self.sink;
        let mut rest = bytes;
        match &mut self.format {
            Format::Ndjson(lines) => {
                while sink.ended.is_none()
                    && let Some(line) = lines.next_line(&mut rest)?
                {
                    sink.line(&line, out)?;
                }
                sink.drop_text(rest);
            }
            Format::Sse(events) => {
                while sink.ended.is_none()
                    && let Some(event) = events.next_event(&mut rest)?
                {
                    sink.line(&event, out)?;
                }
                sink.drop_text(rest);
            }
            Format::Frames(frames) => {
                frames.extend(rest);
                while sink.ended.is_none()
                    && let Some(pieces) = frames.next_frame()?
                {
                    pieces.into_iter().for_each(|piece| sink.put(piece, out));
                }
                if sink.ended.is_some() {
                    sink.drop_bytes(frames.drain());
                }
            }
            Format::Text(text) => text.read(rest, out)?,
            Format::Bytes { most } => {
                out.extend(rest.chunks(*most).map(|chunk| Piece::Raw(Bytes::copy_from_slice(chunk))));
            }
            Format::Json { body, most } => {
                if body.len().saturating_add(rest.len()) > *most {
                    return Err(BadBody::TooLong { what: "body", limit: *most });
                }
                body.extend_from_slice(rest);
            }
        }
        Ok(())
    }
}

/// Bounds of a [`Decoder`]. How long a stream may be in all is for whoever keeps what comes out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, event or payload of a frame; also the longest piece of text or bytes that is cut.
    pub max_unit: usize,
    /// Longest body of `application/json`.
    pub max_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_unit: 1024 * 1024, max_body: 1024 * 1024 }
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With an `end` or an error.
    Terminal,
    /// The function waits for an answer of the client.
    Suspended,
    /// Cut off: `FUNCTION_ABORTED` (ASP-063).
    WithoutTerminal,
}

/// What is known at the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ended: Ended,
    /// Bytes after the terminal piece, white space between lines not counted.
    pub dropped: u64,
}

/// A body that makes no sense: `FUNCTION_BAD_RESPONSE`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// A line, event, frame or body above its limit.
    #[error("a {what} is longer than {limit} bytes")]
    TooLong {
        /// Which.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// Something that is none of what a function may say.
    #[error(transparent)]
    Piece(#[from] PieceError),
    /// Bytes that are no frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// `text/plain` that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
}

enum Format {
    Ndjson(Lines),
    Sse(Sse),
    Frames(Frames),
    Text(Text),
    Bytes { most: usize },
    Json { body: Vec<u8>, most: usize },
}

/// Names the format, shows no content.
impl fmt::Debug for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ndjson(lines) => lines.fmt(formatter),
            Self::Sse(events) => events.fmt(formatter),
            Self::Frames(frames) => frames.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
            Self::Bytes { .. } => formatter.write_str("Bytes"),
            Self::Json { body, .. } => write!(formatter, "Json({} bytes)", body.len()),
        }
    }
}

/// Where pieces go, up to the first terminal one.
#[derive(Debug, Default)]
struct Sink {
    ended: Option<Ended>,
    dropped: u64,
}

impl Sink {
    fn put(&mut self, piece: Piece, out: &mut Vec<Piece>) {
        if piece.is_terminal() {
            let suspended = matches!(piece, Piece::Suspend(_));
            self.ended = Some(if suspended { Ended::Suspended } else { Ended::Terminal });
        }
        out.push(piece);
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<Piece>) -> Result<(), BadBody> {
        let line = line.trim_ascii();
        if !line.is_empty()
            && let Some(piece) = Piece::from_line(line)?
        {
            self.put(piece, out);
        }
        Ok(())
    }

    /// A line that the body ends in may be cut off, and then it is no JSON.
    fn last_line(&mut self, line: &[u8], out: &mut Vec<Piece>) -> Result<(), BadBody> {
        match self.line(line, out) {
            Err(BadBody::Piece(PieceError::Value(ValueError::Json))) => Ok(()),
            read => read,
        }
    }

    fn drop_text(&mut self, rest: &[u8]) {
        self.drop_bytes(rest.iter().filter(|byte| !byte.is_ascii_whitespace()).count());
    }

    fn drop_bytes(&mut self, count: usize) {
        self.dropped = self.dropped.saturating_add(count as u64);
    }
}
