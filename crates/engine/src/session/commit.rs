//! From a draft to committed events: append, then tell everybody.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::model::{ActorKind, CallEnd, ForExecutor, TurnEnd, TurnOutcome};
use switchboard_core::{
    Append, Batch, CallId, Committed, Event, Invitation, Op, Position, Reject, Signal, Timestamp, TurnId,
    TurnState, TurnStatus, WorkerId,
};

use super::decide::{Draft, Outcome};
use super::phase::{Loading, Phase};
use super::{
    AppendFailed, Command, Executing, FIRST_BACKOFF, Lease, MAX_BACKOFF, Node, Notice, Output, ReadFailed,
    ReplyTo, Reserved, SessionWorker, Start, Submission,
};
use crate::inbox::Delivery;
use crate::shared::Address;

/// A batch that the log is to take, and what is told to whom then.
#[derive(Debug)]
pub(super) struct Pending<N: Node> {
    after: Position,
    batch: Arc<Batch>,
    outcomes: Vec<Outcome<N>>,
    claimed: Vec<(TurnId, Reserved<N::Slot>)>,
    told_ahead: usize,
    /// The append carries a snapshot.
    snapshot: bool,
}

impl<N: Node> SessionWorker<N> {
    /// Everything that was handed in is decided.
    pub(super) fn close_draft(&mut self, mut draft: Box<Draft<N>>, node: &N, now: Timestamp) {
        if !draft.reacted && self.tell_ahead(&mut draft) {
            // What agents make of it at once is committed with it.
            draft.reacted = true;
            self.draft = Some(draft);
            self.outputs.push_back(Output::Collect);
            self.phase = Phase::Reacting;
            return;
        }
        let Draft { after, mut events, rows, outcomes, claimed, told_ahead, reacted: _ } = *draft;
        let summary = self.session.summary();
        let Some(summary) = summary.filter(|_| !events.is_empty()) else {
            return self.tell(outcomes, None, Vec::new(), told_ahead, node, now);
        };
        // It stays in memory for a while, and most are smaller than a vector is at first.
        events.shrink_to_fit();
        let batch = Arc::new(Batch { events });
        self.events_since_snapshot += batch.events.len() as u64;
        let snapshot = self
            .snapshot_is_due()
            .then(|| Arc::new(self.session.clone().with_accounts(self.projections.states())));
        let due = snapshot.is_some();
        let session = self.session.id().clone();
        let append = Append { session, after, batch: batch.clone(), rows, summary, snapshot };
        self.outputs.push_back(Output::Append(Box::new(append)));
        let pending = Pending { after, batch, outcomes, claimed, told_ahead, snapshot: due };
        self.phase = Phase::Appending(Box::new(pending));
    }

    /// Tells agents that can be repeated what others have answered, before it is committed, and has them react at
    /// once: whatever they make of it stands behind it in the log, and if it is not committed they are repeated
    /// without it. Answers whether somebody was told.
    fn tell_ahead(&mut self, draft: &mut Draft<N>) -> bool {
        let by_others = draft.outcomes.iter().any(|outcome| {
            matches!(outcome, Outcome::Submitted(submission, Ok(_))
                if matches!(submission.op, Op::Answer { .. }) && !submission.is_of_worker())
        });
        if !by_others {
            return false;
        }
        draft.told_ahead = draft.events.len();
        let mut told = false;
        for (turn, _) in self.executing.iter().filter(|(_, executing)| executing.ahead) {
            let answers: Vec<(CallId, CallEnd)> = draft
                .events
                .iter()
                .filter_map(|committed| match committed.event.for_executor() {
                    Some(ForExecutor::Answer { turn: of, call, end }) if of == turn => {
                        Some((call.clone(), end.clone()))
                    }
                    Some(_) | None => None,
                })
                .collect();
            if !answers.is_empty() {
                self.outputs.push_back(Output::Ahead(turn.clone(), answers));
                told = true;
            }
        }
        told
    }

