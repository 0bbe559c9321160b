//! Pieces of decisions that several ops share: how turns are stopped, ended and moved up.

use crate::id::{AttachmentId, PrincipalId, TurnId};
use crate::model::{CallEnd, Event, TurnEnd, TurnOutcome};
use crate::session::{Session, TurnState, TurnStatus};
use crate::time::Timestamp;

impl Session {
    /// The serial turns that have not ended: the one that goes on, and then those that wait, in the order in which
    /// they were accepted.
    fn serial_turns(&self) -> Vec<&TurnState> {
        let mut turns: Vec<&TurnState> = self.turns.values().filter(|turn| turn.serial).collect();
        turns.sort_unstable_by_key(|turn| (turn.queued.is_some(), turn.accepted.seq));
        turns
    }

    /// Lets the turns go whose client cannot release them any more, since these attachments are detached: they take
    /// their places among the serial turns, once the turns in `gone` have ended.
    pub(super) fn let_go(&self, detached: &[AttachmentId], gone: &[TurnId], events: &mut Vec<Event>) {
        let held = |turn: &&TurnState| detached.iter().any(|attachment| turn.is_held_by(attachment));
        let mut waiting: Vec<&TurnState> = self.turns.values().filter(held).collect();
        if waiting.is_empty() {
            return self.requeue(gone, events);
        }
        let left = self.serial_turns().into_iter().filter(|turn| !gone.contains(&turn.turn));
        let (queued, going): (Vec<&TurnState>, Vec<&TurnState>) =
            left.partition(|turn| turn.queued.is_some());
        waiting.extend(queued);
        waiting.sort_unstable_by_key(|turn| turn.accepted.seq);
        for (place, turn) in going.into_iter().chain(waiting).enumerate() {
            let position = u32::try_from(place).unwrap_or(u32::MAX);
            if turn.held && place == 0 {
                let deadline = Some(turn.deadline);
                events.push(Event::TurnReleased { turn: turn.turn.clone(), deadline });
            } else if turn.held || turn.queued.is_some_and(|known| known != position) {
                events.push(Event::TurnQueued { turn: turn.turn.clone(), position });
            }
        }
    }

    /// The place that one more serial turn would get; none if it could start at once.
    pub(super) fn next_queue_position(&self) -> Option<u32> {
        self.queue_without(&[])
    }

    /// The place that one more serial turn would get once the turns in `gone` have ended.
    pub(super) fn queue_without(&self, gone: &[TurnId]) -> Option<u32> {
        let ahead = self.turns.values().filter(|turn| turn.serial && !gone.contains(&turn.turn)).count();
        (ahead > 0).then(|| u32::try_from(ahead).unwrap_or(u32::MAX))
    }

    /// Says which waiting turns have a new place once the turns in `gone` have ended.
    pub(super) fn requeue(&self, gone: &[TurnId], events: &mut Vec<Event>) {
        if gone.is_empty() {
            return;
        }
        let left = self.serial_turns().into_iter().filter(|turn| !gone.contains(&turn.turn));
        for (place, turn) in left.enumerate().skip(1) {
            let position = u32::try_from(place).unwrap_or(u32::MAX);
            if turn.queued.is_some_and(|known| known != position) {
                events.push(Event::TurnQueued { turn: turn.turn.clone(), position });
            }
        }
    }

    /// Ends every open call of a turn as cancelled.
    pub(super) fn cancel_calls(turn: &TurnState, events: &mut Vec<Event>) {
        events.extend(turn.calls.keys().map(|call| Event::CallEnded {
            turn: turn.turn.clone(),
            call: call.clone(),
            end: CallEnd::Cancelled,
        }));
    }

    /// Ends a turn, its open calls first. The caller moves the queue up afterwards, with
    /// [`Session::requeue`].
    pub(super) fn end_turn(turn: &TurnState, end: TurnEnd, now: Timestamp, events: &mut Vec<Event>) {
        Self::cancel_calls(turn, events);
        events.push(Self::ended(turn, end, now));
    }

    /// The one end of a turn, with what it has cost.
    fn ended(turn: &TurnState, mut end: TurnEnd, now: Timestamp) -> Event {
        let millis = |later: Timestamp, earlier: Timestamp| {
            u64::try_from(later.since(earlier).as_millis()).unwrap_or(u64::MAX)
        };
        let metrics = &mut end.metrics;
        metrics.wall_ms.get_or_insert_with(|| millis(now, turn.accepted_at));
        if let Some(started) = turn.started_at {
            metrics.queue_ms.get_or_insert_with(|| millis(started, turn.accepted_at));
            if let Some(first) = turn.first_output_at {
                metrics.first_ms.get_or_insert_with(|| millis(first, started));
            }
        }
        Event::TurnEnded { turn: turn.turn.clone(), end: Box::new(end) }
    }

    /// Interrupts a turn: at once if nobody executes it, otherwise its executor is given time to
    /// stop. Answers whether the turn has ended with this.
    pub(super) fn stop_turn(
        turn: &TurnState,
        by: Option<&PrincipalId>,
        reason: Option<&str>,
        now: Timestamp,
        events: &mut Vec<Event>,
    ) -> bool {
        let status = turn.status();
        if status == TurnStatus::Stopping {
            return false;
        }
        Self::cancel_calls(turn, events);
        events.push(Event::TurnInterrupted {
            turn: turn.turn.clone(),
            by: by.cloned(),
            reason: reason.map(str::to_owned),
        });
        if turn.claim.is_some() {
            return false;
        }
        let end = TurnEnd::new(TurnOutcome::Interrupted { abandoned: false });
        events.push(Self::ended(turn, end, now));
        true
    }
}
