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

use super::{Arrival, Flushes, Transport};

/// The server's side of an exchange.
pub(crate) struct Exchange {
    request: Option<Frame>,
    head: Option<oneshot::Sender<Head>>,
    /// What was sent since the last flush; a flush makes one piece of the body.
    unflushed: BytesMut,
    body: PollSender<Bytes>,
    left: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The peer has all of the answer, as far as that is up to this server, or is gone.
    written: Option<oneshot::Receiver<()>>,
}

/// The answer of an exchange, for the peer.
#[derive(Debug)]
pub(crate) struct Answer {
    head: oneshot::Receiver<Head>,
    body: mpsc::Receiver<Bytes>,
    written: oneshot::Sender<()>,
}

impl Exchange {
    /// An exchange that a request with this body began.
    pub(crate) fn new(request: Bytes) -> (Self, Answer) {
        let (head, answered) = oneshot::channel();
        let (sender, body) = mpsc::channel(PIECES);
        let (write, written) = oneshot::channel();
        let watched = sender.clone();
        let exchange = Self {
            request: Some(Frame::Binary(request)),
            head: Some(head),
            unflushed: BytesMut::new(),
            body: PollSender::new(sender),
            left: Box::pin(async move { watched.closed().await }),
            written: Some(written),
        };
        (exchange, Answer { head: answered, body, written: write })
    }
}

impl Answer {
    /// Waits for the head; the body follows at its own pace. When the socket is flushed behind its end, the
    /// exchange is told.
    pub(crate) async fn response(self, flushes: Option<Flushes>) -> Response {
        let Self { head, mut body, written } = self;
        let mut at_end = flushes.map(|flushes| (flushes, written));
        let Ok(Head { status, headers }) = head.await else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let pieces = stream::poll_fn(move |cx| {
            let piece = ready!(body.poll_recv(cx));
            if piece.is_none()
                && let Some((flushes, written)) = at_end.take()
            {
                flushes.tell(written);
            }
            Poll::Ready(piece.map(Ok::<_, Infallible>))
        });
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
            Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) => {}
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
        // It holds the body open.
        self.left = Box::pin(std::future::pending());
        if let Some(written) = self.written.take() {
            let _ = written.await;
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

/// Pieces of a body that may wait for the network.
const PIECES: usize = 4;

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};

    use super::*;

    fn head() -> Frame {
        let headers = vec![("content-type", "text/event-stream".to_owned()), ("x-task", "t\n".to_owned())];
        Frame::Head(Box::new(Head { status: 202, headers }))
    }

    fn text(text: &str) -> Frame {
        Frame::Text(text.to_owned())
    }

    const CLOSE: Close = Close { code: 1000, reason: "" };

    #[tokio::test]
    async fn the_request_is_the_only_frame_that_comes() {
        let (mut exchange, answer) = Exchange::new(Bytes::from_static(b"{}"));
        let first = exchange.next().await;
        assert!(matches!(first, Some(Ok(Arrival::Frame(Frame::Binary(body)))) if body == "{}"));
        assert!(exchange.next().now_or_never().is_none(), "the reader is still there");
        drop(answer);
        assert!(exchange.next().await.is_none());
    }

    #[tokio::test]
    async fn frames_are_the_answer_head_first() {
        let (mut exchange, answer) = Exchange::new(Bytes::new());
        for frame in [head(), text("one "), Frame::Ping(Bytes::new()), Frame::Binary("two ".into())] {
            exchange.feed(frame).await.unwrap();
        }
        exchange.flush().await.unwrap();
        exchange.send(text("three")).await.unwrap();
        exchange.send(head()).await.unwrap();
        let (response, ()) = tokio::join!(answer.response(None), async {
            // Without a socket nobody waits for it.
            exchange.finish(CLOSE).await;
            drop(exchange);
        });
        assert_eq!(response.status(), 202);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(!response.headers().contains_key("x-task"), "a value that is no header is left out");
        let mut pieces = response.into_body().into_data_stream();
        assert_eq!(pieces.next().await.unwrap().unwrap(), "one two ", "a flush makes one piece");
        assert_eq!(pieces.next().await.unwrap().unwrap(), "three");
        assert!(pieces.next().await.is_none(), "the end of the exchange is the end of the body");
    }

    #[tokio::test]
    async fn a_connection_that_says_nothing_is_an_error() {
        let (exchange, answer) = Exchange::new(Bytes::new());
        drop(exchange);
        let response = answer.response(None).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(to_bytes(response.into_body(), 1).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_slow_reader_holds_the_flush_back() {
        let (mut exchange, answer) = Exchange::new(Bytes::new());
        exchange.feed(head()).await.unwrap();
        for number in 0..PIECES {
            exchange.send(text(&number.to_string())).await.unwrap();
        }
        exchange.feed(text("more")).await.unwrap();
        assert!(exchange.flush().now_or_never().is_none());
        let mut pieces = answer.response(None).await.into_body().into_data_stream();
        assert_eq!(pieces.next().await.unwrap().unwrap(), "0");
        exchange.flush().await.unwrap();
        exchange.finish(CLOSE).await;
        drop(exchange);
        let rest: Vec<_> = pieces.map(Result::unwrap).collect().await;
        assert_eq!(rest, ["1", "2", "3", "more"]);
    }

    #[tokio::test]
    async fn an_exchange_ends_when_its_socket_was_flushed_behind_the_body() {
        let (mut exchange, answer) = Exchange::new(Bytes::new());
        exchange.send(head()).await.unwrap();
        exchange.send(text("one")).await.unwrap();
        let flushes = Flushes::default();
        let mut pieces = answer.response(Some(flushes.clone())).await.into_body().into_data_stream();
        let mut finish = exchange.finish(CLOSE).boxed();
        assert!(finish.as_mut().now_or_never().is_none());
        assert_eq!(pieces.next().await.unwrap().unwrap(), "one");
        flushes.flushed();
        assert!(finish.as_mut().now_or_never().is_none(), "the end of the body was not out yet");
        assert!(pieces.next().await.is_none());
        assert!(finish.as_mut().now_or_never().is_none());
        flushes.flushed();
        assert!(finish.now_or_never().is_some());
    }

    #[tokio::test]
    async fn an_exchange_ends_when_its_peer_is_gone() {
        let (mut exchange, answer) = Exchange::new(Bytes::new());
        exchange.send(head()).await.unwrap();
        let response = answer.response(Some(Flushes::default())).await;
        let mut finish = exchange.finish(CLOSE).boxed();
        assert!(finish.as_mut().now_or_never().is_none());
        drop(response);
        assert!(finish.now_or_never().is_some());
    }

    #[tokio::test]
    async fn nothing_can_be_said_to_a_reader_that_has_left() {
        let (mut exchange, answer) = Exchange::new(Bytes::new());
        drop(answer);
        assert_eq!(exchange.send(head()).await, Err(CloseReason::TransportLost));
        let (mut exchange, answer) = Exchange::new(Bytes::new());
        exchange.send(head()).await.unwrap();
        drop(answer.response(None).await);
        assert_eq!(exchange.send(text("anybody?")).await, Err(CloseReason::TransportLost));
    }
}
