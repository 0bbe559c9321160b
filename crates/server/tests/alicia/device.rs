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

pub(crate) use crate::envelope::*;
use crate::support::wire::Over;

/// How long anything may take that should take no time; the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One connection of a client.
pub(crate) struct Device {
    pub(crate) socket: WebSocketStream<TcpStream>,
    /// Its last stanza.
    pub(crate) stanza: i64,
    /// The conversation that it speaks of unless it says otherwise.
    pub(crate) conversation: String,
    /// What a test has put aside.
    pub(crate) kept: Vec<Envelope>,
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
            Ok((socket, _)) => Ok(Self { socket, stanza: 0, conversation: String::new(), kept: Vec::new() }),
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

    /// Whatever comes until this message is answered.
    pub(crate) async fn until_answered(&mut self, question: &str) -> Vec<Envelope> {
        let mut got = self.until(|e| e.kind == START && e.body["previousId"] == json!(question)).await;
        let answer = got.last().map(|start| start.id().to_owned()).expect("an answer");
        let is_last = |e: &Envelope| {
            e.kind == SENTENCE && e.body["previousId"] == json!(answer) && e.body["isFinal"] == true
        };
        got.extend(self.until(is_last).await);
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
