//! How frames are written in a scenario.
//!
//! ```text
//! INVOKE #1 {"kind":"chat","input":"hi"}      a map, JSON unless said otherwise
//! INVOKE #1 msgpack {"kind":"chat"}           the same as MessagePack
//! INVOKE #1 "hi"                              bare text
//! INVOKE #9 [MORE,MSGPACK] hex 82a46b         flags by name, payload as hex
//! STREAM #1 [0x05] {"t":"end"}                flags as a byte
//! INTERRUPT #1                                no payload
//! ```
//! Several frames of one message are separated by `;`.

use bytes::{Bytes, BytesMut};
use serde_json::Value as Json;
use switchboard_asp::message::{Enc, EncFlag};
use switchboard_asp::{Flags, Frame, Opcode, Value};

/// A frame, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shorthand {
    pub(super) opcode: Opcode,
    pub(super) id: u16,
    pub(super) flags: Marks,
    pub(super) payload: Written,
}

/// Flags, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// Nothing is written: none of END, MORE, COMPRESSED, REPLAY.
    Unmarked,
    /// Named bits; ENC counts if one of its names is there.
    Named(Flags),
    /// The whole byte.
    Exactly(u8),
}

/// A payload, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    Nothing,
    /// `...`: anything at all.
    Anything,
    Text(String),
    Map(Enc, Json),
    Hex(Bytes),
}

impl Shorthand {
    /// Reads the frames of one message.
    pub(super) fn parse_all(text: &str, enc: Enc) -> Result<Vec<Self>, String> {
        let mut frames = Vec::new();
        let mut rest = text.trim();
        loop {
            let (frame, after) = Self::parse(rest, enc)?;
            frames.push(frame);
            rest = after.trim();
            match rest.strip_prefix(';') {
                Some(next) => rest = next.trim(),
                None if rest.is_empty() => return Ok(frames),
                None => return Err(format!("what is this: {rest}")),
            }
        }
    }

    fn parse(text: &str, enc: Enc) -> Result<(Self, &str), String> {
        let (name, rest) = word(text);
        let opcode = Opcode::ALL.into_iter().find(|opcode| opcode.to_string() == name);
        let opcode = opcode.ok_or_else(|| format!("no such opcode: {name}"))?;
        let (id, rest) = match rest.strip_prefix('#') {
            Some(rest) => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let (digits, rest) = rest.split_at(end);
                (digits.parse().map_err(|_| format!("no request id: #{digits}"))?, rest.trim_start())
            }
            None => (0, rest),
        };
        // Flags are capital letters or a byte; a JSON array begins with neither.
        let marked =
            |rest: &&str| rest.starts_with("0x") || rest.starts_with(|c: char| c.is_ascii_uppercase());
        let (flags, rest) = match rest.strip_prefix('[').filter(marked) {
            Some(rest) => {
                let (names, rest) = rest.split_once(']').ok_or("flags without an end")?;
                (Marks::parse(names)?, rest.trim_start())
            }
            None => (Marks::Unmarked, rest),
        };
        let (payload, rest) = Written::parse(rest, enc)?;
        Ok((Self { opcode, id, flags, payload }, rest))
    }

    /// The frame itself.
    pub(super) fn frame(&self) -> Result<Frame, String> {
        let flags = match self.flags {
            Marks::Unmarked => Flags::NONE,
            Marks::Named(flags) => flags,
            Marks::Exactly(byte) => Flags::from_byte(byte),
        };
        Ok(Frame::new(self.opcode, self.id, self.payload.bytes()?).with_flags(flags))
    }
}

impl Marks {
    fn parse(names: &str) -> Result<Self, String> {
        if let Some(hex) = names.trim().strip_prefix("0x") {
            return u8::from_str_radix(hex, 16).map(Self::Exactly).map_err(|_| format!("no byte: {names}"));
        }
        let mut flags = Flags::NONE;
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            flags = match name {
                "END" => flags.with(Flags::END),
                "MORE" => flags.with(Flags::MORE),
                "COMPRESSED" => flags.with(Flags::COMPRESSED),
                "REPLAY" => flags.with(Flags::REPLAY),
                "JSON" => flags.with_enc(EncFlag::Json),
                "RAW" => flags.with_enc(EncFlag::Raw),
                "MSGPACK" => flags.with_enc(EncFlag::Msgpack),
                other => return Err(format!("no such flag: {other}")),
            };
        }
        Ok(Self::Named(flags))
    }

    /// Whether a received byte is what is written.
    pub(super) fn fits(self, flags: Flags) -> bool {
        let (expected, byte) = match self {
            Self::Exactly(expected) => return expected == flags.byte(),
            Self::Unmarked => (Flags::NONE, flags),
            Self::Named(expected) => (expected, flags),
        };
        let bare = |flags: Flags| flags.with_enc(EncFlag::Unspecified);
        bare(expected) == bare(byte)
            && (expected.enc() == EncFlag::Unspecified || expected.enc() == byte.enc())
    }
}

