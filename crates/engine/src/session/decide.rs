//! From commands to a batch that is not committed yet.

use std::collections::BTreeMap;

use switchboard_core::model::TurnRequest;
use switchboard_core::{
    Actor, Callsign, Committed, Decision, Event, Op, Position, Reject, Reply, Right, Row, SessionView,
    Timestamp, TurnId, TurnState, TurnStatus, rows,
};

use super::phase::{Phase, Then};
use super::projections::CatchUp;
use super::{AttachRequest, Command, Inspection, Node, Output, Reserved, SessionWorker, Submission};
use crate::feed::Cursor;
use crate::inbox::Attached;

/// What some commands lead to, before it is committed.
#[derive(Debug)]
pub(super) struct Draft<N: Node> {
    pub(super) after: Position,
    pub(super) events: Vec<Committed>,
    pub(super) rows: Vec<Row>,
    pub(super) outcomes: Vec<Outcome<N>>,
    /// Turns that begin when the batch is committed.
    pub(super) claimed: Vec<(TurnId, Reserved<N::Slot>)>,
    /// How many of the events some agents know before they are committed, as far as they are answers.
    pub(super) told_ahead: usize,
    /// Agents were told ahead, and what they make of it is taken in.
    pub(super) reacted: bool,
}

/// What is told to whom once the batch is committed.
#[derive(Debug)]
pub(super) enum Outcome<N: Node> {
    Submitted(Box<Submission<N>>, Result<Reply, Reject>),
    Attached(Box<AttachRequest>, Result<Box<Attached>, Reject>),
    Inspected(Inspection),
}

impl<N: Node> Draft<N> {
    pub(super) fn new(after: Position) -> Self {
        Self {
            after,
            // An answer and the next command, or a piece of output: most batches need no more room, and it is kept.
            events: Vec::with_capacity(2),
            rows: Vec::new(),
            outcomes: Vec::new(),
            claimed: Vec::new(),
            told_ahead: 0,
            reacted: false,
        }
    }
}

impl<N: Node> SessionWorker<N> {
    /// The draft, which begins with what the log could not take before.
    pub(super) fn open_draft(&mut self) {
        self.draft = Some(Box::new(Draft::new(self.session.head())));
        self.retry_at = None;
        while let Some(submission) = self.retained.pop_back() {
            self.queue.push_front(Command::Submit(submission));
        }
    }

    fn draft(&mut self) -> &mut Draft<N> {
        self.draft.get_or_insert_with(|| Box::new(Draft::new(self.session.head())))
    }

    pub(super) fn take_command(&mut self, command: Command<N>, node: &N, now: Timestamp) {
        match command {
            Command::Submit(submission) => self.submit(submission, node, now),
            Command::Attach(request) => self.attach(request, node),
            Command::Inspect(inspection) => self.draft().outcomes.push(Outcome::Inspected(inspection)),
            Command::RefreshTools => self.offer_tools(node, now),
        }
    }

    fn submit(&mut self, mut submission: Box<Submission<N>>, node: &N, now: Timestamp) {
        node.prepare(&self.session, &mut submission.op);
        let Submission { actor, op, .. } = &*submission;
        let admitted = self.check(op, node).and_then(|()| node.admit(&self.session, actor, op, now));
        if let Err(reject) = admitted {
            return self.conclude(submission, Err(reject), node);
        }
        match self.session.decide(actor, op, now) {
            Ok(decision) => self.take_decision(submission, decision, node, now),
            // The log is asked for a message that the session has forgotten.
            Err(Reject::UnknownMessage(unknown)) => match self.session.relies_on(op) {
                Some(message) => {
                    self.outputs.push_back(Output::Find(message.clone()));
                    self.phase = Phase::Finding { submission, unknown };
                }
                None => self.conclude(submission, Err(Reject::UnknownMessage(unknown)), node),
            },
            Err(reject) => self.conclude(submission, Err(reject), node),
        }
    }

    /// Checks what needs more than the session's state: arguments against the tool's schema.
    fn check(&self, op: &Op, node: &N) -> Result<(), Reject> {
        let Op::StartTurn(turn) = op else { return Ok(()) };
        let TurnRequest::Tool { name, args } = &turn.request else { return Ok(()) };
        match self.session.tools().find(|tool| tool.name == *name) {
            Some(tool) => node.check_arguments(&tool.input_schema, args).map_err(Reject::InvalidArgs),
            None => Ok(()),
        }
    }

