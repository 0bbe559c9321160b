//! Frames (§3): header, several frames per message, payload encodings, fragments and compression.
//!
//! Invariant: what a peer declares never causes an allocation; only bytes at hand are copied.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::error::FrameError;
use crate::message::{Enc, Flags, Opcode};
use crate::value::{Map, encode_json_str, encode_msgpack_str, encode_msgpack_uint};

mod assemble;
mod compress;
mod payload;
mod text;

pub use assemble::{Assembled, Assembler, AssemblerLimits, Assembly};
pub use compress::{Compression, MAX_RATIO, compress, decompress};
pub use payload::{Payload, decode_payload, open_payload};
pub use text::chunk_text;

/// One frame; its payload shares memory with the message it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub opcode: Opcode,
    /// The Reserved byte as it is on the wire; see [`Flags::agreed`].
    pub flags: Flags,
    /// Request id; 0 = connection.
    pub id: u16,
    /// Payload bytes.
    pub payload: Bytes,
}

impl Frame {
    /// A frame without flags.
    pub fn new(opcode: Opcode, id: u16, payload: impl Into<Bytes>) -> Self {
        Self { opcode, flags: Flags::NONE, id, payload: payload.into() }
    }

    /// The same frame with flags.
    #[must_use]
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// Appends header and payload.
    pub fn encode(&self, out: &mut BytesMut) -> Result<usize, FrameError> {
        encode_frame(out, self.opcode, self.flags, self.id, &self.payload)
    }
}

/// Appends one frame; answers the length of its payload. Refuses what no peer would accept.
pub fn encode_frame(
    out: &mut BytesMut,
    opcode: Opcode,
    flags: Flags,
    id: u16,
    payload: &[u8],
) -> Result<usize, FrameError> {
    let length = payload_length(payload.len())?;
    out.reserve(HEADER.saturating_add(payload.len()));
    put_header(out, opcode, flags, id, length);
    out.put_slice(payload);
    Ok(payload.len())
}

/// Appends one frame whose payload `write` appends in place; answers the length of the payload. On error
/// nothing is appended.
pub fn encode_frame_with(
    out: &mut BytesMut,
    opcode: Opcode,
    flags: Flags,
    id: u16,
    write: impl FnOnce(&mut BytesMut),
) -> Result<usize, FrameError> {
    let start = out.len();
    put_header(out, opcode, flags, id, 0);
    let payload_start = out.len();
    write(out);
    let written = out.len().saturating_sub(payload_start);
    let length = match payload_length(written) {
        Ok(length) => length,
        Err(error) => {
            out.truncate(start);
            return Err(error);
        }
    };
    if let Some(slot) = out.get_mut(payload_start.saturating_sub(LENGTH)..payload_start) {
        slot.copy_from_slice(&length.to_be_bytes());
    }
    Ok(written)
}

/// Appends one frame that carries a map.
pub fn encode_map_frame(
    out: &mut BytesMut,
    opcode: Opcode,
    flags: Flags,
    id: u16,
    enc: Enc,
    map: &Map,
) -> Result<usize, FrameError> {
    encode_frame_with(out, opcode, flags, id, |out| map.encode(enc, out))
}

/// Appends one STREAM frame with a text record: the hot path, without intermediate allocation.
pub fn encode_text_frame(
    out: &mut BytesMut,
    flags: Flags,
    id: u16,
    enc: Enc,
    n: Option<u64>,
    text: &str,
) -> Result<usize, FrameError> {
    encode_frame_with(out, Opcode::Stream, flags, id, |out| encode_text_record(out, enc, n, text))
}

/// Appends the record `{"t":"text","n":n,"d":text}`, byte for byte what [`crate::message::Record`] gives.
pub fn encode_text_record(out: &mut BytesMut, enc: Enc, n: Option<u64>, text: &str) {
    encode_delta_record(out, enc, &TEXT, n, text);
}

/// Appends the record `{"t":"reason","n":n,"d":text}`.
pub fn encode_reason_record(out: &mut BytesMut, enc: Enc, n: Option<u64>, text: &str) {
    encode_delta_record(out, enc, &REASON, n, text);
}

