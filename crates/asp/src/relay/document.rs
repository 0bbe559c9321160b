//! JSON documents, their members decoded one by one: a payload may be as deep inside a document as it was on
//! its own, and what nobody knows is not decoded at all.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use serde_json::value::RawValue;

use crate::error::{FieldError, ValueError};
use crate::message::fields::{Fields, text as as_text};
use crate::message::{Enc, Reason};
use crate::value::{Map, Value, decode_json};

/// The members of a document, not decoded yet.
pub(super) struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    pub(super) fn read(body: &'a [u8], limit: usize) -> Result<Self, BodyError> {
        if body.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        // The words of serde's errors quote the input, so they go no further.
        serde_json::from_slice(body).map(Self).map_err(|_| BodyError::Json)
    }

    /// A member of any type, null included.
    pub(super) fn value(&mut self, member: &'static str) -> Result<Option<Value>, BodyError> {
        let Some(raw) = self.0.remove(member) else { return Ok(None) };
        let value = decode_json(raw.get().as_bytes());
        value.map(Some).map_err(|error| BodyError::Value { member, error })
    }

    pub(super) fn text(&mut self, member: &'static str) -> Result<Option<String>, BodyError> {
        match self.value(member)? {
            None | Some(Value::Null) => Ok(None),
            Some(value) => Ok(Some(as_text(value, member, usize::MAX)?)),
        }
    }

    /// The items of a list.
    pub(super) fn list(&mut self, member: &'static str) -> Result<Option<Vec<&'a RawValue>>, BodyError> {
        let Some(raw) = self.0.remove(member).filter(|raw| raw.get() != "null") else { return Ok(None) };
        let items = serde_json::from_str(raw.get());
        items.map(Some).map_err(|_| FieldError::new(member, Reason::Type("a list")).into())
    }

    /// These members; all others are unknown or were read before.
    pub(super) fn fields(mut self, members: &[&'static str]) -> Result<Fields, BodyError> {
        let mut map = Map::new();
        for member in members {
            map.insert_some(*member, self.value(member)?);
        }
        Ok(Fields::new(map))
    }
}

/// Writes a document.
pub(super) fn to_json(map: &Map) -> Bytes {
    let mut out = BytesMut::new();
    map.encode(Enc::Json, &mut out);
    out.freeze()
}

/// Why a document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Too long.
    #[error("the document is longer than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// Not a JSON object.
    #[error("the document is not a JSON object")]
    Json,
    /// `asp` is another version than this one.
    #[error("the contract is version {0}")]
    Version(u64),
    /// `payload_b64`.
    #[error("member payload_b64: must be base64 with padding")]
    Base64,
    /// A member outside the data model.
    #[error("member {member}: {error}")]
    Value {
        /// Its name.
        member: &'static str,
        /// What is wrong.
        error: ValueError,
    },
    /// A member that is missing or wrong.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// Longest document that is read. Whoever takes one from the network bounds it further.
pub const MAX_BODY: usize = 32 * 1024 * 1024;
