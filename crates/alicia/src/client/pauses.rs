//! Pauses between attempts to connect (§6.4).

use switchboard_core::SplitMix;

/// One second doubling to thirty, without limit. A little is added to each, so that clients that were cut
/// off together do not come back together.
#[derive(Debug)]
pub(super) struct Pauses {
    attempt: u32,
    random: SplitMix,
}

impl Pauses {
    pub(super) const fn new(seed: u64) -> Self {
        Self { attempt: 0, random: SplitMix::new(seed) }
    }

    /// The next pause, in milliseconds.
    pub(super) fn next(&mut self) -> u64 {
        let pause = FIRST_MS.saturating_mul(1_u64.checked_shl(self.attempt).unwrap_or(u64::MAX)).min(MOST_MS);
        self.attempt = self.attempt.saturating_add(1);
        let jitter = self.random.next() % (pause / 4);
        pause.saturating_add(jitter).min(MOST_MS)
    }

    /// Begin with the shortest again.
    pub(super) const fn reset(&mut self) {
        self.attempt = 0;
    }
}

const FIRST_MS: u64 = 1_000;
const MOST_MS: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_one_second_to_thirty_without_end() {
        for seed in 0..50 {
            let mut pauses = Pauses::new(seed);
            for attempt in 0..80 {
                let least = (1_000_u64 << attempt.min(20)).min(30_000);
                let pause = pauses.next();
                assert!((least..=(least + least / 4).min(30_000)).contains(&pause), "{attempt}: {pause}");
            }
            pauses.reset();
            assert!(pauses.next() < 1_250);
        }
    }
}
