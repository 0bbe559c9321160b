//! What earlier, lost runs of a turn have committed, and what of it the agent still has to repeat.
//!
//! Losing a run cancels the tools that it was executing itself, and the next run begins them again
//! under a new name; a cancelled attempt counts for nothing. What was asked of others stays open
//! over the loss, so that nobody does it twice. What is left of the log of all runs reads as if one
//! run had produced it. Output is repeated in order; each call is repeated in its
//! own order, because the answers of clients lie anywhere after their request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::CallId;
use crate::model::{CallEnd, CallKind, Event, Executor};

/// What is left to be repeated.
#[derive(Debug, Default)]
pub struct Journal {
    /// Output and changes of the tools.
    outputs: VecDeque<Event>,
    /// The attempts that count, by the name that the agent first gave the call.
    calls: BTreeMap<String, Attempt>,
    /// Calls whose attempts were all lost.
    lost: BTreeSet<String>,
}

/// A call that was answered, that is still open, or that the agent ended itself.
#[derive(Debug)]
pub struct Attempt {
    /// The name under which it was asked for.
    pub id: CallId,
    /// What was asked.
    pub kind: CallKind,
    /// The progress that was reported.
    pub progress: VecDeque<String>,
    /// Who was to answer.
    pub executor: Executor,
    /// How it ended; none while somebody else still works on it, or once that was repeated.
    pub end: Option<CallEnd>,
}

impl Journal {
    /// Sorts the events of a turn.
    pub fn new(events: impl IntoIterator<Item = Event>) -> Self {
        let mut journal = Self::default();
        for event in events {
            journal.take_in(event);
        }
        let calls = std::mem::take(&mut journal.calls);
        for (base, attempt) in calls {
            let lost = match attempt.end {
                None => attempt.executor == Executor::Agent,
                Some(CallEnd::Cancelled) => true,
                Some(CallEnd::Done { .. } | CallEnd::Failed(_) | CallEnd::TimedOut) => false,
            };
            if lost {
                journal.lost.insert(base);
            } else {
                journal.lost.remove(&base);
                journal.calls.insert(base, attempt);
            }
        }
        journal
    }

    /// Whether everything was repeated.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.calls.is_empty()
    }

    /// Steps over the next output or change of the tools, if it is this one.
    pub fn pass(&mut self, same: impl FnOnce(&Event) -> bool) -> Repeat {
        match self.outputs.front() {
            Some(known) if same(known) => {
                self.outputs.pop_front();
                Repeat::Known
            }
            None if self.calls.is_empty() => Repeat::New,
            Some(_) | None => Repeat::Diverged,
        }
    }

    /// The name of the call that the agent makes now, and what is known of it; none if an earlier
    /// run has made another one in its place. `base` depends on nothing but the order of the
    /// turn's calls, and `fence` is that of the new run.
    pub fn call(&mut self, base: &str, kind: &CallKind, fence: u32) -> Option<(CallId, Option<Attempt>)> {
        match self.calls.remove(base) {
            Some(attempt) => (attempt.kind == *kind).then(|| (attempt.id.clone(), Some(attempt))),
            None if self.lost.contains(base) => Some((CallId::new(format!("{base}r{fence}")), None)),
            None => self.is_empty().then(|| (CallId::from(base), None)),
        }
    }

    /// What an earlier run has asked for under this name, if the agent has not yet come to it again.
    pub fn kind(&self, base: &str) -> Option<&CallKind> {
        self.calls.get(base).map(|attempt| &attempt.kind)
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::TurnOutput { .. } | Event::ToolsChanged { .. } => self.outputs.push_back(event),
            Event::CallRequested { call, .. } => {
                let base = base_name(call.id.as_str()).to_owned();
                let attempt = Attempt {
                    id: call.id.clone(),
                    kind: call.kind.clone(),
                    progress: VecDeque::new(),
                    executor: call.executor.clone(),
                    end: None,
                };
                if self.calls.insert(base.clone(), attempt).is_some() {
                    self.lost.insert(base);
                }
            }
            Event::CallProgress { call, delta, .. } => {
                if let Some(attempt) = self.attempt(&call) {
                    attempt.progress.push_back(delta);
                }
            }
            Event::CallEnded { call, end, .. } => {
                if let Some(attempt) = self.attempt(&call) {
                    attempt.end = Some(end);
                }
            }
            Event::SessionOpened { .. }
            | Event::ParticipantJoined { .. }
            | Event::ParticipantLeft { .. }
            | Event::AttachmentOpened { .. }
            | Event::AttachmentLinked { .. }
            | Event::AttachmentDetached { .. }
            | Event::AttachmentClosed { .. }
            | Event::DeviceJoined { .. }
            | Event::DeviceReported { .. }
            | Event::DeviceLeft { .. }
            | Event::DeviceReleased { .. }
            | Event::MessageAdded { .. }
            | Event::MessageEdited { .. }
            | Event::TipMoved { .. }
            | Event::SessionRenamed { .. }
            | Event::StandingChanged { .. }
            | Event::ChronicleBegun { .. }
            | Event::Recorded { .. }
            | Event::TurnAccepted { .. }
            | Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::TurnReleased { .. }
            | Event::TurnInterrupted { .. }
            | Event::TurnEnded { .. } => {}
        }
    }

    fn attempt(&mut self, id: &CallId) -> Option<&mut Attempt> {
        self.calls.get_mut(base_name(id.as_str())).filter(|attempt| attempt.id == *id)
    }
}

