//! Side information of an envelope (§2.5).

use crate::value::{Map, Value};

/// `meta`: members in the order they were given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meta(Map);

impl Meta {
    /// From a map; members that are nil count as absent.
    pub fn new(mut map: Map) -> Self {
        map.retain(|_, value| *value != Value::Nil);
        Self(map)
    }

    /// When the sender made the message, in milliseconds since the Unix epoch; text is another form of it,
    /// found among the members.
    pub fn timestamp(&self) -> Option<i64> {
        self.0.get_int("timestamp")
    }

    /// The build of the client.
    pub fn client_version(&self) -> Option<&str> {
        self.0.get_str("clientVersion")
    }

    /// The trace of the sender, if both halves are there and well-formed.
    pub fn trace(&self) -> Option<Trace> {
        Trace::new(self.0.get_str(TRACE_ID)?, self.0.get_str(SPAN_ID)?)
    }

    /// The same with this trace.
    #[must_use]
    pub fn with_trace(mut self, trace: &Trace) -> Self {
        self.0.insert(TRACE_ID, trace.trace_id.as_str());
        self.0.insert(SPAN_ID, trace.span_id.as_str());
        self
    }

    /// All members.
    pub fn as_map(&self) -> &Map {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where a message stands in a distributed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    trace_id: String,
    span_id: String,
}

impl Trace {
    /// From 32 and 16 lower-case hexadecimal digits.
    pub fn new(trace_id: &str, span_id: &str) -> Option<Self> {
        (is_hex(trace_id, 32) && is_hex(span_id, 16))
            .then(|| Self { trace_id: trace_id.to_owned(), span_id: span_id.to_owned() })
    }

    /// The trace.
    pub fn trace_id(&self) -> &str {
        &self.trace_id
    }

    /// The span of the sender.
    pub fn span_id(&self) -> &str {
        &self.span_id
    }
}

const TRACE_ID: &str = "messaging.trace_id";
const SPAN_ID: &str = "messaging.span_id";

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
