//! Typed access to the members of a received map, with errors that name the member.

use std::ops::RangeInclusive;

use super::Reason;
use crate::error::FieldError;
use crate::value::{MAX_INT, Map, Value};

/// A map being read; an optional member that is null counts as absent.
pub(crate) struct Fields(Map);

impl Fields {
    pub(crate) fn new(map: Map) -> Self {
        Self(map)
    }

    /// The member, null included: for members whose type is any JSON.
    pub(crate) fn any(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| *value != Value::Null)
    }

    pub(crate) fn optional(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key).filter(|value| *value != Value::Null)
    }

    pub(crate) fn text(&mut self, key: &str, most: usize) -> Result<Option<String>, FieldError> {
        self.optional(key).map(|value| text(value, key, most)).transpose()
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Result<Option<bool>, FieldError> {
        self.optional(key)
            .map(|value| value.as_bool().ok_or_else(|| FieldError::new(key, Reason::Type("a boolean"))))
            .transpose()
    }

    pub(crate) fn number(
        &mut self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, FieldError> {
        self.optional(key).map(|value| number(&value, key, range)).transpose()
    }

    pub(crate) fn count(&mut self, key: &str) -> Result<Option<u64>, FieldError> {
        self.number(key, 0..=MAX_INT.unsigned_abs())
    }

    pub(crate) fn small(&mut self, key: &str) -> Result<Option<u32>, FieldError> {
        let number = self.number(key, 0..=u64::from(u32::MAX))?;
        Ok(number.and_then(|number| u32::try_from(number).ok()))
    }

    pub(crate) fn request_id(&mut self, key: &str) -> Result<Option<u16>, FieldError> {
        let number = self.number(key, 1..=u64::from(u16::MAX))?;
        Ok(number.and_then(|number| u16::try_from(number).ok()))
    }

    pub(crate) fn map(&mut self, key: &str) -> Result<Option<Map>, FieldError> {
        self.optional(key).map(|value| map(value, key)).transpose()
    }

    pub(crate) fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, FieldError> {
        match self.optional(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(FieldError::new(key, Reason::Type("a list"))),
        }
    }

    pub(crate) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, FieldError> {
        let Some(items) = self.list(key)? else { return Ok(None) };
        let texts = items.into_iter().enumerate().map(|(index, item)| {
            text(item, key, usize::MAX)
                .map_err(|error| FieldError::new(format!("{key}[{index}]"), error.reason))
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn name<T>(
        &mut self,
        key: &str,
        from_name: fn(&str) -> Option<T>,
        names: &'static [&'static str],
    ) -> Result<Option<T>, FieldError> {
        let Some(name) = self.text(key, usize::MAX)? else { return Ok(None) };
        from_name(&name).map(Some).ok_or_else(|| FieldError::new(key, Reason::Choice(names)))
    }

    /// Reads a nested map; its errors name the path.
    pub(crate) fn nested<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(Self) -> Result<T, FieldError>,
    ) -> Result<Option<T>, FieldError> {
        let Some(map) = self.map(key)? else { return Ok(None) };
        read(Self(map)).map(Some).map_err(|error| error.below(key))
    }

    /// All members not read yet.
    pub(crate) fn rest(&mut self) -> Map {
        std::mem::take(&mut self.0)
    }
}

/// Turns an absent member into an error.
pub(crate) trait Required<T> {
    fn required(self, key: &str) -> Result<T, FieldError>;
}

impl<T> Required<T> for Option<T> {
    fn required(self, key: &str) -> Result<T, FieldError> {
        self.ok_or_else(|| FieldError::new(key, Reason::Missing))
    }
}

pub(crate) fn text(value: Value, key: &str, most: usize) -> Result<String, FieldError> {
    let Value::Str(text) = value else { return Err(FieldError::new(key, Reason::Type("text"))) };
    if text.len() <= most { Ok(text) } else { Err(FieldError::new(key, Reason::TooLong(most))) }
}

pub(crate) fn number(value: &Value, key: &str, range: RangeInclusive<u64>) -> Result<u64, FieldError> {
    let int = value.as_int().ok_or_else(|| FieldError::new(key, Reason::Type("an integer")))?;
    u64::try_from(int)
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| FieldError::new(key, Reason::Range(*range.start(), *range.end())))
}

pub(crate) fn map(value: Value, key: &str) -> Result<Map, FieldError> {
    if let Value::Map(map) = value { Ok(map) } else { Err(FieldError::new(key, Reason::Type("a map"))) }
}

/// The longest prefix of at most `most` bytes that ends between characters.
pub(crate) fn clip(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
