//! Where the members of a body go: into a map that can be looked at, or straight into a packet.

use std::ops::Range;

use super::wire::Wire;
use crate::value::{Map, encode_str};

/// Takes members in the order of the reference.
pub(crate) trait Sink {
    /// One more member.
    fn put<T: Wire>(&mut self, key: &'static str, value: &T);

    /// One more member that is text.
    fn put_text(&mut self, key: &'static str, text: &str);

    /// One more member with the value of an earlier one; answers whether there was such a one.
    fn repeat(&mut self, key: &'static str, earlier: &'static str) -> bool;
}

impl Sink for Map {
    fn put<T: Wire>(&mut self, key: &'static str, value: &T) {
        self.insert(key, value.to_value());
    }

    fn put_text(&mut self, key: &'static str, text: &str) {
        self.insert(key, text);
    }

    fn repeat(&mut self, key: &'static str, earlier: &'static str) -> bool {
        let Some(value) = self.get(earlier).cloned() else { return false };
        self.insert(key, value);
        true
    }
}

/// Counts members, for the header that comes before them.
#[derive(Debug, Default)]
pub(crate) struct Count(pub(crate) usize);

impl Sink for Count {
    fn put<T: Wire>(&mut self, _key: &'static str, _value: &T) {
        self.0 = self.0.saturating_add(1);
    }

    fn put_text(&mut self, _key: &'static str, _text: &str) {
        self.0 = self.0.saturating_add(1);
    }

    fn repeat(&mut self, _key: &'static str, _earlier: &'static str) -> bool {
        self.0 = self.0.saturating_add(1);
        true
    }
}

/// Appends members to a packet, in the canonical form.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    out: &'a mut Vec<u8>,
    /// Where the value lies that may have to be repeated.
    repeatable: Range<usize>,
}

impl<'a> Packet<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, repeatable: 0..0 }
    }
}

impl Sink for Packet<'_> {
    fn put<T: Wire>(&mut self, key: &'static str, value: &T) {
        encode_str(key, self.out);
        let begin = self.out.len();
        value.put(self.out);
        if key == REPEATED {
            self.repeatable = begin..self.out.len();
        }
    }

    fn put_text(&mut self, key: &'static str, text: &str) {
        encode_str(key, self.out);
        encode_str(text, self.out);
    }

    fn repeat(&mut self, key: &'static str, earlier: &'static str) -> bool {
        let known = earlier == REPEATED && !self.repeatable.is_empty();
        if known {
            encode_str(key, self.out);
            self.out.extend_from_within(self.repeatable.clone());
        }
        known
    }
}

/// The one member that is repeated under another name.
const REPEATED: &str = "content";
