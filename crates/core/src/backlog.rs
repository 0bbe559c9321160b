//! What waits in front of a transport, and for how long its peer has taken nothing of it.

use std::time::Duration;

use crate::time::Timestamp;

/// The bytes that a transport has not taken, as [`Input::Backlog`](crate::Input::Backlog) reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    bytes: usize,
    /// When the transport last took some, or had none.
    progress_at: Timestamp,
}

impl Backlog {
    /// Takes in a report.
    pub const fn report(&mut self, bytes: usize, now: Timestamp) {
        if bytes < self.bytes || self.bytes == 0 {
            self.progress_at = now;
        }
        self.bytes = bytes;
    }

    /// Whether less than `most` bytes wait, so that events can still be taken in.
    pub const fn is_below(&self, most: usize) -> bool {
        self.bytes < most
    }

    /// Whether the peer has taken nothing for as long as `patience`, although something waits for it.
    pub fn is_stalled(&self, now: Timestamp, patience: Duration) -> bool {
        self.bytes > 0 && self.progress_at.after(patience) <= now
    }

    /// When to look again; none while nothing waits. Progress that nobody reports is seen by looking.
    pub fn wake(&self, now: Timestamp, patience: Duration) -> Option<Timestamp> {
        (self.bytes > 0).then(|| now.after(LOOK_EVERY).min(self.progress_at.after(patience)))
    }
}

const LOOK_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    const fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_peer_is_stalled_when_it_takes_nothing_for_long() {
        let mut backlog = Backlog::default();
        assert!(!backlog.is_stalled(at(1000), PATIENCE), "nothing waits");
        backlog.report(100, at(1000));
        backlog.report(200, at(1030));
        assert!(!backlog.is_stalled(at(1059), PATIENCE));
        assert!(backlog.is_stalled(at(1060), PATIENCE), "more that waits is no progress");
        backlog.report(150, at(1050));
        assert!(!backlog.is_stalled(at(1109), PATIENCE), "it took some");
        backlog.report(0, at(1070));
        assert!(!backlog.is_stalled(at(9999), PATIENCE), "it took everything");
    }

    #[test]
    fn it_is_looked_at_now_and_then_while_something_waits() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.wake(at(1000), PATIENCE), None);
        backlog.report(100, at(1000));
        assert_eq!(backlog.wake(at(1000), PATIENCE), Some(at(1005)));
        assert_eq!(backlog.wake(at(1058), PATIENCE), Some(at(1060)));
        assert!(backlog.is_below(101) && !backlog.is_below(100));
    }
}
