//! One WebSocket: dialing, then messages in both directions.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, Stream as _, StreamExt as _};
use reqwest::header::{HeaderMap, HeaderValue};
use switchboard_core::client::{Fault, Refusal};
use switchboard_core::{ClientInput, Pii};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::http::header::{RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{ClientRequestBuilder, Error as WebSocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connect::{self, Bearer};
use crate::endpoint::{Endpoint, OptionsError};
use crate::tls::Trust;

/// Where and how to dial.
#[derive(Clone)]
pub(crate) struct Dialer {
    endpoint: Endpoint,
    tls: Option<TlsConnector>,
    timeout: Duration,
    max_message: usize,
}

/// What to dial, with which credential.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) dialer: Dialer,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) socket: connect::Socket,
    pub(crate) token: Option<Pii<String>>,
    pub(crate) bearer: Bearer,
}

impl Target {
    /// Dials once.
    pub(crate) fn dial(&self) -> impl Future<Output = Result<Socket, DialError>> + Send + use<> {
        self.dialer.clone().dial(self.upgrade())
    }

    pub(crate) fn upgrade(&self) -> Upgrade {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = self.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        let (mut headers, mut uri): (Vec<_>, _) = (headers.collect(), self.uri.clone());
        let mut subprotocols: Vec<String> = self.socket.subprotocol.map(str::to_owned).into_iter().collect();
        if let Some(Pii(token)) = &self.token {
            match self.bearer {
                Bearer::Header => headers.insert(0, ("Authorization".into(), format!("Bearer {token}"))),
                Bearer::Subprotocol => subprotocols.extend(self.socket.bearer.map(|bearer| bearer(token))),
                Bearer::Query => uri = with_token(&uri, token),
            }
        }
        Upgrade { uri, headers, subprotocols, expected: self.socket.subprotocol }
    }
}

/// An address with a token in it.
fn with_token(uri: &Uri, token: &str) -> Uri {
    let mut text = format!("{uri}{}token=", if uri.query().is_some() { '&' } else { '?' });
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text.parse().unwrap_or_else(|_| uri.clone())
}

/// What an upgrade asks for.
#[derive(Debug, Clone)]
pub(crate) struct Upgrade {
    pub(crate) uri: Uri,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) subprotocols: Vec<String>,
    /// The one of them that the server must choose.
    pub(crate) expected: Option<&'static str>,
}

impl Dialer {
    pub(crate) fn new(
        endpoint: Endpoint,
        trust: &Trust,
        timeout: Duration,
        max_message: usize,
    ) -> Result<Self, OptionsError> {
        let tls = match endpoint.secure {
            true => Some(TlsConnector::from(Arc::new(trust.config()?))),
            false => None,
        };
        Ok(Self { endpoint, tls, timeout, max_message })
    }

    /// Dials once.
    pub(crate) async fn dial(self, upgrade: Upgrade) -> Result<Socket, DialError> {
        tokio::time::timeout(self.timeout, self.upgrade(upgrade)).await.map_err(|_| DialError::Timeout)?
    }

    async fn upgrade(&self, upgrade: Upgrade) -> Result<Socket, DialError> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let tcp = TcpStream::connect((host.as_str(), *port)).await?;
        // Small frames must not wait for each other.
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Io> = match &self.tls {
            None => Box::new(tcp),
            Some(tls) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| DialError::Name)?;
                Box::new(tls.connect(name, tcp).await?)
            }
        };
        let mut request = ClientRequestBuilder::new(upgrade.uri);
        for (name, value) in upgrade.headers {
            request = request.with_header(name, value);
        }
        for subprotocol in upgrade.subprotocols {
            request = request.with_sub_protocol(subprotocol);
        }
        let config = WebSocketConfig::default()
            .read_buffer_size(16 << 10)
            .write_buffer_size(0)
            .max_message_size(Some(self.max_message))
            .max_frame_size(Some(self.max_message));
        let (stream, response) = client_async_with_config(request, stream, Some(config)).await?;
        // A credential may be among the subprotocols, and a server must not choose it.
        let chosen = response.headers().get(SEC_WEBSOCKET_PROTOCOL);
        if upgrade.expected.is_some_and(|expected| chosen.is_none_or(|chosen| chosen != expected)) {
            return Err(DialError::OtherProtocol);
        }
        Ok(Socket { stream, outgoing: VecDeque::new(), backlog: 0, dirty: false })
    }
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("no answer in time")]
    Timeout,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the host's name cannot be in a certificate")]
    Name,
    /// 101 and yet no: nothing that waiting could change.
    #[error("the server did not choose the subprotocol")]
    OtherProtocol,
    #[error("HTTP {status}")]
    Refused { status: u16, retry_after_ms: Option<u64>, body: Vec<u8> },
    #[error("{0}")]
    WebSocket(String),
}

impl DialError {
    /// What a client half is told of it.
    pub(crate) fn input<F: Fault>(&self) -> ClientInput {
        match self {
            Self::Refused { status, retry_after_ms, body } => {
                let retry_after = retry_after_ms.map(Duration::from_millis);
                ClientInput::Refused(Refusal::read::<F>(*status, retry_after, body))
            }
            Self::OtherProtocol => ClientInput::Refused(Refusal { status: 101, ..Refusal::default() }),
            Self::Timeout | Self::Io(_) | Self::Name | Self::WebSocket(_) => {
                ClientInput::Unreachable(self.to_string())
            }
        }
    }
}

