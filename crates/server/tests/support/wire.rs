//! A raw ASP peer on tokio-tungstenite, written from the reference alone: the server's own codec is
//! not asked. Used by the end-to-end tests of the server and of the binary.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

pub(crate) const HELLO: u8 = 0x1;
pub(crate) const INVOKE: u8 = 0x2;
pub(crate) const STREAM: u8 = 0x3;
pub(crate) const INTERRUPT: u8 = 0x4;
pub(crate) const TOOL_DEF: u8 = 0x5;
pub(crate) const ERROR: u8 = 0x6;
pub(crate) const REPLAY: u8 = 0x20;

/// How long anything may take that should take no time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One frame from the server.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) id: u16,
    pub(crate) payload: Vec<u8>,
    /// The payload, where it is JSON.
    pub(crate) value: Value,
}

impl Frame {
    /// Whether it ends its request.
    pub(crate) fn is_terminal(&self) -> bool {
        self.id != 0
            && (self.opcode == ERROR
                || (self.opcode == STREAM && (self.payload.is_empty() || self.value["t"] == "end")))
    }

    /// The text of a delta.
    pub(crate) fn text(&self) -> Option<&str> {
        (self.opcode == STREAM && self.value["t"] == "text").then(|| self.value["d"].as_str()).flatten()
    }

    /// The index of a record.
    pub(crate) fn number(&self) -> Option<u64> {
        (self.opcode == STREAM).then(|| self.value["n"].as_u64()).flatten()
    }

    /// The code of an ERROR, the `finish` of an end.
    pub(crate) fn outcome(&self) -> String {
        match (self.opcode, &self.value["finish"]) {
            (ERROR, _) => self.value["code"].to_string(),
            (_, Value::String(finish)) => finish.clone(),
            _ => String::new(),
        }
    }
}

/// The bytes of one frame.
pub(crate) fn frame(opcode: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x10 | opcode, 0];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Why no frame came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The server closed with this code.
    Closed(u16),
    /// The transport broke.
    Lost,
    /// Nothing came in time.
    Late,
}

/// A connection.
pub(crate) struct Peer {
    socket: WebSocketStream<TcpStream>,
    inbox: VecDeque<Frame>,
    pub(crate) accept: Value,
}

impl Peer {
    /// Upgrades; the status if the server refuses.
    pub(crate) async fn open(address: SocketAddr, token: Option<&str>) -> Result<Self, u16> {
        Self::open_from(address, token, None).await
    }

    /// A connection in the standard profile of a client behind a proxy.
    pub(crate) async fn behind_proxy(address: SocketAddr, token: &str, client: &str) -> Self {
        let mut peer = Self::open_from(address, Some(token), Some(client)).await.expect("upgrade");
        peer.hello(json!({})).await;
        peer
    }

