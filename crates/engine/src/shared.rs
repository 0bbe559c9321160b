//! What the sessions and connections of one node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::{KeyIndex, Reservation, Roll};

use crate::inbox::Inbox;

/// What the sessions and connections of one node share.
#[derive(Debug)]
pub struct Shared {
    /// In which session each idempotency key was first used.
    pub keys: Mutex<KeyIndex>,
    /// Which connections are reached under a name.
    pub presence: Mutex<Roll<Address>>,
    draining: AtomicBool,
}

impl Shared {
    /// Idempotency keys are remembered for so long, and so many of them.
    pub fn new(key_memory: Duration, most_keys: usize) -> Self {
        Self {
            keys: Mutex::new(KeyIndex::new(key_memory, most_keys)),
            presence: Mutex::default(),
            draining: AtomicBool::new(false),
        }
    }

    /// From now on no turn is started.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.presence.lock().stop();
    }

    /// Whether the node is leaving.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Reserves names of devices, instead of those that were reserved before.
    pub fn reserve(&self, reservations: Vec<Reservation>) {
        self.presence.lock().reserve(reservations);
    }
}

/// Where a connection is reached that has a name.
#[derive(Clone, Debug)]
pub struct Address(pub Arc<Inbox>);

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
