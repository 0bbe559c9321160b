//! The log of a world: every committed event, in memory, with compare-and-append.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_core::{
    Append, Batch, Chronicler, Committed, Event, Loaded, Lookup, MessageId, PrincipalId, Record, Row,
    Session, SessionId, SessionLimits,
};

use crate::accounts::Accounts;

/// Every session's history. Survives crashes of the world's server.
#[derive(Debug, Default)]
pub(super) struct Log {
    sessions: BTreeMap<SessionId, Stream>,
    /// Everything in the order in which it was committed, over all sessions.
    all: Vec<(SessionId, Arc<Committed>)>,
    /// Those who keep projections of sessions, and what they have written.
    projectors: Vec<Arc<dyn Chronicler>>,
}

/// The history of one session.
#[derive(Debug, Default)]
struct Stream {
    events: Vec<Arc<Committed>>,
    batches: Vec<Arc<Batch>>,
    snapshot: Option<Arc<Session>>,
    /// What projections of it say, derived from the events once more.
    accounts: Accounts,
}

/// The log has moved on.
#[derive(Debug)]
pub(super) struct Conflict;

impl Log {
    /// From now on somebody keeps projections of sessions.
    pub(super) fn add_projector(&mut self, projector: Arc<dyn Chronicler>) {
        self.projectors.push(projector);
    }

    /// Looks something up in what is written about a session.
    pub(super) fn look(&self, sessions: &[&SessionId], lookup: &Lookup) -> Vec<switchboard_core::Found> {
        let streams = sessions.iter().filter_map(|session| self.sessions.get(session));
        Accounts::look_into(streams.map(|stream| &stream.accounts), lookup)
    }

    /// Whose a session is.
    pub(super) fn owner(&self, session: &SessionId) -> Option<&PrincipalId> {
        match &self.events(session).first()?.event {
            Event::SessionOpened { owner, .. } => Some(owner),
            _ => None,
        }
    }

    /// Whether it tells of a message, which a session need not know by heart.
    pub(super) fn tells_of(&self, session: &SessionId, wanted: &MessageId) -> bool {
        let is = |event: &Event| matches!(event, Event::MessageAdded { message } if message.id == *wanted);
        self.events(session).iter().any(|committed| is(&committed.event))
    }

    /// Appends a batch if what is before it is still the head.
    pub(super) fn append(&mut self, session: &SessionId, append: &Append) -> Result<(), Conflict> {
        let stream = self.sessions.entry(session.clone()).or_default();
        let head = stream.events.last().map_or(0, |last| last.position.seq);
        if head != append.after.seq {
            return Err(Conflict);
        }
        let mut records = Vec::new();
        for (event, seq) in append.batch.events.iter().zip(head + 1..) {
            assert_eq!(event.position.seq, seq, "positions are dense");
            records.extend(stream.accounts.take(&self.projectors, session, &stream.events, event));
            let event = Arc::new(event.clone());
            self.all.push((session.clone(), event.clone()));
            stream.events.push(event);
        }
        let written: Vec<&Record> = append
            .rows
            .iter()
            .filter_map(|row| if let Row::Chronicled(record) = row { Some(record) } else { None })
            .collect();
        assert!(written.into_iter().eq(&records), "the rows of projections follow from the events");
        stream.batches.push(append.batch.clone());
        if append.snapshot.is_some() {
            stream.snapshot.clone_from(&append.snapshot);
        }
        Ok(())
    }

    /// What projections make of events that another process appends.
    pub(super) fn records_of(&self, session: &SessionId, batch: &Batch) -> Vec<Record> {
        let mut before = self.events(session).to_vec();
        let mut accounts = Accounts::of(&self.projectors, session, &before);
        let mut records = Vec::new();
        for event in &batch.events {
            records.extend(accounts.take(&self.projectors, session, &before, event));
            before.push(Arc::new(event.clone()));
        }
        records
    }

    /// A session as it is stored.
    pub(super) fn load_stored(&self, session: &SessionId) -> Option<Loaded> {
        let stream = self.sessions.get(session)?;
        let snapshot = stream.snapshot.as_ref().map(|snapshot| Session::clone(snapshot));
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.head().seq);
        Some(Loaded { snapshot, batches: self.read(session, after, usize::MAX) })
    }

    /// Events with a number above `after`, at most about so many.
    pub(super) fn read(&self, session: &SessionId, after: u64, limit: usize) -> Vec<Arc<Batch>> {
        let Some(stream) = self.sessions.get(session) else { return Vec::new() };
        let mut left = limit;
        let behind = stream.batches.iter().skip_while(|batch| batch.last() <= after);
        let read = behind.map(|batch| Batch::after(batch, after)).take_while(|batch| {
            let some = left > 0;
            left = left.saturating_sub(batch.events.len());
            some
        });
        read.collect()
    }

    pub(super) fn events(&self, session: &SessionId) -> &[Arc<Committed>] {
        self.sessions.get(session).map_or(&[], |stream| &stream.events)
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

/// What goes wrong with the log next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Troubles {
    /// So many appends find no room.
    pub(super) full: u32,
    /// So many appends are not done, and nobody can tell.
    pub(super) lost: u32,
    /// So many appends are done, and nobody can tell.
    pub(super) unheard: u32,
    /// So many reads fail.
    pub(super) reads: u32,
}

/// What goes wrong with one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    Full,
    Lost,
    Unheard,
}

impl Troubles {
    pub(super) const fn of_append(&mut self) -> Trouble {
        if take(&mut self.full) {
            Trouble::Full
        } else if take(&mut self.lost) {
            Trouble::Lost
        } else if take(&mut self.unheard) {
            Trouble::Unheard
        } else {
            Trouble::None
        }
    }

    pub(super) const fn fails_read(&mut self) -> bool {
        take(&mut self.reads)
    }
}

const fn take(count: &mut u32) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(1);
    some
}
