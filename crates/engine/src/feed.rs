//! The fan-out of one session: a ring of committed batches that followers read at their own pace.
//!
//! Nothing is queued per follower, and what all of them have read is let go. One that falls behind the ring reads
//! from the log instead, so a slow reader costs no memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use switchboard_core::model::Output;
use switchboard_core::{Batch, Event};

use crate::inbox::Inbox;

/// What followers of one session share.
#[derive(Debug)]
pub struct Feed {
    head: AtomicU64,
    ring: Mutex<Ring>,
    followers: Mutex<Vec<Follower>>,
    bounds: RingBounds,
}

#[derive(Debug)]
struct Follower {
    inbox: Arc<Inbox>,
    cursor: Arc<Cursor>,
}

/// How far one follower has read.
#[derive(Debug)]
pub struct Cursor(AtomicU64);

impl Cursor {
    /// Everything up to this was read.
    pub fn at(position: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(position)))
    }

    /// Number of the last event that was read.
    pub fn position(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Everything up to this is read now.
    pub fn advance(&self, position: u64) {
        self.0.store(position, Ordering::Relaxed);
    }
}

/// How much a ring may hold.
#[derive(Clone, Copy, Debug)]
pub struct RingBounds {
    /// Events.
    pub events: usize,
    /// Bytes of content, roughly.
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct Ring {
    batches: VecDeque<Held>,
    events: usize,
    bytes: usize,
}

/// What a follower finds.
#[derive(Debug)]
pub enum Next {
    /// A batch that holds the event after its position.
    Batch(Arc<Batch>),
    /// The ring has moved past it: read the log.
    Behind,
    /// There is nothing newer.
    UpToDate,
}

impl Feed {
    /// A feed without followers.
    pub fn new(head: u64, bounds: RingBounds) -> Self {
        Self { head: AtomicU64::new(head), ring: Mutex::default(), followers: Mutex::default(), bounds }
    }

    /// Number of the last committed event.
    pub fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// The session was read from the log up to this event.
    pub fn reset_head(&self, head: u64) {
        self.head.store(head, Ordering::Release);
    }

    /// Has a inbox follow; one that follows already does so by the new cursor.
    pub fn follow(&self, inbox: &Arc<Inbox>, cursor: &Arc<Cursor>) {
        let mut followers = self.followers.lock();
        followers.retain(|known| !Arc::ptr_eq(&known.inbox, inbox));
        followers.push(Follower { inbox: inbox.clone(), cursor: cursor.clone() });
    }

    /// An inbox follows no longer.
    pub fn unfollow(&self, inbox: &Arc<Inbox>) {
        let mut followers = self.followers.lock();
        followers.retain(|known| !Arc::ptr_eq(&known.inbox, inbox));
        if followers.is_empty() {
            followers.shrink_to_fit();
            *self.ring.lock() = Ring::default();
        }
    }

    /// Whether anybody follows.
    pub fn has_followers(&self) -> bool {
        !self.followers.lock().is_empty()
    }

    /// Whether events are held in memory.
    pub fn holds_events(&self) -> bool {
        !self.ring.lock().batches.is_empty()
    }

    /// Lets go of the events; followers that have not read them yet find them in the log.
    pub fn trim(&self) {
        *self.ring.lock() = Ring::default();
    }

    /// Makes a committed batch visible and wakes every follower. It is also held for one that is still to come,
    /// if somebody is `awaited`, because of this batch or of one that is still held.
    pub fn publish(&self, batch: &Arc<Batch>, awaited: bool) {
        let followers = self.followers.lock();
        let read = followers.iter().map(|follower| follower.cursor.position()).min();
        let mut ring = self.ring.lock();
        if let Some(read) = read {
            ring.forget(read);
        }
        if read.is_some() || awaited || !ring.batches.is_empty() {
            ring.push(batch, self.bounds);
        }
        drop(ring);
        self.head.store(batch.last(), Ordering::Release);
        for follower in followers.iter() {
            follower.inbox.wake();
        }
    }

