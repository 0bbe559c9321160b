//! From ops to committed events: decide, append, then tell everybody.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::model::{ActorKind, FailureKind, ForExecutor, TurnEnd, TurnOutcome, TurnRequest};
use switchboard_core::{
    Actor, Callsign, Committed, Event, Invitation, MessageId, Op, Position, PrincipalId, Reject, Reply,
    Right, Role, Row, Session, SessionView, Signal, Timestamp, TurnId, TurnState, TurnStatus, rows,
};
use switchboard_store::{Append, Batch, Log, StoreError};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::{FIRST_BACKOFF, SessionActor, own, own_mail};
use super::{AttachRequest, Environment, Executing, Mail, ReplyTo};
use crate::audit;
use crate::feed::Mark;
use crate::gateway::Place;
use crate::host::Reserved;
use crate::meters::{log_failure, turn_ended};
use crate::port::{Attached, Delivery};
use crate::schema::check_arguments;

/// What one batch of letters leads to, before it is committed.
#[derive(Default)]
pub(super) struct Draft {
    after: Position,
    events: Vec<Committed>,
    rows: Vec<Row>,
    outcomes: Vec<Outcome>,
    /// Turns that begin when the batch is committed.
    claimed: Vec<(TurnId, Reserved)>,
    /// How many of the events some agents know before they are committed, as far as they are answers.
    told_ahead: usize,
}

/// What is told to whom once the batch is committed.
enum Outcome {
    Op(Box<Mail>, Result<Reply, Reject>),
    Attach(Box<AttachRequest>, Result<Box<Attached>, Reject>),
    Role(oneshot::Sender<Option<Role>>, Option<Role>),
}

impl Draft {
    pub(super) fn new(after: Position) -> Self {
        // An answer and the next command, or a piece of output: most batches need no more room, and it is kept.
        Self { after, events: Vec::with_capacity(2), ..Self::default() }
    }
}

impl SessionActor {
    pub(super) async fn decide(&mut self, mut mail: Box<Mail>, now: Timestamp, draft: &mut Draft) {
        self.sessions.environment.host.secrets.keep(&self.session, &mut mail.op);
        let result = self.lead_to(&mail, now, draft).await;
        if matches!(result, Err(Reject::Forbidden)) {
            audit::refused(&mail.actor.principal, Right::of(&mail.op));
        }
        draft.outcomes.push(Outcome::Op(mail, result));
    }

    /// What an op leads to. Hardly ever waits: most of what is asked is decided by heart. What does wait is boxed,
    /// so that the room for it is not taken with every letter.
    async fn lead_to(&mut self, mail: &Mail, now: Timestamp, draft: &mut Draft) -> Result<Reply, Reject> {
        self.check(&mail.op)?;
        let decision = match self.session.decide(&mail.actor, &mail.op, now) {
            Err(Reject::UnknownMessage(message)) => {
                let log = &*self.sessions.environment.log;
                let vouched = Box::pin(look_back(&self.session, log, &mail.op, message)).await?;
                self.session.decide_knowing(&mail.actor, &mail.op, now, &[vouched])?
            }
            decision => decision?,
        };
        audit::decided(&self.session, &mail.actor, &mail.op);
        if let Op::Chronicle { chronicle } = &mail.op {
            Box::pin(self.begin_account(chronicle, !decision.events.is_empty(), draft)).await?;
        }
        let opened = matches!(decision.events.first(), Some(Event::SessionOpened { .. }));
        for event in decision.events {
            self.take(event, now, draft);
        }
        if opened {
            self.offer_tools(now, draft);
        }
        if let Op::StartTurn(new) = &mail.op {
            self.claim_at_once(&new.turn, now, draft);
        }
        if let Op::Release { turn, .. } = &mail.op {
            self.claim_at_once(turn, now, draft);
        }
        Ok(decision.reply)
    }

    /// Has an account kept from here on; one that is new begins with everything that has happened.
    async fn begin_account(&mut self, name: &str, new: bool, draft: &mut Draft) -> Result<(), Reject> {
        let Environment { chroniclers, log, .. } = &self.sessions.environment;
        let Some(chronicler) = chroniclers.find(name) else {
            return Err(Reject::Invalid(format!("nobody keeps such an account: {name}")));
        };
        if new {
            let (session, head) = (self.session.id(), draft.after.seq);
            let begun = self.accounts.begin(chronicler, &**log, session, head, &draft.events).await;
            draft.rows.extend(begun.map_err(|error| unavailable(&error))?);
        }
        Ok(())
    }

