//! The data model shared by JSON and MessagePack payloads (§3.2).
//!
//! Invariant: decoding never allocates because of a declared length, and nothing deeper than
//! [`MAX_DEPTH`], wider than [`MAX_MAP_ENTRIES`] or larger than [`MAX_NODES`] leaves a decoder.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};

use crate::error::ValueError;
use crate::message::Enc;

mod json;
mod msgpack;

pub use json::{canonical_json, decode_json, encode_json, json_size};
pub use msgpack::{decode_msgpack, encode_msgpack};

pub(crate) use json::encode_json_str;
pub(crate) use msgpack::{encode_msgpack_str, encode_msgpack_uint};

/// One value of the data model.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// JSON `null`, MessagePack nil.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer within ±2^53.
    Int(i64),
    /// A finite number with a fraction or exponent.
    Float(f64),
    /// Text.
    Str(String),
    /// Bytes: MessagePack `bin`, JSON `{"$b64":"…"}`.
    Bin(Bytes),
    /// A list.
    Array(Vec<Self>),
    /// An ordered map with string keys.
    Map(Map),
}

impl Value {
    /// An integer from an unsigned count; counts beyond ±2^53 saturate, since the wire has no larger ones.
    pub fn count(count: u64) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(MAX_INT).min(MAX_INT))
    }

    /// The text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// The integer, if this is one.
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(int) = self { Some(*int) } else { None }
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(bool) = self { Some(*bool) } else { None }
    }

    /// The map, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// The list, if this is one.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Appends this value to `out` in the given encoding.
    pub fn encode(&self, enc: Enc, out: &mut BytesMut) {
        match enc {
            Enc::Json => encode_json(self, out),
            Enc::Msgpack => encode_msgpack(self, out),
        }
    }

    /// Reads exactly one value, the whole of `payload`.
    pub fn decode(enc: Enc, payload: &[u8]) -> Result<Self, ValueError> {
        match enc {
            Enc::Json => decode_json(payload),
            Enc::Msgpack => decode_msgpack(payload),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<u16> for Value {
    fn from(int: u16) -> Self {
        Self::Int(i64::from(int))
    }
}

impl From<u32> for Value {
    fn from(int: u32) -> Self {
        Self::Int(i64::from(int))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl TryFrom<i64> for Value {
    type Error = ValueError;

    fn try_from(int: i64) -> Result<Self, ValueError> {
        if (-MAX_INT..=MAX_INT).contains(&int) { Ok(Self::Int(int)) } else { Err(ValueError::IntegerRange) }
    }
}

impl TryFrom<u64> for Value {
    type Error = ValueError;

    fn try_from(int: u64) -> Result<Self, ValueError> {
        i64::try_from(int).map_err(|_| ValueError::IntegerRange)?.try_into()
    }
}

/// From foreign JSON; order of members is whatever `serde_json` keeps, the limits of this module apply.
impl TryFrom<serde_json::Value> for Value {
    type Error = ValueError;

    fn try_from(json: serde_json::Value) -> Result<Self, ValueError> {
        from_serde(json, 0)
    }
}

/// To foreign JSON: bytes become `{"$b64":"…"}`, a number that is not finite becomes null.
impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(bool),
            Value::Int(int) => int.into(),
            Value::Float(float) => float.into(),
            Value::Str(text) => Self::String(text),
            Value::Bin(bytes) => {
                let mut map = serde_json::Map::new();
                map.insert(BYTES_KEY.to_owned(), Self::String(STANDARD.encode(&bytes)));
                Self::Object(map)
            }
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Map(map) => Self::Object(map.into_serde()),
        }
    }
}

/// String-keyed map that keeps insertion order, so that a message has one byte form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map(Vec<(Cow<'static, str>, Value)>);

impl Map {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets a member, in place if the key exists, at the end otherwise.
    pub fn insert(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let key = key.into();
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((key, value)),
        }
    }

    /// Sets a member if there is a value for it.
    pub fn insert_some(&mut self, key: impl Into<Cow<'static, str>>, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.insert(key, value);
        }
    }

    /// The same map with one more member.
    #[must_use]
    pub fn with(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// Takes a member out, keeping the order of the others.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let index = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(index).1)
    }

    /// The value of a member.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The text of a member.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// The integer of a member.
    pub fn get_int(&self, key: &str) -> Option<i64> {
        self.get(key).and_then(Value::as_int)
    }

    /// Whether a member exists.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends this map to `out` in the given encoding.
    pub fn encode(&self, enc: Enc, out: &mut BytesMut) {
        match enc {
            Enc::Json => json::encode_json_map(self, out),
            Enc::Msgpack => msgpack::encode_msgpack_map(self, out),
        }
    }

    /// As a `serde_json` object, for schema validators and HTTP bodies.
    pub fn into_serde(self) -> serde_json::Map<String, serde_json::Value> {
        self.0.into_iter().map(|(key, value)| (key.into_owned(), value.into())).collect()
    }

    /// What a decoder does with the members it read: refuse duplicates, recognise `{"$b64":…}`.
    fn into_decoded(self) -> Result<Value, ValueError> {
        if let [(key, Value::Str(text))] = self.0.as_slice()
            && key == BYTES_KEY
        {
            let bytes = STANDARD.decode(text).map_err(|_| ValueError::Base64)?;
            return Ok(Value::Bin(Bytes::from(bytes)));
        }
        let mut keys: Vec<&str> = self.0.iter().map(|(key, _)| key.as_ref()).collect();
        keys.sort_unstable();
        if keys.is_sorted_by(|left, right| left < right) {
            Ok(Value::Map(self))
        } else {
            Err(ValueError::DuplicateKey)
        }
    }

    fn push_decoded(&mut self, key: String, value: Value) {
        self.0.push((Cow::Owned(key), value));
    }
}

