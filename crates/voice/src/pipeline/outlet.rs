//! The way out: what a voice tells its connection.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::VoiceEvent;

/// Hands over events, and nothing of a response that was hushed.
pub(crate) struct Outlet {
    deliver: Box<dyn Fn(VoiceEvent) + Send + Sync>,
    /// One more than the last response that was hushed.
    hushed: AtomicU64,
    /// Held while something of a response is handed over.
    speaking: Mutex<()>,
}

impl Outlet {
    pub(crate) fn new(deliver: impl Fn(VoiceEvent) + Send + Sync + 'static) -> Self {
        Self { deliver: Box::new(deliver), hushed: AtomicU64::new(0), speaking: Mutex::new(()) }
    }

    /// Tells something about a turn.
    pub(crate) fn tell(&self, event: VoiceEvent) {
        (self.deliver)(event);
    }

    /// Tells something about a response; false if it was hushed, and so not told.
    pub(crate) fn say(&self, response: u64, event: VoiceEvent) -> bool {
        let _speaking = self.speaking.lock();
        let audible = !self.is_hushed(response);
        if audible {
            (self.deliver)(event);
        }
        audible
    }

    /// From now on nothing of this response, nor of one before it, is told. Waits for what is being handed over
    /// just now, but not for a connection that does not take it.
    pub(crate) fn hush(&self, response: u64) {
        self.hushed.fetch_max(response.saturating_add(1), Ordering::SeqCst);
        drop(self.speaking.try_lock_for(LONGEST_WORD));
    }

    pub(crate) fn is_hushed(&self, response: u64) -> bool {
        response < self.hushed.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet(hushed below {})", self.hushed.load(Ordering::SeqCst))
    }
}

/// How long an event may be on its way. A connection that puts events into a queue needs next to nothing.
const LONGEST_WORD: Duration = Duration::from_millis(5);
