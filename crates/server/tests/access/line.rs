//! A WebSocket of any of the protocols, as whoever holds a credential sees it: messages are JSON here, whatever
//! they are on the wire.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::envelope::{Envelope, envelope};
use crate::support::wire::frame;

/// How long anything may take; generous, since the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What stands in the place of the code with which a line is closed on which nothing is said.
pub(crate) const SILENCE: &str = "nothing is said";

/// How messages are written on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// `{"op": opcode, "id": request, "payload": map}`
    Asp,
    /// As it is.
    Acolyte,
    /// As it is.
    Aip,
    /// `{"type": number, "conversation": id, "body": map}`
    Alicia,
    /// `{"type": name, "data": map}`
    Vip,
}

impl Speech {
    /// The sub-protocol without which nobody is let in.
    const fn subprotocol(self) -> Option<&'static str> {
        match self {
            Self::Asp => Some("asp-v1"),
            Self::Vip => Some("vip.v1"),
            Self::Acolyte | Self::Aip | Self::Alicia => None,
        }
    }
}

/// A connection.
pub(crate) struct Line {
    socket: WebSocketStream<TcpStream>,
    speech: Speech,
    /// Messages that were sent.
    count: i64,
    /// The state that a server of VIP has told.
    state_seq: u64,
}

/// What somebody was told who was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Line {
    /// Upgrades on this path, with this credential and these headers besides.
    pub(crate) async fn open(
        address: SocketAddr,
        path: &str,
        speech: Speech,
        key: Option<&str>,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, Refused> {
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        let mut insert = |name: &'static str, value: &str| {
            request.headers_mut().insert(name, value.parse().unwrap());
        };
        if let Some(key) = key {
            insert("authorization", &format!("Bearer {key}"));
        }
        if let Some(subprotocol) = speech.subprotocol() {
            insert("sec-websocket-protocol", subprotocol);
        }
        for (name, value) in headers {
            insert(name, value);
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self { socket, speech, count: 0, state_seq: 0 }),
            Err(Error::Http(response)) => {
                let status = response.status().as_u16();
                let body = response.into_body().unwrap_or_default();
                Err(Refused { status, body: String::from_utf8_lossy(&body).into_owned() })
            }
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Says something.
    pub(crate) async fn say(&mut self, message: &Value) {
        self.count += 1;
        let text = |key: &str| message[key].as_str().unwrap_or_default();
        let message = match self.speech {
            Speech::Asp => {
                let opcode = u8::try_from(message["op"].as_u64().unwrap()).unwrap();
                let id = u16::try_from(message["id"].as_u64().unwrap()).unwrap();
                Message::binary(frame(opcode, id, message["payload"].to_string().as_bytes()))
            }
            Speech::Acolyte | Speech::Aip => Message::text(message.to_string()),
            Speech::Alicia => {
                let kind = message["type"].as_u64().unwrap();
                Message::binary(envelope(self.count, text("conversation"), kind, &message["body"]))
            }
            Speech::Vip => {
                let mut event = message.clone();
                event["id"] = format!("c-{}", self.count).into();
                event["seq"] = self.count.into();
                event["ts"] = 1_767_225_600_000_u64.into();
                event["state_seq"] = self.state_seq.into();
                Message::text(event.to_string())
            }
        };
        let _ = timeout(PATIENCE, self.socket.send(message)).await;
    }

    /// The number of the message that is sent next.
    pub(crate) const fn next_number(&self) -> i64 {
        self.count + 1
    }

    /// Sends one binary message as it is.
    pub(crate) async fn say_bytes(&mut self, bytes: Vec<u8>) {
        self.count += 1;
        let _ = timeout(PATIENCE, self.socket.send(Message::binary(bytes))).await;
    }

    /// What is said next; `{"closed": code}` when there is nothing more.
    pub(crate) async fn hear(&mut self) -> Value {
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).expect("JSON"),
                    Some(Ok(Message::Binary(bytes))) => return self.read(&bytes),
                    Some(Ok(Message::Close(close))) => {
                        return json!({ "closed": close.map_or(0, |close| u16::from(close.code)) });
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return json!({ "closed": 0 }),
                }
            }
        };
        let heard: Value = timeout(PATIENCE, next).await.unwrap_or_else(|_| json!({ "closed": SILENCE }));
        if self.speech == Speech::Vip {
            self.state_seq = heard["state_seq"].as_u64().unwrap_or(self.state_seq);
        }
        heard
    }

    fn read(&self, bytes: &[u8]) -> Value {
        match self.speech {
            Speech::Asp => {
                assert!(bytes.len() >= 8, "a frame has a head");
                let payload: Value = serde_json::from_slice(&bytes[8..]).unwrap_or_default();
                json!({ "op": bytes[0] & 0x0f, "id": u16::from_be_bytes([bytes[2], bytes[3]]), "payload": payload })
            }
            Speech::Alicia => {
                let Envelope { stanza, conversation, kind, body, .. } = Envelope::read(bytes);
                json!({ "stanza": stanza, "type": kind, "conversation": conversation, "body": body })
            }
            Speech::Acolyte | Speech::Aip | Speech::Vip => json!({ "bytes": bytes.len() }),
        }
    }

    /// The next message that matches; others are dropped.
    pub(crate) async fn hear_until(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        let mut before = Vec::new();
        loop {
            let heard = self.hear().await;
            if matches(&heard) {
                return heard;
            }
            assert!(heard["closed"].is_null(), "{heard} after {before:#?}");
            before.push(heard);
        }
    }

    /// Says something, and hears this many messages; then makes sure that nothing else has come by now.
    pub(crate) async fn ask(&mut self, message: &Value, answers: usize) -> Vec<Value> {
        self.say(message).await;
        let mut heard = Vec::new();
        while heard.len() < answers {
            heard.push(self.hear().await);
            if heard.last().is_some_and(|last| !last["closed"].is_null()) {
                return heard;
            }
        }
        let (question, answered) = barrier(self.speech);
        self.say(&question).await;
        loop {
            let next = self.hear().await;
            if answered(&next) {
                return heard;
            }
            let over = !next["closed"].is_null();
            heard.push(next);
            if over {
                return heard;
            }
        }
    }
}

/// A question whose answer comes at once, and what it looks like.
fn barrier(speech: Speech) -> (Value, fn(&Value) -> bool) {
    match speech {
        Speech::Asp => {
            let ping = json!({ "op": 1, "id": 0, "payload": { "op": "ping", "nonce": "barrier" } });
            (ping, |heard| heard["payload"]["nonce"] == "barrier")
        }
        Speech::Acolyte => {
            (json!({ "type": "status.get", "id": "rpc_barrier" }), |heard| heard["id"] == "rpc_barrier")
        }
        Speech::Aip => {
            let beat = json!({ "type": "heartbeat", "status": "ok" });
            (beat, |heard| heard["type"] == "heartbeat")
        }
        Speech::Alicia => {
            let nothing = json!({ "type": 41, "conversation": "ac_of_nobody", "body": {} });
            (nothing, |heard| heard["type"] == 43 && heard["conversation"] == "ac_of_nobody")
        }
        Speech::Vip => {
            let ping = json!({ "type": "session.ping", "data": { "nonce": "barrier" } });
            (ping, |heard| heard["data"]["nonce"] == "barrier")
        }
    }
}
