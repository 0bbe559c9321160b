//! What earlier, lost runs of a turn have committed, and what of it the agent still has to repeat.
//!
//! Losing a run cancels the tools that it was executing itself, and the next run begins them again
//! under a new name; a cancelled attempt counts for nothing. What was asked of others stays open
//! over the loss, so that nobody does it twice. What is left of the log of all runs reads as if one
//! run had produced it. Output is repeated in order; each call is repeated in its
//! own order, because the answers of clients lie anywhere after their request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use switchboard_core::model::{CallEnd, CallKind, Executor};
use switchboard_core::{CallId, Event};

/// What is left to be repeated.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Output and changes of the tools.
    outputs: VecDeque<Event>,
    /// The attempts that count, by the name that the agent first gave the call.
    calls: BTreeMap<String, Attempt>,
    /// Calls whose attempts were all lost.
    lost: BTreeSet<String>,
}

/// A call that was answered, that is still open, or that the agent ended itself.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The name under which it was asked for.
    pub(crate) id: CallId,
    /// What was asked.
    pub(crate) kind: CallKind,
    /// The progress that was reported.
    pub(crate) progress: VecDeque<String>,
    /// Who was to answer.
    pub(crate) executor: Executor,
    /// How it ended; none while somebody else still works on it, or once that was repeated.
    pub(crate) end: Option<CallEnd>,
}

impl Journal {
    /// Sorts the events of a turn.
    pub(crate) fn new(events: Vec<Event>) -> Self {
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
    pub(crate) fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.calls.is_empty()
    }

    /// The next output or change of the tools to be repeated.
    pub(crate) fn next_output(&self) -> Option<&Event> {
        self.outputs.front()
    }

    /// Steps over the next output.
    pub(crate) fn pass_output(&mut self) {
        self.outputs.pop_front();
    }

    /// The attempt at a call that counts; the agent repeats it now.
    pub(crate) fn take_call(&mut self, base: &str) -> Option<Attempt> {
        self.calls.remove(base)
    }

    /// Whether the call was asked for before, and lost each time.
    pub(crate) fn is_lost(&self, base: &str) -> bool {
        self.lost.contains(base)
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::TurnOutput { .. } | Event::ToolsChanged { .. } => self.outputs.push_back(event),
            Event::CallRequested { call, .. } => {
                let base = base_name(call.id.as_str()).to_owned();
                let attempt = Attempt {
                    id: call.id,
                    kind: call.kind,
                    progress: VecDeque::new(),
                    executor: call.executor,
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
            | Event::MessageAdded { .. }
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

/// The name of a further attempt at a call, made by the run that holds `fence`.
pub(crate) fn retry_name(base: &str, fence: u32) -> CallId {
    CallId::new(format!("{base}r{fence}"))
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
    use switchboard_core::model::{Call, Output};
    use switchboard_core::{Timestamp, TurnId};

    use super::*;

    fn requested(id: &str) -> Event {
        Event::CallRequested {
            turn: TurnId::from("t"),
            call: Box::new(Call {
                id: CallId::from(id),
                kind: CallKind::Question { text: "?".into(), schema: None },
                executor: Executor::Anyone,
                deadline: Timestamp::NEVER,
                batch: None,
            }),
        }
    }

    fn ended(id: &str, end: CallEnd) -> Event {
        Event::CallEnded { turn: TurnId::from("t"), call: CallId::from(id), end }
    }

    fn done() -> CallEnd {
        CallEnd::Done { output: serde_json::json!(1) }
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
        let journal = Journal::new(events.clone());
        assert!(journal.is_empty() && journal.is_lost("call_ab_1"));

        events.extend([requested("call_ab_1r5"), text(), ended("call_ab_1r5", done())]);
        let mut journal = Journal::new(events);
        assert!(!journal.is_lost("call_ab_1"));
        let attempt = journal.take_call("call_ab_1").unwrap();
        assert_eq!((attempt.id.as_str(), attempt.end), ("call_ab_1r5", Some(done())));
        assert_eq!(journal.next_output(), Some(&text()));
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
        assert_eq!(journal.take_call("a_1").unwrap().id.as_str(), "a_1");
        assert_eq!(journal.take_call("a_2").unwrap().end, Some(CallEnd::TimedOut));
        assert!(journal.is_empty());
    }

    #[test]
    fn a_late_end_of_a_lost_attempt_is_not_the_end_of_the_next() {
        let events = vec![requested("a_1"), requested("a_1r2"), ended("a_1", CallEnd::Cancelled)];
        let mut journal = Journal::new(events);
        let open = journal.take_call("a_1").unwrap();
        assert_eq!((open.id.as_str(), open.end), ("a_1r2", None), "still open with whoever was asked");
    }
}
