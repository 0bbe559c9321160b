//! A raw Acolyte peer on tokio-tungstenite, written from the reference alone: the server's own codec
//! is not asked. Used by the end-to-end tests of the server and of the binary.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::wire::Over;

/// How long anything may take; generous, since the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to `/v1/rpc`.
pub(crate) struct Rpc {
    socket: WebSocketStream<TcpStream>,
    inbox: VecDeque<Value>,
    count: u64,
}

impl Rpc {
    /// Upgrades; the status if the server refuses.
    pub(crate) async fn open(address: SocketAddr, key: Option<&str>) -> Result<Self, u16> {
        let mut request = format!("ws://{address}/v1/rpc").into_client_request().unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("Authorization", format!("Bearer {key}").parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.map_err(|_| 0u16)?;
        stream.set_nodelay(true).unwrap();
        // Answers may be of any size.
        let config = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
        match tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, _)) => Ok(Self { socket, inbox: VecDeque::new(), count: 0 }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(_) => Err(0),
        }
    }

    /// A connection that has agreed on coming back to its tasks.
    pub(crate) async fn resumable(address: SocketAddr, key: Option<&str>) -> Self {
        let mut rpc = Self::open(address, key).await.expect("upgrade");
        let offer = json!({ "protocol_version": "1", "capabilities": "task.resume" });
        let id = rpc.send("status.get", offer).await;
        let answer = rpc.wait(|message| message["id"] == id).await;
        assert_eq!(answer["status"]["capabilities_agreed"], "task.resume", "{answer}");
        rpc
    }

    /// Sends a message under a fresh id; that the server is gone shows when something is read.
    pub(crate) async fn send(&mut self, kind: &str, payload: Value) -> String {
        self.count += 1;
        let id = format!("rpc_{}", self.count);
        let message = json!({ "id": id, "type": kind, "payload": payload }).to_string();
        let _ = timeout(PATIENCE, self.socket.send(Message::text(message))).await;
        id
    }

    /// Starts a chat; `more` adds to its request.
    pub(crate) async fn start(&mut self, message: &str, more: Value) -> String {
        let mut request = json!({ "message": message, "history": [], "model": "m" });
        for (key, value) in more.as_object().unwrap() {
            request[key] = value.clone();
        }
        self.send("chat.start", json!({ "request": request })).await
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<Value, Over> {
        if let Some(message) = self.inbox.pop_front() {
            return Ok(message);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match timeout_at(end, self.socket.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => return Ok(serde_json::from_str(&text).expect("JSON")),
                Ok(Some(Ok(Message::Close(close)))) => {
                    return Err(close.map_or(Over::Lost, |close| Over::Closed(close.code.into())));
                }
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(_)) | None) => return Err(Over::Lost),
                Err(_) => return Err(Over::Late),
            }
        }
    }

    /// The next message that matches; others are kept for later.
    pub(crate) async fn wait(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        let mut others = VecDeque::new();
        loop {
            let message = self.next().await.unwrap_or_else(|over| panic!("{over:?} instead; {others:?}"));
            if matches(&message) {
                others.append(&mut self.inbox);
                self.inbox = others;
                return message;
            }
            others.push_back(message);
        }
    }

    /// What a chat says up to its terminal: its text, and that message.
    pub(crate) async fn finish(&mut self, id: &str) -> (String, Value) {
        let mut text = String::new();
        loop {
            let message = self.wait(|message| message["id"] == id).await;
            text.push_str(delta(&message).unwrap_or_default());
            if is_terminal(&message) {
                return (text, message);
            }
        }
    }

    /// A whole chat: its text and how it ended.
    pub(crate) async fn chat(&mut self, message: &str) -> (String, Value) {
        let id = self.start(message, json!({})).await;
        self.finish(&id).await
    }

    /// The state of a task; `null` if there is none.
    pub(crate) async fn task(&mut self, task: &Value, session: Option<&str>) -> Value {
        let mut payload = json!({ "taskId": task });
        if let Some(session) = session {
            payload["sessionId"] = session.into();
        }
        let id = self.send("task.status", payload).await;
        let answer = self.wait(|message| message["id"] == id).await;
        assert_eq!(answer["type"], "task.status.result", "{answer}");
        answer["task"]["state"].clone()
    }

    /// Whether an abort stopped something.
    pub(crate) async fn abort(&mut self, chat: &str) -> bool {
        let id = self.send("chat.abort", json!({ "requestId": chat })).await;
        let answer = self.wait(|message| message["id"] == id).await;
        answer["aborted"].as_bool().unwrap_or_else(|| panic!("{answer}"))
    }

    /// The code that the server closes with.
    pub(crate) async fn closed(&mut self) -> Over {
        loop {
            if let Err(over) = self.next().await {
                return over;
            }
        }
    }

    pub(crate) async fn close(mut self) {
        let _ = self.socket.close(None).await;
    }
}

/// The text of a delta.
pub(crate) fn delta(message: &Value) -> Option<&str> {
    let event = &message["event"];
    (event["type"] == "text-delta").then(|| event["text"].as_str()).flatten()
}

/// Whether it ends its chat.
pub(crate) fn is_terminal(message: &Value) -> bool {
    message["type"] == "chat.done" || message["type"] == "chat.error"
}

/// An answer over HTTP, its body without chunks.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// One HTTP request, written by hand, on a connection of its own.
pub(crate) async fn http(
    address: SocketAddr,
    request: &str,
    key: Option<&str>,
    headers: &[&str],
    body: impl AsRef<[u8]>,
) -> Answer {
    let body = body.as_ref();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let mut lines = vec![format!("{request} HTTP/1.1"), "Connection: close".into()];
    if !headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:")) {
        lines.push(format!("Host: {address}"));
    }
    lines.extend(key.map(|key| format!("Authorization: Bearer {key}")));
    lines.extend(headers.iter().map(ToString::to_string));
    lines.push(format!("Content-Length: {}\r\n\r\n", body.len()));
    let mut request = lines.join("\r\n").into_bytes();
    request.extend_from_slice(body);
    socket.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("an end").unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, rest) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let head = head.to_lowercase();
    let body = if head.contains("transfer-encoding: chunked") { unchunked(rest) } else { rest.to_owned() };
    Answer { status, head, body }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        let (chunk, more) = more.split_at(size);
        body.push_str(chunk);
        rest = more.strip_prefix("\r\n").expect("the end of a chunk");
        if size == 0 {
            break;
        }
    }
    body
}
