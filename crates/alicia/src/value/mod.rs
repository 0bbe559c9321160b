//! The data model of an envelope: MessagePack without extension types (§2.2).
//!
//! Invariant: decoding never allocates because of a declared length, and nothing deeper than
//! [`MAX_DEPTH`] or with more than [`MAX_VALUES`] values leaves the decoder.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;

mod cursor;
mod json;
mod keys;
mod msgpack;

pub use json::json_size;
pub use msgpack::{decode_msgpack, encode_msgpack, encoded_size};

pub(crate) use cursor::{Cursor, Plain};
pub(crate) use msgpack::{encode_array_length, encode_int, encode_map, encode_map_length, encode_str};

/// One value. Formatting it shows its shape and never its content.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// Nil, or the "undefined" of browsers.
    Nil,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer beyond the range of `i64`; smaller ones are always [`Value::Int`].
    UInt(u64),
    /// A number of 32 or 64 bits, possibly not finite.
    Float(f64),
    /// Text.
    Str(String),
    /// Bytes.
    Bin(Bytes),
    /// A list.
    Array(Vec<Self>),
    /// An ordered map with string keys.
    Map(Map),
}

impl Value {
    /// The text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// The integer, if this is one or a float with the value of one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            Self::Float(float) => integral(*float),
            Self::Nil
            | Self::Bool(_)
            | Self::UInt(_)
            | Self::Str(_)
            | Self::Bin(_)
            | Self::Array(_)
            | Self::Map(_) => None,
        }
    }

    /// The number, if this is one.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(int) => Some(*int as f64),
            Self::UInt(uint) => Some(*uint as f64),
            Self::Float(float) => Some(*float),
            Self::Nil | Self::Bool(_) | Self::Str(_) | Self::Bin(_) | Self::Array(_) | Self::Map(_) => None,
        }
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
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => formatter.write_str("nil"),
            Self::Bool(_) => formatter.write_str("bool"),
            Self::Int(_) | Self::UInt(_) => formatter.write_str("int"),
            Self::Float(_) => formatter.write_str("float"),
            Self::Str(text) => write!(formatter, "str({})", text.len()),
            Self::Bin(bytes) => write!(formatter, "bin({})", bytes.len()),
            Self::Array(items) => formatter.debug_list().entries(items).finish(),
            Self::Map(map) => map.fmt(formatter),
        }
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}

impl From<u64> for Value {
    fn from(uint: u64) -> Self {
        i64::try_from(uint).map_or(Self::UInt(uint), Self::Int)
    }
}

impl From<f64> for Value {
    fn from(float: f64) -> Self {
        Self::Float(float)
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

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

/// String-keyed map that keeps insertion order, so that a message has one byte form.
#[derive(Clone, Default, PartialEq)]
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

    /// Takes the value of a member, which is nil from then on; cheaper than taking it out.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        let (_, value) = self.0.iter_mut().find(|(known, _)| known == key)?;
        Some(std::mem::replace(value, Value::Nil))
    }

    /// From members of which none occurs twice.
    const fn from_distinct(members: Vec<(Cow<'static, str>, Value)>) -> Self {
        Self(members)
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

    /// Keeps the members that `keep` approves.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.0.retain(|(key, value)| keep(key, value));
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

    /// From members in the order they were read. Of a key that occurs twice the last one counts, as with
    /// the peers of the period.
    fn from_decoded(mut members: Vec<(Cow<'static, str>, Value)>) -> Self {
        if !are_distinct(&members) {
            let mut seen = BTreeSet::new();
            members.reverse();
            members.retain(|(key, _)| seen.insert(key.clone()));
            members.reverse();
        }
        Self(members)
    }
}

/// Whether no key occurs twice. Sorting keeps hostile maps from costing quadratic time.
fn are_distinct(members: &[(Cow<'static, str>, Value)]) -> bool {
    if members.len() <= FEW_MEMBERS {
        let differ = |(index, (key, _)): (usize, &(Cow<'static, str>, Value))| {
            members.iter().take(index).all(|(earlier, _)| earlier != key)
        };
        return members.iter().enumerate().all(differ);
    }
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_ref()).collect();
    keys.sort_unstable();
    keys.is_sorted_by(|left, right| left < right)
}

/// So few keys are compared one by one.
const FEW_MEMBERS: usize = 16;

impl fmt::Debug for Map {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
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
/// Most values in one packet: as many floats as fill a frame of 1 MiB. It bounds what a list of one-byte
/// items may cost in memory.
pub const MAX_VALUES: usize = 1 << 17;

/// The integer that a float is, if it is one and an `i64` can hold it.
fn integral(float: f64) -> Option<i64> {
    // Both bounds are powers of two, hence exact; NaN is in no range.
    let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (in_range && float.trunc() == float).then_some(float as i64)
}
