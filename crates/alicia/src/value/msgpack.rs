//! MessagePack form of [`Value`], written by hand so that every length is checked against the bytes at hand.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;

use bytes::{BufMut, Bytes};

use super::keys::known;
use super::{MAX_DEPTH, MAX_VALUES, Map, Value};
use crate::error::ValueError;

/// Reads exactly one value; every width of integers, floats and lengths is accepted.
pub fn decode_msgpack(packet: &[u8]) -> Result<Value, ValueError> {
    if packet.is_empty() {
        return Err(ValueError::Empty);
    }
    let mut reader = Reader { rest: packet, values: MAX_VALUES };
    let value = reader.value(0)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(ValueError::Trailing) }
}

/// Appends the canonical form: smallest integers and lengths, floats as 64 bits.
pub fn encode_msgpack(value: &Value, out: &mut impl BufMut) {
    match value {
        Value::Nil => out.put_u8(0xC0),
        Value::Bool(false) => out.put_u8(0xC2),
        Value::Bool(true) => out.put_u8(0xC3),
        Value::Int(int) => encode_int(*int, out),
        Value::UInt(uint) => encode_unsigned(*uint, out),
        Value::Float(float) => {
            out.put_u8(0xCB);
            out.put_f64(*float);
        }
        Value::Str(text) => encode_str(text, out),
        Value::Bin(bytes) => {
            encode_length(bytes.len(), &BIN, out);
            out.put_slice(bytes);
        }
        Value::Array(items) => {
            encode_length(items.len(), &ARRAY, out);
            items.iter().for_each(|item| encode_msgpack(item, &mut *out));
        }
        Value::Map(map) => encode_map(map, out),
    }
}

/// Appends an integer.
pub(crate) fn encode_int(int: i64, out: &mut impl BufMut) {
    match u64::try_from(int) {
        Ok(uint) => encode_unsigned(uint, out),
        Err(_) => encode_negative(int, out),
    }
}

/// Appends the header of a map.
pub(crate) fn encode_map_length(length: usize, out: &mut impl BufMut) {
    encode_length(length, &MAP, out);
}

/// Appends the header of a list.
pub(crate) fn encode_array_length(length: usize, out: &mut impl BufMut) {
    encode_length(length, &ARRAY, out);
}

/// Appends a map.
pub(crate) fn encode_map(map: &Map, out: &mut impl BufMut) {
    encode_length(map.len(), &MAP, out);
    for (key, member) in map.iter() {
        encode_str(key, out);
        encode_msgpack(member, out);
    }
}

/// Size of a map in the canonical form, in bytes.
pub fn encoded_size(map: &Map) -> usize {
    let mut out = Vec::new();
    encode_map(map, &mut out);
    out.len()
}

/// Appends text.
#[inline]
pub(crate) fn encode_str(text: &str, out: &mut impl BufMut) {
    // Most texts are short: keys, names and the like.
    match u8::try_from(text.len()) {
        Ok(length @ 0..=31) => out.put_u8(0xA0 | length),
        Ok(_) | Err(_) => encode_length(text.len(), &STR, out),
    }
    out.put_slice(text.as_bytes());
}

fn encode_unsigned(uint: u64, out: &mut impl BufMut) {
    if let Ok(byte) = u8::try_from(uint) {
        if byte >= 0x80 {
            out.put_u8(0xCC);
        }
        out.put_u8(byte);
    } else if let Ok(short) = u16::try_from(uint) {
        out.put_u8(0xCD);
        out.put_u16(short);
    } else if let Ok(word) = u32::try_from(uint) {
        out.put_u8(0xCE);
        out.put_u32(word);
    } else {
        out.put_u8(0xCF);
        out.put_u64(uint);
    }
}

fn encode_negative(int: i64, out: &mut impl BufMut) {
    if let Ok(byte) = i8::try_from(int) {
        if byte < -32 {
            out.put_u8(0xD0);
        }
        out.put_i8(byte);
    } else if let Ok(short) = i16::try_from(int) {
        out.put_u8(0xD1);
        out.put_i16(short);
    } else if let Ok(word) = i32::try_from(int) {
        out.put_u8(0xD2);
        out.put_i32(word);
    } else {
        out.put_u8(0xD3);
        out.put_i64(int);
    }
}

/// The header forms of one family that carries a length.
struct Lengths {
    fix: Option<(u8, u8)>,
    eight: Option<u8>,
    sixteen: u8,
    thirty_two: u8,
}

const STR: Lengths = Lengths { fix: Some((0xA0, 31)), eight: Some(0xD9), sixteen: 0xDA, thirty_two: 0xDB };
const BIN: Lengths = Lengths { fix: None, eight: Some(0xC4), sixteen: 0xC5, thirty_two: 0xC6 };
const ARRAY: Lengths = Lengths { fix: Some((0x90, 15)), eight: None, sixteen: 0xDC, thirty_two: 0xDD };
const MAP: Lengths = Lengths { fix: Some((0x80, 15)), eight: None, sixteen: 0xDE, thirty_two: 0xDF };

fn encode_length(length: usize, forms: &Lengths, out: &mut impl BufMut) {
    if let (Some((base, most)), Ok(byte)) = (forms.fix, u8::try_from(length))
        && byte <= most
    {
        out.put_u8(base | byte);
    } else if let (Some(marker), Ok(byte)) = (forms.eight, u8::try_from(length)) {
        out.put_u8(marker);
        out.put_u8(byte);
    } else if let Ok(short) = u16::try_from(length) {
        out.put_u8(forms.sixteen);
        out.put_u16(short);
    } else {
        // Nothing near 4 GiB is ever sent, so the saturated form cannot occur.
        out.put_u8(forms.thirty_two);
        out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    }
}

