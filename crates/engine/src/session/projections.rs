//! The projections that protocols keep of a session: folds over its events, each with tables of its own.
//!
//! They are always at the head of the session's state, like it run ahead while a batch is being
//! committed, and are read back with it when the commit fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use switchboard_core::{Batch, Chronicle, Committed, Row, Session};

use super::Node;

/// The projections that are kept of one session.
#[derive(Debug, Default)]
pub(super) struct Projections {
    kept: BTreeMap<Box<str>, Box<dyn Chronicle>>,
}

impl Projections {
    /// The projections of a session that is read from the log: `saved` is what they had to remember, and `since` is
    /// what happened after that. The names of those are answered that have to be followed from the beginning once
    /// more, because nothing is remembered of them or what is cannot be read any more.
    pub(super) fn resume<N: Node>(
        node: &N,
        session: &Session,
        saved: &BTreeMap<Box<str>, Bytes>,
        since: &[Arc<Batch>],
    ) -> (Self, BTreeMap<Box<str>, Box<dyn Chronicle>>) {
        let (mut kept, mut lost) = (BTreeMap::new(), BTreeMap::new());
        for name in session.chronicles() {
            // Nobody of this name any more: the projection ends here, and nobody misses it.
            let Some(projector) = node.projector(name) else { continue };
            let remembered = saved.get(name).and_then(|state| projector.resume(session.id(), state));
            match remembered {
                Some(mut projection) => {
                    for committed in since.iter().flat_map(|batch| &batch.events) {
                        projection.take(committed);
                    }
                    kept.insert(name.into(), projection);
                }
                None => {
                    lost.insert(name.into(), projector.begin(session.id()));
                }
            }
        }
        (Self { kept }, lost)
    }

    /// Takes in the next event; adds the rows that change with it.
    pub(super) fn take(&mut self, committed: &Committed, rows: &mut Vec<Row>) {
        for projection in self.kept.values_mut() {
            rows.extend(projection.take(committed).into_iter().map(Row::Chronicled));
        }
    }

    /// What connections are told of them that begin to follow.
    pub(super) fn shown(&self) -> BTreeMap<Box<str>, Bytes> {
        self.kept.iter().filter_map(|(name, kept)| Some((name.clone(), kept.shown()?))).collect()
    }

    /// What they have to remember to go on from here.
    pub(super) fn states(&self) -> BTreeMap<Box<str>, Bytes> {
        self.kept.iter().map(|(name, kept)| (name.clone(), kept.state())).collect()
    }
}

/// Projections that take in what is in the log already, page by page.
#[derive(Debug)]
pub(super) struct CatchUp {
    projections: BTreeMap<Box<str>, Box<dyn Chronicle>>,
    position: u64,
    until: u64,
    /// The rows that came of it.
    rows: Vec<Row>,
}

impl CatchUp {
    pub(super) const fn new(projections: BTreeMap<Box<str>, Box<dyn Chronicle>>, until: u64) -> Self {
        Self { projections, position: 0, until, rows: Vec::new() }
    }

    /// After which event to read on; none if everything was read.
    pub(super) fn position(&self) -> Option<u64> {
        (self.position < self.until && !self.projections.is_empty()).then_some(self.position)
    }

    /// Takes in what was read; false if there is less in the log than there should be.
    pub(super) fn take(&mut self, page: &[Arc<Batch>]) -> bool {
        let before = self.position;
        for committed in page.iter().flat_map(|batch| &batch.events) {
            let seq = committed.position.seq;
            if seq > self.position && seq <= self.until {
                self.take_event(committed);
                self.position = seq;
            }
        }
        self.position > before
    }

    pub(super) fn take_event(&mut self, committed: &Committed) {
        for projection in self.projections.values_mut() {
            self.rows.extend(projection.take(committed).into_iter().map(Row::Chronicled));
        }
    }

    /// Keeps the projections, which have taken in everything; answers the rows that came of it.
    pub(super) fn finish(self, projections: &mut Projections) -> Vec<Row> {
        projections.kept.extend(self.projections);
        self.rows
    }
}

/// Events that are read at once.
pub(super) const PAGE: usize = 1024;