impl From<WebSocketError> for DialError {
    fn from(error: WebSocketError) -> Self {
        match error {
            WebSocketError::Http(response) => refused(&response),
            WebSocketError::Io(error) => Self::Io(error),
            WebSocketError::Protocol(
                ProtocolError::SecWebSocketSubProtocolError(_)
                | ProtocolError::SecWebSocketAcceptKeyMismatch
                | ProtocolError::MissingUpgradeWebSocketHeader
                | ProtocolError::MissingConnectionUpgradeHeader,
            ) => Self::OtherProtocol,
            error @ (WebSocketError::Protocol(_)
            | WebSocketError::ConnectionClosed
            | WebSocketError::AlreadyClosed
            | WebSocketError::Tls(_)
            | WebSocketError::Capacity(_)
            | WebSocketError::WriteBufferFull(_)
            | WebSocketError::Utf8(_)
            | WebSocketError::AttackAttempt
            | WebSocketError::Url(_)
            | WebSocketError::HttpFormat(_)) => Self::WebSocket(error.to_string()),
        }
    }
}

fn refused(response: &Response) -> DialError {
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    DialError::Refused {
        status: response.status().as_u16(),
        retry_after_ms: retry_after.and_then(seconds_as_ms),
        body: response.body().clone().unwrap_or_default(),
    }
}

/// The header `Retry-After`, where it counts seconds.
pub(crate) fn seconds_as_ms(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().map(|seconds| seconds.saturating_mul(1000))
}

/// What comes out of a socket.
#[derive(Debug)]
pub(crate) enum Incoming {
    Binary(Bytes),
    Text(String),
    /// A ping or pong.
    Alive,
    /// It is over, with the code of the close frame if there was one.
    Closed(Option<u16>),
}

/// An open WebSocket with what is still to be written.
pub(crate) struct Socket {
    stream: WebSocketStream<Box<dyn Io>>,
    outgoing: VecDeque<Message>,
    backlog: usize,
    dirty: bool,
}

impl Socket {
    pub(crate) fn send_binary(&mut self, message: Bytes) {
        self.send(Message::Binary(message));
    }

    pub(crate) fn send_text(&mut self, message: String) {
        self.send(Message::Text(message.into()));
    }

    pub(crate) fn ping(&mut self) {
        self.send(Message::Ping(Bytes::new()));
    }

    fn send(&mut self, message: Message) {
        self.backlog = self.backlog.saturating_add(message.len());
        self.outgoing.push_back(message);
    }

    /// Bytes that wait to be written.
    pub(crate) fn backlog(&self) -> usize {
        self.backlog
    }

    /// Writes what waits, and waits for the next report. May be dropped at any time without loss.
    pub(crate) async fn next(&mut self) -> Incoming {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Only writes what waits; reports when that cannot be done any more.
    pub(crate) async fn write(&mut self) -> Incoming {
        std::future::poll_fn(|context| match self.poll_write(context) {
            Ok(()) => Poll::Pending,
            Err(_) => Poll::Ready(Incoming::Closed(None)),
        })
        .await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        if self.poll_write(context).is_err() {
            return Poll::Ready(Incoming::Closed(None));
        }
        loop {
            let Poll::Ready(read) = Pin::new(&mut self.stream).poll_next(context) else {
                return Poll::Pending;
            };
            let incoming = match read {
                None => Incoming::Closed(None),
                Some(Ok(Message::Binary(message))) => Incoming::Binary(message),
                Some(Ok(Message::Text(message))) => Incoming::Text(message.as_str().to_owned()),
                Some(Ok(Message::Ping(_))) => {
                    // The answer is queued already; see that it leaves.
                    self.dirty = true;
                    if self.poll_write(context).is_err() {
                        return Poll::Ready(Incoming::Closed(None));
                    }
                    Incoming::Alive
                }
                Some(Ok(Message::Pong(_))) => Incoming::Alive,
                Some(Ok(Message::Close(frame))) => {
                    Incoming::Closed(Some(frame.map_or(NO_STATUS, |frame| frame.code.into())))
                }
                Some(Ok(Message::Frame(_))) => continue,
                // Coming back would only meet the same message again.
                Some(Err(WebSocketError::Capacity(_))) => Incoming::Closed(Some(TOO_BIG)),
                Some(Err(_)) => Incoming::Closed(None),
            };
            return Poll::Ready(incoming);
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<(), WebSocketError> {
        while !self.outgoing.is_empty() {
            match self.stream.poll_ready_unpin(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(ready) => ready?,
            }
            if let Some(message) = self.outgoing.pop_front() {
                self.backlog = self.backlog.saturating_sub(message.len());
                self.stream.start_send_unpin(message)?;
                self.dirty = true;
            }
        }
        if self.dirty
            && let Poll::Ready(flushed) = self.stream.poll_flush_unpin(context)
        {
            flushed?;
            self.dirty = false;
        }
        Ok(())
    }

    /// Lets the answer to the peer's goodbye leave.
    pub(crate) async fn finish(mut self) {
        // A peer that is gone already needs no goodbye.
        let _ = tokio::time::timeout(FAREWELL, self.stream.flush()).await;
    }

    /// Writes what waits, says goodbye and waits a moment for the answer.
    pub(crate) async fn close(mut self, code: u16) {
        let farewell = async {
            for message in std::mem::take(&mut self.outgoing) {
                self.stream.feed(message).await?;
            }
            let frame = CloseFrame { code: code.into(), reason: "".into() };
            self.stream.send(Message::Close(Some(frame))).await?;
            while let Some(read) = self.stream.next().await {
                read?;
            }
            Ok::<(), WebSocketError>(())
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

/// Until then, or for ever.
pub(crate) async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// Anything that carries bytes both ways.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A close frame without a code.
const NO_STATUS: u16 = 1005;
const TOO_BIG: u16 = 1009;
const FAREWELL: Duration = Duration::from_secs(2);
