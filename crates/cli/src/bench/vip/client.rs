//! A raw client that costs as little as possible, so that the server is what is measured.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use switchboard_vip::audio::{AudioFrame, Direction};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::bench::peer::{Socket, dial};
use crate::bench::servers::micros;

/// One session with its transport.
pub(super) struct Client {
    socket: Socket,
    seq: u64,
    state_seq: u64,
    /// The turn of the user.
    turn: u64,
    /// Frames of the stream that is sent.
    frames: u32,
    /// Frames that were sent in all.
    pub(super) sent: u64,
}

/// What came, and when, in microseconds since the Unix epoch.
pub(super) struct Received {
    pub(super) at: u64,
    pub(super) what: What,
}

pub(super) enum What {
    Event { name: String, data: Value },
    Frame(AudioFrame),
}

impl Received {
    /// The data of the event, if it is of this type.
    pub(super) fn event(&self, wanted: &str) -> Option<&Value> {
        match &self.what {
            What::Event { name, data } => (name == wanted).then_some(data),
            What::Frame(_) => None,
        }
    }

    /// Whether it says that the state is this one.
    pub(super) fn is_state(&self, state: &str) -> bool {
        self.event("state.changed").is_some_and(|data| data["state"] == state)
    }
}

impl Client {
    /// Creates a session and brings it to `idle`. `detection` says who takes turns.
    pub(super) async fn connect(address: &str, detection: &str) -> anyhow::Result<Self> {
        let session = create(address, detection).await?;
        let id = session["session_id"].as_str().context("a session without an id")?;
        let token = session["session_token"].as_str().context("a session without a token")?;
        let stream = dial(address).await?;
        stream.set_nodelay(true)?;
        let mut request = format!("ws://{address}/v1/vip/sessions/{id}/stream").into_client_request()?;
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", HeaderValue::from_static("vip.v1"));
        headers.insert("authorization", format!("Bearer {token}").parse()?);
        let config = WebSocketConfig::default().read_buffer_size(8 << 10).write_buffer_size(0);
        let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
        let mut client = Self { socket, seq: 0, state_seq: 0, turn: 0, frames: 0, sent: 0 };
        let screen = json!({
            "mode": "full", "context_version": 1, "route": {"id": "bench"}, "narration": "A bench.",
            "actions": {}, "visibility": [],
        });
        let hello = json!({"session_id": id, "protocol_version": "0.1", "context": screen});
        client.say("client.connect", hello).await?;
        client.until(|received| received.is_state("idle")).await?;
        Ok(client)
    }

    /// Sends an event of the turn.
    pub(super) async fn say(&mut self, name: &str, data: Value) -> anyhow::Result<()> {
        self.seq += 1;
        let event = json!({
            "type": name, "id": format!("e{}", self.seq), "seq": self.seq, "ts": micros() / 1000,
            "state_seq": self.state_seq, "role": "user", "turn_id": format!("t{}", self.turn), "data": data,
        });
        Ok(self.socket.send(Message::text(event.to_string())).await?)
    }

    /// Takes the floor, by voice.
    pub(super) async fn begin_speech(&mut self) -> anyhow::Result<()> {
        self.turn += 1;
        self.frames = 0;
        self.say("input.start", json!({"mode": "voice", "trigger": "ptt", "stream_id": self.stream()})).await
    }

    /// Asks something in writing.
    pub(super) async fn ask(&mut self, text: &str) -> anyhow::Result<()> {
        self.turn += 1;
        self.frames = 0;
        self.say("input.start", json!({"mode": "text", "trigger": "text"})).await?;
        self.say("input.text", json!({"text": text})).await?;
        self.say("input.end", json!({"reason": "text"})).await
    }

    /// Interrupts a response of which so much was heard.
    pub(super) async fn interrupt(&mut self, response: &str, played_ms: u64) -> anyhow::Result<()> {
        self.turn += 1;
        self.frames = 0;
        let data = json!({
            "trigger": "manual", "response_id": response, "played_ms": played_ms, "stream_id": self.stream(),
        });
        self.say("input.barge_in", data).await
    }

    /// Sends 20 ms of audio: of the turn, or only to be overheard.
    pub(super) async fn sound(&mut self, payload: Bytes, monitor: bool) -> anyhow::Result<()> {
        let frame = AudioFrame {
            direction: Direction::Input,
            end: false,
            monitor,
            gap: false,
            stream: self.stream(),
            seq: self.frames,
            offset_ms: self.frames * 20,
            payload,
        };
        self.frames += 1;
        self.sent += 1;
        Ok(self.socket.send(Message::Binary(frame.encode())).await?)
    }

    /// The next thing that comes; an error of the server is one here.
    pub(super) async fn next(&mut self) -> anyhow::Result<Received> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await.context("silence")?;
            let at = micros();
            let what = match message.context("the connection ended")?? {
                Message::Binary(bytes) => What::Frame(AudioFrame::decode(bytes)?),
                Message::Text(text) => self.read(&text)?,
                Message::Close(frame) => bail!("closed: {frame:?}"),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            return Ok(Received { at, what });
        }
    }

    /// The first thing of some kind; those before it are overlooked.
    pub(super) async fn until(&mut self, wanted: impl Fn(&Received) -> bool) -> anyhow::Result<Received> {
        loop {
            let received = self.next().await?;
            if wanted(&received) {
                return Ok(received);
            }
        }
    }

    fn read(&mut self, text: &str) -> anyhow::Result<What> {
        let mut event: Value = serde_json::from_str(text)?;
        let name = event["type"].as_str().context("an event without a type")?.to_owned();
        ensure!(!name.starts_with("error."), "{name}: {}", event["data"]);
        self.state_seq = event["state_seq"].as_u64().unwrap_or(self.state_seq);
        Ok(What::Event { name, data: event["data"].take() })
    }

    fn stream(&self) -> u16 {
        // Streams of clients have numbers below 32768, and there are never so many turns.
        u16::try_from(self.turn % 32_000).unwrap_or_default() + 1
    }
}

/// A new session.
async fn create(address: &str, detection: &str) -> anyhow::Result<Value> {
    let body = json!({
        "protocol_versions": ["0.1"], "environment": "development", "mode": "external", "app_id": "bench",
        "client": {"name": "bench", "version": "1", "platform": "other"},
        "audio": {"input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"]},
        "turn_detection": {"type": detection, "follow_up_listen": false},
    })
    .to_string();
    let mut stream = dial(address).await?;
    // The older version, so that the answer comes in one piece.
    let request = format!(
        "POST /v1/vip/sessions HTTP/1.0\r\nhost: {address}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.split(' ').nth(1) == Some("201"), "no session: {body}");
    Ok(serde_json::from_str(body)?)
}

/// Nothing that works takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