/// What is left of a packet, and how many values more may come of it.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
    pub(super) values: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, ValueError> {
        self.values = self.values.checked_sub(1).ok_or(ValueError::TooManyValues)?;
        Ok(match self.byte()? {
            marker @ 0x00..=0x7F => Value::Int(i64::from(marker)),
            marker @ 0x80..=0x8F => self.map(usize::from(marker & 0x0F), depth)?,
            marker @ 0x90..=0x9F => self.list(usize::from(marker & 0x0F), depth)?,
            marker @ (0xA0..=0xBF | 0xD9..=0xDB) => Value::Str(self.text(marker)?.to_owned()),
            0xC0 => Value::Nil,
            0xC2 => Value::Bool(false),
            0xC3 => Value::Bool(true),
            0xC4 => self.length8().and_then(|length| self.bin(length))?,
            0xC5 => self.length16().and_then(|length| self.bin(length))?,
            0xC6 => self.length32().and_then(|length| self.bin(length))?,
            0xCA => Value::Float(f64::from(f32::from_be_bytes(self.array()?))),
            0xCB => Value::Float(f64::from_be_bytes(self.array()?)),
            0xCC => Value::Int(i64::from(self.byte()?)),
            0xCD => Value::Int(i64::from(u16::from_be_bytes(self.array()?))),
            0xCE => Value::Int(i64::from(u32::from_be_bytes(self.array()?))),
            0xCF => u64::from_be_bytes(self.array()?).into(),
            0xD0 => Value::Int(i64::from(i8::from_be_bytes(self.array()?))),
            0xD1 => Value::Int(i64::from(i16::from_be_bytes(self.array()?))),
            0xD2 => Value::Int(i64::from(i32::from_be_bytes(self.array()?))),
            0xD3 => Value::Int(i64::from_be_bytes(self.array()?)),
            0xC7 => self.length8().and_then(|length| self.extension(length))?,
            0xC8 => self.length16().and_then(|length| self.extension(length))?,
            0xC9 => self.length32().and_then(|length| self.extension(length))?,
            0xD4 => self.extension(1)?,
            0xD5 => self.extension(2)?,
            0xD6 => self.extension(4)?,
            0xD7 => self.extension(8)?,
            0xD8 => self.extension(16)?,
            0xDC => self.length16().and_then(|length| self.list(length, depth))?,
            0xDD => self.length32().and_then(|length| self.list(length, depth))?,
            0xDE => self.length16().and_then(|length| self.map(length, depth))?,
            0xDF => self.length32().and_then(|length| self.map(length, depth))?,
            marker @ 0xE0..=0xFF => Value::Int(i64::from(marker.cast_signed())),
            0xC1 => return Err(ValueError::Marker),
        })
    }

    /// Of extensions, peers send the `undefined` of browsers, which is nothing. What nobody here knows counts
    /// as nothing as well: it may stand under a key that nobody knows either.
    fn extension(&mut self, length: usize) -> Result<Value, ValueError> {
        self.byte()?;
        self.take(length).map(|_| Value::Nil)
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, ValueError> {
        let below = self.enter(length, depth)?;
        let mut members = Vec::with_capacity(length.min(USUAL_LENGTH));
        for _ in 0..length {
            let marker = self.byte()?;
            let key = self.text(marker)?;
            let key = known(key).map_or_else(|| Cow::Owned(key.to_owned()), Cow::Borrowed);
            members.push((key, self.value(below)?));
        }
        Ok(Value::Map(Map::from_decoded(members)))
    }

    fn list(&mut self, length: usize, depth: usize) -> Result<Value, ValueError> {
        let below = self.enter(length, depth)?;
        let mut items = Vec::with_capacity(length.min(USUAL_LENGTH));
        for _ in 0..length {
            items.push(self.value(below)?);
        }
        Ok(Value::Array(items))
    }

    /// Every item takes at least one byte: a length beyond the rest is a lie found before any work.
    pub(super) fn enter(&self, length: usize, depth: usize) -> Result<usize, ValueError> {
        if depth >= MAX_DEPTH {
            return Err(ValueError::TooDeep);
        }
        if length > self.rest.len() {
            return Err(ValueError::Truncated);
        }
        Ok(depth.saturating_add(1))
    }

    pub(super) fn text(&mut self, marker: u8) -> Result<&'a str, ValueError> {
        std::str::from_utf8(self.letters(marker)?).map_err(|_| ValueError::Utf8)
    }

    /// The bytes of a text, whatever they are.
    pub(super) fn letters(&mut self, marker: u8) -> Result<&'a [u8], ValueError> {
        let length = match marker {
            0xA0..=0xBF => usize::from(marker & 0x1F),
            0xD9 => self.length8()?,
            0xDA => self.length16()?,
            0xDB => self.length32()?,
            _ => return Err(ValueError::Key),
        };
        self.take(length)
    }

    /// Copied, so that a few bytes of audio do not keep a whole frame alive.
    fn bin(&mut self, length: usize) -> Result<Value, ValueError> {
        self.take(length).map(|bytes| Value::Bin(Bytes::copy_from_slice(bytes)))
    }

    fn length8(&mut self) -> Result<usize, ValueError> {
        self.byte().map(usize::from)
    }

    pub(super) fn length16(&mut self) -> Result<usize, ValueError> {
        self.array().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    fn length32(&mut self) -> Result<usize, ValueError> {
        usize::try_from(u32::from_be_bytes(self.array()?)).map_err(|_| ValueError::Truncated)
    }

    pub(super) fn byte(&mut self) -> Result<u8, ValueError> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ValueError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ValueError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ValueError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// Members and items for which there is room from the start; a declared length alone gets no more.
pub(super) const USUAL_LENGTH: usize = 8;