    pub(super) fn take_decision(
        &mut self,
        submission: Box<Submission<N>>,
        decision: Decision,
        node: &N,
        now: Timestamp,
    ) {
        node.decided(&self.session, &submission.actor, &submission.op);
        let Op::Chronicle { chronicle: name } = &submission.op else {
            return self.take_events(submission, decision, node, now);
        };
        let Some(projector) = node.projector(name) else {
            let unknown = Reject::Invalid(format!("nobody keeps such an account: {name}"));
            return self.conclude(submission, Err(unknown), node);
        };
        if decision.events.is_empty() {
            return self.take_events(submission, decision, node, now);
        }
        // One that is new begins with everything that has happened.
        let begun = BTreeMap::from([(name.clone(), projector.begin(self.session.id()))]);
        let committed = self.draft().after.seq;
        self.catch_up(CatchUp::new(begun, committed), Then::Begin(submission, decision), node, now);
    }

    /// A new projection has taken in what is committed; what is not follows.
    pub(super) fn begun(
        &mut self,
        mut catch_up: CatchUp,
        submission: Box<Submission<N>>,
        decision: Decision,
        node: &N,
        now: Timestamp,
    ) {
        for committed in &self.draft().events {
            catch_up.take_event(committed);
        }
        let rows = catch_up.finish(&mut self.projections);
        self.draft().rows.extend(rows);
        self.take_events(submission, decision, node, now);
    }

    fn take_events(&mut self, submission: Box<Submission<N>>, decision: Decision, node: &N, now: Timestamp) {
        let opened = matches!(decision.events.first(), Some(Event::SessionOpened { .. }));
        for event in decision.events {
            self.take(event, now);
        }
        if opened {
            self.offer_tools(node, now);
        }
        if let Op::StartTurn(new) = &submission.op {
            self.claim_at_once(&new.turn, node, now);
        }
        if let Op::Release { turn, .. } = &submission.op {
            self.claim_at_once(turn, node, now);
        }
        self.conclude(submission, Ok(decision.reply), node);
    }

    /// Notes what became of an op, to be told with its batch.
    pub(super) fn conclude(
        &mut self,
        submission: Box<Submission<N>>,
        result: Result<Reply, Reject>,
        node: &N,
    ) {
        if matches!(result, Err(Reject::Forbidden)) {
            node.refused(&submission.actor.principal, Right::of(&submission.op));
        }
        self.draft().outcomes.push(Outcome::Submitted(submission, result));
    }

    /// A turn that need not wait is claimed in the batch that accepts it: one commit instead of two.
    fn claim_at_once(&mut self, turn: &TurnId, node: &N, now: Timestamp) {
        let ready = |known: &&TurnState| known.turn == *turn && known.status() == TurnStatus::Ready;
        let Some(state) = self.session.turns().find(ready) else { return };
        let Some(reserved) = node.reserve(state) else { return };
        let op = Op::Claim { turn: turn.clone(), relayed: reserved.relayed };
        if let Ok(decision) = self.session.decide(&Actor::worker(reserved.worker.clone()), &op, now) {
            for event in decision.events {
                self.take(event, now);
            }
            self.draft().claimed.push((turn.clone(), reserved));
        }
    }

    /// The tools of the session's agent are there from the beginning.
    fn offer_tools(&mut self, node: &N, now: Timestamp) {
        let Some(change) = self.missing_tools(node) else { return };
        if let Ok(decision) = self.session.decide(&Actor::server(), &Op::ChangeTools(change), now) {
            for event in decision.events {
                self.take(event, now);
            }
        }
    }

    fn take(&mut self, event: Event, at: Timestamp) {
        let head = self.session.head();
        let epoch = if let Event::SessionOpened { epoch, .. } = &event { *epoch } else { head.epoch };
        let position = Position { epoch, seq: head.seq + 1 };
        let committed = Committed { position, at, event };
        let draft = self.draft.get_or_insert_with(|| Box::new(Draft::new(head)));
        draft.rows.extend(rows(&self.session, &committed));
        self.session.apply(&committed);
        self.projections.take(&committed, &mut draft.rows);
        draft.events.push(committed);
    }

    fn attach(&mut self, request: Box<AttachRequest>, node: &N) {
        let head = self.session.head();
        let result = if !self.may_follow(&request.actor, node) {
            Err(node.absent(&request.actor))
        } else {
            match request.from {
                Some(from) if from.epoch != head.epoch || from.seq > head.seq => {
                    Err(Reject::Invalid("the position is not of this history".into()))
                }
                from => Ok(Box::new(Attached {
                    session: self.session.id().clone(),
                    feed: self.feed.clone(),
                    cursor: Cursor::at(from.unwrap_or(head).seq),
                    view: SessionView { chronicles: self.projections.shown(), ..self.session.view() },
                })),
            }
        };
        self.draft().outcomes.push(Outcome::Attached(request, result));
    }

    /// Whoever takes part may follow, and so may a device that was invited, though its task be over.
    fn may_follow(&self, actor: &Actor, node: &N) -> bool {
        let invited = |device: &Callsign| node.shared().presence.lock().is_noted(device, self.session.id());
        self.session.role_of_actor(actor).is_some() || actor.callsign.as_ref().is_some_and(invited)
    }
}
