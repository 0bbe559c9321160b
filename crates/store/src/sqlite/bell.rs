//! Wakes the writer while it lingers, once as many have come as it waits for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// A ring that is missed costs the writer the rest of its patience and nothing else, so nothing here is in order.
#[derive(Debug)]
pub(super) struct Bell {
    writer: OnceLock<Thread>,
    wanted: AtomicUsize,
}

impl Bell {
    pub(super) const fn new() -> Self {
        Self { writer: OnceLock::new(), wanted: AtomicUsize::new(NOBODY_WAITS) }
    }

    /// So many wait for the writer now.
    pub(super) fn ring(&self, waiting: usize) {
        if waiting >= self.wanted.load(Ordering::Relaxed)
            && self.wanted.swap(NOBODY_WAITS, Ordering::Relaxed) != NOBODY_WAITS
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }

    /// Waits for so many, but no longer than this; or for less, when the thread is woken for another reason.
    pub(super) fn wait(&self, wanted: usize, patience: Duration, waiting: impl FnOnce() -> usize) {
        self.writer.get_or_init(thread::current);
        self.wanted.store(wanted, Ordering::Relaxed);
        // They may have come just before.
        if waiting() < wanted {
            thread::park_timeout(patience);
        }
        self.wanted.store(NOBODY_WAITS, Ordering::Relaxed);
    }
}

const NOBODY_WAITS: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn the_writer_is_woken_when_enough_have_come() {
        let bell = Arc::new(Bell::new());
        let (woken, wakes) = mpsc::channel();
        let writer = {
            let bell = bell.clone();
            thread::spawn(move || {
                bell.wait(3, FOR_EVER, || 0);
                woken.send(()).unwrap();
            })
        };
        // Rings before the writer waits are not heard, and too few are no reason.
        for _ in 0..50 {
            bell.ring(2);
            thread::yield_now();
        }
        assert!(wakes.try_recv().is_err());
        while !writer.is_finished() {
            bell.ring(3);
            thread::yield_now();
        }
        wakes.recv().unwrap();
    }

    #[test]
    fn nobody_waits_for_those_who_are_there() {
        Bell::new().wait(3, FOR_EVER, || 3);
    }
}
