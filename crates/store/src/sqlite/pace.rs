//! How long the writer waits for others to join a commit.

use std::time::{Duration, Instant};

/// How fast appends come, and so how long it pays to let more of them gather: a commit costs the
/// same for one as for fifty.
#[derive(Debug, Default)]
pub(super) struct Pace {
    committed_at: Option<Instant>,
    pub(super) per_second: f64,
}

impl Pace {
    /// Notes a commit that served so many appends.
    pub(super) fn note(&mut self, served: usize) {
        #[expect(clippy::disallowed_methods, reason = "paces commits; nothing is decided by it")]
        let now = Instant::now();
        if let Some(before) = self.committed_at.replace(now) {
            let seconds = (now - before).as_secs_f64().max(1e-6);
            let memory = (-seconds / PACE_MEMORY_S).exp();
            #[expect(clippy::cast_precision_loss, reason = "a group is small")]
            let rate = served as f64 / seconds;
            self.per_second = self.per_second * memory + rate * (1.0 - memory);
        }
    }

    /// How long to wait before the next, and no longer than this.
    pub(super) fn pause(&self, longest: Duration) -> Duration {
        Duration::try_from_secs_f64(GATHER / self.per_second).unwrap_or(longest).min(longest)
    }
}

/// Who has come while the writer lingers.
#[derive(Debug)]
pub(super) struct Gathering {
    /// How many sessions the last group had.
    company: usize,
    /// How many of them have come again.
    back: usize,
}

impl Gathering {
    /// Whoever was in the last group may come again.
    pub(super) const fn after(company: usize) -> Self {
        Self { company, back: 0 }
    }

    /// After how many more it is worth to look again before the time has come.
    pub(super) const fn missing(&self) -> usize {
        if self.company < COMPANY { usize::MAX } else { self.company.saturating_sub(self.back) }
    }

    /// Whether there is nothing to wait for, now that so many more have come, and so many of them again: whoever waits
    /// for an answer before it asks again must not wait for company as well.
    pub(super) const fn is_over(&mut self, new: usize, back: usize) -> bool {
        self.back += back;
        new == 0 || self.missing() == 0
    }
}

/// How many appends are worth waiting for.
pub(super) const GATHER: f64 = 64.0;
/// How often the writer looks, while it lingers, whether still more come, if nobody wakes it.
pub(super) const LOOKS: u32 = 4;
/// So few sessions are not all that is worth waiting for.
pub(super) const COMPANY: usize = 8;
/// Over how long the pace is averaged.
const PACE_MEMORY_S: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_when_all_are_back() {
        let mut gathering = Gathering::after(10);
        assert!(!gathering.is_over(6, 6));
        assert!(!gathering.is_over(9, 3), "some of them are new");
        assert!(gathering.is_over(1, 1));
    }

    #[test]
    fn few_may_be_joined_by_others() {
        let mut gathering = Gathering::after(COMPANY - 1);
        assert!(!gathering.is_over(COMPANY - 1, COMPANY - 1));
        assert!(gathering.is_over(0, 0), "nobody has come");
    }

    #[test]
    fn it_goes_on_for_as_long_as_somebody_comes() {
        let mut gathering = Gathering::after(100);
        for _ in 0..5 {
            assert!(!gathering.is_over(1, 1));
        }
        assert_eq!(gathering.missing(), 95, "of those who were there before");
        assert!(gathering.is_over(0, 0));
    }
}
