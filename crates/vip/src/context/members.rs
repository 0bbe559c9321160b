//! The members of an object in an update, with the place where one is wrong.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::ContextFault;
use crate::error::Code;
use crate::size::is_within;

/// An object in an update, and where it is.
pub(super) struct Members<'a> {
    members: &'a Map<String, Value>,
    path: String,
}

/// What an update lacks.
pub(super) fn invalid(path: impl Into<String>, message: impl Into<String>) -> ContextFault {
    ContextFault { code: Code::CtxInvalid, path: path.into(), message: message.into() }
}

/// What there is too much of.
pub(super) fn too_large(path: impl Into<String>, message: impl Into<String>) -> ContextFault {
    ContextFault { code: Code::CtxTooLarge, path: path.into(), message: message.into() }
}

impl<'a> Members<'a> {
    pub(super) fn of(value: &'a Value, path: impl Into<String>) -> Result<Self, ContextFault> {
        let path = path.into();
        match value.as_object() {
            Some(members) => Ok(Self { members, path }),
            None => Err(invalid(path, "must be an object")),
        }
    }

    /// Where a member is.
    pub(super) fn path(&self, key: &str) -> String {
        format!("{}/{}", self.path, key.replace('~', "~0").replace('/', "~1"))
    }

    pub(super) fn invalid(&self, key: &str, message: &str) -> ContextFault {
        invalid(self.path(key), message)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.members.get(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.members.contains_key(key)
    }

    pub(super) fn required(&self, key: &str) -> Result<&'a Value, ContextFault> {
        self.get(key).ok_or_else(|| self.invalid(key, "is missing"))
    }

    pub(super) fn text(&self, key: &str, most: usize) -> Result<Option<String>, ContextFault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_str() {
            Some(text) if is_within(text, most) => Ok(Some(text.to_owned())),
            Some(_) => Err(self.invalid(key, &format!("must have at most {most} characters"))),
            None => Err(self.invalid(key, "must be a string")),
        }
    }

    pub(super) fn required_text(&self, key: &str, most: usize) -> Result<String, ContextFault> {
        self.text(key, most)?.ok_or_else(|| self.invalid(key, "is missing"))
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, ContextFault> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.invalid(key, "must be true or false")),
        }
    }

    pub(super) fn number(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ContextFault> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = (range.start(), range.end());
                Err(self.invalid(key, &format!("must be an integer from {least} to {most}")))
            }
        }
    }

    pub(super) fn list(&self, key: &str) -> Result<Option<&'a Vec<Value>>, ContextFault> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value.as_array().map(Some).ok_or_else(|| self.invalid(key, "must be a list")),
        }
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, ContextFault> {
        let Some(items) = self.list(key)? else { return Ok(None) };
        let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
        texts.map(Some).ok_or_else(|| self.invalid(key, "must be a list of strings"))
    }

    /// A list of ids of actions, each of them once.
    pub(super) fn ids(&self, key: &str) -> Result<Option<Vec<String>>, ContextFault> {
        let Some(ids) = self.texts(key)? else { return Ok(None) };
        let mut seen = std::collections::BTreeSet::new();
        for (place, id) in ids.iter().enumerate() {
            if !is_action_id(id) {
                return Err(invalid(format!("{}/{place}", self.path(key)), "is no id of an action"));
            }
            if !seen.insert(id) {
                return Err(invalid(format!("{}/{place}", self.path(key)), "is there twice"));
            }
        }
        Ok(Some(ids))
    }

    pub(super) fn objects(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, ContextFault> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value.as_object().map(Some).ok_or_else(|| self.invalid(key, "must be an object")),
        }
    }
}

/// Whether this can be the id of an action: a letter, then at most 63 letters, digits or `_.:-`.
pub(super) fn is_action_id(id: &str) -> bool {
    id.len() <= 64
        && id.starts_with(|first: char| first.is_ascii_alphabetic())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}
