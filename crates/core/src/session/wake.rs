//! What time does to a session.

use std::time::Duration;

use crate::id::CallId;
use crate::model::{CallEnd, CallError, Event, Executor, TurnEnd, TurnOutcome};
use crate::session::{Attachment, Session, TurnState, TurnStatus};
use crate::time::Timestamp;

impl Session {
    /// When [`Op::Wake`](crate::Op::Wake) should next be decided.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let turns = self.turns.values().flat_map(|turn| {
            let own = match turn.interrupted_at {
                Some(at) => at.after(self.limits.interrupt_grace),
                None => turn.deadline,
            };
            turn.calls.values().map(|call| call.deadline).chain([own])
        });
        turns.chain(self.attachments.values().filter_map(|attachment| attachment.expires_at())).min()
    }

    pub(super) fn decide_wake(&self, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        let mut gone = Vec::new();
        for turn in self.turns.values() {
            if let Some(at) = turn.interrupted_at {
                if at.after(self.limits.interrupt_grace) <= now {
                    let end = TurnEnd::new(TurnOutcome::Interrupted { abandoned: true });
                    Self::end_turn(turn, end, now, &mut events);
                    gone.push(turn.turn.clone());
                }
            } else if turn.deadline <= now {
                Self::end_turn(turn, TurnEnd::new(TurnOutcome::Expired), now, &mut events);
                gone.push(turn.turn.clone());
            } else if !self.is_bound_to_expired(turn, now) {
                let late = turn.calls.values().filter(|call| call.deadline <= now);
                events.extend(late.map(|call| Event::CallEnded {
                    turn: turn.turn.clone(),
                    call: call.id.clone(),
                    end: CallEnd::TimedOut,
                }));
            }
        }
        for (id, attachment) in &self.attachments {
            if attachment.expires_at().is_some_and(|at| at <= now) {
                self.close_attachment(id, "attachment expired", now, &mut gone, &mut events);
            }
        }
        self.requeue(&gone, &mut events);
        events
    }

    /// Whether the turn is about to be interrupted with its attachment, its calls included.
    fn is_bound_to_expired(&self, turn: &TurnState, now: Timestamp) -> bool {
        let attachment = turn.origin.attachment.as_ref().filter(|_| turn.origin.bound);
        attachment
            .and_then(|id| self.attachments.get(id)?.expires_at())
            .is_some_and(|expires_at| expires_at <= now)
    }

    /// Ends an attachment: its bound turns are interrupted, its tools are withdrawn.
    pub(super) fn close_attachment(
        &self,
        id: &crate::id::AttachmentId,
        reason: &str,
        now: Timestamp,
        gone: &mut Vec<crate::id::TurnId>,
        events: &mut Vec<Event>,
    ) {
        for turn in self.turns.values() {
            let bound = turn.origin.bound && turn.origin.attachment.as_ref() == Some(id);
            if !bound || gone.contains(&turn.turn) || turn.status() == TurnStatus::Stopping {
                continue;
            }
            if Self::stop_turn(turn, None, Some(reason), now, events) {
                gone.push(turn.turn.clone());
            }
        }
        self.fail_calls_to(&Executor::Attachment(id.clone()), events);
        self.withdraw_tools(&Executor::Attachment(id.clone()), events);
        events.push(Event::AttachmentClosed { attachment: id.clone() });
    }
}

impl Session {
    /// Nobody is left to answer what was asked of an executor that is gone.
    pub(super) fn fail_calls_to(&self, executor: &Executor, events: &mut Vec<Event>) {
        let over: Vec<CallId> = events
            .iter()
            .filter_map(
                |event| if let Event::CallEnded { call, .. } = event { Some(call.clone()) } else { None },
            )
            .collect();
        for turn in self.turns.values() {
            let asked =
                turn.calls.values().filter(|call| call.executor == *executor && !over.contains(&call.id));
            events.extend(asked.map(|call| Event::CallEnded {
                turn: turn.turn.clone(),
                call: call.id.clone(),
                end: CallEnd::Failed(CallError::new("gone", "whoever was to execute this has left")),
            }));
        }
    }
}

impl Attachment {
    fn expires_at(&self) -> Option<Timestamp> {
        Some(self.detached_at?.after(Duration::from_millis(self.window_ms)))
    }
}
