//! Figures that the writer counts and everybody may read.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::log::StoreStats;

#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    appends: AtomicU64,
    events: AtomicU64,
    failures: AtomicU64,
}

impl Counters {
    pub(super) fn committed(&self, appends: u64, events: u64) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.appends.fetch_add(appends, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> StoreStats {
        StoreStats {
            commits: self.commits.load(Ordering::Relaxed),
            appends: self.appends.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}
