//! Sessions at work, as `server/src/sessions` does it: decide, append, then tell everybody.
//!
//! One batch of letters is decided and appended in one step, and told in a later one, so that a
//! crash can come between the two.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::model::{
    ActorKind, Executor, FailureKind, ForExecutor, ToolChange, TurnEnd, TurnRequest,
};
use switchboard_core::{
    Actor, Callsign, Committed, Event, Op, Position, Reject, Reply, RequestId, Roll, Session, SessionId,
    SessionView, Timestamp, TurnId, TurnStatus, WorkerId,
};

use super::executor::Execution;
use super::peer::Delivery;
use super::{CrashPoint, PeerId, World};
use crate::accounts::Accounts;
use crate::script::Recovery;

/// A session that is alive in the world's server.
#[derive(Debug)]
pub(super) struct LiveSession {
    pub(super) session: Session,
    pub(super) mailbox: VecDeque<Letter>,
    /// Number of the last event that followers may see.
    pub(super) visible: u64,
    pub(super) executing: BTreeMap<TurnId, Execution>,
    /// A batch that is appended, and not yet told.
    pub(super) untold: Option<Untold>,
    /// The log refused; ops that must not be lost are tried again then.
    pub(super) retry_at: Option<Timestamp>,
    pub(super) retained: VecDeque<Mail>,
}

/// What is told to whom, once the batch is committed.
#[derive(Debug)]
pub(super) struct Untold {
    pub(super) at: Timestamp,
    outcomes: Vec<Outcome>,
    events: Vec<Arc<Committed>>,
}

#[derive(Debug)]
enum Outcome {
    Op(Box<Mail>, Result<Reply, Reject>),
    Attach(AttachRequest, Result<(Position, Box<SessionView>), Reject>),
}

/// What a session can be sent.
#[derive(Debug)]
pub(super) enum Letter {
    Op(Box<Mail>),
    Attach(AttachRequest),
}

/// An op, who asks, and where the answer goes.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) actor: Actor,
    pub(super) op: Op,
    pub(super) reply: ReplyTo,
}

impl Mail {
    fn is_of_worker(&self) -> bool {
        matches!(self.actor.kind, ActorKind::Worker(_))
    }

    /// That an executor, a device or a client is gone is said once, and must not be forgotten.
    const fn is_said_once(&self) -> bool {
        matches!(
            self.op,
            Op::Lose { .. }
                | Op::LoseDevice { .. }
                | Op::Conclude { .. }
                | Op::Recover
                | Op::Detach { .. }
                | Op::CloseAttachment { .. }
        )
    }
}

/// Where an answer goes.
#[derive(Clone, Debug)]
pub(super) enum ReplyTo {
    Nobody,
    Peer(PeerId, RequestId),
    Caller(u64),
    Execution { session: SessionId, turn: TurnId, worker: WorkerId, asked: Asked },
}

/// What an execution waits to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Claim,
    Request,
    Output,
    Finish,
}

/// A connection wants to follow a session.
#[derive(Debug)]
pub(super) struct AttachRequest {
    pub(super) peer: PeerId,
    pub(super) actor: Actor,
    pub(super) request: RequestId,
    pub(super) from: Option<Position>,
}

impl World {
    /// Hands a letter to a session, bringing it to life if needed.
    pub(super) fn mail(&mut self, id: &SessionId, letter: Letter) {
        self.awaken(id);
        if let Some(live) = self.sessions.get_mut(id) {
            live.mailbox.push_back(letter);
        }
    }

    /// Brings a session to life: its state comes from the log, and if the server has just started,
    /// transports and executors of before are gone.
    pub(super) fn awaken(&mut self, id: &SessionId) {
        if self.sessions.contains_key(id) {
            return;
        }
        let session = self.log.load(id, &self.settings.limits);
        let mut mailbox = VecDeque::new();
        if session.owner().is_some() {
            let mut ops = vec![Op::Recover];
            for turn in session.turns().filter(|turn| turn.claim.is_some()) {
                let replays = self.agents.get(&turn.agent).map(|script| script.recovery);
                let continues = replays == Some(Recovery::Replay);
                ops.push(Op::Lose { turn: turn.turn.clone(), continues });
            }
            ops.extend(self.missing_tools(&session).map(Op::ChangeTools));
            if session.is_live() || ops.len() > 1 {
                mailbox.extend(ops.into_iter().map(own));
            }
        }
        let visible = session.head().seq;
        let live = LiveSession {
            session,
            mailbox,
            visible,
            executing: BTreeMap::new(),
            untold: None,
            retry_at: None,
            retained: VecDeque::new(),
        };
        self.sessions.insert(id.clone(), live);
    }

