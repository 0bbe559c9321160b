//! Texts with variables: `{name}`, `{name.field}`, and `{{name}}` for the letters themselves.
//!
//! Every string has the fields `length` (characters), `bytes` and `sha256`; objects and lists have
//! the fields that they have, and lists have `length`. What does not exist is empty. Braces around
//! anything but a name are ordinary letters, so that JSON needs no escaping.
//!
//! Where a value is wanted, a text that is nothing but one variable becomes the value itself;
//! `{n:number}` and `{text:json}` turn a text into one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};
use switchboard_core::hex;

/// A text with variables, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable { path: String, cast: Cast },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cast {
    None,
    Number,
    Json,
}

/// The values of variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(BTreeMap<String, Value>);

impl Template {
    pub(super) fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            plain.push_str(&rest[..open]);
            rest = &rest[open..];
            if let Some((escaped, after)) = rest.strip_prefix('{').and_then(variable)
                && let Some(after) = after.strip_prefix('}')
            {
                let _ = write!(plain, "{{{escaped}}}");
                rest = after;
            } else if let Some((inside, after)) = variable(rest) {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                let (path, cast) = match inside.split_once(':') {
                    Some((path, "number")) => (path, Cast::Number),
                    Some((path, _)) => (path, Cast::Json),
                    None => (inside, Cast::None),
                };
                pieces.push(Piece::Variable { path: path.to_owned(), cast });
                rest = after;
            } else {
                plain.push('{');
                rest = &rest[1..];
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self { pieces }
    }

    /// The text if it holds no variables.
    pub(super) fn fixed(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The first variable that is not in `known`.
    pub(super) fn unknown(&self, known: &BTreeSet<String>) -> Option<&str> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Variable { path, .. } if !known.contains(root(path)) => Some(path.as_str()),
            Piece::Variable { .. } | Piece::Text(_) => None,
        })
    }

    pub(super) fn render(&self, variables: &Variables) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Variable { path, .. } => text.push_str(&as_text(variables.find(path))),
            }
        }
        text
    }

    /// The value that the text stands for.
    pub(super) fn value(&self, variables: &Variables) -> Result<Value, String> {
        let [Piece::Variable { path, cast }] = self.pieces.as_slice() else {
            return Ok(Value::String(self.render(variables)));
        };
        let value = variables.find(path);
        match (cast, value) {
            (Cast::Number, Value::String(text)) => match serde_json::from_str(&text) {
                Ok(number @ Value::Number(_)) => Ok(number),
                _ => Err(format!("`{path}` is not a number: {text:?}")),
            },
            (Cast::Json, Value::String(text)) => {
                serde_json::from_str(&text).map_err(|error| format!("`{path}` is not JSON: {error}"))
            }
            (Cast::None | Cast::Number | Cast::Json, value) => Ok(value),
        }
    }
}

impl Variables {
    pub(super) fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// What had this name before, for [`Variables::restore`].
    pub(super) fn get(&self, name: &str) -> Option<Value> {
        self.0.get(name).cloned()
    }

    pub(super) fn restore(&mut self, name: &str, before: Option<Value>) {
        match before {
            Some(value) => self.set(name, value),
            None => {
                self.0.remove(name);
            }
        }
    }

    fn find(&self, path: &str) -> Value {
        let mut names = path.split('.');
        let first = names.next().unwrap_or_default();
        let mut value = self.0.get(first).cloned().unwrap_or_default();
        for name in names {
            value = field(value, name);
        }
        value
    }
}

fn field(value: Value, name: &str) -> Value {
    match (value, name) {
        (Value::String(text), "length") => text.chars().count().into(),
        (Value::String(text), "bytes") => text.len().into(),
        (Value::String(text), "sha256") => hex(&Sha256::digest(text.as_bytes())).into(),
        (Value::Array(list), "length") => list.len().into(),
        (Value::Array(mut list), index) => match index.parse::<usize>() {
            Ok(index) if index < list.len() => list.swap_remove(index),
            _ => Value::Null,
        },
        (Value::Object(mut fields), name) => fields.remove(name).unwrap_or_default(),
        (Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_), _) => Value::Null,
    }
}

/// A value as it reads inside a sentence.
pub(super) fn as_text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
    }
}

/// The variable that `text` begins with, and what follows it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let (inside, after) = text.strip_prefix('{')?.split_once('}')?;
    let (path, cast) = inside.split_once(':').unwrap_or((inside, "json"));
    let named = path.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && path.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
    (named && matches!(cast, "number" | "json")).then_some((inside, after))
}

fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variables() -> Variables {
        let mut variables = Variables::default();
        variables.set("n", "7");
        variables.set("input", "héllo");
        variables.set("result", json!({ "city": "Bern", "list": [1, 2] }));
        variables
    }

    fn render(text: &str) -> String {
        Template::parse(text).render(&variables())
    }

    #[test]
    fn variables_and_their_fields_are_filled_in() {
        assert_eq!(render("{n} x {input}"), "7 x héllo");
        assert_eq!(render("{input.length} {input.bytes}"), "5 6");
        assert_eq!(render("{n.sha256}"), "7902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6da49081b2451");
        assert_eq!(
            render("{result.city} {result.list.1} {result.list.length} {result.list}"),
            "Bern 2 2 [1,2]"
        );
        assert_eq!(render("[{result.nothing}]"), "[]");
    }

    #[test]
    fn other_braces_are_letters() {
        for text in ["{", "}", "{}", "{ n }", r#"{"a":{"b":1}}"#, "{n", "{1}", "{n:rust}"] {
            assert_eq!(render(text), text);
        }
        assert_eq!(render("{{n}} {{{n}}} {{n"), "{n} {{n}} {{n");
        assert_eq!(render(r#"{"a":{n}}"#), r#"{"a":7}"#);
    }

    #[test]
    fn a_lone_variable_is_a_value() {
        let value = |text: &str| Template::parse(text).value(&variables());
        assert_eq!(value("{result.list}").unwrap(), json!([1, 2]));
        assert_eq!(value("{n}").unwrap(), json!("7"));
        assert_eq!(value("{n:number}").unwrap(), json!(7));
        assert_eq!(value("{n:json}").unwrap(), json!(7));
        assert_eq!(value("n={n}").unwrap(), json!("n=7"));
        assert!(value("{input:number}").is_err());
    }

    #[test]
    fn unknown_names_are_found() {
        let known = BTreeSet::from(["n".to_owned()]);
        assert_eq!(Template::parse("{n} {n.length}").unknown(&known), None);
        assert_eq!(Template::parse("{n} {m.length}").unknown(&known), Some("m.length"));
    }
}