impl IntoIterator for Map {
    type Item = (Cow<'static, str>, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Later duplicates of a key replace earlier ones.
impl<K: Into<Cow<'static, str>>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let mut map = Self::new();
        for (key, value) in members {
            map.insert(key, value);
        }
        map
    }
}

/// Deepest nesting of maps and lists.
pub const MAX_DEPTH: usize = 32;
/// Most members of one map.
pub const MAX_MAP_ENTRIES: usize = 4096;
/// Most values in one payload, which bounds what a list of one-byte items may cost in memory.
pub const MAX_NODES: usize = 1 << 18;
/// Largest magnitude of an integer.
pub const MAX_INT: i64 = 1 << 53;
/// The member that marks bytes in JSON.
pub const BYTES_KEY: &str = "$b64";

fn from_serde(json: serde_json::Value, depth: usize) -> Result<Value, ValueError> {
    if depth > MAX_DEPTH {
        return Err(ValueError::TooDeep);
    }
    let below = depth.saturating_add(1);
    Ok(match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(bool) => Value::Bool(bool),
        serde_json::Value::String(text) => Value::Str(text),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Value::try_from(int)?,
            (None, Some(float)) if !number.is_u64() && float.is_finite() => Value::Float(float),
            (None, _) => return Err(ValueError::IntegerRange),
        },
        serde_json::Value::Array(_) | serde_json::Value::Object(_) if below > MAX_DEPTH => {
            return Err(ValueError::TooDeep);
        }
        serde_json::Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| from_serde(item, below)).collect::<Result<_, _>>()?)
        }
        serde_json::Value::Object(members) if members.len() > MAX_MAP_ENTRIES => {
            return Err(ValueError::TooWide);
        }
        serde_json::Value::Object(members) => {
            let mut map = Map::new();
            for (key, member) in members {
                map.push_decoded(key, from_serde(member, below)?);
            }
            map.into_decoded()?
        }
    })
}