/// Appends one message as fragments of at most `most` payload bytes each; answers the payload bytes written.
pub fn encode_fragments(
    out: &mut BytesMut,
    opcode: Opcode,
    flags: Flags,
    id: u16,
    payload: &[u8],
    most: usize,
) -> Result<usize, FrameError> {
    for fragment in fragments(flags, payload, most) {
        encode_frame(out, opcode, fragment.flags, id, fragment.payload)?;
    }
    Ok(payload.len())
}

/// The fragments of one message, of at most `most` payload bytes each: MORE on all but the last and END on the last
/// only. More than one needs the feature `frag`.
pub fn fragments(flags: Flags, payload: &[u8], most: usize) -> impl Iterator<Item = Fragment<'_>> {
    let mut rest = Some(payload);
    std::iter::from_fn(move || {
        let left = rest.take()?;
        match left.split_at_checked(most.max(1)).filter(|(_, tail)| !tail.is_empty()) {
            Some((head, tail)) => {
                rest = Some(tail);
                Some(Fragment { flags: flags.without(Flags::END).with(Flags::MORE), payload: head })
            }
            None => Some(Fragment { flags: flags.without(Flags::MORE), payload: left }),
        }
    })
}

/// What one frame carries of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Flags of this frame.
    pub flags: Flags,
    /// Its part of the payload.
    pub payload: &'a [u8],
}

/// The frames of one WebSocket message, in order (§2.3, first half of §3.4).
///
/// After an error it yields nothing more: the layout of what follows cannot be trusted.
#[derive(Debug)]
pub struct FrameReader {
    rest: Bytes,
    options: ReaderOptions,
}

impl FrameReader {
    /// Reads one binary message.
    pub fn new(message: Bytes, options: ReaderOptions) -> Self {
        Self { rest: message, options }
    }

    /// The next frame under the `max_payload` that applies now. `None` at the end of the message.
    pub fn next_frame(&mut self, max_payload: u32) -> Option<Result<Incoming, FrameError>> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read(max_payload);
        if read.is_err() {
            self.rest.clear();
        }
        Some(read)
    }

    /// What was not read yet.
    pub fn into_rest(self) -> Bytes {
        self.rest
    }

    fn read(&mut self, max_payload: u32) -> Result<Incoming, FrameError> {
        let have = self.rest.len();
        let Some((header, body)) = self.rest.split_first_chunk::<HEADER>() else {
            return Err(FrameError::Truncated { need: HEADER as u64, have });
        };
        let [first, reserved, id_high, id_low, length @ ..] = *header;
        let id = u16::from_be_bytes([id_high, id_low]);
        let length = u32::from_be_bytes(length);
        let (version, nibble) = (first >> 4, first & 0x0F);
        if version != VERSION && !(version == 0 && self.options.version_zero == VersionZero::Accept) {
            return Err(FrameError::Version(version));
        }
        if length > self.options.hard_cap {
            return Err(FrameError::TooLarge { length: length.into(), cap: self.options.hard_cap });
        }
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= body.len()) else {
            return Err(FrameError::Truncated {
                need: u64::from(length).saturating_add(HEADER as u64),
                have,
            });
        };
        self.rest.advance(HEADER);
        let payload = self.rest.split_to(length);
        let flags = Flags::from_byte(reserved);
        if payload.len() as u64 > u64::from(max_payload) {
            return Ok(Incoming::Oversized { nibble, flags, id, length });
        }
        Ok(match Opcode::from_nibble(nibble) {
            Some(opcode) => Incoming::Frame(Frame { opcode, flags, id, payload }),
            None => Incoming::Unknown { nibble, id },
        })
    }
}

/// Reads with the hard cap as the only limit.
impl Iterator for FrameReader {
    type Item = Result<Incoming, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_frame(self.options.hard_cap)
    }
}