    /// What the session's agent offers and the session does not know yet.
    fn missing_tools(&self, session: &Session) -> Option<ToolChange> {
        let offered = &self.agents.get(session.agent()?)?.tools;
        let add: Vec<_> = offered
            .iter()
            .filter(|tool| tool.executor == Executor::Agent && !session.tools().any(|known| known == *tool))
            .cloned()
            .collect();
        (!add.is_empty()).then(|| ToolChange { add, remove: Vec::new(), turn: None })
    }

    /// Decides a batch of letters and appends what they lead to.
    pub(super) fn decide_batch(&mut self, id: &SessionId) {
        let Some(mut live) = self.sessions.remove(id) else { return };
        live.retry_at = None;
        let most = self.schedule.batch(live.mailbox.len());
        let mut letters: Vec<Letter> =
            std::mem::take(&mut live.retained).into_iter().map(|mail| Letter::Op(Box::new(mail))).collect();
        letters.extend(live.mailbox.drain(..most));
        let attaches = letters.iter().any(|letter| matches!(letter, Letter::Attach(_)));
        if attaches && self.log.head(id) != live.session.head().seq {
            // Somebody else has written, and accounts are ahead of what is known here.
            live.session = self.log.load(id, &self.settings.limits);
            live.visible = live.session.head().seq;
        }
        let after = live.session.head();
        let mut outcomes = Vec::new();
        let mut events = Vec::new();
        let mut letters = letters.into_iter();
        while let Some(letter) = letters.next() {
            match letter {
                Letter::Op(mail) => {
                    let result = self.decide(&mut live.session, &mail, &mut events);
                    outcomes.push(Outcome::Op(mail, result));
                }
                // Accounts are kept of what is in the log: whoever wants to see them waits for that.
                Letter::Attach(request) if !events.is_empty() => {
                    let rest = std::iter::once(Letter::Attach(request)).chain(letters).collect::<Vec<_>>();
                    rest.into_iter().rev().for_each(|letter| live.mailbox.push_front(letter));
                    break;
                }
                Letter::Attach(request) => {
                    let result = attach(&live.session, &request, &self.roll, self.log.accounts(id));
                    outcomes.push(Outcome::Attach(request, result));
                }
            }
        }
        if events.is_empty() {
            live.untold = Some(Untold { at: self.now, outcomes, events });
            self.sessions.insert(id.clone(), live);
            return;
        }
        if self.trap_springs(CrashPoint::BeforeAppend, &events) {
            return self.crash();
        }
        if self.failing_appends > 0 {
            self.failing_appends -= 1;
            self.undo(&mut live, outcomes, Some("the disk is full"));
        } else if self.log.append(id, after, &events).is_err() {
            self.undo(&mut live, outcomes, None);
        } else if self.trap_springs(CrashPoint::AfterAppend, &events) {
            return self.crash();
        } else {
            let at = self.now.after(Duration::from_millis(self.settings.commit_ms));
            live.untold = Some(Untold { at, outcomes, events });
        }
        self.sessions.insert(id.clone(), live);
    }

