//! What ops on turns and calls lead to.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::Reply;
use crate::id::{AgentId, AttachmentId, CallId, MessageId, PrincipalId, TurnId};
use crate::model::{
    ANSWER_BYTES, Actor, ActorKind, Author, Call, CallEnd, CallKind, CallRequest, Claim, Event, Executor,
    FailureKind, Message, NewTurn, Origin, Output, Parent, Place, Tool, TurnEnd, TurnOutcome, TurnRequest,
};
use crate::position::Position;
use crate::principal::Role;
use crate::reject::Reject;
use crate::rights::Right;
use crate::session::{Decision, Session, TurnState, TurnStatus, TurnView};
use crate::time::Timestamp;

impl Session {
    pub(super) fn decide_start(
        &self,
        actor: &Actor,
        role: Role,
        new: &NewTurn,
        now: Timestamp,
        vouched: &[MessageId],
    ) -> Result<Decision, Reject> {
        if !role.may_submit() {
            return Err(Reject::Forbidden);
        }
        if self.keeps_profiles() {
            return Err(Reject::NotFound);
        }
        if !self.standing.is_active() {
            return Err(Reject::Inactive);
        }
        if let Some(known) = self.known_request(actor, new, now)? {
            return Ok(known);
        }
        if self.turns.contains_key(&new.turn) || self.ended.iter().any(|ended| ended.view.turn == new.turn) {
            return Err(Reject::DuplicateTurn(new.turn.clone()));
        }
        let attachment = new.origin.attachment.as_ref().and_then(|id| self.attachments.get(id));
        if attachment.is_some_and(|known| known.principal != actor.principal) {
            return Err(Reject::AttachmentGone);
        }
        // Somebody has to be there who releases it, or whose leaving does.
        let attached = attachment.is_some_and(|known| known.detached_at.is_none());
        if new.held && (!new.origin.bound || new.origin.attachment.is_some() != attached) {
            return Err(Reject::AttachmentGone);
        }
        let queued = self.next_queue_position().filter(|_| new.serial && !new.held);
        if !new.place.supersedes
            && queued.is_some_and(|position| position as usize > self.limits.queued_turns)
        {
            return Err(Reject::Limit { what: "queued_turns" });
        }
        // Those that are held back may all be released at once.
        let running = self.turns.values().filter(|turn| turn.queued.is_none()).count();
        if queued.is_none() && running >= self.limits.running_turns {
            return Err(Reject::Limit { what: "running_turns" });
        }
        if let TurnRequest::Tool { name, .. } = &new.request {
            let tool = self.tools.get(name).filter(|tool| tool.executor == Executor::Agent);
            let tool = tool.ok_or_else(|| Reject::UnknownTool(name.clone()))?;
            let client = matches!(actor.kind, ActorKind::Client);
            if client && tool.mcp_server().is_some_and(|server| !actor.scopes.allows_mcp(server)) {
                return Err(Reject::Forbidden);
            }
        }
        self.check_place(new, vouched)?;
        let (mut events, mut gone) = (Vec::with_capacity(3), Vec::new());
        let agent = new.agent.clone().or_else(|| self.agent.clone()).ok_or(Reject::NotFound)?;
        self.check_reach(actor, &agent)?;
        if new.place.supersedes {
            self.supersede(actor, now, &mut gone, &mut events);
        }
        let queued = match queued {
            Some(_) if new.place.supersedes => self.queue_without(&gone),
            queued => queued,
        };
        if let Some(history) = &new.history {
            // Its place is told, so it need not wait for the tip to be known.
            let parent = self.recall(&new.turn, &agent, &actor.principal, history, &mut events);
            events.extend(Self::input(&new.turn, &new.request, &actor.principal, &new.place, parent));
        } else if queued.is_none() && !new.held || new.place.supersedes || new.place.parent == Parent::Root {
            let parent = self.parent_in(&new.place.parent, new.place.supersedes);
            events.extend(Self::input(&new.turn, &new.request, &actor.principal, &new.place, parent));
        }
        events.push(Event::TurnAccepted {
            turn: new.turn.clone(),
            request: Box::new(new.request.clone()),
            agent,
            device: new.device.clone(),
            origin: Box::new(Origin { principal: actor.principal.clone(), ..new.origin.clone() }),
            serial: new.serial && !new.held,
            held: new.held,
            once: new.once,
            setting: new.setting.clone(),
            deadline: new.deadline,
            parent: match &new.place.parent {
                Parent::Message(parent) => Some(parent.clone()),
                Parent::Tip | Parent::Root => None,
            },
            names: (!new.place.names.is_empty()).then(|| Box::new(new.place.names.clone())),
            recall: new.history.as_ref().map(|told| u32::try_from(told.len()).unwrap_or(u32::MAX)),
            workspace: new.workspace.as_deref().map(Into::into),
            key: new.key.clone().map(Box::new),
            meta: Box::new(new.meta.clone()),
        });
        let accepted = Position { epoch: self.head.epoch, seq: self.head.seq + events.len() as u64 };
        if let Some(position) = queued {
            events.push(Event::TurnQueued { turn: new.turn.clone(), position });
        }
        let reply =
            Reply::Turn { session: self.id.clone(), turn: new.turn.clone(), accepted, replayed: false };
        Ok(Decision { events, reply })
    }

