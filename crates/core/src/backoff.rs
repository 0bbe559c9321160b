//! Pauses between attempts to connect.

use std::time::Duration;

use crate::{Seed, SplitMix};

/// Pauses that double from a first one to a longest one, and are spread at random, so that clients that were cut
/// off together do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    jitter: Jitter,
    attempt: u32,
    random: SplitMix,
}

/// How pauses are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Anything from 20 ms up to the pause.
    Full,
    /// Up to this many percent shorter or longer.
    Around(u8),
    /// Up to this many percent longer, but never longer than the longest pause.
    Above(u8),
}

impl Backoff {
    /// Before the first attempt; all backoffs that are not [`seeded`](Self::seeded) pause alike.
    pub const fn new(first: Duration, most: Duration, jitter: Jitter) -> Self {
        Self { first, most, jitter, attempt: 0, random: SplitMix::new(0) }
    }

    /// With random numbers that depend on this seed.
    #[must_use]
    pub fn seeded(mut self, seed: &Seed) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = seed.derive("backoff", 0);
        self.random = SplitMix::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        self
    }

    /// The first pause, before it is spread.
    pub const fn first(&self) -> Duration {
        self.first
    }

    /// The longest pause, before it is spread.
    pub const fn most(&self) -> Duration {
        self.most
    }

    /// The next pause, in whole milliseconds.
    pub fn pause(&mut self) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(self.attempt).unwrap_or(u32::MAX));
        self.attempt = self.attempt.saturating_add(1);
        self.spread(doubled.min(self.most))
    }

    /// A pause of the caller's own, spread like the others.
    pub fn spread(&mut self, pause: Duration) -> Duration {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let pause = millis(pause);
        let part = |percent: u8| pause.saturating_mul(percent.into()) / 100;
        let (least, most) = match self.jitter {
            Jitter::Full => (LEAST_MS.min(pause), pause),
            Jitter::Around(percent) => {
                (pause.saturating_sub(part(percent)), pause.saturating_add(part(percent)))
            }
            Jitter::Above(percent) => (pause, pause.saturating_add(part(percent))),
        };
        let spread = least.saturating_add(self.random.next() % (most - least).saturating_add(1));
        match self.jitter {
            Jitter::Above(_) => Duration::from_millis(spread.min(millis(self.most))),
            Jitter::Full | Jitter::Around(_) => Duration::from_millis(spread),
        }
    }

    /// The connection works: begin with the shortest pause again.
    pub const fn reset(&mut self) {
        self.attempt = 0;
    }
}

const LEAST_MS: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(jitter: Jitter, seed: u8) -> Backoff {
        let (first, most) = (Duration::from_millis(500), Duration::from_secs(30));
        Backoff::new(first, most, jitter).seeded(&Seed::new([seed; 32]))
    }

    #[test]
    fn pauses_double_to_the_most_within_their_jitter() {
        let bounds = |jitter, base: u64| match jitter {
            Jitter::Full => (20, base),
            Jitter::Around(_) => (base / 2, base + base / 2),
            Jitter::Above(_) => (base, (base + base / 4).min(30_000)),
        };
        for jitter in [Jitter::Full, Jitter::Around(50), Jitter::Above(25)] {
            for seed in 0..200 {
                let mut backoff = backoff(jitter, seed);
                for attempt in 0..70 {
                    let (least, most) = bounds(jitter, (500_u64 << attempt.min(20)).min(30_000));
                    let pause = backoff.pause().as_millis();
                    assert!((u128::from(least)..=u128::from(most)).contains(&pause), "{jitter:?}: {pause}");
                }
                backoff.reset();
                assert!(backoff.pause() <= Duration::from_millis(750));
            }
        }
    }

    #[test]
    fn pauses_spread_over_the_whole_range() {
        for (jitter, short, long) in
            [(Jitter::Full, 60, 450), (Jitter::Around(50), 300, 700), (Jitter::Above(25), 515, 610)]
        {
            let pauses: Vec<u128> = (0..=255).map(|seed| backoff(jitter, seed).pause().as_millis()).collect();
            assert!(pauses.iter().any(|pause| *pause < short), "{jitter:?}");
            assert!(pauses.iter().any(|pause| *pause > long), "{jitter:?}");
        }
    }

    #[test]
    fn no_numbers_are_too_much() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::MAX, Jitter::Around(200));
        assert!(backoff.pause() <= Duration::from_millis(u64::MAX));
        let mut nothing = Backoff::new(Duration::ZERO, Duration::ZERO, Jitter::Full);
        assert_eq!(nothing.pause(), Duration::ZERO);
    }
}