    fn decide(
        &self,
        session: &mut Session,
        mail: &Mail,
        events: &mut Vec<Arc<Committed>>,
    ) -> Result<Reply, Reject> {
        self.check_arguments(session, &mail.op)?;
        if let Op::Chronicle { chronicle } = &mail.op
            && !self.log.has_chronicler(chronicle)
        {
            return Err(Reject::Invalid("nobody keeps such an account".into()));
        }
        let decision = match session.decide(&mail.actor, &mail.op, self.now) {
            Err(Reject::UnknownMessage(unknown)) => {
                let told = session.relies_on(&mail.op).filter(|id| self.log.tells_of(session.id(), id));
                let vouched = told.cloned().ok_or(Reject::UnknownMessage(unknown))?;
                session.decide_knowing(&mail.actor, &mail.op, self.now, &[vouched])?
            }
            decision => decision?,
        };
        let opened = matches!(decision.events.first(), Some(Event::SessionOpened { .. }));
        for event in decision.events {
            take(session, event, self.now, events);
        }
        if opened
            && let Some(change) = self.missing_tools(session)
            && let Ok(offer) = session.decide(&Actor::server(), &Op::ChangeTools(change), self.now)
        {
            for event in offer.events {
                take(session, event, self.now, events);
            }
        }
        Ok(decision.reply)
    }

    fn check_arguments(&self, session: &Session, op: &Op) -> Result<(), Reject> {
        let Op::StartTurn(turn) = op else { return Ok(()) };
        let TurnRequest::Tool { name, args } = &turn.request else { return Ok(()) };
        match session.tools().find(|tool| tool.name == *name) {
            Some(tool) => (self.settings.check)(&tool.input_schema, args).map_err(Reject::InvalidArgs),
            None => Ok(()),
        }
    }

    /// The log refused: clients are told, what executors have produced is kept.
    fn undo(&mut self, live: &mut LiveSession, outcomes: Vec<Outcome>, failure: Option<&str>) {
        let moved_on = failure.is_none();
        for outcome in outcomes {
            let reject = Reject::Unavailable { reason: failure.unwrap_or("conflict").to_owned() };
            match outcome {
                Outcome::Op(mail, _) if moved_on || mail.is_of_worker() || mail.is_said_once() => {
                    live.retained.push_back(*mail);
                }
                Outcome::Op(mail, _) => self.answer(mail.reply, Err(reject)),
                Outcome::Attach(request, _) => {
                    self.answer(ReplyTo::Peer(request.peer, request.request), Err(reject));
                }
            }
        }
        live.session = self.log.load(live.session.id(), &self.settings.limits);
        live.visible = live.session.head().seq;
        let delay = if moved_on { Duration::ZERO } else { Duration::from_millis(50) };
        live.retry_at = Some(self.now.after(delay));
    }

    /// Tells askers, followers and executors what is committed, in this order.
    pub(super) fn tell(&mut self, id: &SessionId) {
        let Some(live) = self.sessions.get_mut(id) else { return };
        let Some(Untold { outcomes, events, .. }) = live.untold.take() else { return };
        for outcome in outcomes {
            match outcome {
                Outcome::Op(mail, result) => {
                    if let (Err(reject), true) = (&result, mail.is_of_worker()) {
                        self.judge(id, &mail.op, reject);
                    }
                    if result.is_err() {
                        self.forget_key(id, &mail);
                    }
                    self.answer(mail.reply, result);
                }
                Outcome::Attach(request, Ok((position, view))) => {
                    let attached = Delivery::Attached(request.request, id.clone(), position.seq, view);
                    self.deliver(request.peer, attached);
                }
                Outcome::Attach(request, Err(reject)) => {
                    self.answer(ReplyTo::Peer(request.peer, request.request), Err(reject));
                }
            }
        }
        for committed in &events {
            self.remember_key(id, committed);
        }
        let Some(live) = self.sessions.get_mut(id) else { return };
        if let Some(last) = events.last() {
            live.visible = last.position.seq;
        }
        let mut look_for_work = false;
        for committed in &events {
            look_for_work |= live.notify_executor(&committed.event);
        }
        for committed in &events {
            self.invite_device(id, committed);
        }
        if look_for_work {
            self.start_ready_turns(id);
        }
    }

    pub(super) fn answer(&mut self, reply: ReplyTo, answer: Result<Reply, Reject>) {
        match reply {
            ReplyTo::Nobody => {}
            ReplyTo::Peer(peer, request) => self.deliver(
                peer,
                match answer {
                    Ok(reply) => Delivery::Done(request, reply),
                    Err(reject) => Delivery::Rejected(request, reject),
                },
            ),
            ReplyTo::Caller(number) => {
                self.answers.insert(number, answer);
            }
            ReplyTo::Execution { session, turn, worker, asked } => {
                self.execution_answered(&session, &turn, &worker, asked, answer);
            }
        }
    }

