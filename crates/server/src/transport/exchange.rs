//! One HTTP exchange as a transport: the body of the request comes in, the answer goes out.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{Sink, Stream, stream};
use switchboard_core::{Close, CloseReason, Frame, Head};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;

use super::{Arrival, Transport};

/// The server's side of an exchange.
pub(crate) struct Exchange {
    request: Option<Frame>,
    head: Option<oneshot::Sender<Head>>,
    /// What was sent since the last flush; a flush makes one piece of the body.
    unflushed: BytesMut,
    body: PollSender<Bytes>,
    left: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The answer of an exchange, for the peer.
#[derive(Debug)]
pub(crate) struct Answer {
    head: oneshot::Receiver<Head>,
    body: mpsc::Receiver<Bytes>,
}

impl Exchange {
    /// An exchange that a request with this body began.
    pub(crate) fn new(request: Bytes) -> (Self, Answer) {
        let (head, answered) = oneshot::channel();
        let (sender, body) = mpsc::channel(PIECES);
        let watched = sender.clone();
        let exchange = Self {
            request: Some(Frame::Binary(request)),
            head: Some(head),
            unflushed: BytesMut::new(),
            body: PollSender::new(sender),
            left: Box::pin(async move { watched.closed().await }),
        };
        (exchange, Answer { head: answered, body })
    }
}

impl Answer {
    /// Waits for the head; the body follows at its own pace.
    pub(crate) async fn response(self) -> Response {
        let Self { head, mut body } = self;
        let Ok(Head { status, headers }) = head.await else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let pieces =
            stream::poll_fn(move |cx| body.poll_recv(cx).map(|piece| piece.map(Ok::<_, Infallible>)));
        let mut response = Response::new(Body::from_stream(pieces));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

impl Stream for Exchange {
    type Item = Result<Arrival, CloseReason>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(request) = self.request.take() {
            return Poll::Ready(Some(Ok(Arrival::Frame(request))));
        }
        // Nothing more comes; only that the reader leaves can still happen.
        self.left.as_mut().poll(cx).map(|()| None)
    }
}

impl Sink<Frame> for Exchange {
    type Error = CloseReason;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), CloseReason> {
        match frame {
            Frame::Text(text) => self.unflushed.extend_from_slice(text.as_bytes()),
            Frame::Binary(bytes) => self.unflushed.extend_from_slice(&bytes),
            Frame::Head(head) => {
                if let Some(sender) = self.head.take() {
                    sender.send(*head).map_err(|_| CloseReason::TransportLost)?;
                }
            }
            Frame::Ping(_) | Frame::Pong(_) => {}
        }
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        if self.unflushed.is_empty() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.body.poll_reserve(cx)).map_err(|_| CloseReason::TransportLost)?;
        let piece = self.unflushed.split().freeze();
        Poll::Ready(self.body.send_item(piece).map_err(|_| CloseReason::TransportLost))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.poll_flush(cx)
    }
}

impl Transport for Exchange {
    /// The end of the body is the end of the exchange; an exchange has no codes.
    async fn finish(&mut self, _: Close) {
        self.body.close();
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

/// Pieces of a body that may wait for the network.
const PIECES: usize = 4;