/// What a message holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A frame.
    Frame(Frame),
    /// An opcode nobody assigned, skipped by its length (ASP-015).
    Unknown {
        /// The Type nibble.
        nibble: u8,
        /// Its request id, for `ref`.
        id: u16,
    },
    /// A payload above `max_payload` but within the cap, skipped (ASP-014).
    Oversized {
        /// The Type nibble, known or not.
        nibble: u8,
        /// Its flags.
        flags: Flags,
        /// Its request id.
        id: u16,
        /// Length of the payload.
        length: usize,
    },
}

/// How a [`FrameReader`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderOptions {
    /// Largest payload length that does not end the connection.
    pub hard_cap: u32,
    /// What to do with Ver 0.
    pub version_zero: VersionZero,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self { hard_cap: HARD_CAP, version_zero: VersionZero::Refuse }
    }
}

/// The deployment knob for legacy peers (§4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionZero {
    /// As any other version.
    Refuse,
    /// As version 1.
    Accept,
}

/// The frame version.
pub const VERSION: u8 = 1;
/// Bytes before the payload.
pub const HEADER: usize = 8;
/// Largest payload length anyone may declare.
pub const HARD_CAP: u32 = 16 * 1024 * 1024;
/// `max_payload` unless configured.
pub const MAX_PAYLOAD: u32 = 1024 * 1024;
/// `max_payload` of a bare connection.
pub const MAX_PAYLOAD_BARE: u32 = 256 * 1024;
/// `max_message` unless configured.
pub const MAX_MESSAGE: u32 = 2 * 1024 * 1024;
const LENGTH: usize = 4;

fn payload_length(length: usize) -> Result<u32, FrameError> {
    let too_large = FrameError::TooLarge { length: length as u64, cap: HARD_CAP };
    u32::try_from(length).ok().filter(|length| *length <= HARD_CAP).ok_or(too_large)
}

fn put_header(out: &mut BytesMut, opcode: Opcode, flags: Flags, id: u16, length: u32) {
    let [id_high, id_low] = id.to_be_bytes();
    let [a, b, c, d] = length.to_be_bytes();
    out.put_slice(&[(VERSION << 4) | opcode.nibble(), flags.byte(), id_high, id_low, a, b, c, d]);
}

/// Everything before the first value that varies, so that a record takes few writes.
struct DeltaHead {
    json: &'static [u8],
    json_numbered: &'static [u8],
    msgpack: &'static [u8],
    msgpack_numbered: &'static [u8],
}

const TEXT: DeltaHead = DeltaHead {
    json: br#"{"t":"text","d":"#,
    json_numbered: br#"{"t":"text","n":"#,
    msgpack: b"\x82\xA1t\xA4text\xA1d",
    msgpack_numbered: b"\x83\xA1t\xA4text\xA1n",
};
const REASON: DeltaHead = DeltaHead {
    json: br#"{"t":"reason","d":"#,
    json_numbered: br#"{"t":"reason","n":"#,
    msgpack: b"\x82\xA1t\xA6reason\xA1d",
    msgpack_numbered: b"\x83\xA1t\xA6reason\xA1n",
};
const RECORD_ROOM: usize = 48;

fn encode_delta_record(out: &mut BytesMut, enc: Enc, head: &DeltaHead, n: Option<u64>, text: &str) {
    out.reserve(text.len().saturating_add(RECORD_ROOM));
    match (enc, n) {
        (Enc::Json, None) => out.put_slice(head.json),
        (Enc::Json, Some(n)) => {
            out.put_slice(head.json_numbered);
            put_decimal(out, n);
            out.put_slice(b",\"d\":");
        }
        (Enc::Msgpack, None) => out.put_slice(head.msgpack),
        (Enc::Msgpack, Some(n)) => {
            out.put_slice(head.msgpack_numbered);
            encode_msgpack_uint(n, out);
            out.put_slice(b"\xA1d");
        }
    }
    match enc {
        Enc::Json => {
            encode_json_str(text, out);
            out.put_u8(b'}');
        }
        Enc::Msgpack => encode_msgpack_str(text, out),
    }
}

fn put_decimal(out: &mut BytesMut, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut used = 0_usize;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' | u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        used = used.saturating_add(1);
        if number == 0 {
            break;
        }
    }
    out.put_slice(digits.get(digits.len().saturating_sub(used)..).unwrap_or_default());
}
