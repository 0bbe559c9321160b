//! Pauses between attempts to connect (§11).

use switchboard_core::SplitMix;

/// A quarter of a second doubling to five, each half as long again or half as short, so that clients that were
/// cut off together do not come back together.
#[derive(Debug)]
pub(super) struct Pauses {
    attempt: u32,
    random: SplitMix,
}

const FIRST_MS: u64 = 250;
const MOST_MS: u64 = 5_000;

impl Pauses {
    pub(super) const fn new(seed: u64) -> Self {
        Self { attempt: 0, random: SplitMix::new(seed) }
    }

    /// The next pause, in milliseconds.
    pub(super) fn next(&mut self) -> u64 {
        let pause = FIRST_MS.saturating_mul(1_u64.checked_shl(self.attempt).unwrap_or(u64::MAX)).min(MOST_MS);
        self.attempt = self.attempt.saturating_add(1);
        pause / 2 + self.random.next() % (pause + 1)
    }

    /// Begin with the shortest again.
    pub(super) const fn reset(&mut self) {
        self.attempt = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_a_quarter_of_a_second_to_five() {
        for seed in 0..50 {
            let mut pauses = Pauses::new(seed);
            for attempt in 0..80 {
                let middle = (250_u64 << attempt.min(20)).min(5_000);
                let pause = pauses.next();
                assert!((middle / 2..=middle + middle / 2).contains(&pause), "{attempt}: {pause}");
            }
            pauses.reset();
            assert!(pauses.next() <= 375);
        }
    }
}
