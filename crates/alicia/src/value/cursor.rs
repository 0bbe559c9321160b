//! Envelopes as nearly all of them are written, read without building a map of them.
//!
//! Nothing here says what is wrong with a packet: whatever is written in another way is left to the decoder of
//! [`Value`]s, which takes all there is and knows every error.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;

use super::keys::known;
use super::msgpack::{Reader, USUAL_LENGTH};
use super::{MAX_VALUES, Map, Value};

/// An envelope with its keys and no others, each once, and the body last; it names its conversation.
pub(crate) struct Plain<'a> {
    pub(crate) stanza_id: i32,
    pub(crate) conversation: &'a str,
    pub(crate) number: u16,
    pub(crate) meta: Option<Value>,
    /// What is left of the packet.
    body: Reader<'a>,
}

impl<'a> Plain<'a> {
    /// Reads all but the body; none for anything else, however it is meant.
    pub(crate) fn open(packet: &'a [u8]) -> Option<Self> {
        let mut reader = Reader { rest: packet, values: MAX_VALUES.saturating_sub(UNCOUNTED) };
        let members = match reader.byte().ok()? {
            marker @ 0x84..=0x85 => marker & 0x0F,
            _ => return None,
        };
        let (mut stanza_id, mut conversation, mut number, mut meta) = (None, None, None, None);
        for _ in 1..members {
            let marker = reader.byte().ok()?;
            match reader.letters(marker).ok()? {
                b"stanzaId" if stanza_id.is_none() => stanza_id = i32::try_from(int(&mut reader)?).ok(),
                b"conversationId" if conversation.is_none() => {
                    let marker = reader.byte().ok()?;
                    conversation = Some(reader.text(marker).ok()?);
                }
                b"type" if number.is_none() => number = u16::try_from(int(&mut reader)?).ok(),
                b"meta" if meta.is_none() => meta = Some(reader.value(1).ok()?),
                _ => return None,
            }
        }
        let marker = reader.byte().ok()?;
        if reader.letters(marker).ok()? != b"body" {
            return None;
        }
        Some(Self { stanza_id: stanza_id?, conversation: conversation?, number: number?, meta, body: reader })
    }

    /// The body, to be read member by member.
    pub(crate) fn cursor(&self) -> Option<Cursor<'a>> {
        let mut reader = self.body.clone();
        let left = open_map(&mut reader)?;
        Some(Cursor { reader, left, key: None, conversation: self.conversation, strayed: false })
    }

    /// The body, whose members may come in any order, without its `conversationId`.
    pub(crate) fn into_map(self) -> Option<Map> {
        let Self { body: mut reader, conversation, .. } = self;
        let length = open_map(&mut reader)?;
        let mut members: Vec<(Cow<'static, str>, Value)> = Vec::with_capacity(length.min(USUAL_LENGTH));
        for _ in 0..length {
            let marker = reader.byte().ok()?;
            let key = known(reader.text(marker).ok()?)?;
            if key == CONVERSATION {
                let marker = reader.byte().ok()?;
                if reader.text(marker).ok()? != conversation {
                    return None;
                }
                continue;
            }
            // Known keys are all the same text each, so its place tells them apart.
            if members.iter().any(|(earlier, _)| std::ptr::eq(&**earlier, key)) {
                return None;
            }
            members.push((Cow::Borrowed(key), reader.value(BELOW_BODY).ok()?));
        }
        reader.rest.is_empty().then_some(Map::from_distinct(members))
    }
}

/// A body that is read in the order of the reference. A member that is asked for and does not come next counts as
/// absent; if it comes later, the cursor does not reach the end.
pub(crate) struct Cursor<'a> {
    reader: Reader<'a>,
    /// Members whose keys were not read yet.
    left: usize,
    /// The key of the next member, if it was read already.
    key: Option<&'a [u8]>,
    conversation: &'a str,
    /// Whether something came that is for others to read.
    strayed: bool,
}

impl<'a> Cursor<'a> {
    /// Whether this member comes next; its value is to be read then.
    pub(crate) fn is_at(&mut self, key: &str) -> bool {
        loop {
            if self.strayed {
                return false;
            }
            let Some(next) = self.peek() else { return false };
            if next == key.as_bytes() {
                self.key = None;
                return true;
            }
            if next != CONVERSATION.as_bytes() {
                return false;
            }
            self.pass_conversation();
        }
    }

    /// Gives up.
    pub(crate) const fn stray(&mut self) {
        self.strayed = true;
    }

    /// Whether everything was read, and nothing was strange.
    pub(crate) fn finish(mut self) -> bool {
        // A conversation may be named at the end; any other key is one too many.
        !self.is_at("") && self.key.is_none() && !self.strayed && self.reader.rest.is_empty()
    }

    /// The next value, if it is text.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let marker = self.reader.byte().ok()?;
        self.reader.text(marker).ok()
    }

    /// The next value, if it is an integer.
    pub(crate) fn int(&mut self) -> Option<i64> {
        int(&mut self.reader)
    }

    /// The next value, if it is a boolean.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.reader.byte().ok()? {
            0xC2 => Some(false),
            0xC3 => Some(true),
            _ => None,
        }
    }

    /// The next value, whatever it is, but nil: that may stand for another member.
    pub(crate) fn value(&mut self) -> Option<Value> {
        self.reader.value(BELOW_BODY).ok().filter(|value| *value != Value::Nil)
    }

    fn peek(&mut self) -> Option<&'a [u8]> {
        if self.key.is_none() {
            self.left = self.left.checked_sub(1)?;
            let marker = self.reader.byte().ok();
            self.key = marker.and_then(|marker| self.reader.letters(marker).ok());
            self.strayed |= self.key.is_none();
        }
        self.key
    }

    fn pass_conversation(&mut self) {
        self.key = None;
        self.strayed |= self.text() != Some(self.conversation);
    }
}

fn open_map(reader: &mut Reader<'_>) -> Option<usize> {
    let length = match reader.byte().ok()? {
        marker @ 0x80..=0x8F => usize::from(marker & 0x0F),
        0xDE => reader.length16().ok()?,
        _ => return None,
    };
    reader.enter(length, 1).ok().map(|_| length)
}

fn int(reader: &mut Reader<'_>) -> Option<i64> {
    // Most of them are small.
    if let [byte @ 0x00..=0x7F, rest @ ..] = reader.rest {
        reader.rest = rest;
        return Some(i64::from(*byte));
    }
    if let Value::Int(int) = reader.value(1).ok()? { Some(int) } else { None }
}

const CONVERSATION: &str = "conversationId";
/// How deep the values of a body lie.
const BELOW_BODY: usize = 2;
/// Values that are not counted here: a packet with nearly too many is for others to judge.
const UNCOUNTED: usize = 1024;