    /// Whether the credential reaches what the turn would reach: the agent that will answer, whoever chose it,
    /// and the devices whose tools that agent finds here.
    fn check_reach(&self, actor: &Actor, agent: &AgentId) -> Result<(), Reject> {
        if !matches!(actor.kind, ActorKind::Client) {
            return Ok(());
        }
        if !actor.scopes.allows_agent(agent) {
            return Err(Reject::UnknownAgent(agent.clone()));
        }
        let mut executors = self.tools.values().map(|tool| &tool.executor);
        let beyond = executors.any(|executor| {
            matches!(executor, Executor::Device(device)
                if actor.callsign.as_ref() != Some(device) && !actor.scopes.uses_device(device.as_str()))
        });
        if beyond { Err(Reject::Forbidden) } else { Ok(()) }
    }

    fn known_request(
        &self,
        actor: &Actor,
        new: &NewTurn,
        now: Timestamp,
    ) -> Result<Option<Decision>, Reject> {
        let Some(key) = &new.key else { return Ok(None) };
        let fresh = |at: Timestamp| now.since(at) < self.limits.request_memory;
        let known = self.requests.iter().rev().find(|known| {
            known.principal == actor.principal && known.request.key == key.key && fresh(known.at)
        });
        match known {
            None => Ok(None),
            Some(known) if known.request.digest != key.digest => Err(Reject::KeyConflict),
            Some(known) => Ok(Some(Decision {
                events: Vec::new(),
                reply: Reply::Turn {
                    session: self.id.clone(),
                    turn: known.turn.clone(),
                    accepted: known.accepted,
                    replayed: true,
                },
            })),
        }
    }

    /// The input of a chat, as a message of the tree.
    fn input(
        turn: &TurnId,
        request: &TurnRequest,
        author: &PrincipalId,
        place: &Place,
        parent: Option<MessageId>,
    ) -> Option<Event> {
        let TurnRequest::Chat { parts } = request else { return None };
        if place.names.again {
            return None;
        }
        let message = Message {
            id: place.names.input_of(turn),
            parent,
            author: Author::User(author.clone()),
            parts: parts.clone(),
            turn: turn.clone(),
            meta: place.meta.clone(),
        };
        Some(Event::MessageAdded { message: Box::new(message) })
    }

    /// Only who holds a turn back can release it.
    pub(super) fn decide_release_turn(
        &self,
        actor: &Actor,
        turn: &TurnId,
        deadline: Timestamp,
    ) -> Result<Decision, Reject> {
        let turn = self.live_turn(turn)?;
        if turn.origin.principal != actor.principal {
            return Err(Reject::Forbidden);
        }
        let event = Event::TurnReleased { turn: turn.turn.clone(), deadline: Some(deadline) };
        Ok(self.decision(if turn.held { vec![event] } else { Vec::new() }))
    }