    /// An agent whose output was refused for what it is must not go on as if it had been taken.
    fn judge(&mut self, id: &SessionId, op: &Op, reject: &Reject) {
        let (Op::Emit { turn, .. } | Op::Progress { turn, .. } | Op::Answer { turn, .. }) = op else {
            return;
        };
        let Some(execution) = self.sessions.get_mut(id).and_then(|live| live.executing.get_mut(turn)) else {
            return;
        };
        if !matches!(reject, Reject::TurnOver(_) | Reject::Fenced(_) | Reject::UnknownTurn(_)) {
            let verdict = TurnEnd::failed(FailureKind::Execution, reject.to_string());
            execution.verdict.get_or_insert(verdict);
        }
        execution.stopped = true;
    }

    fn start_ready_turns(&mut self, id: &SessionId) {
        let Some(live) = self.sessions.get(id) else { return };
        let ready: Vec<_> = live
            .session
            .turns()
            .filter(|turn| turn.status() == TurnStatus::Ready && !live.executing.contains_key(&turn.turn))
            .cloned()
            .collect();
        for turn in ready {
            self.begin_execution(id, &turn);
        }
    }
}

impl LiveSession {
    /// When the session wants to do something by itself.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        if let Some(untold) = &self.untold {
            return Some(untold.at);
        }
        if self.retry_at.is_some() {
            return self.retry_at;
        }
        self.session.next_wake()
    }

    /// How many letters wait.
    pub(super) fn waiting(&self) -> usize {
        self.mailbox.len() + self.retained.len()
    }

    /// Passes on what concerns a running agent; answers whether some turn may be ready to start.
    fn notify_executor(&mut self, event: &Event) -> bool {
        match event.for_executor() {
            Some(ForExecutor::Accepted) => true,
            Some(ForExecutor::Over { turn, .. }) => {
                self.executing.remove(turn);
                true
            }
            Some(ForExecutor::Stop { turn, reason: _ }) => {
                if let Some(execution) = self.executing.get_mut(turn) {
                    execution.stopped = true;
                }
                false
            }
            Some(ForExecutor::Answer { turn, call, end }) => {
                if let Some(execution) = self.executing.get_mut(turn) {
                    execution.ended_calls.insert(call.clone(), end.clone());
                }
                false
            }
            None => false,
        }
    }
}

/// An op of the server's own.
pub(super) fn own(op: Op) -> Letter {
    Letter::Op(Box::new(Mail { actor: Actor::server(), op, reply: ReplyTo::Nobody }))
}

fn take(session: &mut Session, event: Event, at: Timestamp, events: &mut Vec<Arc<Committed>>) {
    let head = session.head();
    let epoch = match &event {
        Event::SessionOpened { epoch, .. } => *epoch,
        _ => head.epoch,
    };
    let committed = Committed { position: Position { epoch, seq: head.seq + 1 }, at, event };
    session.apply(&committed);
    events.push(Arc::new(committed));
}

fn attach(
    session: &Session,
    request: &AttachRequest,
    roll: &Roll<PeerId>,
    accounts: Option<&Accounts>,
) -> Result<(Position, Box<SessionView>), Reject> {
    let head = session.head();
    // A device that was invited may look, though its task be over.
    let invited = |device: &Callsign| roll.is_noted(device, session.id());
    if session.role_of_actor(&request.actor).is_none()
        && !request.actor.callsign.as_ref().is_some_and(invited)
    {
        return Err(Reject::NotFound);
    }
    match request.from {
        Some(from) if from.epoch != head.epoch || from.seq > head.seq => {
            Err(Reject::Invalid("the position is not of this history".into()))
        }
        from => {
            let chronicles = accounts.map(Accounts::states).unwrap_or_default();
            Ok((from.unwrap_or(head), Box::new(SessionView { chronicles, ..session.view() })))
        }
    }
}