    pub(super) fn appended(&mut self, appended: Result<(), AppendFailed>, node: &N, now: Timestamp) {
        let Some(Phase::Appending(pending)) = self.leave_phase(|phase| matches!(phase, Phase::Appending(_)))
        else {
            return;
        };
        match appended {
            Ok(()) => self.committed(*pending, node, now),
            // The process is going down; what was not committed has not happened.
            Err(AppendFailed::Closed) => {
                self.retained.clear();
                self.phase = Phase::Closed;
            }
            Err(failure @ AppendFailed::Unknown(_)) => {
                let Pending { after, batch, .. } = &*pending;
                self.outputs.push_back(Output::Read { after: after.seq, limit: batch.events.len() });
                self.phase = Phase::Verifying(pending, failure);
            }
            Err(failure @ (AppendFailed::Conflict | AppendFailed::Refused(_))) => {
                self.undo(*pending, &failure);
            }
        }
    }

    /// Whether the log has taken a batch after all shows what is in its place.
    pub(super) fn verified(
        &mut self,
        pending: Box<Pending<N>>,
        failure: AppendFailed,
        page: Result<Vec<Arc<Batch>>, ReadFailed>,
        node: &N,
        now: Timestamp,
    ) {
        let Ok(page) = page else {
            // It cannot be read now, so it is asked again until it can.
            self.retry_at = Some(now.after(self.backoff));
            self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
            self.phase = Phase::Verifying(pending, failure);
            return;
        };
        let after = pending.after.seq;
        let stored = page.iter().flat_map(|batch| &batch.events).filter(|event| event.position.seq > after);
        if stored.take(pending.batch.events.len()).eq(&pending.batch.events) {
            self.committed(*pending, node, now);
        } else {
            self.undo(*pending, &failure);
        }
    }

    /// Asks the log once more for what it could not read.
    pub(super) fn read_again(&mut self) {
        let again = if let Phase::Verifying(pending, _) = &self.phase {
            Output::Read { after: pending.after.seq, limit: pending.batch.events.len() }
        } else {
            if matches!(self.phase, Phase::Broken(_)) {
                self.phase = Phase::Loading(Loading::First);
            }
            Output::Load
        };
        self.outputs.push_back(again);
    }

    fn committed(&mut self, pending: Pending<N>, node: &N, now: Timestamp) {
        let Pending { batch, outcomes, claimed, told_ahead, snapshot, after: _ } = pending;
        tracing::debug!(events = batch.events.len(), head = batch.last(), "committed");
        if snapshot {
            self.events_since_snapshot = 0;
        }
        self.backoff = FIRST_BACKOFF;
        self.tell(outcomes, Some(&batch), claimed, told_ahead, node, now);
    }

    /// Tells askers, devices, followers and executors what is now committed, in this order: an asker
    /// learns of its answer before the events that belong to it.
    fn tell(
        &mut self,
        outcomes: Vec<Outcome<N>>,
        batch: Option<&Arc<Batch>>,
        claimed: Vec<(TurnId, Reserved<N::Slot>)>,
        told_ahead: usize,
        node: &N,
        now: Timestamp,
    ) {
        for outcome in outcomes {
            match outcome {
                Outcome::Submitted(submission, result) => {
                    if let Err(reject) = &result {
                        self.forget_key(&submission, node);
                        if submission.is_of_worker() {
                            self.refuse_executor(&submission, reject);
                        }
                    }
                    self.outputs.push_back(Output::Answer(submission.reply, result));
                }
                Outcome::Attached(request, Ok(attached)) => {
                    self.outputs.push_back(Output::Attached(request.inbox, request.request, attached));
                }
                Outcome::Attached(request, Err(reject)) => {
                    let reply = ReplyTo::Connection(request.inbox, request.request);
                    self.outputs.push_back(Output::Answer(reply, Err(reject)));
                }
                Outcome::Inspected(inspection) => inspection.run(&self.session),
            }
        }
        let Some(batch) = batch else { return };
        // First, so that a device cannot see all of its task and leave before it is noted for it.
        let mut awaited = false;
        for committed in &batch.events {
            awaited |= self.invite(committed, node);
        }
        self.outputs.push_back(Output::Publish { batch: batch.clone(), awaited });
        // Before what follows in the batch is passed on to them.
        self.start_claimed_turns(claimed, node, now);
        let mut look_for_turns = false;
        for (place, committed) in batch.events.iter().enumerate() {
            self.remember_key(committed, node);
            look_for_turns |= self.notify_executor(&committed.event, place < told_ahead);
        }
        if look_for_turns {
            self.start_ready_turns(node, now);
        }
    }

