//! What waits to be written to one transport.

use std::collections::VecDeque;

use switchboard_core::Frame;

/// Frames in order, to be written in pieces with one flush each.
#[derive(Debug, Default)]
pub struct Outbox {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Bytes that the transport has taken but not yet flushed.
    unflushed: usize,
    /// The most bytes that waited since that was last reported.
    peak: usize,
    written: Written,
}

/// What was written since this was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
    /// How often the transport was flushed.
    pub flushes: u64,
}

impl Outbox {
    /// Puts a frame behind the others.
    pub fn push(&mut self, frame: Frame) {
        self.bytes += size(&frame);
        self.peak = self.peak.max(self.bytes);
        self.frames.push_back(frame);
    }

    /// What was written since this was last asked.
    pub fn written(&mut self) -> Written {
        std::mem::take(&mut self.written)
    }

    /// Bytes that are not on their way yet.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether everything is on its way.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
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
    pub fn is_above(&self, most: usize) -> bool {
        let behind = self.bytes.saturating_sub(self.unflushed);
        behind > most && behind - self.frames.iter().map(size).max().unwrap_or(0) > most
    }

    /// The frame that is written next, unless a whole piece waits to be flushed.
    pub fn next(&self) -> Option<&Frame> {
        self.frames.front().filter(|_| self.unflushed < PIECE)
    }

    /// Takes the next frame for the transport.
    pub fn take(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.unflushed += size(&frame);
        self.written.frames += 1;
        Some(frame)
    }

    /// Whether the transport has taken something that is not flushed.
    pub const fn is_unflushed(&self) -> bool {
        self.unflushed > 0
    }

    /// Of what the transport has taken, no more than `waiting` is left.
    pub fn count_left(&mut self, waiting: usize) {
        let left = self.unflushed.saturating_sub(waiting);
        self.unflushed -= left;
        self.bytes -= left;
        self.written.bytes += left as u64;
    }

    /// The transport has flushed what it has taken.
    pub fn flushed(&mut self) {
        self.count_left(0);
        self.written.flushes += 1;
        // A burst leaves no memory behind.
        if self.frames.is_empty() && self.frames.capacity() > SMALL {
            self.frames = VecDeque::new();
        }
    }

    /// The transport is gone, with everything that waited.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What a frame weighs, its header included.
pub const fn size(frame: &Frame) -> usize {
    HEADER + frame.size()
}

const PIECE: usize = 64 << 10;
/// What the header of a frame weighs.
pub const HEADER: usize = 8;
const SMALL: usize = 64;
