//! The one clock of the server: wall time that never goes backwards.

use std::time::{Duration, UNIX_EPOCH};

use switchboard_core::Timestamp;
use tokio::time::Instant;

/// Wall time at start, moved forward by a monotonic clock. A step of the system clock does not
/// reach running sessions, and a paused runtime pauses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started_at: Timestamp,
    started: Instant,
}

impl Clock {
    /// Reads the system clock once.
    pub(crate) fn start() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
        let since_epoch = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_at: Timestamp::default().after(since_epoch), started: Instant::now() }
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.started_at.after(self.started.elapsed())
    }

    /// The instant at which [`Clock::now`] will be `at`, or one that nobody lives to see.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.started + at.since(self.started_at).min(FAR)
    }
}

const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