    pub(super) fn decide_interrupt(
        &self,
        actor: &Actor,
        role: Role,
        turn: &TurnId,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Decision, Reject> {
        let turn = self.own_turn(actor, role, turn)?;
        let (mut events, mut gone) = (Vec::new(), Vec::new());
        let by = matches!(actor.kind, ActorKind::Client).then_some(&actor.principal);
        if Self::stop_turn(turn, by, reason, now, &mut events) {
            gone.push(turn.turn.clone());
        }
        self.requeue(&gone, &mut events);
        Ok(self.decision(events))
    }

    pub(super) fn decide_conclude(
        &self,
        actor: &Actor,
        role: Role,
        turn: &TurnId,
        end: &TurnEnd,
        now: Timestamp,
    ) -> Result<Decision, Reject> {
        let turn = self.own_turn(actor, role, turn)?;
        Ok(self.ending(turn, end.clone(), now))
    }

    /// A turn that the actor may put an end to: as somebody who may start turns here, or as the
    /// device that it is for.
    fn own_turn(&self, actor: &Actor, role: Role, turn: &TurnId) -> Result<&TurnState, Reject> {
        let executes = |turn: &TurnState| turn.device.is_some() && turn.device == actor.callsign;
        if !role.may_submit() && !self.turns.get(turn).is_some_and(executes) {
            return Err(Reject::Forbidden);
        }
        self.live_turn(turn)
    }

    pub(super) fn decide_progress(
        &self,
        actor: &Actor,
        role: Role,
        turn: &TurnId,
        call: &CallId,
        delta: &str,
    ) -> Result<Decision, Reject> {
        self.open_call(actor, role, turn, call)?;
        let event = Event::CallProgress { turn: turn.clone(), call: call.clone(), delta: delta.to_owned() };
        Ok(self.decision(vec![event]))
    }

    pub(super) fn decide_answer(
        &self,
        actor: &Actor,
        role: Role,
        turn: &TurnId,
        call: &CallId,
        end: &CallEnd,
    ) -> Result<Decision, Reject> {
        self.open_call(actor, role, turn, call)?;
        if matches!(end, CallEnd::TimedOut | CallEnd::Cancelled)
            && !matches!(actor.kind, ActorKind::Worker(_))
        {
            return Err(Reject::Invalid("an answer is a result or an error".into()));
        }
        let event = Event::CallEnded { turn: turn.clone(), call: call.clone(), end: end.clone() };
        Ok(self.decision(vec![event]))
    }

    pub(super) fn decide_claim(
        &self,
        actor: &Actor,
        turn: &TurnId,
        relayed: bool,
        now: Timestamp,
    ) -> Result<Decision, Reject> {
        let ActorKind::Worker(worker) = &actor.kind else { return Err(Reject::Forbidden) };
        let turn = self.live_turn(turn)?;
        match turn.status() {
            TurnStatus::Ready => {}
            TurnStatus::Held | TurnStatus::Queued(_) | TurnStatus::Running | TurnStatus::Waiting => {
                return Err(Reject::Fenced(turn.turn.clone()));
            }
            TurnStatus::Stopping => return Err(Reject::TurnOver(turn.turn.clone())),
        }
        if turn.deadline <= now {
            return Ok(self.ending(turn, TurnEnd::new(TurnOutcome::Expired), now));
        }
        let fence = turn.claims + 1;
        let claim = Claim { worker: worker.clone(), fence, relayed };
        let mut events = Vec::with_capacity(2);
        if !turn.placed {
            // It had to wait, and follows the answers of the turns before it.
            let parent = turn.after.as_ref().or(self.tip.as_ref()).cloned();
            let names = turn.names.as_deref().cloned().unwrap_or_default();
            let place = Place { names, ..Place::default() };
            events.extend(Self::input(&turn.turn, &turn.request, &turn.origin.principal, &place, parent));
        }
        events.push(Event::TurnStarted { turn: turn.turn.clone(), claim });
        Ok(Decision { events, reply: Reply::Claimed { fence } })
    }

    pub(super) fn decide_emit(
        &self,
        actor: &Actor,
        turn: &TurnId,
        fence: u32,
        output: &Output,
    ) -> Result<Decision, Reject> {
        let turn = self.claimed_turn(actor, turn, fence)?;
        if turn.interrupted_at.is_some() {
            return Err(Reject::TurnOver(turn.turn.clone()));
        }
        if let Output::Text(text) = output
            && turn.text.len() + text.len() > self.limits.answer_bytes
        {
            return Err(Reject::Limit { what: ANSWER_BYTES });
        }
        Ok(self.decision(vec![Event::TurnOutput { turn: turn.turn.clone(), output: output.clone() }]))
    }

    pub(super) fn decide_request(
        &self,
        actor: &Actor,
        turn: &TurnId,
        fence: u32,
        calls: &[CallRequest],
    ) -> Result<Decision, Reject> {
        let turn = self.claimed_turn(actor, turn, fence)?;
        if turn.interrupted_at.is_some() {
            return Err(Reject::TurnOver(turn.turn.clone()));
        }
        if turn.calls.len() + calls.len() > self.limits.open_calls {
            return Err(Reject::Limit { what: "open_calls" });
        }
        let mut events = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            if calls.iter().skip(index + 1).any(|other| other.id == call.id) {
                return Err(Reject::Invalid(format!("two calls of one name: {}", call.id)));
            }
            let call = Arc::new(self.call(turn, call)?);
            events.push(Event::CallRequested { turn: turn.turn.clone(), call });
        }
        Ok(self.decision(events))
    }

