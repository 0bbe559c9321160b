//! What waits to be written to one transport.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use futures_util::SinkExt as _;
use switchboard_core::{CloseReason, Frame};

use crate::transport::Transport;

/// Frames in order, written in pieces with one flush each.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Bytes that the transport has taken but not yet flushed.
    unflushed: usize,
    /// The most bytes that waited since that was last reported.
    peak: usize,
    frames_written: u64,
    bytes_written: u64,
    flushes: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, frame: Frame) {
        self.bytes += size(&frame);
        self.peak = self.peak.max(self.bytes);
        self.frames.push_back(frame);
    }

    /// Frames, bytes and flushes since this was last asked.
    pub(crate) fn written(&mut self) -> (u64, u64, u64) {
        let Self { frames_written, bytes_written, flushes, .. } = self;
        (std::mem::take(frames_written), std::mem::take(bytes_written), std::mem::take(flushes))
    }

    /// Bytes that are not on their way yet.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes that waited since the last report.
    pub(crate) const fn peak(&self) -> usize {
        self.peak
    }

    /// Bytes that are not on their way yet, for the connection to know.
    pub(crate) const fn report(&mut self) -> usize {
        self.peak = self.bytes;
        self.bytes
    }

    /// Whether more than `most` bytes wait behind what is on its way. The largest message among them does not count:
    /// it may be as large as the protocol lets it.
    pub(crate) fn is_above(&self, most: usize) -> bool {
        let behind = self.bytes.saturating_sub(self.unflushed);
        behind > most && behind - self.frames.iter().map(size).max().unwrap_or(0) > most
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Writes everything, flushing once per piece; pending while the transport is full.
    pub(crate) fn poll_flush(
        &mut self,
        socket: &mut impl Transport,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), CloseReason>> {
        while self.bytes > 0 {
            let written = self.poll_piece(socket, cx);
            if written.is_pending() && self.unflushed > 0 {
                // A large message is on its way for long: what of it has left is progress.
                self.count_left(socket.waiting().max(1));
            }
            ready!(written)?;
            self.count_left(0);
            self.flushes += 1;
        }
        // A burst leaves no memory behind.
        if self.frames.capacity() > SMALL {
            self.frames = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_piece(
        &mut self,
        socket: &mut impl Transport,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), CloseReason>> {
        while self.unflushed < PIECE && !self.frames.is_empty() {
            ready!(socket.poll_ready_unpin(cx))?;
            let Some(frame) = self.frames.pop_front() else { break };
            self.unflushed += size(&frame);
            self.frames_written += 1;
            socket.start_send_unpin(frame)?;
        }
        socket.poll_flush_unpin(cx)
    }

    /// Of what the transport has taken, no more than `waiting` is left.
    fn count_left(&mut self, waiting: usize) {
        let left = self.unflushed.saturating_sub(waiting);
        self.unflushed -= left;
        self.bytes -= left;
        self.bytes_written += left as u64;
    }
}

/// What a frame weighs, its header included.
const fn size(frame: &Frame) -> usize {
    HEADER + frame.size()
}

const PIECE: usize = 64 << 10;
const HEADER: usize = 8;
const SMALL: usize = 64;

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::poll_fn;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;
    use crate::transport::{Bounds, Socket};
    use crate::unfinished::Unfinished;

    async fn socket(room: usize) -> (Socket<DuplexStream>, DuplexStream) {
        let (stream, peer) = duplex(room);
        let held = Unfinished::new(1).of(&"ann".into());
        let bounds = Bounds { max_message: 1000, patience: std::time::Duration::from_secs(60), held };
        (Socket::new(stream, bounds).await, peer)
    }

    fn text(length: usize) -> Frame {
        Frame::Text("x".repeat(length))
    }

    /// Writes what can be written now; whether that was everything.
    fn write(outbox: &mut Outbox, socket: &mut Socket<DuplexStream>) -> bool {
        poll_fn(|cx| outbox.poll_flush(socket, cx)).now_or_never().map(Result::unwrap).is_some()
    }

    #[tokio::test]
    async fn ac_091_what_leaves_of_a_large_message_is_progress() {
        let (mut socket, mut peer) = socket(4096).await;
        let mut outbox = Outbox::default();
        outbox.push(text(100_000));
        outbox.push(text(10));
        let mut before = outbox.bytes();
        let mut read = 0;
        let mut buffer = [0; 1000];
        while !write(&mut outbox, &mut socket) {
            assert!(outbox.bytes() < before, "{} of {before} after {read}", outbox.bytes());
            assert!(!outbox.is_empty());
            before = outbox.bytes();
            read += peer.read(&mut buffer).await.unwrap();
            // A task that never yields is not served by channels.
            tokio::task::yield_now().await;
        }
        assert!(outbox.is_empty());
        drop(socket);
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).await.unwrap();
        assert_eq!(read + rest.len(), 100_000 + 10 + 10 + 2, "the heads are longer the larger the message");
        let (frames, bytes, _) = outbox.written();
        assert_eq!((frames, bytes), (2, 100_010 + 2 * HEADER as u64));
    }

    #[tokio::test]
    async fn ac_090_a_message_may_be_larger_than_what_comes_in_and_than_what_may_wait() {
        let (mut socket, mut peer) = socket(4096).await;
        let mut outbox = Outbox::default();
        outbox.push(text(500));
        outbox.push(text(3_000_000));
        outbox.push(text(500));
        assert!(!outbox.is_above(2000), "one large message does not count");
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).await.unwrap();
            all.len()
        });
        assert!(!write(&mut outbox, &mut socket), "it is on its way");
        for _ in 0..5 {
            outbox.push(text(500));
        }
        assert!(outbox.is_above(2000), "what waits behind it does");
        poll_fn(|cx| outbox.poll_flush(&mut socket, cx)).await.unwrap();
        drop(socket);
        assert!(reading.await.unwrap() > 3_003_500);
    }
}
