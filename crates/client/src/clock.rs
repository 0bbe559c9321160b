//! The time of a calendar that does not go back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_core::Timestamp;
use tokio::time::Instant;

/// Set once, and counted on from there.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
    set_to: Timestamp,
}

impl Clock {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "messages say when they were written")]
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), set_to: Timestamp::default().after(since_epoch) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.set_to.after(self.began.elapsed())
    }

    /// When it will be that time.
    pub(crate) fn instant(&self, time: Timestamp) -> Instant {
        // Rounded up, or one would wake up a moment too early.
        self.began + time.since(self.set_to) + Duration::from_micros(1)
    }
}
