//! What a session worker waits for, and how it goes on with what it is handed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::{Batch, Decision, Loaded, MessageId, Op, Reject, Session, Timestamp};

use super::commit::Pending;
use super::projections::{CatchUp, PAGE, Projections};
use super::{AppendFailed, Command, FIRST_BACKOFF, Node, Output, ReadFailed, SessionWorker, Submission};

/// What a session worker waits for.
#[derive(Debug)]
pub(super) enum Phase<N: Node> {
    /// Commands.
    Ready,
    /// The session as it is in the log.
    Loading(Loading),
    /// Events that projections have not taken in yet.
    CatchingUp(Box<(CatchUp, Then<N>)>),
    /// Whether the log holds the message on which an op relies, where the session does not know the other one.
    Finding { submission: Box<Submission<N>>, unknown: MessageId },
    /// What executors make of answers that are not committed yet.
    Reacting,
    /// The log to take a batch.
    Appending(Box<Pending<N>>),
    /// Whether the log has taken a batch after all.
    Verifying(Box<Pending<N>>, AppendFailed),
    /// The time to read the session once more: it could not be read, and everybody is told.
    Broken(String),
    /// Nothing: the log is closed.
    Closed,
}

/// Why a session is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Loading {
    /// It has just come to life.
    First,
    /// A batch was not taken; what is retained is tried again after this.
    Again(Duration),
}

/// What comes after projections have caught up.
#[derive(Debug)]
pub(super) enum Then<N: Node> {
    /// The session is read; these are the events after its snapshot.
    Load(Loading, Vec<Arc<Batch>>),
    /// The op that has a projection kept from here on.
    Begin(Box<Submission<N>>, Decision),
}

