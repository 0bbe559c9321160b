//! A scripted AIP server.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use switchboard_client::aip::{ConstellationConfig, DeviceConfig, Event, Events, Strategy, Times};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request as Upgrade, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

pub(crate) struct Server {
    listener: TcpListener,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("bind") }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.listener.local_addr().expect("address"))
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

    /// The next connection, registered; and the registration.
    pub(crate) async fn accept(&self) -> (Peer, Value) {
        let mut peer = self.upgrade().await;
        let register = peer.heard("register").await;
        peer.ok(None).await;
        (peer, register)
    }

    /// Answers the next request without an upgrade.
    pub(crate) async fn refuse(&self, status: &str) {
        let mut stream = self.tcp().await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon(stream.read_u8()).await.expect("head"));
        }
        let body = r#"{"detail":"Invalid API key"}"#;
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.expect("answer");
    }
}

pub(crate) struct Peer {
    stream: WebSocketStream<TcpStream>,
    pub(crate) path: String,
    pub(crate) bearer: Option<String>,
}

impl Peer {
    /// The next message, which must be of this type.
    pub(crate) async fn heard(&mut self, kind: &str) -> Value {
        match soon(self.stream.next()).await {
            Some(Ok(Message::Text(text))) => {
                let message: Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(message["type"], kind, "{message}");
                message
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn say(&mut self, said: Value) {
        self.stream.send(Message::Text(said.to_string().into())).await.expect("send");
    }

    pub(crate) async fn ok(&mut self, session_id: Option<&str>) {
        self.say(json!({"type": "heartbeat", "status": "ok", "session_id": session_id, "response_id": "ok"}))
            .await;
    }

    pub(crate) async fn command(&mut self, id: &str, session_id: &str, tools: &[&str]) {
        let action = |(number, tool): (usize, &&str)| {
            json!({"tool_name": tool, "tool_type": "action", "parameters": {"n": number},
                "call_id": format!("c{number}")})
        };
        let actions: Vec<Value> = tools.iter().enumerate().map(action).collect();
        self.say(
            json!({"type": "command", "status": "continue", "session_id": session_id, "response_id": id,
            "agent_name": "LinuxAgent", "actions": actions}),
        )
        .await;
    }

    pub(crate) async fn end(&mut self, session_id: &str, status: &str, result: Value, error: Option<&str>) {
        self.say(json!({"type": "task_end", "status": status, "session_id": session_id, "result": result,
            "error": error, "response_id": "end"}))
            .await;
    }

    /// Hangs up with this code.
    pub(crate) async fn hang_up(mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        let _ = self.stream.close(Some(frame)).await;
    }

    /// Whether the client closes in an orderly way.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        match soon(self.stream.next()).await {
            Some(Ok(Message::Close(frame))) => frame.map(|frame| frame.code.into()),
            other => panic!("{other:?}"),
        }
    }
}

/// Waits that a test can wait for.
pub(crate) fn quick() -> Times {
    Times {
        heartbeat: Duration::from_secs(30),
        registration: Duration::from_secs(30),
        reconnect: Strategy { initial: Duration::from_millis(20), max_tries: 50, ..Strategy::device() },
    }
}

pub(crate) fn device() -> DeviceConfig {
    DeviceConfig { times: quick(), ..DeviceConfig::new("dev-7", "linux") }
}

pub(crate) fn constellation() -> ConstellationConfig {
    ConstellationConfig { times: quick(), ask_info: false, ..ConstellationConfig::new("run@dev-7", "dev-7") }
}

/// Nothing in these tests takes long.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time")
}

pub(crate) async fn event(events: &mut Events) -> Event {
    soon(events.next()).await.expect("an event")
}