    /// Others are led here by a key for as long as it is remembered here.
    fn remember_key(&self, committed: &Committed, node: &N) {
        if let Event::TurnAccepted { key: Some(key), origin, .. } = &committed.event {
            let key = (origin.principal.clone(), key.key.clone());
            node.shared().keys.lock().insert(key, self.session.id().clone(), committed.at);
        }
    }

    /// A key that led to nothing may be used for something else, somewhere else.
    fn forget_key(&self, submission: &Submission<N>, node: &N) {
        let principal = &submission.actor.principal;
        if let Op::StartTurn(turn) = &submission.op
            && let Some(key) = &turn.key
            // Whoever may not see the turn that it led to must not start another one elsewhere.
            && !self.session.knows_key(principal, &key.key)
        {
            let key = (principal.clone(), key.key.clone());
            node.shared().keys.lock().forget(&key, self.session.id());
        }
    }

    /// A device of which something is asked has to hear of it, wherever it is connected; answers whether it was
    /// asked to come here for that.
    fn invite(&mut self, committed: &Committed, node: &N) -> bool {
        let Some(device) = committed.event.device() else { return false };
        let (session, asked) = (self.session.id(), committed.position);
        let mut presence = node.shared().presence.lock();
        let (invitation, why) = (presence.invite(device, session, asked), presence.loss());
        drop(presence);
        match invitation {
            Invitation::Known => false,
            Invitation::Deliver(Address(inbox)) => {
                let after = Position { seq: asked.seq.saturating_sub(1), ..asked };
                let signal = Signal::Invited { session: session.clone(), after };
                self.outputs.push_back(Output::Deliver(inbox, Delivery::Signal(signal)));
                true
            }
            // It left a moment ago, and cannot hear what is asked.
            Invitation::Offline => {
                self.queue.push_back(Command::own(Op::LoseDevice { device: device.clone(), why }));
                false
            }
        }
    }

    /// Passes on what concerns a running executor, unless it was told ahead; answers whether some turn may be ready
    /// to start.
    fn notify_executor(&mut self, event: &Event, ahead: bool) -> bool {
        match event.for_executor() {
            Some(ForExecutor::Accepted) => true,
            Some(ForExecutor::Over { turn, end }) => {
                if self.executing.remove(turn).is_some() {
                    let end = end.map(|end| Box::new(end.clone()));
                    self.outputs.push_back(Output::Notify(turn.clone(), Notice::Over(end)));
                }
                true
            }
            Some(ForExecutor::Stop { turn, reason }) => {
                if self.executing.contains_key(turn) {
                    self.outputs.push_back(Output::Notify(turn.clone(), Notice::Stop(reason.cloned())));
                }
                false
            }
            Some(ForExecutor::Answer { turn, call, end }) => {
                let unaware = |executing: &&Executing| !(ahead && executing.ahead);
                if self.executing.get(turn).filter(unaware).is_some() {
                    let answer = Notice::Answer(call.clone(), end.clone());
                    self.outputs.push_back(Output::Notify(turn.clone(), answer));
                }
                false
            }
            None => false,
        }
    }

    /// An agent whose output was refused for what it is must not go on as if it had been taken.
    fn refuse_executor(&mut self, submission: &Submission<N>, reject: &Reject) {
        let (Op::Emit { turn, .. }
        | Op::Progress { turn, .. }
        | Op::Answer { turn, .. }
        | Op::Request { turn, .. }) = &submission.op
        else {
            return;
        };
        // An agent that waits for the answer is told, and may make something of it.
        if !matches!(submission.reply, ReplyTo::Nobody) {
            return;
        }
        // What a lost executor still says does not concern the one that has taken over.
        let ActorKind::Worker(worker) = &submission.actor.kind else { return };
        if self.executing.get(turn).is_none_or(|executing| executing.worker != *worker) {
            return;
        }
        let notice = if matches!(reject, Reject::TurnOver(_) | Reject::Fenced(_) | Reject::UnknownTurn(_)) {
            Notice::Halt
        } else {
            Notice::Refused(TurnEnd::new(TurnOutcome::Failed(reject.as_failure())))
        };
        self.outputs.push_back(Output::Notify(turn.clone(), notice));
    }

