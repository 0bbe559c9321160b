//! The log of a world: every committed event, in memory, with compare-and-append.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_core::{
    Chronicler, Committed, Event, Lookup, MessageId, Position, PrincipalId, Session, SessionId, SessionLimits,
};

use crate::accounts::Accounts;

/// Every session's history. Survives crashes of the world's server.
#[derive(Debug, Default)]
pub(super) struct Log {
    sessions: BTreeMap<SessionId, Vec<Arc<Committed>>>,
    /// Everything in the order in which it was committed, over all sessions.
    all: Vec<(SessionId, Arc<Committed>)>,
    /// Those who keep accounts of sessions, and what they have written.
    chroniclers: Vec<Arc<dyn Chronicler>>,
    accounts: BTreeMap<SessionId, Accounts>,
}

/// The log has moved on.
#[derive(Debug)]
pub(super) struct Conflict;

impl Log {
    /// From now on somebody keeps accounts of sessions.
    pub(super) fn add_chronicler(&mut self, chronicler: Arc<dyn Chronicler>) {
        self.chroniclers.push(chronicler);
    }

    /// Whether somebody of this name keeps accounts.
    pub(super) fn has_chronicler(&self, name: &str) -> bool {
        self.chroniclers.iter().any(|known| known.name() == name)
    }

    /// The accounts of a session, as they stand at its head.
    pub(super) fn accounts(&self, session: &SessionId) -> Option<&Accounts> {
        self.accounts.get(session)
    }

    /// Looks something up in what is written about a session.
    pub(super) fn look(&self, sessions: &[&SessionId], lookup: &Lookup) -> Vec<switchboard_core::Found> {
        Accounts::look_into(sessions.iter().filter_map(|session| self.accounts(session)), lookup)
    }

    /// Whose a session is.
    pub(super) fn owner(&self, session: &SessionId) -> Option<&PrincipalId> {
        match &self.events(session).first()?.event {
            Event::SessionOpened { owner, .. } => Some(owner),
            _ => None,
        }
    }

    /// The number of the last event of a session.
    pub(super) fn head(&self, session: &SessionId) -> u64 {
        self.events(session).last().map_or(0, |last| last.position.seq)
    }

    /// Whether it tells of a message, which a session need not know by heart.
    pub(super) fn tells_of(&self, session: &SessionId, wanted: &MessageId) -> bool {
        let is = |event: &Event| matches!(event, Event::MessageAdded { message } if message.id == *wanted);
        self.events(session).iter().any(|committed| is(&committed.event))
    }

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
        let accounts = self.accounts.entry(session.clone()).or_default();
        for event in events {
            accounts.take(&self.chroniclers, session, known, event);
            known.push(event.clone());
        }
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
