//! The fan-out of one session: a ring of committed batches that followers read at their own pace.
//!
//! Nothing is queued per follower. One that falls behind the ring reads from the log instead, so a
//! slow reader costs no memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use switchboard_core::Event;
use switchboard_core::model::Output;
use switchboard_store::Batch;

use crate::port::Port;

/// What followers of one session share.
#[derive(Debug)]
pub(crate) struct Feed {
    head: AtomicU64,
    ring: Mutex<Ring>,
    followers: Mutex<Vec<Arc<Port>>>,
    bounds: RingBounds,
}

/// How much a ring may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingBounds {
    /// Events.
    pub(crate) events: usize,
    /// Bytes of content, roughly.
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct Ring {
    batches: VecDeque<Held>,
    events: usize,
    bytes: usize,
}

/// What a follower finds.
#[derive(Debug)]
pub(crate) enum Next {
    /// A batch that holds the event after its position.
    Batch(Arc<Batch>),
    /// The ring has moved past it: read the log.
    Behind,
    /// There is nothing newer.
    UpToDate,
}

impl Feed {
    pub(crate) fn new(head: u64, bounds: RingBounds) -> Self {
        Self { head: AtomicU64::new(head), ring: Mutex::default(), followers: Mutex::default(), bounds }
    }

    /// Number of the last committed event.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    pub(crate) fn reset_head(&self, head: u64) {
        self.head.store(head, Ordering::Release);
    }

    pub(crate) fn follow(&self, port: &Arc<Port>) {
        let mut followers = self.followers.lock();
        if !followers.iter().any(|known| Arc::ptr_eq(known, port)) {
            followers.push(port.clone());
        }
    }

    pub(crate) fn unfollow(&self, port: &Arc<Port>) {
        let mut followers = self.followers.lock();
        followers.retain(|known| !Arc::ptr_eq(known, port));
        if followers.is_empty() {
            followers.shrink_to_fit();
            *self.ring.lock() = Ring::default();
        }
    }

    pub(crate) fn has_followers(&self) -> bool {
        !self.followers.lock().is_empty()
    }

    pub(crate) fn holds_events(&self) -> bool {
        !self.ring.lock().batches.is_empty()
    }

    /// Lets go of the events; followers that have not read them yet find them in the log.
    pub(crate) fn trim(&self) {
        *self.ring.lock() = Ring::default();
    }

    /// Makes a committed batch visible and wakes every follower.
    pub(crate) fn publish(&self, batch: &Arc<Batch>) {
        let followers = self.followers.lock();
        if !followers.is_empty() {
            self.ring.lock().push(batch, self.bounds);
        }
        self.head.store(batch.last(), Ordering::Release);
        for port in followers.iter() {
            port.wake();
        }
    }

    /// The batch that holds the event after `position`.
    pub(crate) fn next(&self, position: u64) -> Next {
        if self.head() <= position {
            return Next::UpToDate;
        }
        let ring = self.ring.lock();
        let index = ring.batches.partition_point(|held| held.last <= position);
        match ring.batches.get(index) {
            Some(held) if held.batch.first() <= position + 1 => Next::Batch(held.batch.clone()),
            _ => Next::Behind,
        }
    }
}

/// A batch, with what is looked at often beside it.
#[derive(Debug)]
struct Held {
    /// Number of its last event.
    last: u64,
    bytes: usize,
    batch: Arc<Batch>,
}

impl Ring {
    fn push(&mut self, batch: &Arc<Batch>, bounds: RingBounds) {
        let bytes = batch.events.iter().map(|committed| weight(&committed.event)).sum();
        self.events += batch.events.len();
        self.bytes += bytes;
        self.batches.push_back(Held { last: batch.last(), bytes, batch: batch.clone() });
        while self.batches.len() > 1 && (self.events > bounds.events || self.bytes > bounds.bytes) {
            let Some(oldest) = self.batches.pop_front() else { break };
            self.events -= oldest.batch.events.len();
            self.bytes -= oldest.bytes;
        }
    }
}

/// Roughly how many bytes of content an event holds on to.
fn weight(event: &Event) -> usize {
    const SMALL: usize = 256;
    match event {
        Event::TurnOutput { output: Output::Text(text) | Output::Reasoning(text), .. }
        | Event::CallProgress { delta: text, .. } => SMALL + text.len(),
        Event::MessageAdded { message } => message.parts.iter().fold(SMALL, |sum, part| sum + part.size()),
        Event::MessageEdited { parts, .. } => parts.iter().fold(SMALL, |sum, part| sum + part.size()),
        Event::Recorded { .. } => 4 * SMALL,
        Event::TurnOutput { .. } | Event::CallRequested { .. } | Event::CallEnded { .. } => 4 * SMALL,
        Event::SessionOpened { .. }
        | Event::ParticipantJoined { .. }
        | Event::ParticipantLeft { .. }
        | Event::AttachmentOpened { .. }
        | Event::AttachmentLinked { .. }
        | Event::AttachmentDetached { .. }
        | Event::AttachmentClosed { .. }
        | Event::DeviceJoined { .. }
        | Event::DeviceReported { .. }
        | Event::DeviceLeft { .. }
        | Event::ToolsChanged { .. }
        | Event::TipMoved { .. }
        | Event::SessionRenamed { .. }
        | Event::StandingChanged { .. }
        | Event::ChronicleBegun { .. }
        | Event::TurnAccepted { .. }
        | Event::TurnQueued { .. }
        | Event::TurnStarted { .. }
        | Event::TurnReleased { .. }
        | Event::TurnInterrupted { .. }
        | Event::TurnEnded { .. } => 2 * SMALL,
    }
}

#[cfg(test)]
mod tests {
    use switchboard_core::{Committed, Position, Timestamp};

    use super::*;

    const BOUNDS: RingBounds = RingBounds { events: 4, bytes: 1 << 20 };

    fn batch(seqs: std::ops::RangeInclusive<u64>) -> Arc<Batch> {
        let event = |seq| Committed {
            position: Position { epoch: 1, seq },
            at: Timestamp::default(),
            event: Event::TurnReleased { turn: "t".into() },
        };
        Arc::new(Batch { events: seqs.map(event).collect() })
    }

    #[test]
    fn a_follower_reads_from_the_ring_until_it_is_lapped() {
        let feed = Feed::new(2, BOUNDS);
        let port = Arc::new(Port::default());
        assert!(matches!(feed.next(2), Next::UpToDate));
        assert!(matches!(feed.next(0), Next::Behind));
        feed.follow(&port);
        feed.publish(&batch(3..=5));
        assert!(matches!(feed.next(2), Next::Batch(batch) if batch.first() == 3));
        assert!(matches!(feed.next(4), Next::Batch(batch) if batch.first() == 3));
        feed.publish(&batch(6..=8));
        assert!(matches!(feed.next(2), Next::Behind));
        assert!(matches!(feed.next(5), Next::Batch(batch) if batch.first() == 6));
        feed.unfollow(&port);
        assert!(matches!(feed.next(5), Next::Behind), "an unwatched session keeps nothing");
        assert_eq!(feed.head(), 8);
    }
}
