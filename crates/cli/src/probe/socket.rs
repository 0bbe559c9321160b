//! A WebSocket that sends whatever it is told to.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::header::HeaderMap;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::http::SAMPLE_KEY;
use super::{PATIENCE, Request, Target, Transcript};

/// Something that came out of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Bytes),
    /// A ping of the server.
    Ping,
    /// The answer to a ping.
    Pong,
}

/// Why nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The server closed with this code.
    Closed(u16),
    /// The transport broke.
    Lost,
    /// Nothing came in time.
    Late,
}

impl std::fmt::Display for Over {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed(code) => write!(formatter, "the server closed with {code}"),
            Self::Lost => formatter.write_str("the connection broke"),
            Self::Late => formatter.write_str("nothing came in time"),
        }
    }
}

/// An open WebSocket.
pub(crate) struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    /// What the server answered to the upgrade.
    pub(crate) headers: HeaderMap,
    log: Transcript,
}

impl Target {
    /// Upgrades to a WebSocket. The error says what came instead.
    pub(crate) async fn socket(&self, log: &Transcript, request: &Request) -> Result<Socket, String> {
        let answer = self.open(log, request).await?;
        if answer.status != 101 {
            return Err(format!("the upgrade was answered with {}", answer.status));
        }
        let headers = answer.headers.clone();
        let accept = answer.header("sec-websocket-accept").unwrap_or_default();
        if accept != derive_accept_key(SAMPLE_KEY.as_bytes()) {
            return Err(format!("Sec-WebSocket-Accept is {accept:?}, which does not belong to the key"));
        }
        let io = TokioIo::new(answer.upgraded().await?);
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGEST_MESSAGE))
            .max_frame_size(Some(LARGEST_MESSAGE));
        let stream = WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await;
        Ok(Socket { stream, headers, log: log.clone() })
    }
}

impl Socket {
    /// Sends a text message. That the server is gone shows when something is read.
    pub(crate) async fn text(&mut self, text: &str) {
        self.log.sent(text);
        self.send(Message::text(text)).await;
    }

    /// Sends a binary message, which the transcript describes in these words.
    pub(crate) async fn binary(&mut self, bytes: Vec<u8>, described: &str) {
        self.log.sent(described);
        self.send(Message::binary(bytes)).await;
    }

    /// Sends a text message in pieces, as fragments of the transport.
    pub(crate) async fn fragments(&mut self, pieces: &[&str]) {
        self.log.sent(&format!("in {} fragments: {}", pieces.len(), pieces.concat()));
        for (index, piece) in pieces.iter().enumerate() {
            let kind = if index == 0 { Data::Text } else { Data::Continue };
            let last = index + 1 == pieces.len();
            let frame = Frame::message(piece.as_bytes().to_vec(), OpCode::Data(kind), last);
            self.send(Message::Frame(frame)).await;
        }
    }

    /// Sends a ping.
    pub(crate) async fn ping(&mut self) {
        self.log.sent("ping");
        self.send(Message::Ping(Bytes::from_static(b"probe"))).await;
    }

    /// Sends a ping, and waits for its answer.
    pub(crate) async fn pong(&mut self) -> Result<(), Over> {
        self.ping().await;
        let end = Instant::now() + PATIENCE;
        while self.next_until(end).await? != Received::Pong {}
        Ok(())
    }

    /// Waits for a ping of the server.
    pub(crate) async fn pinged(&mut self, patience: Duration) -> Result<(), Over> {
        let end = Instant::now() + patience;
        while self.next_until(end).await? != Received::Ping {}
        Ok(())
    }

    async fn send(&mut self, message: Message) {
        let _ = tokio::time::timeout(PATIENCE, self.stream.send(message)).await;
    }

    /// What comes next. Binary messages are left to the caller to describe.
    pub(crate) async fn next(&mut self, patience: Duration) -> Result<Received, Over> {
        self.next_until(Instant::now() + patience).await
    }

    /// What comes before then.
    pub(crate) async fn next_until(&mut self, end: Instant) -> Result<Received, Over> {
        loop {
            let Ok(read) = tokio::time::timeout_at(end, self.stream.next()).await else {
                return Err(Over::Late);
            };
            let over = match read {
                Some(Ok(Message::Text(text))) => {
                    self.log.received(text.as_str());
                    return Ok(Received::Text(text.as_str().to_owned()));
                }
                Some(Ok(Message::Binary(bytes))) => return Ok(Received::Binary(bytes)),
                Some(Ok(Message::Ping(_))) => {
                    let _ = self.stream.flush().await;
                    return Ok(Received::Ping);
                }
                Some(Ok(Message::Pong(_))) => return Ok(Received::Pong),
                Some(Ok(Message::Frame(_))) => continue,
                Some(Ok(Message::Close(frame))) => {
                    Over::Closed(frame.map_or(NO_STATUS, |frame| frame.code.into()))
                }
                Some(Err(Error::Protocol(error))) => {
                    self.log.note(&error.to_string());
                    Over::Lost
                }
                Some(Err(_)) | None => Over::Lost,
            };
            self.log.note(&over.to_string());
            return Err(over);
        }
    }

    /// Says goodbye.
    pub(crate) async fn close(mut self) {
        let farewell = async {
            let _ = self.stream.close(None).await;
            while let Some(Ok(_)) = self.stream.next().await {}
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }

    /// Goes away without a word.
    pub(crate) fn cut(self) {
        self.log.note("the connection is cut");
    }
}

/// A close frame without a code.
const NO_STATUS: u16 = 1005;
const LARGEST_MESSAGE: usize = 64 << 20;
const FAREWELL: Duration = Duration::from_secs(1);
