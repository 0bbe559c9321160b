//! What is said of a message that cannot be read: which field is wrong, and how; never what it held.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Value};
use serde_path_to_error::Segment;

use crate::message::is_sheltered;

/// A message that cannot be read. What it shows to the sender names the field and no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DecodeError {
    reason: String,
    /// The session it was about, as far as that could be read.
    pub session_id: Option<String>,
    /// What its sender calls it, as far as that could be read.
    pub request_id: Option<String>,
}

/// Which field is wrong, and how. Of values it shows nothing but a word that should have been another.
pub(crate) fn complaint(error: &serde_path_to_error::Error<serde_json::Error>, value: &Value) -> String {
    let path = error.path().to_string();
    let why = error.inner().to_string();
    if let Some(field) = why.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let inside = if path == "." { String::new() } else { path + "." };
        return format!("{inside}{field} is required");
    }
    let wrong = error.path().iter().try_fold(value, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    match wrong {
        Some(Value::String(word)) if why.starts_with("unknown variant") && !is_sheltered(word) => {
            let word: String = word.chars().take(MAX_WORD).collect();
            format!("{path} {word:?} is unknown")
        }
        Some(wrong) => format!("{path} must not be {}", kind(wrong)),
        None => format!("{path} cannot be used"),
    }
}

/// What sort of value it is, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(text) if is_sheltered(text) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The refusal of this text, with the ids that it names.
pub(crate) fn refused(text: &str, reason: String) -> DecodeError {
    let mut ids = Ids::default();
    // Whatever is read before the text turns out not to be JSON is good enough.
    let _ = Deserializer::from_str(text).deserialize_map(&mut ids);
    DecodeError { reason, session_id: ids.session_id, request_id: ids.request_id }
}

/// The ids of a message that cannot be read otherwise.
#[derive(Default)]
struct Ids {
    session_id: Option<String>,
    request_id: Option<String>,
}

impl<'de> Visitor<'de> for &mut Ids {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "session_id" => self.session_id = map.next_value_seed(Text)?,
                "request_id" => self.request_id = map.next_value_seed(Text)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A string, or anything else for none.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Option<String>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<String>, E> {
        Ok((!is_sheltered(text)).then(|| text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<String>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Option<String>, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// How much of an unknown word is shown.
const MAX_WORD: usize = 64;
