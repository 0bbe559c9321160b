//! What comes in on a WebSocket before it is a message: its bytes are counted as they are read.
//!
//! The WebSocket library keeps a message until it is whole. Here the heads of frames are followed below it, so that a
//! message which is never finished has a size, a price and an end. What goes out passes through, and is counted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::unfinished::Held;

/// A byte stream of WebSocket frames, followed.
#[derive(Debug)]
pub(crate) struct Inflow<S> {
    stream: S,
    frames: Frames,
    /// The largest message that is taken now.
    max: usize,
    held: Held,
    /// How long a message may take.
    patience: Duration,
    /// Ends the message that is being read.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes that the network has taken since this was last asked.
    written: usize,
}

/// Why nothing more is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Halt {
    #[error("a message is larger than is taken now")]
    TooBig,
    #[error("the messages that the principal has not finished are too many bytes")]
    Full,
    #[error("a message was not finished in time")]
    Overdue,
}

impl<S> Inflow<S> {
    pub(crate) const fn new(stream: S, max: usize, held: Held, patience: Duration) -> Self {
        Self { stream, frames: Frames::new(), max, held, patience, deadline: None, written: 0 }
    }

    /// From now on, larger messages are not taken; one that is whole already still is.
    pub(crate) const fn take_at_most(&mut self, max: usize) {
        self.max = max;
    }

    /// Bytes that the network has taken since this was last asked.
    pub(crate) const fn take_written(&mut self) -> usize {
        std::mem::replace(&mut self.written, 0)
    }

    fn account(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        self.frames.follow(bytes);
        if !self.frames.is_unfinished() {
            self.deadline = None;
            self.held.release();
            return Ok(());
        }
        self.deadline.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        self.held.grow_to(self.frames.received).map_err(|_| Halt::Full)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Inflow<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // Looked at before more is read, and not when the head came: what came before it may have changed the bound.
        if this.frames.declared > this.max {
            return Poll::Ready(Err(io::Error::other(Halt::TooBig)));
        }
        let before = buffer.filled().len();
        if Pin::new(&mut this.stream).poll_read(cx, buffer)?.is_ready() {
            let read = buffer.filled().get(before..).unwrap_or_default();
            return Poll::Ready(this.account(read).map_err(io::Error::other));
        }
        // Only while the peer is waited for: what has come is taken, however long it lay there.
        let Some(deadline) = &mut this.deadline else { return Poll::Pending };
        deadline.as_mut().poll(cx).map(|()| Err(io::Error::other(Halt::Overdue)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Inflow<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.written += written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Follows the frames of RFC 6455, section 5.2, as far as their sizes go.
#[derive(Debug)]
struct Frames {
    head: [u8; MAX_HEAD],
    /// Bytes of the head that are there.
    known: usize,
    /// Bytes of the payload that are still to come.
    left: u64,
    frame: Kind,
    /// What the frames of the message that is being read have declared.
    declared: usize,
    /// What has come of it.
    received: usize,
    /// Whether a message has begun and not ended.
    open: bool,
}

/// What a frame is to its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It stands between the frames of a message.
    Control,
    /// More frames follow.
    More,
    /// It is the last one.
    Last,
}

impl Frames {
    const fn new() -> Self {
        Self {
            head: [0; MAX_HEAD],
            known: 0,
            left: 0,
            frame: Kind::Control,
            declared: 0,
            received: 0,
            open: false,
        }
    }

    /// Whether a message, or a frame, has begun and not ended.
    const fn is_unfinished(&self) -> bool {
        self.open || self.known > 0 || self.left > 0
    }

    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                bytes = bytes.get(count..).unwrap_or_default();
                self.left -= count as u64;
                if self.frame != Kind::Control {
                    self.received += count;
                }
                self.end_of_frame();
                continue;
            }
            bytes = rest;
            if let Some(byte) = self.head.get_mut(self.known) {
                *byte = *first;
            }
            self.known += 1;
            if self.known == self.head_size() {
                self.begin_frame();
                self.end_of_frame();
            }
        }
    }

    /// How long the head is, as far as is known.
    const fn head_size(&self) -> usize {
        let [_, second, ..] = self.head;
        if self.known < 2 {
            return 2;
        }
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        mask + match second & 0x7f {
            126 => 4,
            127 => 10,
            _ => 2,
        }
    }

    fn begin_frame(&mut self) {
        let [first, second, a, b, c, d, e, f, g, h, ..] = self.head;
        self.known = 0;
        self.left = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes([a, b])),
            127 => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            short => u64::from(short),
        };
        self.frame = match (first & 0x08 != 0, first & 0x80 != 0) {
            (true, _) => Kind::Control,
            (false, false) => Kind::More,
            (false, true) => Kind::Last,
        };
        if self.frame != Kind::Control {
            self.open = true;
            self.declared = self.declared.saturating_add(usize::try_from(self.left).unwrap_or(usize::MAX));
        }
    }

    const fn end_of_frame(&mut self) {
        if self.left == 0 && matches!(self.frame, Kind::Last) {
            self.open = false;
            self.declared = 0;
            self.received = 0;
        }
    }
}

