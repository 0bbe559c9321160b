//! Where an earlier run of a turn has let go of it.

use serde_json::Value;
use switchboard_core::model::{CallEnd, CallKind, Executor, Output};
use switchboard_core::{CallId, Event};

/// A turn whose executor has suspended it, as the next run finds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumption {
    /// What the executor has left for whoever goes on.
    pub state: Value,
    /// How often the turn was suspended.
    pub suspensions: u32,
    /// What was asked for since the suspension before, in order.
    pub calls: Vec<PastCall>,
    /// Pieces of output and calls of all runs.
    pub records: u64,
}

/// Something that was asked for before the turn was suspended.
#[derive(Clone, Debug, PartialEq)]
pub struct PastCall {
    /// Its name.
    pub id: CallId,
    /// What was asked.
    pub kind: CallKind,
    /// How it ended, if it has.
    pub end: Option<CallEnd>,
}

impl Resumption {
    /// None if the last thing that was done is something else than to suspend.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the journal of a turn holds what its executor did")]
    pub(super) fn of(journal: &[Event]) -> Option<Self> {
        let (mut suspensions, mut records) = (0, 0);
        let mut calls: Vec<PastCall> = Vec::new();
        let mut asked_before = 0;
        let mut state = None;
        for event in journal {
            match event {
                Event::TurnOutput { output: Output::Suspended(left), .. } => {
                    suspensions += 1;
                    state = Some(left);
                    // What the suspension before had waited for was handed over already.
                    calls.drain(..asked_before);
                    asked_before = calls.len();
                }
                Event::TurnOutput { .. } => {
                    records += 1;
                    state = None;
                }
                // What the executor does itself, or wants to do, is no question of its own.
                Event::CallRequested { call, .. }
                    if call.executor == Executor::Agent || call.kind.is_approval() =>
                {
                    records += 1;
                    state = None;
                }
                Event::CallRequested { call, .. } => {
                    records += 1;
                    state = None;
                    calls.push(PastCall { id: call.id.clone(), kind: call.kind.clone(), end: None });
                }
                Event::CallEnded { call, end, .. } => {
                    if let Some(known) = calls.iter_mut().find(|known| known.id == *call) {
                        known.end = Some(end.clone());
                    }
                }
                _ => {}
            }
        }
        Some(Self { state: state?.clone(), suspensions, calls, records })
    }
}
