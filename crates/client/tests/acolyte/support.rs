//! A scripted Acolyte server.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use switchboard_client::acolyte::{
    Chat, ChatEvent, ChatRequest, Client, Connect, ConnectionEvent, Ending, Events, StreamEvent, Update,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request as Upgrade, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

pub(crate) struct Server {
    listener: TcpListener,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("bind") }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().expect("address"))
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        soon(self.listener.accept()).await.expect("accept").0
    }

    /// The next connection, upgraded.
    pub(crate) async fn upgrade(&self) -> Peer {
        let stream = self.tcp().await;
        let (mut path, mut bearer) = (String::new(), None);
        #[expect(clippy::result_large_err, reason = "the library wants it so")]
        let look = |request: &Upgrade, response: Response| {
            path = request.uri().to_string();
            bearer = request.headers().get("authorization").map(|v| v.to_str().expect("text").to_owned());
            Ok(response)
        };
        let stream = soon(accept_hdr_async(stream, look)).await.expect("upgrade");
        Peer { stream, path, bearer }
    }

    /// The next connection, agreed upon.
    pub(crate) async fn accept(&self, agreed: &str) -> Peer {
        let mut peer = self.upgrade().await;
        let offer = peer.heard("status.get").await;
        peer.say(&offer, status(agreed)).await;
        peer
    }

    /// A connected client, and the server's end of it.
    pub(crate) async fn pair(&self, agreed: &str) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(Connect::new(self.url())), self.accept(agreed));
        (client.expect("connect"), peer)
    }

    /// The next request over HTTP: its head and its body.
    pub(crate) async fn request(&self) -> (TcpStream, String, Value) {
        let mut stream = self.tcp().await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon(stream.read_u8()).await.expect("head"));
        }
        let head = String::from_utf8(head).expect("text").to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("number"))];
        soon(stream.read_exact(&mut body)).await.expect("body");
        (stream, head, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Answers the next request over HTTP, whole.
    pub(crate) async fn answer(&self, status: &str, body: &str) -> String {
        let (mut stream, head, _) = self.request().await;
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.expect("answer");
        head
    }
}

pub(crate) struct Peer {
    stream: WebSocketStream<TcpStream>,
    pub(crate) path: String,
    pub(crate) bearer: Option<String>,
}

impl Peer {
    /// The next message, which must be of this type.
    pub(crate) async fn heard(&mut self, method: &str) -> Value {
        loop {
            match soon(self.stream.next()).await {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text).expect("JSON");
                    assert_eq!(message["type"], method, "{message}");
                    return message;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Says something about a message.
    pub(crate) async fn say(&mut self, about: &Value, mut said: Value) {
        said["id"] = about["id"].clone();
        self.stream.send(Message::Text(said.to_string().into())).await.expect("send");
    }

    /// A chat that is accepted and begins.
    pub(crate) async fn begin(&mut self) -> Value {
        let start = self.heard("chat.start").await;
        self.say(&start, json!({"type": "chat.accepted", "taskId": "task_1"})).await;
        self.say(&start, json!({"type": "chat.started"})).await;
        start
    }

    pub(crate) async fn text(&mut self, about: &Value, text: &str, position: u64) {
        let event = json!({"type": "text-delta", "text": text});
        self.say(about, json!({"type": "chat.event", "event": event, "position": position})).await;
    }

    pub(crate) async fn done(&mut self, about: &Value) {
        let reply = json!({"output": "", "outputStreamed": true, "model": "m"});
        self.say(about, json!({"type": "chat.done", "reply": reply})).await;
    }

    /// Whether the client closes in an orderly way.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        match soon(self.stream.next()).await {
            Some(Ok(Message::Close(frame))) => frame.map(|frame| frame.code.into()),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn status(agreed: &str) -> Value {
    json!({"type": "status.result", "status": {"ok": true, "model": "big", "protocol_version": "1",
        "capabilities": agreed, "capabilities_agreed": agreed}})
}

pub(crate) fn request(message: &str) -> ChatRequest {
    ChatRequest {
        message: message.to_owned(),
        model: "m".to_owned(),
        session_id: Some("sess_a".to_owned()),
        ..ChatRequest::default()
    }
}

/// Nothing in these tests takes long.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time")
}

/// The next text of a chat; what comes before is passed over.
pub(crate) async fn text(chat: &mut Chat) -> String {
    loop {
        match soon(chat.next()).await.expect("an update") {
            Update::Event(ChatEvent::Stream(StreamEvent::TextDelta { text })) => return text.into_owned(),
            Update::Event(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// How a chat ends; what comes before is passed over.
pub(crate) async fn ending(chat: &mut Chat) -> Ending {
    loop {
        match soon(chat.next()).await.expect("an end") {
            Update::Ended(ending) => {
                assert_eq!(soon(chat.next()).await, None);
                return ending;
            }
            Update::Event(_) => {}
            other @ Update::NotAborted(_) => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn event(events: &mut Events) -> ConnectionEvent {
    soon(events.next()).await.expect("an event")
}
