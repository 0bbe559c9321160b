//! What waits to be written to one transport.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use futures_util::{Sink, SinkExt as _};
use switchboard_core::Frame;

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

    /// Whether more than one frame waits: a single one may be as large as the protocol lets it.
    pub(crate) fn is_several(&self) -> bool {
        self.frames.len() + usize::from(self.unflushed > 0) > 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Writes everything, flushing once per piece; pending while the transport is full.
    pub(crate) fn poll_flush<S>(&mut self, socket: &mut S, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>>
    where
        S: Sink<Frame> + Unpin,
    {
        while self.bytes > 0 {
            while self.unflushed < PIECE && !self.frames.is_empty() {
                ready!(socket.poll_ready_unpin(cx))?;
                let Some(frame) = self.frames.pop_front() else { break };
                self.unflushed += size(&frame);
                self.frames_written += 1;
                socket.start_send_unpin(frame)?;
            }
            ready!(socket.poll_flush_unpin(cx))?;
            self.bytes -= self.unflushed;
            self.bytes_written += self.unflushed as u64;
            self.flushes += 1;
            self.unflushed = 0;
        }
        // A burst leaves no memory behind.
        if self.frames.capacity() > SMALL {
            self.frames = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }
}

/// What a frame weighs, its header included.
const fn size(frame: &Frame) -> usize {
    HEADER + frame.size()
}

const PIECE: usize = 64 << 10;
const HEADER: usize = 8;
const SMALL: usize = 64;