    /// The log refused: nothing of the batch has happened. Clients are told; what executors have
    /// produced is kept and tried again, so that no answer gets a hole.
    fn undo(&mut self, pending: Pending<N>, failure: &AppendFailed) {
        let moved_on = *failure == AppendFailed::Conflict;
        // The log itself tells operators, once.
        tracing::debug!(?failure, "the log did not take a batch");
        for outcome in pending.outcomes {
            match outcome {
                Outcome::Submitted(submission, _)
                    if moved_on || submission.is_of_worker() || submission.is_said_once() =>
                {
                    self.retained.push_back(submission);
                }
                Outcome::Submitted(submission, _) => {
                    self.outputs.push_back(Output::Answer(submission.reply, Err(failure.reject())));
                }
                Outcome::Attached(request, _) => {
                    let reply = ReplyTo::Connection(request.inbox, request.request);
                    self.outputs.push_back(Output::Answer(reply, Err(failure.reject())));
                }
                // It looks at what is committed, and that is read again first.
                Outcome::Inspected(inspection) => self.queue.push_front(Command::Inspect(inspection)),
            }
        }
        while self.retained.len() > MAX_RETAINED {
            let Some(submission) = self.retained.pop_front() else { break };
            self.refuse_executor(&submission, &failure.reject());
            self.outputs.push_back(Output::Answer(submission.reply, Err(failure.reject())));
        }
        self.repeat(pending.batch.events.get(..pending.told_ahead).unwrap_or_default());
        self.outputs.push_back(Output::Load);
        let pause = if moved_on { Duration::ZERO } else { self.backoff };
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        self.phase = Phase::Loading(Loading::Again(pause));
    }

    /// Agents that were told what has not happened are stopped, and begin again from what has.
    fn repeat(&mut self, told_ahead: &[Committed]) {
        for committed in told_ahead {
            let Some(ForExecutor::Answer { turn, .. }) = committed.event.for_executor() else { continue };
            if self.executing.get(turn).is_some_and(|executing| executing.ahead) {
                self.executing.remove(turn);
                self.outputs.push_back(Output::Notify(turn.clone(), Notice::Over(None)));
                // In front of what it still says, which does not count any more.
                let lose = Op::Lose { turn: turn.clone(), continues: true };
                self.retained.push_front(Submission::own(lose));
            }
        }
    }

    /// Gives every turn that waits for an executor one.
    pub(super) fn start_ready_turns(&mut self, node: &N, now: Timestamp) {
        let ready = |turn: &&TurnState| {
            turn.status() == TurnStatus::Ready && !self.executing.contains_key(&turn.turn)
        };
        let ready: Vec<TurnId> = self.session.turns().filter(ready).map(|turn| turn.turn.clone()).collect();
        for turn in ready {
            self.start(turn, node.worker(), None, node, now);
        }
    }

    /// Lets those turns begin that were claimed with their acceptance.
    fn start_claimed_turns(&mut self, claimed: Vec<(TurnId, Reserved<N::Slot>)>, node: &N, now: Timestamp) {
        for (turn, Reserved { worker, slot, relayed: _ }) in claimed {
            self.start(turn, worker, Some(slot), node, now);
        }
    }

    fn start(&mut self, turn: TurnId, worker: WorkerId, slot: Option<N::Slot>, node: &N, now: Timestamp) {
        // It may have come and gone within one batch.
        let Some(state) = self.session.turns().find(|known| known.turn == turn) else { return };
        let lease = Arc::new(Lease::new(self.settings.lease, now));
        let executing = Executing {
            agent: state.agent.clone(),
            worker: worker.clone(),
            ahead: node.hears_ahead(&state.agent),
            lease: lease.clone(),
        };
        self.executing.insert(turn.clone(), executing);
        self.outputs.push_back(Output::Start(Start { turn, worker, slot, lease }));
    }

    /// Snapshots keep opening cheap; one that holds a long unfinished answer is worth less.
    fn snapshot_is_due(&self) -> bool {
        let pending: usize = self.session.turns().map(|turn| turn.text.len()).sum();
        let every = self.settings.snapshot_every;
        self.events_since_snapshot >= if pending < SMALL_ANSWER { every } else { every.saturating_mul(16) }
    }

    /// The worker is given up: whoever still waits is to ask again.
    pub fn abandon(&mut self) -> Vec<Output<N>> {
        let waiting = self.retained.drain(..).filter(|kept| !matches!(kept.reply, ReplyTo::Nobody));
        waiting.map(|submission| Output::Answer(submission.reply, Err(Reject::Busy))).collect()
    }
}

const SMALL_ANSWER: usize = 256 << 10;
const MAX_RETAINED: usize = 8192;
