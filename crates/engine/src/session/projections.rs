//! The accounts that protocols keep of a session: folds over its events, each with tables of its own.
//!
//! They are always at the head of the session's state, like it run ahead while a batch is being
//! committed, and are read back with it when the commit fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use switchboard_core::{Chronicle, Chronicler, Committed, Record, Row, Session, SessionId};
use switchboard_store::{Log, StoreError};

/// Those who can keep an account of a session.
#[derive(Clone, Debug)]
pub(crate) struct Chroniclers(Arc<[Arc<dyn Chronicler>]>);

impl Chroniclers {
    pub(crate) fn new(all: Vec<Arc<dyn Chronicler>>) -> Self {
        Self(all.into())
    }

    pub(super) fn find(&self, name: &str) -> Option<&dyn Chronicler> {
        self.0.iter().map(|known| &**known).find(|known| known.name() == name)
    }
}

/// The accounts that are kept of one session.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    kept: BTreeMap<Box<str>, Box<dyn Chronicle>>,
}

impl Accounts {
    /// The accounts of a session that is read from the log: `states` is what they had to remember at
    /// `saved`, and `since` is what happened after it. What is not remembered, or cannot be read any
    /// more, is followed from the beginning once more. The tables are there already.
    pub(super) async fn load<'a>(
        chroniclers: &Chroniclers,
        log: &dyn Log,
        session: &Session,
        (saved, states): (u64, BTreeMap<Box<str>, Bytes>),
        since: impl Iterator<Item = &'a Committed> + Clone + Send,
    ) -> Result<Self, StoreError> {
        let mut kept = BTreeMap::new();
        for name in session.chronicles() {
            // Nobody of this name any more: the account ends here, and nobody misses it.
            let Some(chronicler) = chroniclers.find(name) else { continue };
            let remembered = states.get(name).and_then(|state| chronicler.resume(session.id(), state));
            let mut chronicle = match remembered {
                Some(chronicle) => chronicle,
                None => {
                    let mut chronicle = chronicler.begin(session.id());
                    follow(&mut *chronicle, log, session.id(), saved, drop).await?;
                    chronicle
                }
            };
            for committed in since.clone() {
                chronicle.take(committed);
            }
            kept.insert(name.into(), chronicle);
        }
        Ok(Self { kept })
    }

    /// Begins an account in the middle of a session's life, of everything that has happened: what is
    /// committed up to `head`, and what is `pending` behind it. Answers the rows that come of it.
    pub(super) async fn begin(
        &mut self,
        chronicler: &dyn Chronicler,
        log: &dyn Log,
        session: &SessionId,
        head: u64,
        pending: &[Committed],
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        let mut chronicle = chronicler.begin(session);
        follow(&mut *chronicle, log, session, head, |record| rows.push(Row::Chronicled(record))).await?;
        for committed in pending {
            rows.extend(chronicle.take(committed).into_iter().map(Row::Chronicled));
        }
        self.kept.insert(chronicler.name().into(), chronicle);
        Ok(rows)
    }

    /// Takes in the next event; adds the rows that change with it.
    pub(super) fn take(&mut self, committed: &Committed, rows: &mut Vec<Row>) {
        for chronicle in self.kept.values_mut() {
            rows.extend(chronicle.take(committed).into_iter().map(Row::Chronicled));
        }
    }

    /// What connections are told of them that begin to follow.
    pub(super) fn shown(&self) -> BTreeMap<Box<str>, Bytes> {
        self.kept.iter().filter_map(|(name, chronicle)| Some((name.clone(), chronicle.shown()?))).collect()
    }

    /// What they have to remember to go on from here.
    pub(super) fn states(&self) -> BTreeMap<Box<str>, Bytes> {
        self.kept.iter().map(|(name, chronicle)| (name.clone(), chronicle.state())).collect()
    }
}

/// Lets an account take in what was committed up to `head`, page by page.
async fn follow(
    chronicle: &mut dyn Chronicle,
    log: &dyn Log,
    session: &SessionId,
    head: u64,
    mut each: impl FnMut(Record) + Send,
) -> Result<(), StoreError> {
    let mut position = 0;
    while position < head {
        let batches = log.read(session, position, PAGE).await?;
        if batches.is_empty() {
            return Err(StoreError::Corrupt(format!("{session} ends before {head}")));
        }
        for committed in batches.iter().flat_map(|batch| &batch.events) {
            let seq = committed.position.seq;
            if seq > position && seq <= head {
                chronicle.take(committed).into_iter().for_each(&mut each);
                position = seq;
            }
        }
    }
    Ok(())
}

/// Events that are read at once.
const PAGE: usize = 1024;