/// How something that the agent does relates to what earlier runs did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It is committed already.
    Known,
    /// It is not what was committed in its place.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TurnId;
    use crate::model::{Call, Output};
    use crate::time::Timestamp;

    fn question() -> CallKind {
        CallKind::question("?", None)
    }

    fn known(journal: &mut Journal, base: &str) -> Attempt {
        journal.call(base, &question(), 9).unwrap().1.unwrap()
    }

    fn requested(id: &str) -> Event {
        Event::CallRequested {
            turn: TurnId::from("t"),
            call: std::sync::Arc::new(Call {
                id: CallId::from(id),
                kind: question(),
                executor: Executor::Anyone,
                deadline: Timestamp::NEVER,
                batch: None,
                options: std::sync::Arc::default(),
            }),
        }
    }

    fn ended(id: &str, end: CallEnd) -> Event {
        Event::CallEnded { turn: TurnId::from("t"), call: CallId::from(id), end }
    }

    fn done() -> CallEnd {
        CallEnd::done(serde_json::json!(1))
    }

    fn text() -> Event {
        Event::TurnOutput { turn: TurnId::from("t"), output: Output::Text("x".into()) }
    }

    #[test]
    fn any_number_of_lost_attempts_counts_for_nothing() {
        let mut events = vec![requested("call_ab_1"), ended("call_ab_1", CallEnd::Cancelled)];
        for fence in 2..5 {
            events.push(requested(&format!("call_ab_1r{fence}")));
            events.push(ended(&format!("call_ab_1r{fence}"), CallEnd::Cancelled));
        }
        let mut journal = Journal::new(events.clone());
        assert!(journal.is_empty());
        let (id, earlier) = journal.call("call_ab_1", &question(), 5).unwrap();
        assert_eq!((id.as_str(), earlier.is_none()), ("call_ab_1r5", true));

        events.extend([requested("call_ab_1r5"), text(), ended("call_ab_1r5", done())]);
        let mut journal = Journal::new(events);
        let attempt = known(&mut journal, "call_ab_1");
        assert_eq!((attempt.id.as_str(), attempt.end), ("call_ab_1r5", Some(done())));
        assert_eq!(journal.pass(|event| *event == text()), Repeat::Known);
        assert_eq!(journal.pass(|event| *event == text()), Repeat::New);
    }

    #[test]
    fn interleaved_calls_are_told_apart() {
        let events = vec![
            requested("a_1"),
            requested("a_2"),
            ended("a_1", done()),
            ended("a_2", CallEnd::Cancelled),
            requested("a_2r2"),
            ended("a_2r2", CallEnd::TimedOut),
        ];
        let mut journal = Journal::new(events);
        assert_eq!(known(&mut journal, "a_1").id.as_str(), "a_1");
        assert_eq!(known(&mut journal, "a_2").end, Some(CallEnd::TimedOut));
        assert!(journal.is_empty());
    }

    #[test]
    fn a_late_end_of_a_lost_attempt_is_not_the_end_of_the_next() {
        let events = vec![requested("a_1"), requested("a_1r2"), ended("a_1", CallEnd::Cancelled)];
        let mut journal = Journal::new(events);
        let open = known(&mut journal, "a_1");
        assert_eq!((open.id.as_str(), open.end), ("a_1r2", None), "still open with whoever was asked");
    }
    #[test]
    fn whoever_does_something_else_has_diverged() {
        let other = CallKind::question("!", None);
        let mut journal = Journal::new([text(), requested("a_1"), ended("a_1", done())]);
        assert_eq!(journal.pass(|_| false), Repeat::Diverged);
        assert!(journal.call("a_2", &question(), 2).is_none(), "a call too early");
        assert_eq!(journal.pass(|_| true), Repeat::Known);
        assert_eq!(journal.pass(|_| true), Repeat::Diverged, "output before a call that was made");
        assert!(journal.call("a_1", &other, 2).is_none(), "another call");
        assert_eq!(journal.call("a_2", &question(), 2).unwrap().0.as_str(), "a_2", "from here on it is live");
    }
}
