//! Token buckets of §12.2 and the count of offences that end a connection.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_core::Timestamp;

use crate::limits::AspLimits;

/// A token bucket in millionths of a token, so that slow rates stay exact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    per_second_micro: u64,
    burst_micro: u64,
    level_micro: u64,
    at: Timestamp,
}

impl Bucket {
    fn new(per_second_micro: u64, burst: u32) -> Self {
        let burst_micro = u64::from(burst) * MICRO;
        Self { per_second_micro, burst_micro, level_micro: burst_micro, at: Timestamp::default() }
    }

    /// Takes `count` tokens, or says how long it takes until there are enough.
    pub(super) fn take(&mut self, count: u64, now: Timestamp) -> Result<(), Duration> {
        let elapsed = u128::from(u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX));
        let gained = elapsed * u128::from(self.per_second_micro) / u128::from(MICRO);
        let level = u128::from(self.level_micro).saturating_add(gained).min(u128::from(self.burst_micro));
        self.level_micro = u64::try_from(level).unwrap_or(self.burst_micro);
        self.at = self.at.max(now);
        let needed = count.saturating_mul(MICRO);
        if let Some(left) = self.level_micro.checked_sub(needed) {
            self.level_micro = left;
            return Ok(());
        }
        let missing = needed - self.level_micro;
        let micros = u128::from(missing) * u128::from(MICRO) / u128::from(self.per_second_micro.max(1));
        Err(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }
}

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
        let per_second = |rate: u32, burst| Bucket::new(u64::from(rate) * MICRO, burst);
        Self {
            frames: per_second(limits.frames_per_s, limits.frames_burst),
            bytes: per_second(limits.bytes_per_s, limits.bytes_burst),
            invokes: per_second(limits.invokes_per_s, limits.invokes_burst),
            interrupts: per_second(limits.interrupts_per_s, limits.interrupts_burst),
            hellos: per_second(limits.hellos_per_s, limits.hellos_burst),
            errors: Bucket::new(u64::from(limits.errors_per_min) * MICRO / 60, limits.errors_burst),
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

const MICRO: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(10 * MICRO, 2);
        let start = Timestamp::from_secs(100);
        assert_eq!(bucket.take(1, start), Ok(()));
        assert_eq!(bucket.take(1, start), Ok(()));
        assert_eq!(bucket.take(1, start), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(1, start.after(Duration::from_millis(100))), Ok(()));
        assert!(bucket.take(1, start.after(Duration::from_millis(150))).is_err());
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing() {
        let mut bucket = Bucket::new(MICRO, 1);
        assert_eq!(bucket.take(1, Timestamp::from_secs(10)), Ok(()));
        assert!(bucket.take(1, Timestamp::from_secs(5)).is_err());
    }

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