    /// A turn that need not wait is claimed in the batch that accepts it: one commit instead of two.
    fn claim_at_once(&mut self, turn: &TurnId, now: Timestamp, draft: &mut Draft) {
        let ready = |known: &&TurnState| known.turn == *turn && known.status() == TurnStatus::Ready;
        let Some(state) = self.session.turns().find(ready) else { return };
        let Some(reserved) = self.sessions.environment.host.reserve(state) else { return };
        let op = Op::Claim { turn: turn.clone(), relayed: reserved.relayed };
        if let Ok(decision) = self.session.decide(&Actor::worker(reserved.worker.clone()), &op, now) {
            for event in decision.events {
                self.take(event, now, draft);
            }
            draft.claimed.push((turn.clone(), reserved));
        }
    }

    /// The tools of the session's agent are there from the beginning.
    pub(super) fn offer_tools(&mut self, now: Timestamp, draft: &mut Draft) {
        let Some(change) = self.missing_tools() else { return };
        if let Ok(decision) = self.session.decide(&Actor::server(), &Op::ChangeTools(change), now) {
            for event in decision.events {
                self.take(event, now, draft);
            }
        }
    }

    /// Checks what needs more than the session's state: arguments against the tool's schema.
    fn check(&self, op: &Op) -> Result<(), Reject> {
        let Op::StartTurn(turn) = op else { return Ok(()) };
        let TurnRequest::Tool { name, args } = &turn.request else { return Ok(()) };
        match self.session.tools().find(|tool| tool.name == *name) {
            Some(tool) => check_arguments(&tool.input_schema, args).map_err(Reject::InvalidArgs),
            None => Ok(()),
        }
    }

    fn take(&mut self, event: Event, at: Timestamp, draft: &mut Draft) {
        let head = self.session.head();
        let epoch = if let Event::SessionOpened { epoch, .. } = &event { *epoch } else { head.epoch };
        let position = Position { epoch, seq: head.seq + 1 };
        let committed = Committed { position, at, event };
        draft.rows.extend(rows(&self.session, &committed));
        self.session.apply(&committed);
        self.accounts.take(&committed, &mut draft.rows);
        draft.events.push(committed);
    }

    pub(super) fn attach(&self, request: Box<AttachRequest>, draft: &mut Draft) {
        let head = self.session.head();
        let result = if !self.may_follow(&request.actor) {
            Err(Reject::NotFound)
        } else {
            match request.from {
                Some(from) if from.epoch != head.epoch || from.seq > head.seq => {
                    Err(Reject::Invalid("the position is not of this history".into()))
                }
                from => Ok(Box::new(Attached {
                    session: self.session.id().clone(),
                    feed: self.feed.clone(),
                    mark: Mark::at(from.unwrap_or(head).seq),
                    view: SessionView { chronicles: self.accounts.shown(), ..self.session.view() },
                })),
            }
        };
        draft.outcomes.push(Outcome::Attach(request, result));
    }

    /// Answered when everything that was asked before is committed.
    pub(super) fn tell_role(
        &self,
        principal: &PrincipalId,
        reply: oneshot::Sender<Option<Role>>,
        draft: &mut Draft,
    ) {
        draft.outcomes.push(Outcome::Role(reply, self.session.role_of(principal)));
    }

    /// Whoever takes part may follow, and so may a device that was invited, though its task be over.
    fn may_follow(&self, actor: &Actor) -> bool {
        let roll = &self.sessions.environment.roll;
        let invited = |device: &Callsign| roll.lock().is_noted(device, self.session.id());
        self.session.role_of_actor(actor).is_some() || actor.callsign.as_ref().is_some_and(invited)
    }

