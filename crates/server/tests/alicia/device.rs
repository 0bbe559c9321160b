//! A client that speaks the wire by hand, written from the reference alone.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::pack::{pack, pack_map, unpack};
use crate::support::wire::Over;

/// How long anything may take that should take no time; the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

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
    fn read(bytes: &[u8]) -> Self {
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

/// One connection of a client.
pub(crate) struct Device {
    pub(crate) socket: WebSocketStream<TcpStream>,
    /// Its last stanza.
    pub(crate) stanza: i64,
    /// The conversation that it speaks of unless it says otherwise.
    pub(crate) conversation: String,
}

impl Device {
    /// Upgrades; the status if the server refuses.
    pub(crate) async fn open(address: SocketAddr, key: Option<&str>) -> Result<Self, u16> {
        let headers: Vec<(&str, String)> =
            key.map(|key| ("Authorization", format!("Bearer {key}"))).into_iter().collect();
        Self::open_with(address, &headers).await
    }

    /// The same with these headers.
    pub(crate) async fn open_with(
        address: SocketAddr,
        headers: &[(&'static str, String)],
    ) -> Result<Self, u16> {
        let mut request = format!("ws://{address}/api/v1/ws").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.map_err(|_| 0u16)?;
        stream.set_nodelay(true).unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self { socket, stanza: 0, conversation: String::new() }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(_) => Err(0),
        }
    }

    /// Sends bytes; that the server is gone shows when something is read.
    pub(crate) async fn send_bytes(&mut self, bytes: Vec<u8>) {
        let _ = timeout(PATIENCE, self.socket.send(Message::binary(bytes))).await;
    }

    /// Sends an envelope about the conversation of this device, under the next stanza.
    pub(crate) async fn send(&mut self, kind: u64, body: Value) -> i64 {
        let conversation = self.conversation.clone();
        self.send_to(&conversation, kind, body).await
    }

    /// The same about another conversation.
    pub(crate) async fn send_to(&mut self, conversation: &str, kind: u64, body: Value) -> i64 {
        self.stanza += 1;
        let stanza = self.stanza;
        self.send_as(stanza, conversation, kind, body).await;
        stanza
    }

    /// The same under a stanza of the test's choice.
    pub(crate) async fn send_as(&mut self, stanza: i64, conversation: &str, kind: u64, body: Value) {
        self.send_bytes(envelope(stanza, conversation, kind, &body)).await;
    }

    /// Says something as a person; answers the stanza.
    pub(crate) async fn say(&mut self, id: &str, content: &str) -> i64 {
        self.send(USER, json!({ "id": id, "content": content })).await
    }

    /// What comes next.
    pub(crate) async fn try_next(&mut self) -> Result<Envelope, Over> {
        self.try_next_within(PATIENCE).await
    }

    pub(crate) async fn try_next_within(&mut self, patience: Duration) -> Result<Envelope, Over> {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => return Ok(Envelope::read(&bytes)),
                    Some(Ok(Message::Text(text))) => panic!("text: {text}"),
                    Some(Ok(Message::Close(close))) => {
                        return Err(close.map_or(Over::Lost, |close| Over::Closed(close.code.into())));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(Over::Lost),
                }
            }
        };
        timeout(patience, next).await.unwrap_or(Err(Over::Late))
    }

    pub(crate) async fn next(&mut self) -> Envelope {
        self.try_next().await.expect("an envelope")
    }

    /// Exactly these envelopes, in this order.
    pub(crate) async fn expect<const N: usize>(&mut self, wanted: [(i64, u64); N]) -> [Envelope; N] {
        self.expect_all(&wanted).await.try_into().unwrap()
    }

    pub(crate) async fn expect_all(&mut self, wanted: &[(i64, u64)]) -> Vec<Envelope> {
        let mut got: Vec<Envelope> = Vec::new();
        for place in wanted {
            match self.try_next().await {
                Ok(envelope) => got.push(envelope),
                Err(over) => panic!("{over:?} instead of {place:?} of {wanted:?}, after {got:#?}"),
            }
            let last = got.last().unwrap();
            assert_eq!((last.stanza, last.kind), *place, "of {wanted:?}: {got:#?}");
        }
        got
    }

    /// Nothing has come that was not read: what is asked now is answered next.
    pub(crate) async fn quiet(&mut self) {
        self.send_to("ac_of_nobody", UNSUBSCRIBE, json!({})).await;
        let [answer] = self.expect([(0, UNSUBSCRIBED)]).await;
        assert_eq!(answer.conversation, "ac_of_nobody");
    }

    /// Whatever has come by now that was not read.
    pub(crate) async fn until_quiet(&mut self) -> Vec<Envelope> {
        self.send_to("ac_of_nobody", UNSUBSCRIBE, json!({})).await;
        let mut got = self.until(|envelope| envelope.kind == UNSUBSCRIBED).await;
        got.pop();
        got
    }

    /// A handshake for a conversation, without reading the answer.
    pub(crate) async fn configure(&mut self, conversation: &str, last: i64, features: &[&str]) -> i64 {
        let body = json!({ "lastSequenceSeen": last, "device": "web", "features": features });
        self.conversation = conversation.to_owned();
        self.send(CONFIGURATION, body).await
    }

    /// Creates a conversation, as a client that declares these features; answers its id.
    pub(crate) async fn create_with(&mut self, features: &[&str]) -> String {
        self.configure("", 0, features).await;
        let [own, ack, ..] =
            self.expect([(0, CONFIGURATION), (0, ACK), (0, INFO), (0, STATS), (0, OPTIONS)]).await;
        ack.assert_ack(0, true);
        self.conversation = own.conversation;
        self.conversation.clone()
    }

    /// The same while other things come from `busy`.
    pub(crate) async fn create_between(&mut self, busy: &str) -> String {
        self.configure("", 0, &["streaming"]).await;
        let got = self.until(|envelope| envelope.kind == OPTIONS).await;
        got.into_iter().find(|envelope| envelope.conversation != busy).expect("a conversation").conversation
    }

    pub(crate) async fn create(&mut self) -> String {
        self.create_with(&["streaming"]).await
    }

    /// Joins a conversation of which it knows the stanzas up to `last`; answers what was replayed.
    pub(crate) async fn resume(&mut self, conversation: &str, last: i64) -> Vec<Envelope> {
        self.resume_with(conversation, last, &["streaming"]).await
    }

    pub(crate) async fn resume_with(
        &mut self,
        conversation: &str,
        last: i64,
        features: &[&str],
    ) -> Vec<Envelope> {
        self.configure(conversation, last, features).await;
        let [_, ack] = self.expect([(0, CONFIGURATION), (0, ACK)]).await;
        ack.assert_ack(last, true);
        let mut replayed = Vec::new();
        loop {
            let envelope = self.next().await;
            if envelope.kind == INFO {
                break;
            }
            replayed.push(envelope);
        }
        self.expect([(0, STATS), (0, OPTIONS)]).await;
        replayed
    }

    /// Subscribes to a conversation, and speaks of it from now on.
    pub(crate) async fn subscribe(&mut self, conversation: &str) {
        self.conversation = conversation.to_owned();
        self.send(SUBSCRIBE, json!({})).await;
        let [ack] = self.expect([(0, SUBSCRIBED)]).await;
        assert_eq!(ack.body, json!({ "conversationId": conversation, "success": true }));
    }

    /// Whatever comes until this, included.
    pub(crate) async fn until(&mut self, is_last: impl Fn(&Envelope) -> bool) -> Vec<Envelope> {
        let mut got = Vec::new();
        loop {
            let envelope = match self.try_next().await {
                Ok(envelope) => envelope,
                Err(over) => panic!("{over:?} after {got:#?}"),
            };
            let last = is_last(&envelope);
            got.push(envelope);
            if last {
                return got;
            }
        }
    }

    /// How the server ends the connection, whatever comes before.
    pub(crate) async fn over(&mut self) -> Over {
        loop {
            if let Err(over) = self.try_next().await {
                return over;
            }
        }
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
