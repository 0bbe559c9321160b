//! Which of several transports has a session, decided alike by all who read its log.
//!
//! Transports of one client may be opened at the same time, and their records may be committed in another order
//! than they were opened in. Within one process the order of arrival counts, between processes the order of the
//! log. A transport that is older than one that was already recorded never gets the session.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use switchboard_core::Seed;

/// When a transport arrived, in the order of the process that let it in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The process.
    pub process: String,
    /// Counts the transports of that process, from 1.
    pub number: u64,
}

/// Numbers the transports that arrive in this process.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    process: OnceLock<String>,
    count: AtomicU64,
}

impl Arrivals {
    pub(crate) fn next(&self, seed: &Seed) -> Arrival {
        let process = self.process.get_or_init(|| seed.token("process", 1)).clone();
        Arrival { process, number: self.count.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

/// The transports that were opened so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Succession {
    holder: Arrival,
    /// The newest of each process, the process that was heard of last at the end.
    newest: VecDeque<Arrival>,
}

impl Succession {
    /// A transport was opened: it has the session now, unless a newer one of its process was recorded before.
    pub fn open(&mut self, arrival: &Arrival) {
        let known = self.newest.iter().position(|known| known.process == arrival.process);
        let known = known.and_then(|place| self.newest.remove(place));
        if let Some(newer) = known.filter(|known| known.number > arrival.number) {
            self.newest.push_back(newer);
            return;
        }
        self.newest.push_back(arrival.clone());
        if self.newest.len() > MOST_PROCESSES {
            self.newest.pop_front();
        }
        self.holder = arrival.clone();
    }

    /// Whether this one has the session.
    pub fn is_held_by(&self, arrival: &Arrival) -> bool {
        self.holder == *arrival
    }
}

/// Processes that are told apart; those that were not heard of for longest have no transports any more.
const MOST_PROCESSES: usize = 16;