    /// Tells agents that can be repeated what others have answered, before it is committed, and has them react at
    /// once: whatever they make of it stands behind it in the log, and if it is not committed they are repeated
    /// without it. Answers whether somebody was told.
    pub(super) fn tell_ahead(&self, draft: &mut Draft) -> bool {
        let by_others = draft.outcomes.iter().any(|outcome| {
            matches!(outcome, Outcome::Op(mail, Ok(_)) if matches!(mail.op, Op::Answer { .. }) && !mail.is_workers())
        });
        if !by_others {
            return false;
        }
        draft.told_ahead = draft.events.len();
        let mut told = false;
        for (turn, Executing { ahead, board, .. }) in &self.executing {
            let Some(work) = ahead else { continue };
            let answers = draft.events.iter().filter_map(|committed| match committed.event.for_executor() {
                Some(ForExecutor::Answer { turn: of, call, end }) if of == turn => Some((call, end)),
                Some(_) | None => None,
            });
            let mut answers = answers.peekable();
            if answers.peek().is_some() {
                work.tell(|| answers.for_each(|(call, end)| board.post(call.clone(), end.clone())));
                told = true;
            }
        }
        told
    }

    pub(super) async fn commit(&mut self, draft: Draft) {
        let Draft { after, mut events, rows, outcomes, claimed, told_ahead } = draft;
        if events.is_empty() {
            self.tell(outcomes, None, Vec::new(), told_ahead);
            return;
        }
        let Some(summary) = self.session.summary() else { return };
        // It stays in memory for a while, and most are smaller than a vector is at first.
        events.shrink_to_fit();
        let batch = Arc::new(Batch { events });
        self.events_since_snapshot += batch.events.len() as u64;
        let snapshot = self
            .snapshot_is_due()
            .then(|| Arc::new(self.session.clone().with_accounts(self.accounts.states())));
        let due = snapshot.is_some();
        let session = self.session.id().clone();
        let append = Append { session, after, batch: batch.clone(), rows, summary, snapshot };
        let environment = &self.sessions.environment;
        let began = environment.clock.now();
        let appended = environment.log.append(append).await;
        environment.meters.append_seconds.record(environment.clock.now().since(began));
        match appended {
            Ok(()) => {
                environment.meters.events.increment(batch.events.len() as u64);
                tracing::debug!(events = batch.events.len(), head = batch.last(), "committed");
                if due {
                    self.events_since_snapshot = 0;
                }
                self.retry_at = None;
                self.backoff = FIRST_BACKOFF;
                self.tell(outcomes, Some(&batch), claimed, told_ahead);
            }
            Err(error) => {
                Box::pin(self.undo(outcomes, &error)).await;
                self.repeat(batch.events.get(..told_ahead).unwrap_or_default());
            }
        }
    }

    /// Tells askers, devices, followers and executors what is now committed, in this order: an asker
    /// learns of its answer before the events that belong to it.
    fn tell(
        &mut self,
        outcomes: Vec<Outcome>,
        batch: Option<&Arc<Batch>>,
        claimed: Vec<(TurnId, Reserved)>,
        told_ahead: usize,
    ) {
        for outcome in outcomes {
            match outcome {
                Outcome::Op(mail, result) => {
                    match &result {
                        Ok(_) => self.sessions.environment.meters.ops.increment(1),
                        Err(reject) => {
                            self.sessions.environment.meters.rejected(reject);
                            self.forget_key(&mail);
                        }
                    }
                    if let (Err(reject), true) = (&result, mail.is_workers()) {
                        self.judge(&mail, reject);
                    }
                    mail.reply.answer(result);
                }
                Outcome::Attach(request, Ok(attached)) => {
                    self.feed.follow(&request.port, &attached.mark);
                    request.port.deliver(Delivery::Attached(request.request, attached));
                }
                Outcome::Attach(request, Err(reject)) => request.port.answer(request.request, Err(reject)),
                // Whoever has gone away needs no answer.
                Outcome::Role(reply, role) => drop(reply.send(role)),
            }
        }
        let Some(batch) = batch else { return };
        // First, so that a device cannot see all of its task and leave before it is noted for it.
        let mut awaited = false;
        for committed in &batch.events {
            awaited |= self.invite(committed);
        }
        self.feed.publish(batch, awaited);
        // Before what follows in the batch is passed on to them.
        self.start_claimed_turns(claimed);
        let mut look_for_work = false;
        for (place, committed) in batch.events.iter().enumerate() {
            self.remember_key(committed);
            self.notice(&committed.event);
            look_for_work |= self.notify_executor(&committed.event, place < told_ahead);
        }
        if look_for_work {
            self.start_ready_turns();
        }
    }