    async fn open_from(address: SocketAddr, token: Option<&str>, client: Option<&str>) -> Result<Self, u16> {
        let mut request = format!("ws://{address}/v1/agent-socket").into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", "asp-v1".parse().unwrap());
        if let Some(token) = token {
            request.headers_mut().insert("Authorization", format!("Bearer {token}").parse().unwrap());
        }
        if let Some(client) = client {
            request.headers_mut().insert("X-Forwarded-For", client.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.map_err(|_| 0u16)?;
        stream.set_nodelay(true).unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self { socket, inbox: VecDeque::new(), accept: Value::Null }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(_) => Err(0),
        }
    }

    /// A connection in the standard profile, but for fragments.
    pub(crate) async fn standard(address: SocketAddr, token: Option<&str>) -> Self {
        Self::with(address, token, json!({})).await
    }

    /// The same, with more in its HELLO.
    pub(crate) async fn with(address: SocketAddr, token: Option<&str>, more: Value) -> Self {
        let mut peer = Self::open(address, token).await.expect("upgrade");
        peer.hello(more).await;
        peer
    }

    /// Takes over what `old` had, from where it was.
    pub(crate) async fn resume(
        address: SocketAddr,
        token: Option<&str>,
        old: &Value,
        next: &BTreeMap<u16, u64>,
    ) -> Self {
        let next: BTreeMap<String, u64> = next.iter().map(|(id, n)| (id.to_string(), *n)).collect();
        let resume = json!({ "cid": old["cid"], "token": old["resume"]["token"], "next": next });
        Self::with(address, token, json!({ "resume": resume })).await
    }

    pub(crate) async fn hello(&mut self, more: Value) {
        let mut hello =
            json!({ "features": ["flags", "events", "push", "resume", "ping", "reauth"], "enc": ["json"] });
        for (name, value) in more.as_object().unwrap() {
            hello[name] = value.clone();
        }
        self.send(HELLO, 0, &hello).await;
        // A relay greets before that.
        self.accept = self.wait(|frame| frame.opcode == HELLO && frame.value["op"] == "accept").await.value;
    }

    /// Starts a request.
    pub(crate) async fn invoke(&mut self, id: u16, text: &str) {
        self.send(INVOKE, id, &json!({ "input": text })).await;
    }

    /// Sends a map.
    pub(crate) async fn send(&mut self, opcode: u8, id: u16, value: &Value) {
        self.raw(frame(opcode, id, value.to_string().as_bytes())).await;
    }

    /// Sends one message; that the server is gone shows when something is read.
    pub(crate) async fn raw(&mut self, bytes: Vec<u8>) {
        let _ = tokio::time::timeout(PATIENCE, self.socket.send(Message::binary(bytes))).await;
    }

    /// The next frame.
    pub(crate) async fn next(&mut self) -> Result<Frame, Over> {
        self.next_within(PATIENCE).await
    }

    pub(crate) async fn next_within(&mut self, patience: Duration) -> Result<Frame, Over> {
        let end = Instant::now() + patience;
        loop {
            if let Some(frame) = self.inbox.pop_front() {
                return Ok(frame);
            }
            match tokio::time::timeout_at(end, self.socket.next()).await {
                Ok(Some(Ok(Message::Binary(bytes)))) => self.take(&bytes),
                Ok(Some(Ok(Message::Close(close)))) => {
                    return Err(close.map_or(Over::Lost, |close| Over::Closed(close.code.into())));
                }
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(_)) | None) => return Err(Over::Lost),
                Err(_) => return Err(Over::Late),
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
            assert_eq!(head[0] >> 4, 1, "version");
            assert_eq!(head[1] & 0x12, 0, "neither fragments nor compression were agreed");
            let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let (payload, after) = rest.split_at(length);
            self.inbox.push_back(Frame {
                opcode: head[0] & 0x0f,
                flags: head[1],
                id: u16::from_be_bytes([head[2], head[3]]),
                payload: payload.to_vec(),
                value: serde_json::from_slice(payload).unwrap_or_default(),
            });
            bytes = after;
        }
        assert!(bytes.is_empty(), "bytes that are no frame");
    }

    /// The next frame that matches; others are dropped.
    pub(crate) async fn wait(&mut self, matches: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            let frame = self.next().await.expect("a frame");
            if matches(&frame) {
                return frame;
            }
        }
    }

    /// What a request says up to its terminal frame: its text, and that frame.
    pub(crate) async fn finish(&mut self, id: u16) -> (String, Frame) {
        let mut text = String::new();
        loop {
            let frame = self.wait(|frame| frame.id == id).await;
            text.push_str(frame.text().unwrap_or_default());
            if frame.is_terminal() {
                return (text, frame);
            }
        }
    }

    /// A whole turn: its text and how it ended.
    pub(crate) async fn turn(&mut self, id: u16, text: &str) -> (String, String) {
        self.invoke(id, text).await;
        let (text, end) = self.finish(id).await;
        (text, end.outcome())
    }

    /// How the connection ends, if it does within `patience`.
    pub(crate) async fn over(&mut self, patience: Duration) -> Over {
        let end = Instant::now() + patience;
        loop {
            match self.next_within(end.saturating_duration_since(Instant::now())).await {
                Ok(_) => {}
                Err(over) => return over,
            }
        }
    }

    /// Answers what the server asks of the transport, without looking at anything.
    pub(crate) async fn close(mut self) {
        let _ = self.socket.close(None).await;
    }
}
