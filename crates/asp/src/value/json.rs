//! JSON form of [`Value`]: `serde_json`'s tokenizer, our limits, compact output in insertion order.

use std::cell::Cell;
use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer as _;
use switchboard_core::json;

use super::{BYTES_KEY, MAX_DEPTH, MAX_INT, MAX_MAP_ENTRIES, MAX_NODES, Map, Value};
use crate::error::ValueError;

/// Reads exactly one JSON value. An integer literal that does not fit 64 bits is read as a float.
pub fn decode_json(payload: &[u8]) -> Result<Value, ValueError> {
    json::read(payload, decode)
}

fn decode(payload: &[u8]) -> Result<Value, ValueError> {
    let budget = Budget { nodes: Cell::new(MAX_NODES), fault: Cell::new(None) };
    let mut tokens = serde_json::Deserializer::from_slice(payload);
    let decoded = Seed { budget: &budget, depth: 0 }.deserialize(&mut tokens);
    match decoded.and_then(|value| tokens.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(_) => Err(budget.fault.take().unwrap_or(ValueError::Json)),
    }
}

/// Appends the compact JSON form, members in insertion order.
pub fn encode_json(value: &Value, out: &mut BytesMut) {
    write(value, Members::AsInserted, &mut out.writer());
}

/// Compact JSON with sorted members and integral floats written as integers: equal data, equal bytes.
pub fn canonical_json(value: &Value) -> Bytes {
    let mut out = BytesMut::new();
    write(value, Members::Sorted, &mut (&mut out).writer());
    out.freeze()
}

/// Length of the compact JSON form, without writing it.
pub fn json_size(value: &Value) -> usize {
    let mut counter = Counter(0);
    write(value, Members::AsInserted, &mut counter);
    counter.0
}

/// Appends a map.
pub(super) fn encode_json_map(map: &Map, out: &mut BytesMut) {
    write_map(map, Members::AsInserted, &mut out.writer());
}

/// Appends one JSON string literal.
pub(crate) fn encode_json_str(text: &str, out: &mut BytesMut) {
    write_str(text, &mut out.writer());
}

#[derive(Clone, Copy)]
enum Members {
    AsInserted,
    Sorted,
}

/// The sinks below (a growing buffer, a counter) cannot fail, hence the ignored results.
fn write(value: &Value, members: Members, out: &mut impl io::Write) {
    let _ = match value {
        Value::Null => out.write_all(b"null"),
        Value::Bool(true) => out.write_all(b"true"),
        Value::Bool(false) => out.write_all(b"false"),
        Value::Int(int) => write!(out, "{int}"),
        Value::Float(float) => {
            write_float(*float, members, out);
            Ok(())
        }
        Value::Str(text) => {
            write_str(text, out);
            Ok(())
        }
        Value::Bin(bytes) => write!(out, "{{\"{BYTES_KEY}\":\"{}\"}}", STANDARD.encode(bytes)),
        Value::Array(items) => {
            let _ = out.write_all(b"[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    let _ = out.write_all(b",");
                }
                write(item, members, out);
            }
            out.write_all(b"]")
        }
        Value::Map(map) => {
            write_map(map, members, out);
            Ok(())
        }
    };
}

fn write_map(map: &Map, members: Members, out: &mut impl io::Write) {
    let _ = out.write_all(b"{");
    let mut first = true;
    let mut member = |key: &str, value: &Value, out: &mut _| {
        if !std::mem::take(&mut first) {
            let _ = io::Write::write_all(out, b",");
        }
        write_str(key, out);
        let _ = io::Write::write_all(out, b":");
        write(value, members, out);
    };
    match members {
        Members::AsInserted => map.iter().for_each(|(key, value)| member(key, value, out)),
        Members::Sorted => {
            let mut sorted: Vec<_> = map.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            sorted.into_iter().for_each(|(key, value)| member(key, value, out));
        }
    }
    let _ = out.write_all(b"}");
}

fn write_str(text: &str, out: &mut impl io::Write) {
    let _ = serde_json::Serializer::new(out).serialize_str(text);
}

fn write_float(float: f64, members: Members, out: &mut impl io::Write) {
    let _ = match members {
        Members::Sorted if float.fract() == 0.0 && float.abs() <= MAX_INT as f64 => {
            write!(out, "{}", float as i64)
        }
        Members::Sorted | Members::AsInserted => {
            let _ = serde_json::Serializer::new(out).serialize_f64(float);
            Ok(())
        }
    };
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What one decode may still use, and why it stopped: serde's errors cannot carry ours.
struct Budget {
    nodes: Cell<usize>,
    fault: Cell<Option<ValueError>>,
}

impl Budget {
    fn fail<E: serde::de::Error>(&self, fault: ValueError) -> E {
        self.fault.set(Some(fault));
        E::custom("limit")
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    budget: &'a Budget,
    depth: usize,
}

impl Seed<'_> {
    fn below<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(self.budget.fail(ValueError::TooDeep));
        }
        Ok(Self { depth: self.depth.saturating_add(1), ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, tokens: D) -> Result<Value, D::Error> {
        let Some(left) = self.budget.nodes.get().checked_sub(1) else {
            return Err(self.budget.fail(ValueError::TooManyNodes));
        };
        self.budget.nodes.set(left);
        tokens.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Value, E> {
        Ok(Value::Bool(bool))
    }

    fn visit_i64<E: serde::de::Error>(self, int: i64) -> Result<Value, E> {
        int.try_into().map_err(|fault| self.budget.fail(fault))
    }

    fn visit_u64<E: serde::de::Error>(self, int: u64) -> Result<Value, E> {
        int.try_into().map_err(|fault| self.budget.fail(fault))
    }

    fn visit_f64<E: serde::de::Error>(self, float: f64) -> Result<Value, E> {
        if float.is_finite() { Ok(Value::Float(float)) } else { Err(E::custom("not finite")) }
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Str(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Str(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(below)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if map.len() >= MAX_MAP_ENTRIES {
                return Err(self.budget.fail(ValueError::TooWide));
            }
            map.push_decoded(key, members.next_value_seed(below)?);
        }
        map.into_decoded().map_err(|fault| self.budget.fail(fault))
    }
}