    /// Others are led here by a key for as long as it is remembered here.
    fn remember_key(&self, committed: &Committed) {
        if let Event::TurnAccepted { key: Some(key), origin, .. } = &committed.event {
            let key = (origin.principal.clone(), key.key.clone());
            self.sessions.environment.keys.lock().insert(key, self.session.id().clone(), committed.at);
        }
    }

    /// What people want to be remembered is found from now on.
    fn notice(&self, event: &Event) {
        if let Event::Recorded { chronicle, record, .. } = event {
            self.sessions.environment.memory.noticed(self.session.id(), chronicle, record);
        }
    }

    /// A device of which something is asked has to hear of it, wherever it is connected; answers whether it was
    /// asked to come here for that.
    fn invite(&self, committed: &Committed) -> bool {
        let Some(device) = committed.event.device() else { return false };
        let (session, asked) = (self.session.id(), committed.position);
        let mut roll = self.sessions.environment.roll.lock();
        let (invitation, why) = (roll.invite(device, session, asked), roll.loss());
        drop(roll);
        match invitation {
            Invitation::Known => false,
            Invitation::Deliver(Place(port)) => {
                let after = Position { seq: asked.seq.saturating_sub(1), ..asked };
                port.deliver(Delivery::Signal(Signal::Invited { session: session.clone(), after }));
                true
            }
            // It left a moment ago, and cannot hear what is asked.
            Invitation::Offline => {
                self.sessions.insist(session, own(Op::LoseDevice { device: device.clone(), why }));
                false
            }
        }
    }

    /// A key that led to nothing may be used for something else, somewhere else.
    fn forget_key(&self, mail: &Mail) {
        if let Op::StartTurn(turn) = &mail.op
            && let Some(key) = &turn.key
            // Whoever may not see the turn that it led to must not start another one elsewhere.
            && !self.session.knows_key(&mail.actor.principal, &key.key)
        {
            let key = (mail.actor.principal.clone(), key.key.clone());
            self.sessions.environment.keys.lock().forget(&key, self.session.id());
        }
    }

    /// Passes on what concerns a running agent, unless it was told ahead; answers whether some turn may be ready
    /// to start.
    fn notify_executor(&mut self, event: &Event, ahead: bool) -> bool {
        match event.for_executor() {
            Some(ForExecutor::Accepted) => true,
            Some(ForExecutor::Over { turn, end }) => {
                // Dropping the handle tells the agent that its turn is over.
                let executing = self.executing.remove(turn);
                if let (Some(executing), Some(end)) = (executing, end) {
                    turn_ended(&executing.agent, end);
                    log_failure(self.session.id(), turn, &executing.agent, end);
                    // One that is offered again is not told: another executor goes on with it.
                    let expired = end.outcome == TurnOutcome::Expired;
                    executing.board.explain(if expired { "deadline exceeded" } else { "over" });
                }
                true
            }
            Some(ForExecutor::Stop { turn, reason }) => {
                if let Some(executing) = self.executing.get(turn) {
                    executing.board.explain(reason.map_or("interrupted", String::as_str));
                    executing.stop.send_replace(true);
                }
                false
            }
            Some(ForExecutor::Answer { turn, call, end }) => {
                let unaware = |executing: &&Executing| !(ahead && executing.ahead.is_some());
                if let Some(executing) = self.executing.get(turn).filter(unaware) {
                    executing.board.post(call.clone(), end.clone());
                }
                false
            }
            None => false,
        }
    }

    /// An agent whose output was refused for what it is must not go on as if it had been taken.
    fn judge(&self, mail: &Mail, reject: &Reject) {
        let (Op::Emit { turn, .. }
        | Op::Progress { turn, .. }
        | Op::Answer { turn, .. }
        | Op::Request { turn, .. }) = &mail.op
        else {
            return;
        };
        // An agent that waits for the answer is told, and may make something of it.
        if !matches!(mail.reply, ReplyTo::Nobody) {
            return;
        }
        // What a lost executor still says does not concern the one that has taken over.
        let speaks = |executing: &&Executing| matches!(&mail.actor.kind, ActorKind::Worker(worker) if *worker == executing.worker);
        let Some(executing) = self.executing.get(turn).filter(speaks) else { return };
        if !matches!(reject, Reject::TurnOver(_) | Reject::Fenced(_) | Reject::UnknownTurn(_)) {
            executing.board.judge(TurnEnd::failed(FailureKind::Execution, reject.told()));
            executing.board.explain("refused");
        }
        executing.stop.send_replace(true);
    }

