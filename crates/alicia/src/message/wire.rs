//! How single values are written in MessagePack.

use bytes::Bytes;
use switchboard_core::Pii;

use super::Reason;
use super::rows::{Fields, Members, encode};
use crate::error::{FieldError, Severity};
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::value::{Cursor, Map, Value, encode_array_length, encode_map, encode_msgpack, encode_str};

/// How one value is written in MessagePack.
pub(crate) trait Wire: Sized {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError>;
    fn to_value(&self) -> Value;

    /// Reads it straight from a packet; none within if it means that there is none, and none at all if it is
    /// not written as usual.
    fn from_packet(cursor: &mut Cursor<'_>, limits: &AliciaLimits) -> Option<Option<Self>> {
        let value = cursor.value()?;
        if Self::is_absent(&value) { Some(None) } else { Self::from_value(value, limits).ok().map(Some) }
    }

    /// Appends its canonical form.
    fn put(&self, out: &mut Vec<u8>) {
        encode_msgpack(&self.to_value(), out);
    }

    /// Whether a value that is there means that there is none.
    fn is_absent(_value: &Value) -> bool {
        false
    }
}

impl Wire for Value {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        Ok(value)
    }

    fn to_value(&self) -> Value {
        self.clone()
    }

    fn put(&self, out: &mut Vec<u8>) {
        encode_msgpack(self, out);
    }
}

impl Wire for Map {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if let Value::Map(map) = value { Ok(map) } else { Err(here(Reason::Type("a map"))) }
    }

    fn to_value(&self) -> Value {
        Value::Map(self.clone())
    }

    fn put(&self, out: &mut Vec<u8>) {
        encode_map(self, out);
    }
}

impl Wire for String {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if let Value::Str(text) = value { Ok(text) } else { Err(here(Reason::Type("text"))) }
    }

    fn from_packet(cursor: &mut Cursor<'_>, _limits: &AliciaLimits) -> Option<Option<Self>> {
        cursor.text().map(|text| Some(text.to_owned()))
    }

    fn to_value(&self) -> Value {
        self.as_str().into()
    }

    fn put(&self, out: &mut Vec<u8>) {
        encode_str(self.as_str(), out);
    }
}

impl<T: Wire> Wire for Pii<T> {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        T::from_value(value, limits).map(Self)
    }

    fn from_packet(cursor: &mut Cursor<'_>, limits: &AliciaLimits) -> Option<Option<Self>> {
        T::from_packet(cursor, limits).map(|value| value.map(Self))
    }

    fn to_value(&self) -> Value {
        self.0.to_value()
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
}

impl Wire for Bytes {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if let Value::Bin(bytes) = value { Ok(bytes) } else { Err(here(Reason::Type("bytes"))) }
    }

    fn to_value(&self) -> Value {
        Value::Bin(self.clone())
    }
}

impl Wire for bool {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        value.as_bool().ok_or_else(|| here(Reason::Type("a boolean")))
    }

    fn from_packet(cursor: &mut Cursor<'_>, _limits: &AliciaLimits) -> Option<Option<Self>> {
        cursor.bool().map(Some)
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl Wire for f64 {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        let float = value.as_float().ok_or_else(|| here(Reason::Type("a number")))?;
        if float.is_finite() { Ok(float) } else { Err(here(Reason::Range)) }
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

/// Integers of any width; one that does not fit is out of range.
macro_rules! integers {
    ($($type:ident |$int:ident| $value:expr;)*) => {$(
        impl Wire for $type {
            fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
                match (value.as_int(), &value) {
                    (Some(int), _) => Self::try_from(int).map_err(|_| here(Reason::Range)),
                    (None, Value::UInt(uint)) => Self::try_from(*uint).map_err(|_| here(Reason::Range)),
                    (None, _) => Err(here(Reason::Type("an integer"))),
                }
            }

            fn from_packet(cursor: &mut Cursor<'_>, _limits: &AliciaLimits) -> Option<Option<Self>> {
                Self::try_from(cursor.int()?).ok().map(Some)
            }

            fn to_value(&self) -> Value {
                let $int = *self;
                Value::from($value)
            }
        }
    )*};
}

integers! {
    i64 |int| int;
    u64 |int| int;
    i32 |int| i64::from(int);
    u32 |int| i64::from(int);
    u16 |int| i64::from(int);
}

/// The severity is a number from 0 to 3.
impl Wire for Severity {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        Self::from_number(i64::from_value(value, limits)?).ok_or_else(|| here(Reason::Range))
    }

    fn to_value(&self) -> Value {
        i64::from(self.number()).into()
    }
}

/// An empty id is no id.
impl Wire for Id {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        Self::new(String::from_value(value, limits)?).map_err(here)
    }

    fn from_packet(cursor: &mut Cursor<'_>, _limits: &AliciaLimits) -> Option<Option<Self>> {
        let text = cursor.text()?;
        if text.is_empty() { Some(None) } else { Self::new(text).ok().map(Some) }
    }

    fn to_value(&self) -> Value {
        self.as_str().into()
    }

    fn put(&self, out: &mut Vec<u8>) {
        encode_str(self.as_str(), out);
    }

    fn is_absent(value: &Value) -> bool {
        value.as_str() == Some("")
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        let Value::Array(items) = value else { return Err(here(Reason::Type("a list"))) };
        let items = items.into_iter().enumerate().map(|(index, item)| {
            T::from_value(item, limits).map_err(|error| error.below(&format!("[{index}]")))
        });
        items.collect()
    }

    fn to_value(&self) -> Value {
        Value::Array(self.iter().map(T::to_value).collect())
    }

    fn put(&self, out: &mut Vec<u8>) {
        encode_array_length(self.len(), out);
        self.iter().for_each(|item| item.put(out));
    }
}

/// A map inside of a body.
impl<T: Members> Wire for T {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        T::read(&mut Fields::new(Map::from_value(value, limits)?, limits))
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        self.write(None, &mut map);
        Value::Map(map)
    }

    fn put(&self, out: &mut Vec<u8>) {
        encode(self, None, out);
    }
}

/// An error at the value itself; whoever knows its key adds it.
pub(crate) fn here(reason: Reason) -> FieldError {
    FieldError::new("", reason)
}
