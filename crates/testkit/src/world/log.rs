//! The log of a world: every committed event, in memory, with compare-and-append.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_core::{Committed, Position, Session, SessionId, SessionLimits};

/// Every session's history. Survives crashes of the world's server.
#[derive(Debug, Default)]
pub(super) struct Log {
    sessions: BTreeMap<SessionId, Vec<Arc<Committed>>>,
    /// Everything in the order in which it was committed, over all sessions.
    all: Vec<(SessionId, Arc<Committed>)>,
}

/// The log has moved on.
#[derive(Debug)]
pub(super) struct Conflict;

impl Log {
    /// Appends `events` if `after` is still the head.
    pub(super) fn append(
        &mut self,
        session: &SessionId,
        after: Position,
        events: &[Arc<Committed>],
    ) -> Result<(), Conflict> {
        let known = self.sessions.entry(session.clone()).or_default();
        if known.last().map_or(0, |last| last.position.seq) != after.seq {
            return Err(Conflict);
        }
        for (event, seq) in events.iter().zip(after.seq + 1..) {
            assert_eq!(event.position.seq, seq, "positions are dense");
        }
        known.extend(events.iter().cloned());
        self.all.extend(events.iter().map(|event| (session.clone(), event.clone())));
        Ok(())
    }

    /// The event after `seq`.
    pub(super) fn after(&self, session: &SessionId, seq: u64) -> Option<Arc<Committed>> {
        self.events(session).get(usize::try_from(seq).ok()?).cloned()
    }

    pub(super) fn events(&self, session: &SessionId) -> &[Arc<Committed>] {
        self.sessions.get(session).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all(&self) -> &[(SessionId, Arc<Committed>)] {
        &self.all
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &SessionId> {
        self.sessions.keys()
    }

    /// The state that a session's history leads to.
    pub(super) fn load(&self, id: &SessionId, limits: &SessionLimits) -> Session {
        let mut session = Session::new(id.clone(), limits.clone());
        for committed in self.events(id) {
            session.apply(committed);
        }
        session
    }
}
