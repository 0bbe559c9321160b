//! Envelopes as the tests write and read them, and the numbers of their types.

use serde_json::{Value, json};

use crate::pack::{pack, pack_map, unpack};

pub(crate) const ERROR: u64 = 1;
pub(crate) const USER: u64 = 2;
pub(crate) const ASSISTANT: u64 = 3;
pub(crate) const AUDIO: u64 = 4;
pub(crate) const REASONING: u64 = 5;
pub(crate) const REQUEST: u64 = 6;
pub(crate) const RESULT: u64 = 7;
pub(crate) const ACK: u64 = 8;
pub(crate) const TRANSCRIPTION: u64 = 9;
pub(crate) const STOP: u64 = 10;
pub(crate) const VARIATION: u64 = 11;
pub(crate) const CONFIGURATION: u64 = 12;
pub(crate) const START: u64 = 13;
pub(crate) const TRACE: u64 = 14;
pub(crate) const COMMENTARY: u64 = 15;
pub(crate) const SENTENCE: u64 = 16;
pub(crate) const SYNC: u64 = 17;
pub(crate) const SYNCED: u64 = 18;
pub(crate) const FEEDBACK: u64 = 20;
pub(crate) const FEEDBACK_DONE: u64 = 21;
pub(crate) const NOTE: u64 = 22;
pub(crate) const NOTE_DONE: u64 = 23;
pub(crate) const MEMORY: u64 = 24;
pub(crate) const MEMORY_DONE: u64 = 25;
pub(crate) const INFO: u64 = 26;
pub(crate) const STATS: u64 = 27;
pub(crate) const UPDATE: u64 = 28;
pub(crate) const WEIGHTS: u64 = 29;
pub(crate) const ELITE: u64 = 30;
pub(crate) const OPTIONS: u64 = 31;
pub(crate) const SUBSCRIBE: u64 = 40;
pub(crate) const UNSUBSCRIBE: u64 = 41;
pub(crate) const SUBSCRIBED: u64 = 42;
pub(crate) const UNSUBSCRIBED: u64 = 43;

/// What a handshake brings beside a replay.
pub(crate) const INTRODUCTION: [(i64, u64); 3] = [(0, INFO), (0, STATS), (0, OPTIONS)];

/// An envelope from the server.
#[derive(Clone, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stanza: i64,
    pub(crate) conversation: String,
    pub(crate) kind: u64,
    pub(crate) meta: Value,
    pub(crate) body: Value,
}

impl Envelope {
    /// Reads one; it must have exactly the keys of an envelope, in their order.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let entries = unpack(bytes);
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert!(
            keys == ["stanzaId", "conversationId", "type", "body"]
                || keys == ["stanzaId", "conversationId", "type", "meta", "body"],
            "{entries:?}"
        );
        let get = |key: &str| entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        Self {
            bytes: bytes.to_vec(),
            stanza: get("stanzaId").and_then(|value| value.as_i64()).expect("a stanza"),
            conversation: get("conversationId").and_then(|id| Some(id.as_str()?.to_owned())).expect("an id"),
            kind: get("type").and_then(|value| value.as_u64()).expect("a type"),
            meta: get("meta").unwrap_or_default(),
            body: get("body").filter(Value::is_object).expect("a body"),
        }
    }

    /// A text of the body.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.body[key].as_str().unwrap_or_else(|| panic!("no {key} in {self:?}"))
    }

    pub(crate) fn id(&self) -> &str {
        self.text("id")
    }

    /// The keys of the body, sorted.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.body.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys
    }

    /// It acknowledges this stanza, and nothing more.
    pub(crate) fn assert_ack(&self, stanza: i64, success: bool) {
        assert_eq!((self.stanza, self.kind), (0, ACK), "{self:?}");
        let body = json!({
            "conversationId": self.conversation, "acknowledgedStanzaId": stanza, "success": success,
        });
        assert_eq!(self.body, body);
    }

    /// It is an ErrorMessage as the table of codes has it.
    pub(crate) fn assert_error(&self, code: u64, recoverable: bool, origin: &str) {
        assert_eq!(self.kind, ERROR, "{self:?}");
        let severity = if matches!(code, 102 | 103 | 504 | 505) { 1 } else { 2 };
        let said = (&self.body["code"], &self.body["severity"], &self.body["recoverable"]);
        assert_eq!(said, (&json!(code), &json!(severity), &json!(recoverable)), "{self:?}");
        assert_eq!(self.body["originatingId"], json!(origin), "{self:?}");
        assert!(self.id().starts_with("err_") && !self.text("message").is_empty(), "{self:?}");
        assert_eq!(self.body["conversationId"], json!(self.conversation), "{self:?}");
    }

    /// It is a sentence of this answer.
    pub(crate) fn assert_sentence(&self, answer: &str, sequence: u64, text: &str, last: bool) {
        assert_eq!(self.kind, SENTENCE, "{self:?}");
        assert_eq!(self.body["previousId"], json!(answer), "{self:?}");
        assert_eq!(self.body["sequence"], json!(sequence), "{self:?}");
        assert_eq!(self.body["text"], json!(text), "{self:?}");
        assert_eq!(self.body["isFinal"].as_bool().unwrap_or_default(), last, "{self:?}");
        assert!(self.id().starts_with("ams_"), "{self:?}");
    }

    /// It begins an answer to this message; answers the id of the answer.
    pub(crate) fn assert_start(&self, question: &str) -> String {
        assert_eq!(self.kind, START, "{self:?}");
        assert_eq!(self.body["previousId"], json!(question), "{self:?}");
        assert!(self.id().starts_with("am_"), "{self:?}");
        self.id().to_owned()
    }
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{} {} {}", self.stanza, self.kind, self.conversation, self.body)?;
        if self.meta.is_null() { Ok(()) } else { write!(f, " meta {}", self.meta) }
    }
}

/// The bytes of an envelope; bodies that name their conversation do so.
pub(crate) fn envelope(stanza: i64, conversation: &str, kind: u64, body: &Value) -> Vec<u8> {
    let mut body = body.clone();
    let named = matches!(kind, 2 | 4 | 7 | 8 | 10 | 11 | 12 | 15 | 20 | 29 | 30 | 40 | 41);
    if named && !conversation.is_empty() && body.get("conversationId").is_none() {
        body["conversationId"] = conversation.into();
    }
    pack_map(&[
        ("stanzaId", pack(&stanza.into())),
        ("conversationId", pack(&conversation.into())),
        ("type", pack(&kind.into())),
        ("body", pack(&body)),
    ])
}

/// Stanza and type of each, to compare.
pub(crate) fn places(envelopes: &[Envelope]) -> Vec<(i64, u64)> {
    envelopes.iter().map(|envelope| (envelope.stanza, envelope.kind)).collect()
}

/// The bytes of each, to compare.
pub(crate) fn bytes(envelopes: &[Envelope]) -> Vec<&[u8]> {
    envelopes.iter().map(|envelope| envelope.bytes.as_slice()).collect()
}
