//! The body of a response, from the records that a function writes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use switchboard_asp::relay::{ContentKind, Format, Piece, Writer};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

/// The bytes of an answer, for the body of any HTTP framework. While a function says nothing, a ping every 10 s
/// keeps the relay waiting. An answer that breaks off ends in an error, so that the relay learns of it.
#[derive(Debug)]
pub struct Output {
    chunks: mpsc::Receiver<Chunk>,
    content: ContentKind,
    ping: Bytes,
    silence: Pin<Box<Sleep>>,
    phase: Phase,
}

impl Output {
    pub(super) fn new(format: Format, rid: u16) -> (mpsc::Sender<Chunk>, Self) {
        let (sender, chunks) = mpsc::channel(CHUNKS);
        let mut ping = BytesMut::new();
        // A ping is short and first, so it can be written; without one there would be none.
        let _ = Writer::new(format, rid, 0).write(&Piece::Ping, &mut ping);
        let silence = Box::pin(sleep(PING_AFTER));
        (sender, Self { chunks, content: format.kind(), ping: ping.freeze(), silence, phase: Phase::Open })
    }

    /// The `Content-Type` of the response.
    pub fn content_type(&self) -> &'static str {
        self.content.name()
    }
}

impl Stream for Output {
    type Item = Result<Bytes, BrokeOff>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.phase {
            Phase::Open => {}
            Phase::Breaking => {
                self.phase = Phase::Over;
                return Poll::Ready(Some(Err(BrokeOff)));
            }
            Phase::Over => return Poll::Ready(None),
        }
        let next = match self.chunks.poll_recv(context) {
            Poll::Ready(Some(chunk)) => {
                self.phase = if chunk.last { Phase::Over } else { Phase::Open };
                chunk.bytes
            }
            Poll::Ready(None) => {
                // A server sends what it has when there is no more for now, but not after an error.
                self.phase = Phase::Breaking;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Pending => {
                ready!(self.silence.as_mut().poll(context));
                self.ping.clone()
            }
        };
        self.silence.as_mut().reset(Instant::now() + PING_AFTER);
        Poll::Ready(Some(Ok(next)))
    }
}

/// What the function has written at once.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Bytes,
    pub(super) last: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Breaking,
    Over,
}

/// The function ended without ending its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub struct BrokeOff;

/// Records that wait for a slow relay; then the function waits as well.
const CHUNKS: usize = 32;
const PING_AFTER: Duration = Duration::from_secs(10);
