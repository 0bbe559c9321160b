//! JSON form of [`Value`], for storage, HTTP and tools.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::{MAX_DEPTH, MAX_VALUES, Map, Value};
use crate::error::ValueError;

/// Bytes become base64 text; with `serde_json`, a number that is not finite becomes null.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nil => serializer.serialize_unit(),
            Self::Bool(bool) => serializer.serialize_bool(*bool),
            Self::Int(int) => serializer.serialize_i64(*int),
            Self::UInt(uint) => serializer.serialize_u64(*uint),
            Self::Float(float) => serializer.serialize_f64(*float),
            Self::Str(text) => serializer.serialize_str(text),
            Self::Bin(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Map(map) => map.serialize(serializer),
        }
    }
}

/// Members keep their order.
impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// From foreign JSON; the limits of this module apply.
impl TryFrom<serde_json::Value> for Value {
    type Error = ValueError;

    fn try_from(json: serde_json::Value) -> Result<Self, ValueError> {
        from_json(json, 0, &mut MAX_VALUES.clone())
    }
}

/// Size of a map as compact JSON, in bytes.
pub fn json_size(map: &Map) -> usize {
    let mut counter = Counter(0);
    // Neither the counter nor a map with string keys can fail.
    match serde_json::to_writer(&mut counter, map) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
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

fn from_json(json: serde_json::Value, depth: usize, values: &mut usize) -> Result<Value, ValueError> {
    *values = values.checked_sub(1).ok_or(ValueError::TooManyValues)?;
    let below = depth.saturating_add(1);
    Ok(match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(bool) => Value::Bool(bool),
        serde_json::Value::String(text) => Value::Str(text),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(int), _, _) => Value::Int(int),
            (None, Some(uint), _) => Value::UInt(uint),
            (None, None, float) => Value::Float(float.unwrap_or(f64::NAN)),
        },
        serde_json::Value::Array(_) | serde_json::Value::Object(_) if depth >= MAX_DEPTH => {
            return Err(ValueError::TooDeep);
        }
        serde_json::Value::Array(items) => {
            let items = items.into_iter().map(|item| from_json(item, below, values));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        serde_json::Value::Object(members) => {
            let members =
                members.into_iter().map(|(key, member)| Ok((key.into(), from_json(member, below, values)?)));
            Value::Map(Map::from_decoded(members.collect::<Result<_, _>>()?))
        }
    })
}