    /// The log refused: nothing of the batch has happened. Clients are told; what executors have
    /// produced is kept and tried again, so that no answer gets a hole.
    async fn undo(&mut self, outcomes: Vec<Outcome>, error: &StoreError) {
        let moved_on = matches!(error, StoreError::Conflict { .. });
        if moved_on {
            self.sessions.environment.meters.conflicts.increment(1);
        }
        if matches!(error, StoreError::Closed) {
            // The process is going down; what was not committed has not happened.
            self.closed = true;
            self.retained.clear();
            return;
        }
        // The log itself tells operators, once.
        tracing::debug!(%error, "the log did not take a batch");
        for outcome in outcomes {
            let reject = unavailable(error);
            match outcome {
                Outcome::Op(mail, _) if moved_on || mail.is_workers() => self.retained.push_back(mail),
                Outcome::Op(mail, _) => {
                    // What is said once and must not be forgotten: that an executor or a client is
                    // gone. The server's other ops are derived from state and come again.
                    let once = matches!(
                        mail.op,
                        Op::Lose { .. }
                            | Op::LoseDevice { .. }
                            | Op::Conclude { .. }
                            | Op::Recover
                            | Op::Detach { .. }
                            | Op::CloseAttachment { .. }
                    );
                    if once {
                        self.retained.push_back(mail);
                    } else {
                        mail.reply.answer(Err(reject));
                    }
                }
                Outcome::Attach(request, _) => request.port.answer(request.request, Err(reject)),
                Outcome::Role(reply, _) => drop(reply),
            }
        }
        while self.retained.len() > MAX_RETAINED {
            let Some(mail) = self.retained.pop_front() else { break };
            let reject = unavailable(error);
            self.judge(&mail, &reject);
            mail.reply.answer(Err(reject));
        }
        while let Err(error) = self.load().await {
            tracing::error!(%error, "the session cannot be read back");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.retry_at = Some(Instant::now() + if moved_on { Duration::ZERO } else { self.backoff });
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
    }

    /// Agents that were told what has not happened are stopped, and begin again from what has.
    fn repeat(&mut self, told_ahead: &[Committed]) {
        for committed in told_ahead {
            let Some(ForExecutor::Answer { turn, .. }) = committed.event.for_executor() else { continue };
            if self.closed || self.executing.get(turn).is_none_or(|executing| executing.ahead.is_none()) {
                continue;
            }
            // Dropping the handle stops the agent; in front of what it still says, which does not count any more.
            self.executing.remove(turn);
            self.retained.push_front(own_mail(Op::Lose { turn: turn.clone(), continues: true }));
        }
    }

    /// Snapshots keep opening cheap; one that holds a long unfinished answer is worth less.
    fn snapshot_is_due(&self) -> bool {
        let pending: usize = self.session.turns().map(|turn| turn.text.len()).sum();
        let every = self.sessions.environment.bounds.snapshot_every;
        self.events_since_snapshot >= if pending < SMALL_ANSWER { every } else { every.saturating_mul(16) }
    }
}

/// Looks in the log for the message on which an op relies, and which the session does not know by heart
/// any more.
async fn look_back(
    session: &Session,
    log: &dyn Log,
    op: &Op,
    unknown: MessageId,
) -> Result<MessageId, Reject> {
    let Some(message) = session.relies_on(op) else { return Err(Reject::UnknownMessage(unknown)) };
    let found = log.history(session.id(), message, 1).await.map_err(|error| unavailable(&error))?;
    match found.first() {
        Some(row) if row.message == *message => Ok(message.clone()),
        Some(_) | None => Err(Reject::UnknownMessage(unknown)),
    }
}

fn unavailable(error: &StoreError) -> Reject {
    Reject::Unavailable { reason: error.to_string() }
}

impl Drop for SessionActor {
    fn drop(&mut self) {
        for mail in self.retained.drain(..) {
            let Mail { reply, .. } = *mail;
            if !matches!(reply, ReplyTo::Nobody) {
                reply.answer(Err(Reject::Busy));
            }
        }
    }
}

const SMALL_ANSWER: usize = 256 << 10;
const MAX_RETAINED: usize = 8192;
const MAX_BACKOFF: Duration = Duration::from_secs(1);
