//! The token buckets of §12.2 and the count of offences that end a connection.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_core::{Bucket, Rate, Timestamp};

use crate::limits::AspLimits;

/// Every bucket of one connection.
#[derive(Debug)]
pub(super) struct Buckets {
    pub(super) frames: Bucket,
    pub(super) bytes: Bucket,
    pub(super) invokes: Bucket,
    pub(super) interrupts: Bucket,
    pub(super) hellos: Bucket,
    pub(super) errors: Bucket,
    /// Seconds in which something was dropped.
    drops: VecDeque<u64>,
    /// When unknown opcodes and wrong directions came.
    strays: VecDeque<Timestamp>,
}

impl Buckets {
    pub(super) fn new(limits: &AspLimits) -> Self {
        let per_second = |rate: u32, burst: u32| Bucket::new(Rate::per_second(rate.into(), burst.into()));
        Self {
            frames: per_second(limits.frames_per_s, limits.frames_burst),
            bytes: per_second(limits.bytes_per_s, limits.bytes_burst),
            invokes: per_second(limits.invokes_per_s, limits.invokes_burst),
            interrupts: per_second(limits.interrupts_per_s, limits.interrupts_burst),
            hellos: per_second(limits.hellos_per_s, limits.hellos_burst),
            errors: Bucket::new(Rate::per_minute(limits.errors_per_min.into(), limits.errors_burst.into())),
            drops: VecDeque::new(),
            strays: VecDeque::new(),
        }
    }

    /// Notes that a frame was dropped; true when that happened in three seconds of one minute.
    pub(super) fn dropped(&mut self, now: Timestamp) -> bool {
        let second = now.as_secs();
        if self.drops.back() != Some(&second) {
            self.drops.push_back(second);
        }
        while self.drops.front().is_some_and(|first| second - first >= 60) {
            self.drops.pop_front();
        }
        self.drops.len() >= 3
    }

    /// Notes an unknown opcode or a wrong direction; true at the tenth within a minute.
    pub(super) fn stray(&mut self, now: Timestamp) -> bool {
        self.strays.push_back(now);
        while self.strays.front().is_some_and(|first| now.since(*first) >= Duration::from_secs(60)) {
            self.strays.pop_front();
        }
        self.strays.len() >= 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_seconds_with_drops_are_a_flood_and_one_is_not() {
        let mut buckets = Buckets::new(&AspLimits::default());
        let at = |millis: u64| Timestamp::from_millis(1_000_000 + millis);
        assert!(!buckets.dropped(at(0)) && !buckets.dropped(at(900)) && !buckets.dropped(at(1_000)));
        assert!(!buckets.dropped(at(61_000)), "the first seconds are forgotten");
        assert!(!buckets.dropped(at(62_000)));
        assert!(buckets.dropped(at(63_000)));
    }
}
