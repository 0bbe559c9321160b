//! How fast something may come.

use std::time::Duration;

use crate::time::Timestamp;

/// So many tokens in a period, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u64,
    period_micros: u64,
    burst: u64,
}

impl Rate {
    /// `count` tokens each second, up to `burst` at once.
    pub const fn per_second(count: u64, burst: u64) -> Self {
        Self { count, period_micros: 1_000_000, burst }
    }

    /// `count` tokens each minute, up to `burst` at once.
    pub const fn per_minute(count: u64, burst: u64) -> Self {
        Self { count, period_micros: 60_000_000, burst }
    }

    /// Pieces that a full bucket holds.
    const fn most(self) -> u64 {
        self.burst.saturating_mul(self.period_micros)
    }
}

/// A token bucket: fills at a steady rate up to its burst. What it holds is counted in such small
/// pieces that no rate, however slow, loses anything to rounding, however often it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: Rate,
    /// Of which one token has as many as its rate's period has microseconds.
    pieces: u64,
    filled_at: Timestamp,
}

impl Bucket {
    /// A full bucket.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, pieces: rate.most(), filled_at: Timestamp::from_micros(0) }
    }

    /// Takes `count` tokens, or none. More than the burst is taken as the burst, since it would
    /// otherwise never get through; a burst of none lets nothing through.
    ///
    /// # Errors
    /// There are not enough; after this long there will be.
    pub fn take(&mut self, count: u64, now: Timestamp) -> Result<(), Duration> {
        self.fill(now);
        let wanted = count.min(self.rate.burst.max(1)).saturating_mul(self.rate.period_micros);
        if let Some(rest) = self.pieces.checked_sub(wanted) {
            self.pieces = rest;
            return Ok(());
        }
        let missing = wanted - self.pieces;
        Err(Duration::from_micros(missing.div_ceil(self.rate.count.max(1))))
    }

    /// Whether nothing was taken that is not filled again, so that a new one would do as well.
    pub fn is_full(&mut self, now: Timestamp) -> bool {
        self.fill(now);
        self.pieces == self.rate.most()
    }

    fn fill(&mut self, now: Timestamp) {
        let elapsed = now.as_micros().saturating_sub(self.filled_at.as_micros());
        let gained = elapsed.saturating_mul(self.rate.count);
        self.pieces = self.pieces.saturating_add(gained).min(self.rate.most());
        self.filled_at = self.filled_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(Rate::per_second(10, 20));
        for _ in 0..20 {
            assert_eq!(bucket.take(1, at(0)), Ok(()));
        }
        assert_eq!(bucket.take(1, at(0)), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(1, at(99)), Err(Duration::from_millis(1)));
        assert_eq!(bucket.take(1, at(100)), Ok(()));
        assert_eq!(bucket.take(1, at(100)), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(20, at(100_000)), Ok(()), "never more than the burst, however long it waits");
        assert_eq!(bucket.take(1, at(100_000)), Err(Duration::from_millis(100)));
    }

    #[test]
    fn a_slow_bucket_that_is_asked_often_fills_as_fast() {
        let mut bucket = Bucket::new(Rate::per_minute(7, 1));
        bucket.take(1, at(0)).unwrap();
        let wait = bucket.take(1, at(0)).unwrap_err();
        assert_eq!(wait, Duration::from_micros(8_571_429), "rounded up");
        for micros in (0..8_571_429).step_by(3) {
            assert!(bucket.take(1, at(0).after(Duration::from_micros(micros))).is_err());
        }
        assert_eq!(bucket.take(1, at(0).after(wait)), Ok(()));
    }

    #[test]
    fn a_bucket_survives_odd_input() {
        let mut bucket = Bucket::new(Rate::per_second(1, 2));
        assert_eq!(bucket.take(1_000_000, at(1_000)), Ok(()), "more than the burst is the burst");
        assert!(bucket.take(1, at(0)).is_err(), "time that runs backwards fills nothing");
        assert!(bucket.take(1, at(1_999)).is_err());
        assert_eq!(bucket.take(1, at(2_000)), Ok(()));
        assert_eq!(bucket.take(0, at(2_000)), Ok(()));
        let mut stuck = Bucket::new(Rate::per_second(0, 1));
        assert_eq!(stuck.take(1, at(0)), Ok(()));
        assert!(stuck.take(1, Timestamp::NEVER).is_err());
        let mut closed = Bucket::new(Rate::per_second(1, 0));
        assert!(closed.take(1, at(0)).is_err() && closed.take(1, Timestamp::NEVER).is_err());
    }

    #[test]
    fn a_bucket_is_full_once_what_was_taken_is_back() {
        let mut bucket = Bucket::new(Rate::per_second(10, 20));
        assert!(bucket.is_full(at(0)));
        bucket.take(1, at(0)).unwrap();
        assert!(!bucket.is_full(at(99)) && bucket.is_full(at(100)));
    }
}