    /// The batch that holds the event after `position`.
    pub fn next(&self, position: u64) -> Next {
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

/// What of the events that were read from the log may be told: the log knows of events before those who asked for them
/// have their answers, and devices their invitations.
pub(crate) fn told(mut batches: Vec<Arc<Batch>>, told: u64) -> Vec<Arc<Batch>> {
    batches.retain(|batch| batch.first() <= told);
    batches
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
            self.drop_oldest();
        }
    }

    /// Lets go of what everybody has read.
    fn forget(&mut self, read: u64) {
        while self.batches.front().is_some_and(|held| held.last <= read) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.batches.pop_front() {
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
        | Event::DeviceReleased { .. }
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
            event: Event::TurnReleased { turn: "t".into(), deadline: None },
        };
        Arc::new(Batch { events: seqs.map(event).collect() })
    }

    #[test]
    fn a_follower_reads_from_the_ring_until_it_is_lapped() {
        let feed = Feed::new(2, BOUNDS);
        let inbox = Arc::new(Inbox::default());
        assert!(matches!(feed.next(2), Next::UpToDate));
        assert!(matches!(feed.next(0), Next::Behind));
        feed.follow(&inbox, &Cursor::at(2));
        feed.publish(&batch(3..=5), false);
        assert!(matches!(feed.next(2), Next::Batch(batch) if batch.first() == 3));
        assert!(matches!(feed.next(4), Next::Batch(batch) if batch.first() == 3));
        feed.publish(&batch(6..=8), false);
        assert!(matches!(feed.next(2), Next::Behind));
        assert!(matches!(feed.next(5), Next::Batch(batch) if batch.first() == 6));
        feed.unfollow(&inbox);
        assert!(matches!(feed.next(5), Next::Behind), "an unwatched session keeps nothing");
        assert_eq!(feed.head(), 8);
    }

    #[test]
    fn what_every_follower_has_read_is_let_go() {
        let feed = Feed::new(0, BOUNDS);
        let (fast, slow) = (Cursor::at(0), Cursor::at(0));
        let slow_inbox = Arc::new(Inbox::default());
        feed.follow(&Arc::new(Inbox::default()), &fast);
        feed.follow(&slow_inbox, &slow);
        feed.publish(&batch(1..=1), false);
        fast.advance(1);
        feed.publish(&batch(2..=2), false);
        assert!(matches!(feed.next(0), Next::Batch(_)), "somebody still needs it");
        fast.advance(2);
        slow.advance(1);
        feed.publish(&batch(3..=3), false);
        assert!(matches!(feed.next(0), Next::Behind));
        assert!(matches!(feed.next(1), Next::Batch(batch) if batch.first() == 2));
        // Whoever follows again from an earlier place needs what it has read before.
        feed.follow(&slow_inbox, &Cursor::at(2));
        fast.advance(3);
        feed.publish(&batch(4..=4), false);
        assert!(matches!(feed.next(2), Next::Batch(batch) if batch.first() == 3));
        assert_eq!(feed.ring.lock().events, 2);
    }

    #[test]
    fn what_somebody_is_awaited_for_is_held() {
        let feed = Feed::new(0, BOUNDS);
        feed.publish(&batch(1..=1), false);
        assert!(matches!(feed.next(0), Next::Behind), "nobody follows, and nobody will");
        feed.publish(&batch(2..=2), true);
        feed.publish(&batch(3..=3), false);
        let (inbox, cursor) = (Arc::new(Inbox::default()), Cursor::at(1));
        feed.follow(&inbox, &cursor);
        assert!(matches!(feed.next(1), Next::Batch(batch) if batch.first() == 2));
        assert!(matches!(feed.next(2), Next::Batch(batch) if batch.first() == 3));
        cursor.advance(3);
        feed.publish(&batch(4..=4), false);
        assert_eq!(feed.ring.lock().events, 1, "it has come, and has read it");
    }

    #[test]
    fn whoever_is_behind_reads_what_was_told_and_no_more() {
        let stored = || vec![batch(1..=2), batch(3..=3), batch(4..=6)];
        let read = |head| told(stored(), head).last().map(|batch| batch.last());
        assert_eq!(read(3), Some(3), "committed, but not told");
        assert_eq!(read(6), Some(6));
    }
}
