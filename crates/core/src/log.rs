//! What is handed to a log, and what comes back from it.

use std::sync::Arc;

use crate::id::SessionId;
use crate::model::Committed;
use crate::position::Position;
use crate::projection::{Row, SessionRow};
use crate::session::Session;

/// Consecutive events of one session that were committed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The events, in order; never empty.
    pub events: Vec<Committed>,
}

impl Batch {
    /// Number of the first event.
    pub fn first(&self) -> u64 {
        self.events.first().map_or(0, |event| event.position.seq)
    }

    /// Number of the last event.
    pub fn last(&self) -> u64 {
        self.events.last().map_or(0, |event| event.position.seq)
    }

    /// The events with a number above `after`, which lies before the last one.
    pub fn after(batch: &Arc<Self>, after: u64) -> Arc<Self> {
        if batch.first() > after {
            return Arc::clone(batch);
        }
        let events = batch.events.iter().filter(|event| event.position.seq > after).cloned().collect();
        Arc::new(Self { events })
    }
}

/// One append: events, and everything that changes with them.
#[derive(Clone, Debug)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// Its head, as the caller knows it; [`Position::default`] for a new session.
    pub after: Position,
    /// What happened.
    pub batch: Arc<Batch>,
    /// Rows that change, in order.
    pub rows: Vec<Row>,
    /// The session at a glance, afterwards.
    pub summary: SessionRow,
    /// A snapshot of the session as it is after the batch, when one is due.
    pub snapshot: Option<Arc<Session>>,
}

/// A session as it was stored.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The last snapshot.
    pub snapshot: Option<Session>,
    /// The events after it.
    pub batches: Vec<Arc<Batch>>,
}
