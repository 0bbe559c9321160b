//! Writing what waits for a transport.

use std::task::{Context, Poll, ready};

use futures_util::SinkExt as _;
use switchboard_core::CloseReason;
use switchboard_engine::Outbox;

use super::Transport;

/// Writes everything that waits, flushing once per piece; pending while the transport is full.
pub(crate) fn poll_write(
    outbox: &mut Outbox,
    socket: &mut impl Transport,
    cx: &mut Context<'_>,
) -> Poll<Result<(), CloseReason>> {
    while !outbox.is_empty() {
        let written = poll_piece(outbox, socket, cx);
        if written.is_pending() && outbox.is_unflushed() {
            // A large message is on its way for long: what of it has left is progress.
            outbox.count_left(socket.waiting().max(1));
        }
        ready!(written)?;
        outbox.flushed();
    }
    Poll::Ready(Ok(()))
}

fn poll_piece(
    outbox: &mut Outbox,
    socket: &mut impl Transport,
    cx: &mut Context<'_>,
) -> Poll<Result<(), CloseReason>> {
    while outbox.next().is_some() {
        ready!(socket.poll_ready_unpin(cx))?;
        let Some(frame) = outbox.take() else { break };
        socket.start_send_unpin(frame)?;
    }
    socket.poll_flush_unpin(cx)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::poll_fn;
    use switchboard_core::Frame;
    use switchboard_engine::HEADER;
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
        poll_fn(|cx| poll_write(outbox, socket, cx)).now_or_never().map(Result::unwrap).is_some()
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
        let written = outbox.written();
        assert_eq!((written.frames, written.bytes), (2, 100_010 + 2 * HEADER as u64));
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
        poll_fn(|cx| poll_write(&mut outbox, &mut socket, cx)).await.unwrap();
        drop(socket);
        assert!(reading.await.unwrap() > 3_003_500);
    }
}
