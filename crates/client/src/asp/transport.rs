//! One WebSocket: the upgrade of §2, then messages in both directions.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, Stream as _, StreamExt as _};
use switchboard_asp::client::{Input, Refused};
use switchboard_asp::error::Close;
use switchboard_asp::message::{ErrorBody, ErrorFrame, Secret};
use switchboard_asp::upgrade::{SUBPROTOCOL, bearer_entry};
use switchboard_asp::value::decode_json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::header::{RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{ClientRequestBuilder, Error as WebSocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::options::{Bearer, Endpoint, Options, OptionsError};

/// Where and how to dial.
#[derive(Clone)]
pub(super) struct Target {
    endpoint: Endpoint,
    bearer: Bearer,
    tls: Option<TlsConnector>,
    timeout: Duration,
    max_message: usize,
}

impl Target {
    pub(super) fn new(options: &Options) -> Result<Self, OptionsError> {
        let endpoint = options.endpoint()?;
        let tls = match endpoint.secure {
            true => Some(TlsConnector::from(Arc::new(options.trust.config()?))),
            false => None,
        };
        check_token(options.token.as_ref())?;
        // Whatever one frame may carry, several of them fit one message.
        let max_message = (options.config.max_payload as usize).saturating_mul(2).max(4 << 20);
        Ok(Self { endpoint, bearer: options.bearer, tls, timeout: options.dial_timeout, max_message })
    }

    /// Dials once.
    pub(super) async fn dial(self, token: Option<Secret>) -> Result<Socket, DialError> {
        tokio::time::timeout(self.timeout, self.upgrade(token)).await.map_err(|_| DialError::Timeout)?
    }

    async fn upgrade(&self, token: Option<Secret>) -> Result<Socket, DialError> {
        let Endpoint { host, port, uri, .. } = &self.endpoint;
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
        let mut request = ClientRequestBuilder::new(uri.clone()).with_sub_protocol(SUBPROTOCOL);
        match (&token, self.bearer) {
            (None, _) => {}
            (Some(token), Bearer::Header) => {
                request = request.with_header("Authorization", format!("Bearer {}", token.expose()));
            }
            (Some(token), Bearer::Subprotocol) => {
                request = request.with_sub_protocol(bearer_entry(token.expose()));
            }
        }
        let config = WebSocketConfig::default()
            .read_buffer_size(16 << 10)
            .write_buffer_size(0)
            .max_message_size(Some(self.max_message))
            .max_frame_size(Some(self.max_message));
        let (stream, response) = client_async_with_config(request, stream, Some(config)).await?;
        // The credential is among the subprotocols, and a server must not choose it.
        if response.headers().get(SEC_WEBSOCKET_PROTOCOL).is_none_or(|chosen| chosen != SUBPROTOCOL) {
            return Err(DialError::NotAsp);
        }
        Ok(Socket { stream, outgoing: VecDeque::new(), backlog: 0, dirty: false })
    }
}

/// Whether a token fits a header.
pub(super) fn check_token(token: Option<&Secret>) -> Result<(), OptionsError> {
    let fits =
        |token: &Secret| !token.expose().is_empty() && token.expose().bytes().all(|b| b.is_ascii_graphic());
    if token.is_none_or(fits) { Ok(()) } else { Err(OptionsError::Token) }
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("no answer in time")]
    Timeout,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the host's name cannot be in a certificate")]
    Name,
    #[error("the server did not choose asp-v1")]
    NotAsp,
    #[error("HTTP {}", .0.status)]
    Refused(Refused),
    #[error("{0}")]
    WebSocket(String),
}

impl DialError {
    /// What the state machine is told.
    pub(super) fn input(&self) -> Input {
        match self {
            Self::Refused(refused) => Input::Refused(refused.clone()),
            // 101 and yet no: nothing that waiting could change.
            Self::NotAsp => Input::Refused(Refused { status: 101, retry_after_ms: None, error: None }),
            Self::Timeout | Self::Io(_) | Self::Name | Self::WebSocket(_) => Input::Unreachable,
        }
    }
}

impl From<WebSocketError> for DialError {
    fn from(error: WebSocketError) -> Self {
        match error {
            WebSocketError::Http(response) => Self::Refused(refused(&response)),
            WebSocketError::Io(error) => Self::Io(error),
            WebSocketError::Protocol(
                ProtocolError::SecWebSocketSubProtocolError(_)
                | ProtocolError::SecWebSocketAcceptKeyMismatch
                | ProtocolError::MissingUpgradeWebSocketHeader
                | ProtocolError::MissingConnectionUpgradeHeader,
            ) => Self::NotAsp,
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

fn refused(response: &Response) -> Refused {
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = retry_after.and_then(|text| text.trim().parse::<u64>().ok());
    Refused {
        status: response.status().as_u16(),
        retry_after_ms: seconds.map(|seconds| seconds.saturating_mul(1000)),
        error: response.body().as_deref().and_then(read_error),
    }
}

/// The body of a failed upgrade: `{"error":{code,name,msg,retry,retry_ms?}}`.
fn read_error(body: &[u8]) -> Option<ErrorBody> {
    let body = decode_json(body).ok()?;
    match ErrorFrame::from_map(body.as_map()?.get("error")?.as_map()?.clone()) {
        ErrorFrame::Error(error) => Some(error),
        ErrorFrame::Complete(_) => None,
    }
}

/// An open WebSocket with what is still to be written.
pub(super) struct Socket {
    stream: WebSocketStream<Box<dyn Io>>,
    outgoing: VecDeque<Message>,
    backlog: usize,
    dirty: bool,
}

impl Socket {
    pub(super) fn send(&mut self, message: Bytes) {
        self.backlog = self.backlog.saturating_add(message.len());
        self.outgoing.push_back(Message::Binary(message));
    }

    pub(super) fn ping(&mut self) {
        self.outgoing.push_back(Message::Ping(Bytes::new()));
    }

    /// Bytes that wait to be written.
    pub(super) fn backlog(&self) -> usize {
        self.backlog
    }

    /// Writes what waits, and waits for the next report. May be dropped at any time without loss.
    pub(super) async fn next(&mut self) -> Input {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        if self.poll_write(context).is_err() {
            return Poll::Ready(Input::Closed(None));
        }
        loop {
            let Poll::Ready(read) = Pin::new(&mut self.stream).poll_next(context) else {
                return Poll::Pending;
            };
            let input = match read {
                None => Input::Closed(None),
                Some(Ok(Message::Binary(message))) => Input::Binary(message),
                Some(Ok(Message::Text(_))) => Input::Text,
                Some(Ok(Message::Ping(_))) => {
                    // The answer is queued already; see that it leaves.
                    self.dirty = true;
                    if self.poll_write(context).is_err() {
                        return Poll::Ready(Input::Closed(None));
                    }
                    Input::Alive
                }
                Some(Ok(Message::Pong(_))) => Input::Alive,
                Some(Ok(Message::Close(frame))) => {
                    Input::Closed(Some(frame.map_or(NO_STATUS, |frame| frame.code.into())))
                }
                Some(Ok(Message::Frame(_))) => continue,
                // Coming back would only meet the same message again.
                Some(Err(WebSocketError::Capacity(_))) => Input::Closed(Some(Close::TooBig.number())),
                Some(Err(_)) => Input::Closed(None),
            };
            return Poll::Ready(input);
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<(), WebSocketError> {
        while !self.outgoing.is_empty() {
            match self.stream.poll_ready_unpin(context) {
                Poll::Pending => return Ok(()),
                Poll::Ready(ready) => ready?,
            }
            if let Some(message) = self.outgoing.pop_front() {
                if let Message::Binary(bytes) = &message {
                    self.backlog = self.backlog.saturating_sub(bytes.len());
                }
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
    pub(super) async fn finish(mut self) {
        // A peer that is gone already needs no goodbye.
        let _ = tokio::time::timeout(FAREWELL, self.stream.flush()).await;
    }

    /// Writes what waits, says goodbye and waits a moment for the answer.
    pub(super) async fn close(mut self, code: Close) {
        let farewell = async {
            for message in std::mem::take(&mut self.outgoing) {
                self.stream.feed(message).await?;
            }
            let frame = CloseFrame { code: code.number().into(), reason: "".into() };
            self.stream.send(Message::Close(Some(frame))).await?;
            while let Some(read) = self.stream.next().await {
                read?;
            }
            Ok::<(), WebSocketError>(())
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

/// Anything that carries bytes both ways.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A close frame without a code.
const NO_STATUS: u16 = 1005;
const FAREWELL: Duration = Duration::from_secs(2);
