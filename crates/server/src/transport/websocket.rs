//! A WebSocket as a transport.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use switchboard_core::{Close, CloseReason, Frame};

use super::{Arrival, Transport};

/// A WebSocket after its upgrade.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) WebSocket);

impl Stream for Socket {
    type Item = Result<Arrival, CloseReason>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx).map(|received| {
            received.map(|message| match message {
                Ok(Message::Text(text)) => Ok(Arrival::Frame(Frame::Text(text.as_str().to_owned()))),
                Ok(Message::Binary(bytes)) => Ok(Arrival::Frame(Frame::Binary(bytes))),
                Ok(Message::Ping(bytes)) => Ok(Arrival::Frame(Frame::Ping(bytes))),
                Ok(Message::Pong(bytes)) => Ok(Arrival::Frame(Frame::Pong(bytes))),
                Ok(Message::Close(close)) => Ok(Arrival::Closed(close.map(|close| close.code))),
                Err(error) => Err(reason_of(&error)),
            })
        })
    }
}

impl Sink<Frame> for Socket {
    type Error = CloseReason;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.0.poll_ready_unpin(cx).map_err(|error| reason_of(&error))
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), CloseReason> {
        let message = match frame {
            Frame::Text(text) => Message::Text(text.into()),
            Frame::Binary(bytes) => Message::Binary(bytes),
            Frame::Ping(bytes) => Message::Ping(bytes),
            Frame::Pong(bytes) => Message::Pong(bytes),
            // A head was sent when the upgrade was answered, and a WebSocket has no tracks.
            Frame::Head(_) | Frame::Media(_) => return Ok(()),
        };
        self.0.start_send_unpin(message).map_err(|error| reason_of(&error))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.0.poll_flush_unpin(cx).map_err(|error| reason_of(&error))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.0.poll_close_unpin(cx).map_err(|error| reason_of(&error))
    }
}

impl Transport for Socket {
    /// Gives the peer a moment to answer: closing a socket with unread data would throw away what
    /// the peer has not read yet.
    async fn finish(&mut self, close: Close) {
        let frame = CloseFrame { code: close.code, reason: close.reason.into() };
        if self.0.send(Message::Close(Some(frame))).await.is_err() {
            // The peer closed first. The answer to that is ready, and only has to go out.
            let _ = self.0.flush().await;
        }
        let hang_up = async { while let Some(Ok(_)) = self.0.next().await {} };
        let _ = tokio::time::timeout(HANG_UP, hang_up).await;
    }
}

fn reason_of(error: &axum::Error) -> CloseReason {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        // The WebSocket library reports an oversized message as a capacity error.
        if cause.to_string().contains("too long") || cause.to_string().contains("too big") {
            return CloseReason::TooBig;
        }
        if cause.to_string().contains("UTF-8") {
            return CloseReason::NotText;
        }
        source = cause.source();
    }
    CloseReason::TransportLost
}

const HANG_UP: Duration = Duration::from_secs(1);
