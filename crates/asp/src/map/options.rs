//! What a client wants of one request, and how large a record of it may be.

use serde_json::{Value as Json, json};

use crate::codec::MAX_PAYLOAD;
use crate::message::{DEFAULT_WANT, Enc, Feature, Features, Invoke};

/// What a client wants to see of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// False: only the end, with the output.
    pub stream: bool,
    /// Record types wanted besides those that are always sent; none for the default ones.
    pub want: Option<Vec<String>>,
    /// The largest payload that the client took when it asked. Texts are cut by it: a resume has to find the
    /// same pieces under the same indexes, whatever the client takes by then.
    pub largest: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { stream: true, want: None, largest: MAX_PAYLOAD as usize }
    }
}

impl Options {
    /// From an INVOKE of a client that takes payloads up to `largest` bytes.
    pub fn of(invoke: &Invoke, largest: usize) -> Self {
        Self { stream: invoke.stream, want: invoke.want.clone(), largest }
    }

    /// How many bytes of text one record carries, whatever has to be escaped in it.
    pub fn piece(&self) -> usize {
        self.largest.saturating_sub(RECORD_ROOM).max(4 * ESCAPED) / ESCAPED
    }

    /// Whether the end of a request has room for a text of this weight besides its other members.
    pub fn end_carries(&self, weight: usize) -> bool {
        weight + END_ROOM <= self.largest
    }

    /// More records than can have been sent of a turn to which so many events belong.
    pub fn most_records(&self, events: u64) -> u64 {
        events.saturating_mul(1 + (LARGEST_TEXT / self.piece()) as u64)
    }

    /// What is remembered with the turn, so that it can be rendered again after a resume.
    ///
    /// A function that answers it is told what the client can receive, too, and how it writes; a bare
    /// client that writes JSON leaves nothing behind.
    pub fn store(&self, features: Features, enc: Enc) -> Json {
        let mut stored = serde_json::Map::new();
        if !self.stream {
            stored.insert("stream".into(), false.into());
        }
        if let Some(want) = &self.want {
            stored.insert("want".into(), json!(want));
        }
        let agreed: Vec<&str> = features.iter().map(Feature::name).collect();
        if !agreed.is_empty() {
            stored.insert("features".into(), json!(agreed));
        }
        if enc != Enc::Json {
            stored.insert("enc".into(), enc.name().into());
        }
        if self.largest != MAX_PAYLOAD as usize && features.has(Feature::Resume) {
            stored.insert("largest".into(), self.largest.into());
        }
        if stored.is_empty() { Json::Null } else { Json::Object(stored) }
    }

    /// What was remembered with the turn.
    pub fn restore(stored: &Json) -> Self {
        let want = stored
            .get("want")
            .and_then(Json::as_array)
            .map(|names| names.iter().filter_map(Json::as_str).map(str::to_owned).collect::<Vec<_>>());
        let largest =
            stored.get("largest").and_then(Json::as_u64).and_then(|largest| usize::try_from(largest).ok());
        Self {
            stream: stored.get("stream").and_then(Json::as_bool).unwrap_or(true),
            want,
            largest: largest.unwrap_or(MAX_PAYLOAD as usize),
        }
    }

    pub(super) fn wants(&self, record: &str) -> bool {
        self.stream
            && match &self.want {
                Some(want) => want.iter().any(|name| name == record),
                None => DEFAULT_WANT.contains(&record),
            }
    }
}

/// The bytes that a text would take as JSON, at most.
pub fn json_weight(text: &str) -> usize {
    let weight = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        _ if byte < b' ' || byte == 0x7f => ESCAPED,
        _ => 1,
    };
    text.bytes().map(weight).sum()
}

/// What a record of text has besides its text.
pub(crate) const RECORD_ROOM: usize = 64;
/// To how many bytes one of a text can grow when it is written as JSON.
pub(crate) const ESCAPED: usize = 6;
/// What the end of a request may have besides its output.
const END_ROOM: usize = 512;
/// No single event carries more text.
const LARGEST_TEXT: usize = 64 << 20;
