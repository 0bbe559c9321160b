//! Pauses between attempts to connect, for clients whose protocol does not lay them down: doubling,
//! with full jitter, so that clients that were cut off together do not come back together.

use std::time::Duration;

use switchboard_core::SplitMix;

/// 500 ms doubling to 30 s; each pause is anything up to that, but not nothing.
#[derive(Debug)]
pub(crate) struct Backoff {
    attempt: u32,
    random: SplitMix,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { attempt: 0, random: SplitMix::new(seed) }
    }

    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let most = FIRST_MS.saturating_mul(1_u64.checked_shl(self.attempt).unwrap_or(u64::MAX)).min(MOST_MS);
        self.attempt = self.attempt.saturating_add(1);
        Duration::from_millis(LEAST_MS + self.random.next() % (most - LEAST_MS + 1))
    }

    /// The connection works: start again from the shortest pause.
    pub(crate) fn reset(&mut self) {
        self.attempt = 0;
    }
}

const LEAST_MS: u64 = 20;
const FIRST_MS: u64 = 500;
const MOST_MS: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_lie_anywhere_below_a_bound_that_doubles() {
        for seed in 0..200 {
            let mut backoff = Backoff::new(seed);
            for attempt in 0..70 {
                let most = (FIRST_MS << attempt.min(20)).min(MOST_MS);
                let pause = backoff.pause().as_millis();
                assert!((u128::from(LEAST_MS)..=u128::from(most)).contains(&pause), "{attempt}: {pause}");
            }
            backoff.reset();
            assert!(backoff.pause() <= Duration::from_millis(FIRST_MS));
        }
        let pauses: Vec<u128> = (0..500).map(|seed| Backoff::new(seed).pause().as_millis()).collect();
        assert!(pauses.iter().any(|pause| *pause < 60) && pauses.iter().any(|pause| *pause > 450));
    }
}