impl Written {
    fn parse(text: &str, enc: Enc) -> Result<(Self, &str), String> {
        let text = text.trim_start();
        if text.is_empty() || text.starts_with(';') {
            return Ok((Self::Nothing, text));
        }
        if let Some(rest) = text.strip_prefix("...") {
            return Ok((Self::Anything, rest));
        }
        let (first, rest) = word(text);
        match first {
            "hex" => {
                let (digits, rest) = word(rest);
                return Ok((Self::Hex(unhex(digits)?), rest));
            }
            "msgpack" => return json(rest).map(|(map, rest)| (Self::Map(Enc::Msgpack, map), rest)),
            "json" => return json(rest).map(|(map, rest)| (Self::Map(Enc::Json, map), rest)),
            _ => {}
        }
        let (value, rest) = json(text)?;
        Ok(match value {
            Json::String(text) => (Self::Text(text), rest),
            other => (Self::Map(enc, other), rest),
        })
    }

    fn bytes(&self) -> Result<Bytes, String> {
        Ok(match self {
            Self::Nothing => Bytes::new(),
            Self::Anything => return Err("nobody can send ...".into()),
            Self::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
            Self::Hex(bytes) => bytes.clone(),
            Self::Map(enc, json) => {
                let value = Value::try_from(json.clone()).map_err(|error| error.to_string())?;
                let mut out = BytesMut::new();
                value.encode(*enc, &mut out);
                out.freeze()
            }
        })
    }
}

/// The first word, and what follows it.
pub(super) fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    match text.split_once(char::is_whitespace) {
        Some((first, rest)) => (first, rest.trim_start()),
        None => (text, ""),
    }
}

/// One JSON value, and what follows it.
pub(super) fn json(text: &str) -> Result<(Json, &str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    match values.next() {
        Some(Ok(value)) => Ok((value, text.get(values.byte_offset()..).unwrap_or_default())),
        Some(Err(error)) => Err(format!("not JSON: {error} in {text}")),
        None => Err("JSON is missing".into()),
    }
}

/// Bytes from hexadecimal digits.
pub(super) fn unhex(hex: &str) -> Result<Bytes, String> {
    let digits: Vec<u32> =
        hex.chars().filter(|c| !c.is_whitespace()).filter_map(|c| c.to_digit(16)).collect();
    if digits.len() != hex.chars().filter(|c| !c.is_whitespace()).count() || !digits.len().is_multiple_of(2) {
        return Err(format!("not hexadecimal: {hex}"));
    }
    let bytes = digits.chunks(2).map(|pair| {
        let [high, low] = pair else { return 0 };
        u8::try_from(high * 16 + low).unwrap_or(0)
    });
    Ok(bytes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        let frames =
            Shorthand::parse_all(r#"INVOKE #1 {"a":";"} ; INTERRUPT #2 [END,JSON]; HELLO"#, Enc::Json);
        let frames = frames.unwrap();
        assert_eq!(frames.len(), 3);
        assert_eq!(frames[0].frame().unwrap().payload, &br#"{"a":";"}"#[..]);
        assert_eq!((frames[1].id, frames[1].flags), (2, Marks::Named(Flags::END.with_enc(EncFlag::Json))));
        assert_eq!(frames[2].payload, Written::Nothing);
        let hex = Shorthand::parse_all("INVOKE #9 [0x0e] hex 82a4", Enc::Json).unwrap();
        assert_eq!(hex[0].frame().unwrap().payload, &[0x82, 0xa4][..]);
        assert!(Shorthand::parse_all("INVOKE #1 {} what", Enc::Json).is_err());
    }

    #[test]
    fn encoding_bits_count_only_when_they_are_named() {
        let end_json = Flags::END.with_enc(EncFlag::Json);
        assert!(Marks::Named(Flags::END).fits(end_json));
        assert!(!Marks::Named(Flags::END.with_enc(EncFlag::Msgpack)).fits(end_json));
        assert!(!Marks::Unmarked.fits(end_json));
        assert!(Marks::Exactly(0x05).fits(end_json));
    }
}
