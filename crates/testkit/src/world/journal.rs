//! What earlier, lost runs of a turn have committed; the twin of `agents/src/journal.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use switchboard_core::model::{CallEnd, CallKind};
use switchboard_core::{CallId, Committed, Event, TurnId};

/// What is left to be repeated.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Output and changes of the tools.
    outputs: VecDeque<Event>,
    /// The attempts that count, by the name that the agent first gave the call.
    calls: BTreeMap<String, Attempt>,
    /// Calls whose attempts were all lost.
    lost: BTreeSet<String>,
}

/// A call that was answered.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: CallId,
    pub(super) kind: CallKind,
    pub(super) end: Option<CallEnd>,
}

impl Journal {
    /// Sorts the events of a turn.
    pub(super) fn new(events: &[Arc<Committed>], turn: &TurnId) -> Self {
        let mut journal = Self::default();
        for committed in events.iter().filter(|committed| committed.event.turn() == Some(turn)) {
            journal.take_in(&committed.event);
        }
        let calls = std::mem::take(&mut journal.calls);
        for (base, attempt) in calls {
            if matches!(attempt.end, None | Some(CallEnd::Cancelled)) {
                journal.lost.insert(base);
            } else {
                journal.lost.remove(&base);
                journal.calls.insert(base, attempt);
            }
        }
        journal
    }

    /// Whether everything was repeated.
    pub(super) fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.calls.is_empty()
    }

    /// Steps over the next output, if it is this one; fails if it is another.
    pub(super) fn pass(&mut self, same: impl Fn(&Event) -> bool) -> Repeat {
        match self.outputs.front() {
            Some(known) if same(known) => {
                self.outputs.pop_front();
                Repeat::Known
            }
            Some(_) => Repeat::Diverged,
            None if !self.calls.is_empty() => Repeat::Diverged,
            None => Repeat::New,
        }
    }

    /// The attempt at a call that counts.
    pub(super) fn take_call(&mut self, base: &str) -> Option<Attempt> {
        self.calls.remove(base)
    }

    /// Whether the call was asked for before, and lost each time.
    pub(super) fn is_lost(&self, base: &str) -> bool {
        self.lost.contains(base)
    }

    fn take_in(&mut self, event: &Event) {
        match event {
            Event::TurnOutput { .. } | Event::ToolsChanged { .. } => self.outputs.push_back(event.clone()),
            Event::CallRequested { call, .. } => {
                let base = base_name(call.id.as_str()).to_owned();
                let attempt = Attempt { id: call.id.clone(), kind: call.kind.clone(), end: None };
                if self.calls.insert(base.clone(), attempt).is_some() {
                    self.lost.insert(base);
                }
            }
            Event::CallEnded { call, end, .. } => {
                let attempt = self.calls.get_mut(base_name(call.as_str()));
                if let Some(attempt) = attempt.filter(|attempt| attempt.id == *call) {
                    attempt.end = Some(end.clone());
                }
            }
            Event::CallProgress { .. }
            | Event::SessionOpened { .. }
            | Event::ParticipantJoined { .. }
            | Event::ParticipantLeft { .. }
            | Event::AttachmentOpened { .. }
            | Event::AttachmentLinked { .. }
            | Event::AttachmentDetached { .. }
            | Event::AttachmentClosed { .. }
            | Event::MessageAdded { .. }
            | Event::TurnAccepted { .. }
            | Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::TurnReleased { .. }
            | Event::TurnInterrupted { .. }
            | Event::TurnEnded { .. } => {}
        }
    }
}

/// How something that the agent does relates to what was done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is committed already.
    Known,
    /// It is not the next thing that was committed.
    Diverged,
    /// Everything that was committed is repeated; this comes after it.
    New,
}

/// The name that the first attempt had.
fn base_name(id: &str) -> &str {
    match id.rsplit_once('r') {
        Some((base, fence)) if !fence.is_empty() && fence.bytes().all(|b| b.is_ascii_digit()) => base,
        _ => id,
    }
}
