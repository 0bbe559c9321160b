//! From payload bytes to a value, text or nothing (§3.2).

use bytes::Bytes;

use super::assemble::Assembled;
use super::compress::decompress;
use crate::error::{DecodeError, FlagsError, ValueError};
use crate::message::{Enc, EncFlag, Feature, Features, Flags, Opcode};
use crate::value::{Map, Value};

/// A payload after decoding.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// Empty, or nothing that HELLO or INTERRUPT could use.
    None,
    /// JSON or MessagePack.
    Value(Value),
    /// UTF-8 text.
    Text(String),
    /// ENC raw.
    Raw(Bytes),
}

impl Payload {
    /// The map, or the error for an opcode that needs one.
    pub fn into_map(self, opcode: Opcode) -> Result<Map, DecodeError> {
        match self {
            Self::Value(Value::Map(map)) => Ok(map),
            Self::Value(_) | Self::None | Self::Text(_) | Self::Raw(_) => Err(DecodeError::Shape(opcode)),
        }
    }
}

/// Decompresses and decodes an assembled message.
pub fn open_payload(
    message: &Assembled,
    features: Features,
    max_payload: usize,
) -> Result<Payload, DecodeError> {
    if !message.flags.has(Flags::COMPRESSED) {
        return decode_payload(message.opcode, message.flags, features, &message.payload).map_err(Into::into);
    }
    let algorithm = features.compression().ok_or(FlagsError::CompressedNotAgreed)?;
    let payload = decompress(algorithm, &message.payload, max_payload)?;
    decode_payload(message.opcode, message.flags, features, &payload).map_err(Into::into)
}

/// Decodes a payload under agreed flags (see [`Flags::agreed`]): ENC decides, otherwise the first byte does.
/// A STREAM without `events` is never sniffed (ASP-085).
pub fn decode_payload(
    opcode: Opcode,
    flags: Flags,
    features: Features,
    payload: &Bytes,
) -> Result<Payload, ValueError> {
    if payload.is_empty() {
        return Ok(Payload::None);
    }
    let declared = match flags.enc() {
        EncFlag::Raw => return Ok(Payload::Raw(payload.clone())),
        EncFlag::Json => Some(Enc::Json),
        EncFlag::Msgpack => Some(Enc::Msgpack),
        EncFlag::Unspecified => None,
    };
    if let Some(enc) = declared {
        return match (Value::decode(enc, payload), opcode) {
            (Ok(value), _) => Ok(Payload::Value(value)),
            (Err(_), Opcode::Hello | Opcode::Interrupt) => Ok(Payload::None),
            (Err(_), Opcode::Error) => Ok(lossy(payload)),
            (Err(error), Opcode::Invoke | Opcode::Stream | Opcode::ToolDef) => Err(error),
        };
    }
    let sniffed =
        if opcode == Opcode::Stream && !features.has(Feature::Events) { None } else { sniff(payload) };
    if let Some(value) = sniffed.and_then(|enc| Value::decode(enc, payload).ok()) {
        return Ok(Payload::Value(value));
    }
    match opcode {
        Opcode::Hello | Opcode::Interrupt => Ok(Payload::None),
        Opcode::Error => Ok(lossy(payload)),
        Opcode::Invoke | Opcode::Stream | Opcode::ToolDef => match std::str::from_utf8(payload) {
            Ok(text) => Ok(Payload::Text(text.to_owned())),
            Err(_) => Err(ValueError::Utf8),
        },
    }
}

fn sniff(payload: &[u8]) -> Option<Enc> {
    match payload.first()? {
        b'{' | b'[' => Some(Enc::Json),
        0x80..=0x8F | 0xDE | 0xDF => Some(Enc::Msgpack),
        _ => None,
    }
}

fn lossy(payload: &[u8]) -> Payload {
    Payload::Text(String::from_utf8_lossy(payload).into_owned())
}
