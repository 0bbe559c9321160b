//! Pauses between attempts to connect (§17.4): doubling, with jitter.

use switchboard_core::SplitMix;

/// 500 ms doubling to 30 s, each ± 50 %.
#[derive(Debug)]
pub(super) struct Backoff {
    first_ms: u64,
    most_ms: u64,
    attempt: u32,
    random: SplitMix,
}

impl Backoff {
    pub(super) fn new(first_ms: u64, most_ms: u64, seed: u64) -> Self {
        Self { first_ms, most_ms, attempt: 0, random: SplitMix::new(seed) }
    }

    /// The next pause.
    pub(super) fn pause_ms(&mut self) -> u64 {
        let doubled = self.first_ms.saturating_mul(1_u64.checked_shl(self.attempt).unwrap_or(u64::MAX));
        let base = doubled.min(self.most_ms);
        self.attempt = self.attempt.saturating_add(1);
        (base / 2).saturating_add(self.random.next() % base.saturating_add(1))
    }

    /// The connection works: start again from the shortest pause.
    pub(super) fn reset(&mut self) {
        self.attempt = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_most_with_half_as_jitter() {
        for seed in 0..200 {
            let mut backoff = Backoff::new(500, 30_000, seed);
            for attempt in 0..70 {
                let base = (500_u64 << attempt.min(20)).min(30_000);
                let pause = backoff.pause_ms();
                assert!((base / 2..=base + base / 2).contains(&pause), "attempt {attempt}: {pause}");
            }
            backoff.reset();
            assert!((250..=750).contains(&backoff.pause_ms()));
        }
    }

    #[test]
    fn pauses_spread_over_the_whole_range() {
        let pauses: Vec<u64> = (0..500).map(|seed| Backoff::new(500, 30_000, seed).pause_ms()).collect();
        assert!(pauses.iter().any(|pause| *pause < 350) && pauses.iter().any(|pause| *pause > 650));
    }
}
