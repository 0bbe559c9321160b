//! The usual message, read in one go: its fields in the order of the reference, its strings without escapes. That is
//! how the clients of this protocol write it. Whatever is written otherwise is left to serde, which takes its time.

use std::sync::Arc;

use serde_json::{Deserializer, Map, Value};

use super::{
    ClientMessageType, ClientType, ResultStatus, ServerMessageType, TaskStatus, ToolType, is_sheltered,
};

/// What can be read this way, off the beginning of a text; none if it is not written as usual, or wrong.
pub(crate) trait Usual: Sized {
    fn read(rest: &mut Rest<'_>) -> Option<Self>;
}

/// What is left of a text.
pub(crate) struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Whether nothing is left that says anything.
    pub(crate) fn is_over(&mut self) -> bool {
        self.skip_blanks();
        self.0.is_empty()
    }

    /// Steps over the name of a field, if it is this one. `before` is what opens the object or separates its fields.
    pub(crate) fn name(&mut self, before: &mut &[u8; 1], quoted: &str) -> bool {
        let mut ahead = Self(self.0);
        if !ahead.step(before) {
            return false;
        }
        ahead.skip_blanks();
        let Some(mut ahead) = ahead.0.strip_prefix(quoted).map(Self) else { return false };
        let found = ahead.step(b":");
        if found {
            *self = ahead;
            *before = b",";
        }
        found
    }

    /// Steps over this piece, if it comes next.
    pub(crate) fn step<const N: usize>(&mut self, piece: &[u8; N]) -> bool {
        self.skip_blanks();
        let found = self.0.as_bytes().starts_with(piece);
        if found {
            self.skip(N);
        }
        found
    }

    fn skip_blanks(&mut self) {
        let blanks = self.0.bytes().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count();
        self.skip(blanks);
    }

    fn skip(&mut self, bytes: usize) {
        self.0 = self.0.get(bytes..).unwrap_or_default();
    }

    fn string(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let inside = self.0.strip_prefix('"')?;
        let end = inside.bytes().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        let (text, rest) = inside.split_at_checked(end)?;
        self.0 = rest.strip_prefix('"').filter(|_| !is_sheltered(text))?;
        Some(text)
    }

    fn value(&mut self) -> Option<Value> {
        if self.step(b"null") {
            return Some(Value::Null);
        }
        if let Some(text) = self.string() {
            return Some(text.into());
        }
        let mut values = Deserializer::from_str(self.0).into_iter();
        let value = values.next()?.ok()?;
        self.0 = self.0.get(values.byte_offset()..)?;
        Some(value)
    }
}

impl<T: Usual> Usual for Option<T> {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        if rest.step(b"null") { Some(None) } else { T::read(rest).map(Some) }
    }
}

impl<T: Usual> Usual for Vec<T> {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        if !rest.step(b"[") {
            return None;
        }
        if rest.step(b"]") {
            return Some(Self::new());
        }
        // Mostly there is one.
        let mut items = Self::with_capacity(1);
        loop {
            items.push(T::read(rest)?);
            if rest.step(b"]") {
                return Some(items);
            }
            if !rest.step(b",") {
                return None;
            }
        }
    }
}

impl Usual for String {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        rest.string().map(str::to_owned)
    }
}

impl Usual for Value {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        rest.value()
    }
}

impl Usual for Arc<Value> {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        rest.value().map(Self::new)
    }
}

impl Usual for Map<String, Value> {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        match rest.value()? {
            Value::Object(map) => Some(map),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }
}

macro_rules! usual_words {
    ($($type:ty),+ $(,)?) => {
        $(impl Usual for $type {
            fn read(rest: &mut Rest<'_>) -> Option<Self> {
                Self::parse(rest.string()?)
            }
        })+
    };
}

usual_words! { ClientMessageType, ServerMessageType, ClientType, TaskStatus, ResultStatus, ToolType }
