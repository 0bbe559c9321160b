//! One direction of a transport: in order, and slower at some times than at others.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_core::Timestamp;

/// What is on its way.
#[derive(Debug)]
pub(super) struct Line<T> {
    queue: VecDeque<(Timestamp, T)>,
    last: Timestamp,
}

impl<T> Line<T> {
    pub(super) const fn new() -> Self {
        Self { queue: VecDeque::new(), last: Timestamp::from_micros(0) }
    }

    /// Sends something that arrives after a delay, and after everything before it.
    pub(super) fn push(&mut self, thing: T, now: Timestamp, delay_ms: u64) {
        self.last = self.last.max(now.after(Duration::from_millis(delay_ms)));
        self.queue.push_back((self.last, thing));
    }

    /// Sends something that overtakes everything else, as control frames may.
    pub(super) fn push_ahead(&mut self, thing: T, now: Timestamp) {
        self.queue.push_front((now, thing));
    }

    /// What has arrived.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.queue.pop_front().map(|(_, thing)| thing)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.queue.front().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Loses everything but the first `kept`.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.queue.truncate(kept);
    }
}
