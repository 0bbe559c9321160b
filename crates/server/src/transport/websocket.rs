//! A WebSocket as a transport.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use switchboard_core::{Close, CloseReason, Frame};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as WireFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::inflow::{Halt, Inflow};
use super::{Arrival, Transport};
use crate::unfinished::Held;

/// A WebSocket after its upgrade.
#[derive(Debug)]
pub(crate) struct Socket<S = TokioIo<Upgraded>> {
    stream: WebSocketStream<Inflow<S>>,
    /// What is still to be sent of a large message.
    rest: Option<Rest>,
    /// Bytes that were handed over and that the network has not taken.
    waiting: usize,
}

/// What a WebSocket may cost.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// The largest message that comes in.
    pub(crate) max_message: usize,
    /// How long one may take.
    pub(crate) patience: Duration,
    /// What it has unfinished.
    pub(crate) held: Held,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(crate) async fn new(stream: S, bounds: Bounds) -> Self {
        let Bounds { max_message, patience, held } = bounds;
        let inflow = Inflow::new(stream, max_message, held, patience);
        // What goes out is bounded by whoever sends: a frame that is too large is not handed over.
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_message_size(Some(max_message))
            .max_frame_size(Some(max_message));
        Self {
            stream: WebSocketStream::from_raw_socket(inflow, Role::Server, Some(config)).await,
            rest: None,
            waiting: 0,
        }
    }

    /// Begins a large message; it is handed over before anything else is.
    fn send_in_pieces(&mut self, payload: Bytes, kind: Data) -> Result<(), CloseReason> {
        self.waiting += payload.len();
        self.rest = Some(Rest { payload, kind });
        Ok(())
    }

    /// Hands over what is left of a large message, piece by piece.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), tungstenite::Error>> {
        while let Some(rest) = &mut self.rest {
            std::task::ready!(self.stream.poll_ready_unpin(cx))?;
            let piece = rest.next();
            if rest.payload.is_empty() {
                self.rest = None;
            }
            self.stream.start_send_unpin(Message::Frame(piece))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Counts what the network has taken meanwhile.
    fn count_written(&mut self) {
        let written = self.stream.get_mut().take_written();
        self.waiting = self.waiting.saturating_sub(written);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for Socket<S> {
    type Item = Result<Arrival, CloseReason>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(received) = std::task::ready!(self.stream.poll_next_unpin(cx)) else {
                return Poll::Ready(None);
            };
            return Poll::Ready(Some(match received {
                Ok(Message::Text(text)) => Ok(Arrival::Frame(Frame::Text(text.as_str().to_owned()))),
                Ok(Message::Binary(bytes)) => Ok(Arrival::Frame(Frame::Binary(bytes))),
                Ok(Message::Ping(bytes)) => Ok(Arrival::Frame(Frame::Ping(bytes))),
                Ok(Message::Pong(bytes)) => Ok(Arrival::Frame(Frame::Pong(bytes))),
                Ok(Message::Close(close)) => Ok(Arrival::Closed(close.map(|close| close.code.into()))),
                // Is never read.
                Ok(Message::Frame(_)) => continue,
                Err(error) => Err(reason_of(&error)),
            }));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<Frame> for Socket<S> {
    type Error = CloseReason;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        let rest = self.poll_rest(cx);
        let ready = if matches!(rest, Poll::Ready(Ok(()))) { self.stream.poll_ready_unpin(cx) } else { rest };
        self.count_written();
        ready.map_err(|error| reason_of(&error))
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), CloseReason> {
        let size = frame.size();
        let large = size > WHOLE;
        let message = match frame {
            Frame::Text(text) if large => return self.send_in_pieces(text.into(), Data::Text),
            Frame::Text(text) => Message::Text(text.into()),
            Frame::Binary(bytes) if large => return self.send_in_pieces(bytes, Data::Binary),
            Frame::Binary(bytes) => Message::Binary(bytes),
            Frame::Ping(bytes) => Message::Ping(bytes),
            Frame::Pong(bytes) => Message::Pong(bytes),
            // A head was sent when the upgrade was answered, and a WebSocket has no tracks.
            Frame::Head(_) | Frame::Media(_) => return Ok(()),
        };
        self.waiting += size;
        self.stream.start_send_unpin(message).map_err(|error| reason_of(&error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        let rest = self.poll_rest(cx);
        let flushed =
            if matches!(rest, Poll::Ready(Ok(()))) { self.stream.poll_flush_unpin(cx) } else { rest };
        self.count_written();
        if flushed.is_ready() {
            self.waiting = 0;
        }
        flushed.map_err(|error| reason_of(&error))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.stream.poll_close_unpin(cx).map_err(|error| reason_of(&error))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Transport for Socket<S> {
    fn take_at_most(&mut self, max: usize) {
        self.stream.get_mut().take_at_most(max);
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    /// Gives the peer a moment to answer: closing a socket with unread data would throw away what
    /// the peer has not read yet.
    async fn finish(&mut self, close: Close) {
        let frame = CloseFrame { code: close.code.into(), reason: close.reason.into() };
        if self.stream.send(Message::Close(Some(frame))).await.is_err() {
            // The peer closed first. The answer to that is ready, and only has to go out.
            let _ = self.stream.flush().await;
        }
        let hang_up = async { while let Some(Ok(_)) = self.stream.next().await {} };
        let _ = tokio::time::timeout(HANG_UP, hang_up).await;
    }
}

/// What is still to be sent of a message that goes out in several frames: the WebSocket library copies a frame, moves
/// what is left of it with every write, and keeps the room.
#[derive(Debug)]
struct Rest {
    payload: Bytes,
    /// What the next frame is.
    kind: Data,
}

impl Rest {
    fn next(&mut self) -> WireFrame {
        let mut length = PIECE.min(self.payload.len());
        // Between two characters, for clients that decode each frame.
        while self.payload.get(length).is_some_and(|byte| byte & 0xc0 == 0x80) && length > PIECE - 4 {
            length -= 1;
        }
        let piece = self.payload.split_to(length);
        let kind = std::mem::replace(&mut self.kind, Data::Continue);
        WireFrame::message(piece, OpCode::Data(kind), self.payload.is_empty())
    }
}

fn reason_of(error: &tungstenite::Error) -> CloseReason {
    match error {
        tungstenite::Error::Capacity(_) => CloseReason::TooBig,
        tungstenite::Error::Utf8(_) => CloseReason::NotText,
        tungstenite::Error::Io(error) => {
            let halt = error.get_ref().and_then(|inner| inner.downcast_ref::<Halt>());
            halt.map_or(CloseReason::TransportLost, |halt| match halt {
                Halt::TooBig => CloseReason::TooBig,
                Halt::Full => {
                    tracing::warn!("{halt} (limits.principal_unfinished_bytes); the connection is closed");
                    CloseReason::TooSlow
                }
                Halt::Overdue => {
                    tracing::warn!("{halt} (limits.message_timeout_ms); the connection is closed");
                    CloseReason::TooSlow
                }
            })
        }
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::AlreadyClosed
        | tungstenite::Error::Tls(_)
        | tungstenite::Error::Protocol(_)
        | tungstenite::Error::WriteBufferFull(_)
        | tungstenite::Error::AttackAttempt
        | tungstenite::Error::Url(_)
        | tungstenite::Error::Http(_)
        | tungstenite::Error::HttpFormat(_) => CloseReason::TransportLost,
    }
}

/// The largest message that is sent in one frame, and the size of frames beyond it.
const WHOLE: usize = 128 << 10;
const PIECE: usize = 64 << 10;
const HANG_UP: Duration = Duration::from_secs(1);
/// Small, so that an idle connection is; a larger message grows it for a while.
const READ_BUFFER: usize = 2 << 10;
/// Several messages go out with one system call.
const WRITE_BUFFER: usize = 16 << 10;
