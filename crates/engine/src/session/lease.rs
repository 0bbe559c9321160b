//! The signs of life of executors.

use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::Timestamp;

/// A sign of life that an executor renews while it works, or waits for its turn to begin. One that
/// has stopped renewing is lost, whatever became of it.
///
/// Silence alone proves nothing if the whole process was stopped: the first time that a lease is found to have run out
/// it is only doubted, which gives the executor time for a sign.
#[derive(Debug)]
pub struct Lease {
    signs: Mutex<Signs>,
    term: Duration,
}

#[derive(Debug)]
struct Signs {
    renewed: Timestamp,
    doubted: Option<Timestamp>,
}

impl Lease {
    /// A lease that begins now.
    pub fn new(term: Duration, now: Timestamp) -> Self {
        Self { signs: Mutex::new(Signs { renewed: now, doubted: None }), term }
    }

    /// How often it is to be renewed.
    pub fn interval(&self) -> Duration {
        self.term / 3
    }

    /// A sign of life.
    pub fn renew(&self, now: Timestamp) {
        *self.signs.lock() = Signs { renewed: now, doubted: None };
    }

    /// When it has to be looked at, unless it is renewed.
    pub(super) fn due(&self) -> Timestamp {
        let signs = self.signs.lock();
        match signs.doubted {
            Some(doubted) => doubted.after(self.interval()),
            None => signs.renewed.after(self.term.saturating_sub(self.interval())),
        }
    }

    /// Whether it has run out; to be asked again when it is next due.
    pub(super) fn has_run_out(&self, now: Timestamp) -> bool {
        if now < self.due() {
            return false;
        }
        self.signs.lock().doubted.replace(now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn an_executor_is_lost_after_its_term_and_not_before() {
        let lease = Lease::new(TERM, at(0));
        assert!(!lease.has_run_out(at(19)));
        assert_eq!(lease.due(), at(20));
        assert!(!lease.has_run_out(at(20)), "only doubted");
        assert!(!lease.has_run_out(at(29)));
        assert!(lease.has_run_out(at(30)));
    }

    #[test]
    fn a_process_that_was_stopped_gives_its_executors_time() {
        let lease = Lease::new(TERM, at(0));
        assert!(!lease.has_run_out(at(3600)));
        lease.renew(at(3600));
        assert!(!lease.has_run_out(at(3615)));
    }
}
