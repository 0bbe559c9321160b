//! Leaves a function alone for a while that has failed too often in a row.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_core::Timestamp;

/// ```text
/// closed ──failures in a row──▶ open ──time──▶ half-open: one may try ──success──▶ closed
///                                ▲                       │
///                                └────────failure────────┘
/// ```
#[derive(Debug)]
pub(super) struct Breaker {
    /// 0 never opens it.
    threshold: u32,
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Nobody tries before this.
    open_until: Option<Timestamp>,
}

impl Breaker {
    pub(super) fn new(threshold: u32, pause: Duration) -> Self {
        Self { threshold, pause, state: Mutex::default() }
    }

    /// Whether a request may be sent; otherwise, how long not.
    pub(super) fn admit(&self, now: Timestamp) -> Result<(), Duration> {
        let mut state = self.state();
        match state.open_until {
            Some(until) if now < until => Err(until.since(now)),
            Some(_) => {
                // Others wait for what becomes of this one.
                state.open_until = Some(now.after(self.pause));
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn succeeded(&self) {
        *self.state() = State::default();
    }

    pub(super) fn failed(&self, now: Timestamp) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if self.threshold != 0 && state.failures >= self.threshold {
            if state.open_until.is_none() {
                tracing::warn!(failures = state.failures, "a function is left alone for a while");
            }
            state.open_until = Some(now.after(self.pause));
        }
    }

    /// Whether requests are refused now.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        self.state().open_until.is_some_and(|until| now < until)
    }

    /// Every change is whole, so that the state is good also after a panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_try_later() {
        let breaker = Breaker::new(3, PAUSE);
        breaker.failed(at(0));
        breaker.failed(at(0));
        breaker.succeeded();
        for _ in 0..2 {
            breaker.failed(at(1));
        }
        assert_eq!(breaker.admit(at(1)), Ok(()));
        breaker.failed(at(1));
        assert_eq!(breaker.admit(at(4)), Err(Duration::from_secs(7)));
        assert!(breaker.is_open(at(4)));
        assert_eq!(breaker.admit(at(11)), Ok(()));
        assert!(breaker.admit(at(12)).is_err(), "only one tries");
        breaker.failed(at(13));
        assert!(breaker.admit(at(22)).is_err());
        assert_eq!(breaker.admit(at(23)), Ok(()));
        breaker.succeeded();
        assert_eq!(breaker.admit(at(23)), Ok(()));
        assert_eq!(breaker.admit(at(23)), Ok(()));
    }

    #[test]
    fn it_never_opens_without_a_threshold() {
        let breaker = Breaker::new(0, PAUSE);
        for _ in 0..100 {
            breaker.failed(at(0));
        }
        assert_eq!(breaker.admit(at(0)), Ok(()));
    }
}