    fn call(&self, turn: &TurnState, call: &CallRequest) -> Result<Call, Reject> {
        if self.turns.values().any(|other| other.calls.contains_key(&call.id)) {
            return Err(Reject::Invalid(format!("a call of this name is open: {}", call.id)));
        }
        let (executor, known, grace_ms) = match (&call.executor, &call.kind) {
            (Some(executor), _) => (executor, None, 0),
            (None, CallKind::Question { .. }) => (&Executor::Anyone, None, 0),
            (None, CallKind::Tool { name, .. }) => {
                let tool = self.tools.get(name).filter(|tool| self.reaches(turn, tool));
                let tool = tool.ok_or_else(|| Reject::UnknownTool(name.clone()))?;
                (&tool.executor, Some(&tool.options), tool.grace_ms)
            }
        };
        // A call may know better than the definition of its tool.
        let options = match known {
            Some(known) if call.options.is_null() => Arc::new(known.clone()),
            _ => call.options.clone(),
        };
        Ok(Call {
            id: call.id.clone(),
            kind: call.kind.clone(),
            executor: executor.clone(),
            deadline: call.deadline.after(Duration::from_millis(grace_ms.into())),
            batch: call.batch.clone(),
            options,
        })
    }

    /// Whether the executor of a tool hears what a turn asks: a client hears of its own turns only.
    fn reaches(&self, turn: &TurnState, tool: &Tool) -> bool {
        match &tool.executor {
            Executor::Attachment(attachment) => turn.origin.attachment.as_ref() == Some(attachment),
            Executor::Agent | Executor::Principal(_) | Executor::Device(_) | Executor::Anyone => true,
        }
    }

    /// The tools that a turn can ask for.
    pub fn tools_of(&self, turn: &TurnId) -> Vec<Tool> {
        let Some(turn) = self.turns.get(turn) else { return Vec::new() };
        self.tools().filter(|tool| self.reaches(turn, tool)).cloned().collect()
    }

    pub(super) fn decide_finish(
        &self,
        actor: &Actor,
        turn: &TurnId,
        fence: u32,
        end: &TurnEnd,
        now: Timestamp,
    ) -> Result<Decision, Reject> {
        let turn = self.claimed_turn(actor, turn, fence)?;
        let mut end = end.clone();
        if turn.interrupted_at.is_some() {
            end.outcome = TurnOutcome::Interrupted { abandoned: false };
            end.output = None;
        }
        Ok(self.ending(turn, end, now))
    }

