//! Tasks of which nothing has come yet: those that run, and those that were sent to a device over HTTP and are not
//! taken up (§6.3, A16, A17).
//!
//! A device may lose its connection in between, so this is not a matter of any one of them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use switchboard_core::{Callsign, PrincipalId, Timestamp};

/// Who may read a result, and the name of its task.
pub(crate) type Key = (PrincipalId, String);

/// A task that was sent to a device over HTTP, and that it has not taken up yet.
#[derive(Debug)]
pub(crate) struct Dispatch {
    /// Whose device it is for.
    pub(crate) principal: PrincipalId,
    pub(crate) device: Callsign,
    pub(crate) task_name: String,
    pub(crate) session_id: String,
    pub(crate) reader: PrincipalId,
    pub(crate) at: Timestamp,
}

impl Dispatch {
    fn key(&self) -> Key {
        (self.reader.clone(), self.task_name.clone())
    }

    /// Whether it was sent to this device.
    pub(crate) fn is_for(&self, principal: &PrincipalId, device: &Callsign) -> bool {
        self.principal == *principal && self.device == *device
    }
}

/// What is still to come.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// When the latest task of each name began. An earlier result says nothing of it.
    begun: HashMap<Key, Timestamp>,
    /// In the order in which they came.
    dispatches: VecDeque<Dispatch>,
}

impl Awaited {
    /// When the latest task of this name began, if nothing has come of it.
    pub(crate) fn since(&self, key: &Key) -> Option<Timestamp> {
        self.begun.get(key).copied()
    }

    pub(crate) fn begin(&mut self, key: Key, now: Timestamp) {
        self.begun.insert(key, now);
    }

    /// The task that began then is over. A later one of the same name is not.
    pub(crate) fn end(&mut self, key: &Key, begun: Timestamp) {
        if self.begun.get(key).is_some_and(|latest| *latest <= begun) {
            self.begun.remove(key);
        }
        // A burst leaves no memory behind.
        if self.begun.len() * 8 < self.begun.capacity() {
            self.begun.shrink_to_fit();
        }
    }

    /// Waits for a device to take a task up; answers the one that is given up for it, if there are too many.
    pub(crate) fn dispatch(&mut self, dispatch: Dispatch) -> Option<Dispatch> {
        let same = |known: &Dispatch| known.is_for(&dispatch.principal, &dispatch.device);
        let crowded = self.dispatches.iter().filter(|known| same(known)).count() >= DISPATCHES_PER_DEVICE;
        let oldest = if crowded { self.dispatches.iter().position(same) } else { None };
        let oldest = oldest.or_else(|| (self.dispatches.len() >= DISPATCHES).then_some(0));
        let given_up = oldest.and_then(|index| self.dispatches.remove(index));
        self.begin(dispatch.key(), dispatch.at);
        self.dispatches.push_back(dispatch);
        given_up
    }

    /// The oldest that is so, which is not waited for any more.
    pub(crate) fn take(&mut self, is_it: impl Fn(&Dispatch) -> bool) -> Option<Dispatch> {
        let index = self.dispatches.iter().position(is_it)?;
        self.dispatches.remove(index)
    }

    /// What was not taken up within this time.
    pub(crate) fn expired(&mut self, patience: Duration, now: Timestamp) -> Vec<Dispatch> {
        let fresh = self.dispatches.iter().position(|known| now.since(known.at) < patience);
        self.dispatches.drain(..fresh.unwrap_or(self.dispatches.len())).collect()
    }
}

/// Tasks that may wait for one device to take them up, and for all of them.
const DISPATCHES_PER_DEVICE: usize = 64;
const DISPATCHES: usize = 16_384;