impl<N: Node> SessionWorker<N> {
    pub(super) fn loaded(
        &mut self,
        loaded: Result<Option<Box<Loaded>>, ReadFailed>,
        node: &N,
        now: Timestamp,
    ) {
        let Phase::Loading(loading) = self.phase else { return };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(ReadFailed(reason)) => return self.not_loaded(loading, reason, now),
        };
        let limits = &self.settings.limits;
        self.session = Session::new(self.session.id().clone(), limits.clone());
        self.projections = Projections::default();
        self.events_since_snapshot = 0;
        let Some(loaded) = loaded else { return self.ready(loading, node, now) };
        let Loaded { snapshot, batches } = *loaded;
        let mut states = BTreeMap::new();
        if let Some(mut snapshot) = snapshot {
            states = snapshot.take_accounts();
            self.session = snapshot.with_limits(limits.clone());
        }
        let saved = self.session.head().seq;
        for committed in batches.iter().flat_map(|batch| &batch.events) {
            self.session.apply(committed);
            self.events_since_snapshot += 1;
        }
        let (projections, lost) = Projections::resume(node, &self.session, &states, &batches);
        self.projections = projections;
        self.catch_up(CatchUp::new(lost, saved), Then::Load(loading, batches), node, now);
    }

    fn not_loaded(&mut self, loading: Loading, reason: String, now: Timestamp) {
        match loading {
            Loading::First => {
                tracing::error!(error = reason, "a session cannot be read from the log");
                self.phase = Phase::Broken(reason);
                // Turns of it may be under way, and nobody else looks after them.
                self.retry_at = Some(now.after(self.backoff.max(LOAD_PAUSE)));
                self.backoff = (self.backoff * 2).min(LONGEST_LOAD_PAUSE);
            }
            Loading::Again(_) => {
                tracing::error!(error = reason, "the session cannot be read back");
                self.phase = Phase::Loading(loading);
                self.retry_at = Some(now.after(LOAD_PAUSE));
            }
        }
    }

    /// The session is as it is in the log.
    fn ready(&mut self, loading: Loading, node: &N, now: Timestamp) {
        if let Some(agent) = self.session.agent() {
            let offered = node.tools(agent);
            self.session.share_tools(&offered);
        }
        self.feed.reset_head(self.session.head().seq);
        if matches!(loading, Loading::First) {
            self.backoff = FIRST_BACKOFF;
        }
        self.phase = Phase::Ready;
        self.quiet_since = now;
        match loading {
            Loading::First => self.recover(node),
            Loading::Again(pause) => self.retry_at = Some(now.after(pause)),
        }
    }

    /// After a restart: transports of before are gone, and so are the executors.
    fn recover(&mut self, node: &N) {
        if self.session.owner().is_none() {
            return;
        }
        let mut commands = vec![Command::own(Op::Recover)];
        for turn in self.session.turns().filter(|turn| turn.claim.is_some()) {
            let continues = node.continues(&turn.agent);
            commands.push(Command::own(Op::Lose { turn: turn.turn.clone(), continues }));
        }
        if let Some(change) = self.missing_tools(node) {
            commands.push(Command::own(Op::ChangeTools(change)));
        }
        if self.session.is_live() || commands.len() > 1 {
            self.queue.extend(commands);
        }
        // Also those that the process before had released and not begun again: nothing has happened to them now.
        self.looks_for_turns = true;
    }

    /// Reads on until the projections have taken in everything, then goes on.
    pub(super) fn catch_up(&mut self, catch_up: CatchUp, then: Then<N>, node: &N, now: Timestamp) {
        if let Some(after) = catch_up.position() {
            self.outputs.push_back(Output::Read { after, limit: PAGE });
            self.phase = Phase::CatchingUp(Box::new((catch_up, then)));
            return;
        }
        self.phase = Phase::Ready;
        match then {
            Then::Load(loading, since) => {
                let mut catch_up = catch_up;
                for committed in since.iter().flat_map(|batch| &batch.events) {
                    catch_up.take_event(committed);
                }
                // Their rows are there already.
                drop(catch_up.finish(&mut self.projections));
                self.ready(loading, node, now);
            }
            Then::Begin(submission, decision) => self.begun(catch_up, submission, decision, node, now),
        }
    }

    pub(super) fn paged(&mut self, page: Result<Vec<Arc<Batch>>, ReadFailed>, node: &N, now: Timestamp) {
        let waits = |phase: &Phase<N>| matches!(phase, Phase::CatchingUp(_) | Phase::Verifying(..));
        let phase = self.leave_phase(waits);
        if let Some(Phase::Verifying(pending, failure)) = phase {
            return self.verified(pending, failure, page, node, now);
        }
        let Some(Phase::CatchingUp(caught)) = phase else { return };
        let (mut catch_up, then) = *caught;
        let reason = match page {
            Ok(page) if catch_up.take(&page) => return self.catch_up(catch_up, then, node, now),
            Ok(_) => format!("{} ends too early", self.session.id()),
            Err(ReadFailed(reason)) => reason,
        };
        match then {
            Then::Load(loading, _) => self.not_loaded(loading, reason, now),
            Then::Begin(submission, _) => {
                self.conclude(submission, Err(Reject::Unavailable { reason }), node);
            }
        }
    }

    /// Leaves the phase, if it is the one that an answer belongs to.
    pub(super) fn leave_phase(&mut self, belongs: impl Fn(&Phase<N>) -> bool) -> Option<Phase<N>> {
        belongs(&self.phase).then(|| std::mem::replace(&mut self.phase, Phase::Ready))
    }

    pub(super) fn found(&mut self, found: Result<bool, ReadFailed>, node: &N, now: Timestamp) {
        let finding = |phase: &Phase<N>| matches!(phase, Phase::Finding { .. });
        let Some(Phase::Finding { submission, unknown }) = self.leave_phase(finding) else { return };
        let known = match found {
            Ok(true) => self.session.relies_on(&submission.op).cloned().ok_or(unknown),
            Ok(false) => Err(unknown),
            Err(ReadFailed(reason)) => {
                return self.conclude(submission, Err(Reject::Unavailable { reason }), node);
            }
        };
        let decision = known.map_err(Reject::UnknownMessage).and_then(|known| {
            let Submission { actor, op, .. } = &*submission;
            self.session.decide_knowing(actor, op, now, &[known])
        });
        match decision {
            Ok(decision) => self.take_decision(submission, decision, node, now),
            Err(reject) => self.conclude(submission, Err(reject), node),
        }
    }

    /// Answers whoever asks something of a session that cannot be read.
    pub(super) fn refuse_all(&mut self) -> bool {
        let Phase::Broken(reason) = &self.phase else { return false };
        let reject = || Reject::Unavailable { reason: reason.clone() };
        for command in self.queue.drain(..) {
            match command {
                Command::Submit(submission) => {
                    self.outputs.push_back(Output::Answer(submission.reply, Err(reject())));
                }
                Command::Attach(request) => request.inbox.answer(request.request, Err(reject())),
                Command::Inspect(_) | Command::RefreshTools => {}
            }
        }
        !self.outputs.is_empty()
    }
}

/// How long after a failed attempt a session is read again.
const LOAD_PAUSE: Duration = Duration::from_secs(1);
/// How long that is at most, where the session has not come to life yet.
const LONGEST_LOAD_PAUSE: Duration = Duration::from_secs(60);