    pub(super) fn decide_lose(
        &self,
        turn: &TurnId,
        continues: bool,
        now: Timestamp,
    ) -> Result<Decision, Reject> {
        let turn = self.live_turn(turn)?;
        if turn.interrupted_at.is_some() {
            let end = TurnEnd::new(TurnOutcome::Interrupted { abandoned: true });
            return Ok(self.ending(turn, end, now));
        }
        if turn.claim.is_none() {
            return Ok(self.decision(Vec::new()));
        }
        let silent = turn.first_output_at.is_none();
        // An agent that takes its process down each time must not do so for ever. One that waits for
        // somebody else may have to wait through many restarts.
        let waits = turn.calls.values().any(|call| call.executor != Executor::Agent);
        let again = !turn.once && (waits || turn.barren_claims < self.limits.offers);
        if again && (continues || silent || turn.suspended) {
            // What others were asked for stays open: the next executor waits for it.
            let own = turn.calls.values().filter(|call| call.executor == Executor::Agent);
            let mut events: Vec<Event> = own
                .map(|call| Event::CallEnded {
                    turn: turn.turn.clone(),
                    call: call.id.clone(),
                    end: CallEnd::Cancelled,
                })
                .collect();
            events.push(Event::TurnReleased { turn: turn.turn.clone(), deadline: None });
            return Ok(self.decision(events));
        }
        let (kind, what) = match (silent, continues) {
            (_, _) if turn.once => (FailureKind::WorkerLost, "the executor was lost"),
            (true, _) => (FailureKind::Unreachable, "the executor was lost, repeatedly"),
            (false, true) => (FailureKind::WorkerLost, "the executor was lost, repeatedly"),
            (false, false) => (FailureKind::WorkerLost, "the executor was lost after it had begun to answer"),
        };
        let end = TurnEnd::failed(kind, what);
        Ok(self.ending(turn, end, now))
    }

    /// The turns of an attachment, recently ended ones included, in order of acceptance.
    pub(super) fn turns_of(&self, attachment: &AttachmentId) -> Vec<TurnView> {
        let live = self.turns.values().map(TurnState::view);
        let ended = self.ended.iter().map(|turn| turn.view.clone());
        let mut turns: Vec<TurnView> =
            live.chain(ended).filter(|turn| turn.origin.attachment.as_ref() == Some(attachment)).collect();
        turns.sort_unstable_by_key(|turn| turn.accepted);
        turns
    }

    fn ending(&self, turn: &TurnState, end: TurnEnd, now: Timestamp) -> Decision {
        let mut events = Vec::new();
        Self::end_turn(turn, end, now, &mut events);
        self.requeue(std::slice::from_ref(&turn.turn), &mut events);
        self.decision(events)
    }

    pub(super) fn live_turn(&self, id: &TurnId) -> Result<&TurnState, Reject> {
        if let Some(turn) = self.turns.get(id) {
            return Ok(turn);
        }
        let over = self.ended.iter().any(|ended| ended.view.turn == *id);
        Err(if over { Reject::TurnOver(id.clone()) } else { Reject::UnknownTurn(id.clone()) })
    }

    fn claimed_turn(&self, actor: &Actor, id: &TurnId, fence: u32) -> Result<&TurnState, Reject> {
        let turn = self.live_turn(id)?;
        let ActorKind::Worker(worker) = &actor.kind else { return Err(Reject::Forbidden) };
        match &turn.claim {
            Some(claim) if claim.fence == fence && claim.worker == *worker => Ok(turn),
            _ => Err(Reject::Fenced(id.clone())),
        }
    }

    fn open_call(&self, actor: &Actor, role: Role, turn: &TurnId, id: &CallId) -> Result<&Call, Reject> {
        let gone = || Reject::CallGone(id.clone());
        let turn = self.turns.get(turn).ok_or_else(gone)?;
        let call = turn.calls.get(id).ok_or_else(gone)?;
        let may = match (&actor.kind, &call.executor) {
            (ActorKind::Server, _) => true,
            (ActorKind::Worker(worker), Executor::Agent) => {
                turn.claim.as_ref().is_some_and(|claim| claim.worker == *worker)
            }
            (ActorKind::Worker(_), _) | (ActorKind::Client, Executor::Agent) => false,
            (ActorKind::Client, Executor::Attachment(attachment)) => {
                role.may_answer()
                    && self.attachments.get(attachment).is_none_or(|known| known.principal == actor.principal)
            }
            (ActorKind::Client, Executor::Principal(principal)) => {
                role.may_answer() && *principal == actor.principal
            }
            (ActorKind::Client, Executor::Device(device)) => actor.callsign.as_ref() == Some(device),
            (ActorKind::Client, Executor::Anyone) => role.may_answer(),
        };
        if may && !actor.lacks(Right::of_answer(&call.kind)) { Ok(call) } else { Err(Reject::Forbidden) }
    }
}