const MAX_HEAD: usize = 14;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;
    use crate::unfinished::Unfinished;

    /// The head of a frame as a client sends it.
    fn head(first: u8, length: u64) -> Vec<u8> {
        let mut head = vec![first];
        match length {
            0..126 => head.push(0x80 | u8::try_from(length).unwrap()),
            126..0x1_0000 => {
                head.push(0x80 | 126);
                head.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                head.push(0x80 | 127);
                head.extend(length.to_be_bytes());
            }
        }
        head.extend([1, 2, 3, 4]);
        head
    }

    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut frame = head(first, length as u64);
        frame.resize(frame.len() + length, 0x55);
        frame
    }

    const MORE: u8 = 0x02;
    const MORE_STILL: u8 = 0x00;
    const LAST: u8 = 0x80;
    const WHOLE: u8 = 0x82;
    const PONG: u8 = 0x8a;

    #[test]
    fn frames_are_followed_wherever_they_are_cut() {
        let wire = [
            frame(WHOLE, 5),
            frame(MORE, 300),
            frame(PONG, 7),
            frame(MORE_STILL, 70_000),
            frame(MORE_STILL, 0),
            frame(LAST, 126),
            frame(WHOLE, 0),
        ]
        .concat();
        for piece in [1, 2, 3, 7, 100, 4096, wire.len()] {
            let mut frames = Frames::new();
            let mut most = 0;
            for bytes in wire.chunks(piece) {
                frames.follow(bytes);
                most = most.max(frames.received);
            }
            assert!(!frames.is_unfinished(), "{piece}");
            assert_eq!((frames.received, frames.declared), (0, 0), "{piece}");
            assert!(piece > 100 || most >= 70_300, "{piece}: {most}");
        }
    }

    #[test]
    fn what_is_declared_and_what_has_come_are_known_of_a_message() {
        let mut frames = Frames::new();
        frames.follow(&frame(MORE, 1000));
        frames.follow(&head(MORE_STILL, u64::MAX));
        frames.follow(&frame(PONG, 9)[..3]);
        assert_eq!((frames.declared, frames.received), (usize::MAX, 1003));
        assert!(frames.is_unfinished());
    }

    struct Peer {
        wire: DuplexStream,
        inflow: Inflow<DuplexStream>,
    }

    impl Peer {
        fn new(unfinished: &Unfinished) -> Self {
            let (wire, stream) = duplex(1 << 20);
            let held = unfinished.of(&"ann".into());
            Self { wire, inflow: Inflow::new(stream, 100_000, held, Duration::from_secs(60)) }
        }

        /// Reads all of what is sent.
        async fn send(&mut self, bytes: &[u8]) -> Result<(), Halt> {
            self.wire.write_all(bytes).await.unwrap();
            let mut left = bytes.len();
            while left > 0 {
                left -= self.read().await?;
            }
            Ok(())
        }

        async fn read(&mut self) -> Result<usize, Halt> {
            let read = self.inflow.read(&mut [0; 2048]).await;
            read.map_err(|error| *error.into_inner().unwrap().downcast::<Halt>().unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_bytes_are_charged_as_they_are_read_and_released_with_the_message() {
        let unfinished = Unfinished::new(150_000);
        let (mut one, mut two) = (Peer::new(&unfinished), Peer::new(&unfinished));
        one.send(&frame(MORE, 80_000)).await.unwrap();
        assert_eq!(unfinished.held(&"ann".into()), 80_000);
        two.send(&frame(MORE, 60_000)).await.unwrap();
        one.send(&frame(PONG, 100)).await.unwrap();
        assert_eq!(unfinished.held(&"ann".into()), 140_000);
        assert_eq!(two.send(&frame(MORE_STILL, 20_000)).await, Err(Halt::Full));
        drop(two);
        one.send(&frame(LAST, 10_000)).await.unwrap();
        assert_eq!(unfinished.held(&"ann".into()), 0);
        one.send(&frame(WHOLE, 90_000)).await.unwrap();
        assert_eq!(unfinished.held(&"ann".into()), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_too_large_is_given_up_before_it_is_read() {
        let unfinished = Unfinished::new(1 << 30);
        let mut peer = Peer::new(&unfinished);
        peer.send(&frame(MORE, 60_000)).await.unwrap();
        peer.send(&head(MORE_STILL, 50_000)).await.unwrap();
        peer.wire.write_all(&[0; 50_000]).await.unwrap();
        assert_eq!(peer.read().await, Err(Halt::TooBig));
        assert_eq!(unfinished.held(&"ann".into()), 60_000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_bound_may_be_changed_by_what_came_before() {
        let unfinished = Unfinished::new(1 << 30);
        let mut peer = Peer::new(&unfinished);
        peer.inflow.take_at_most(1000);
        // Both in one piece: a first message, and a larger one after it.
        peer.send(&[frame(WHOLE, 500), head(WHOLE, 1500)].concat()).await.unwrap();
        peer.inflow.take_at_most(2000);
        peer.send(&[0; 1500]).await.unwrap();
        peer.inflow.take_at_most(1000);
        peer.send(&head(WHOLE, 1500)).await.unwrap();
        assert_eq!(peer.send(&[0; 1500]).await, Err(Halt::TooBig));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_has_a_deadline_that_pongs_do_not_move() {
        let unfinished = Unfinished::new(1 << 30);
        let mut peer = Peer::new(&unfinished);
        tokio::time::advance(Duration::from_secs(600)).await;
        peer.send(&frame(MORE, 10)).await.unwrap();
        for _ in 0..11 {
            tokio::time::advance(Duration::from_secs(5)).await;
            peer.send(&frame(PONG, 4)).await.unwrap();
        }
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(peer.read().await, Err(Halt::Overdue));
    }

    #[tokio::test(start_paused = true)]
    async fn a_finished_message_has_no_deadline() {
        let unfinished = Unfinished::new(1 << 30);
        let mut peer = Peer::new(&unfinished);
        peer.send(&frame(MORE, 10)).await.unwrap();
        tokio::time::advance(Duration::from_secs(50)).await;
        peer.send(&frame(LAST, 10)).await.unwrap();
        assert!(
            tokio::time::timeout(Duration::from_secs(600), peer.read()).await.is_err(),
            "silence is no fault"
        );
        peer.send(&frame(WHOLE, 10)).await.unwrap();
    }
}
