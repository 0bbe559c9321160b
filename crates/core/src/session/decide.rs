//! What an op leads to. Pure: nothing here can change the session.

use std::collections::BTreeSet;

use crate::connection::Reply;
use crate::id::{AttachmentId, MessageId, PrincipalId, ToolName};
use crate::model::{Actor, ActorKind, Event, Executor, Op, SecretHash, Standing, ToolChange};
use crate::position::Position;
use crate::principal::Role;
use crate::reject::Reject;
use crate::rights::Right;
use crate::session::{AttachmentView, Session};
use crate::time::Timestamp;

/// What an op leads to, and what its asker is told once that is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// To be committed, in order; none if nothing changes.
    pub events: Vec<Event>,
    /// For the asker.
    pub reply: Reply,
}

impl Session {
    /// Says what `op` leads to.
    ///
    /// # Errors
    /// The op is refused, and the session stays as it is.
    pub fn decide(&self, actor: &Actor, op: &Op, now: Timestamp) -> Result<Decision, Reject> {
        self.decide_knowing(actor, op, now, &[])
    }

    /// Says what `op` leads to, where `vouched` are messages that the session does not know by heart
    /// any more, but the log does; see [`Session::relies_on`].
    ///
    /// # Errors
    /// The op is refused, and the session stays as it is.
    pub fn decide_knowing(
        &self,
        actor: &Actor,
        op: &Op,
        now: Timestamp,
        vouched: &[MessageId],
    ) -> Result<Decision, Reject> {
        let role = self.role_for(actor, op)?;
        if actor.lacks(Right::of(op)) {
            return Err(Reject::Forbidden);
        }
        match op {
            Op::Open { epoch, agent, name } => {
                if self.owner.is_some() {
                    return Ok(self.decision(Vec::new()));
                }
                Ok(self.decision(vec![Event::SessionOpened {
                    owner: actor.principal.clone(),
                    epoch: *epoch,
                    agent: agent.clone(),
                    name: name.clone(),
                }]))
            }
            Op::Admit { principal, role: admitted } => self.decide_admit(role, principal, *admitted, now),
            Op::OpenAttachment { attachment, generation, secret, window_ms } => {
                self.decide_open_attachment(actor, attachment, *generation, *secret, *window_ms)
            }
            Op::TakeOver { attachment, secret, next_secret } => {
                self.decide_take_over(actor, attachment, *secret, *next_secret)
            }
            Op::LinkAttachment { attachment, session } => {
                let state = self.attachments.get(attachment).ok_or(Reject::AttachmentGone)?;
                if state.principal != actor.principal {
                    return Err(Reject::AttachmentGone);
                }
                if state.linked.contains(session) {
                    return Ok(self.decision(Vec::new()));
                }
                if state.linked.len() >= self.limits.attachments {
                    return Err(Reject::Limit { what: "attachments" });
                }
                let event =
                    Event::AttachmentLinked { attachment: attachment.clone(), session: session.clone() };
                Ok(self.decision(vec![event]))
            }
            Op::Detach { attachment, generation } => {
                let current = self.is_current(actor, attachment, *generation)
                    && self.attachments.get(attachment).is_some_and(|known| known.detached_at.is_none());
                let event =
                    Event::AttachmentDetached { attachment: attachment.clone(), generation: *generation };
                let mut events = Vec::new();
                if current {
                    events.push(event);
                    self.let_go(std::slice::from_ref(attachment), &[], &mut events);
                }
                Ok(self.decision(events))
            }
            Op::CloseAttachment { attachment, generation } => {
                let (mut events, mut gone) = (Vec::new(), Vec::new());
                if self.is_current(actor, attachment, *generation) {
                    self.close_attachment(attachment, "client left", now, &mut gone, &mut events);
                    self.requeue(&gone, &mut events);
                }
                Ok(self.decision(events))
            }
            Op::ChangeTools(change) => self.decide_tools(actor, role, change),
            Op::StartTurn(turn) => self.decide_start(actor, role, turn, now, vouched),
            Op::Import(import) => self.decide_import(actor, role, import, vouched),
            Op::Edit { message, parts } => self.decide_edit(role, message, parts, vouched),
            Op::MoveTip { tip } => self.decide_move_tip(role, tip, vouched),
            Op::Rename { name } => self.decide_rename(role, name),
            Op::Stand(standing) => self.decide_stand(actor, role, *standing, now),
            Op::Chronicle { chronicle } => self.decide_chronicle(role, chronicle),
            Op::Record { chronicle, record } => self.decide_record(actor, role, chronicle, record),
            Op::Release { turn, deadline } => self.decide_release_turn(actor, turn, *deadline),
            Op::Interrupt { turn, reason } => {
                self.decide_interrupt(actor, role, turn, reason.as_deref(), now)
            }
            Op::Conclude { turn, end } => self.decide_conclude(actor, role, turn, end, now),
            Op::Join(device) => self.decide_join(actor, role, device),
            Op::Report { facts } => self.decide_report(actor, facts),
            Op::Progress { turn, call, delta } => self.decide_progress(actor, role, turn, call, delta),
            Op::Answer { turn, call, end } => self.decide_answer(actor, role, turn, call, end),
            Op::Claim { turn, relayed } => self.decide_claim(actor, turn, *relayed, now),
            Op::Emit { turn, fence, output } => self.decide_emit(actor, turn, *fence, output),
            Op::Request { turn, fence, calls } => self.decide_request(actor, turn, *fence, calls),
            Op::Finish { turn, fence, end } => self.decide_finish(actor, turn, *fence, end, now),
            Op::Lose { turn, continues } => self.decide_lose(turn, *continues, now),
            Op::LoseDevice { device, why } => Ok(self.decision(self.decide_lose_device(device, *why, now))),
            Op::ReleaseDevice { device, by } => Ok(self.decision(self.decide_release(device, by))),
            Op::Recover => Ok(self.decision(self.decide_recover(now))),
            Op::Wake => Ok(self.decision(self.decide_wake(now))),
        }
    }

    /// A decision whose asker only learns the new head.
    pub(super) fn decision(&self, events: Vec<Event>) -> Decision {
        let epoch = match events.first() {
            Some(Event::SessionOpened { epoch, .. }) => *epoch,
            _ => self.head.epoch,
        };
        let head = Position { epoch, seq: self.head.seq + events.len() as u64 };
        Decision { events, reply: Reply::Applied { head } }
    }

    /// The role in which the actor asks. Whoever may not know of the session is told that there is
    /// none, in the same words as if there were none.
    fn role_for(&self, actor: &Actor, op: &Op) -> Result<Role, Reject> {
        let Some(owner) = &self.owner else {
            let may_open = matches!((op, &actor.kind), (Op::Open { .. }, ActorKind::Client));
            return if may_open { Ok(Role::Owner) } else { Err(Reject::NotFound) };
        };
        let worker_op =
            matches!(op, Op::Claim { .. } | Op::Emit { .. } | Op::Request { .. } | Op::Finish { .. });
        let server_op = matches!(
            op,
            Op::Lose { .. } | Op::LoseDevice { .. } | Op::ReleaseDevice { .. } | Op::Recover | Op::Wake
        );
        match &actor.kind {
            ActorKind::Server => Ok(Role::Owner),
            ActorKind::Worker(_) if server_op => Err(Reject::Forbidden),
            ActorKind::Worker(_) => Ok(Role::Agent),
            // Nothing tells it from one that never was.
            ActorKind::Client if self.standing == Standing::Deleted => Err(Reject::NotFound),
            ActorKind::Client => {
                // A device makes itself known in a session of its principal's before it has a place there.
                let introduces =
                    matches!(op, Op::Open { .. } | Op::Join(_) | Op::StartTurn(_) | Op::Chronicle { .. });
                let role = if *owner == actor.principal && (introduces || actor.takes_part()) {
                    Role::Owner
                } else {
                    self.role_of_actor(actor).ok_or(Reject::NotFound)?
                };
                if worker_op || server_op { Err(Reject::Forbidden) } else { Ok(role) }
            }
        }
    }

    fn decide_admit(
        &self,
        role: Role,
        principal: &PrincipalId,
        admitted: Option<Role>,
        now: Timestamp,
    ) -> Result<Decision, Reject> {
        if role != Role::Owner {
            return Err(Reject::Forbidden);
        }
        if self.owner.as_ref() == Some(principal) || admitted == Some(Role::Owner) {
            return Err(Reject::Invalid("the owner of a session does not change".into()));
        }
        let known = self.participants.get(principal).copied();
        let events = match admitted {
            Some(_) if known == admitted => Vec::new(),
            None if known.is_none() => Vec::new(),
            Some(_) if known.is_none() && self.participants.len() >= self.limits.participants => {
                return Err(Reject::Limit { what: "participants" });
            }
            Some(role) => vec![Event::ParticipantJoined { principal: principal.clone(), role }],
            None => self.dismiss(principal, now),
        };
        Ok(self.decision(events))
    }

    /// A participant that leaves takes its attachments and its tools along: it could not close or
    /// withdraw them later, since the session is then unknown to it.
    fn dismiss(&self, principal: &PrincipalId, now: Timestamp) -> Vec<Event> {
        let (mut events, mut gone) = (Vec::new(), Vec::new());
        for (id, attachment) in &self.attachments {
            if attachment.principal == *principal {
                self.close_attachment(id, "participant removed", now, &mut gone, &mut events);
            }
        }
        self.withdraw_tools(&Executor::Principal(principal.clone()), &mut events);
        self.requeue(&gone, &mut events);
        events.push(Event::ParticipantLeft { principal: principal.clone() });
        events
    }

    fn decide_open_attachment(
        &self,
        actor: &Actor,
        attachment: &AttachmentId,
        generation: u32,
        secret: Option<SecretHash>,
        window_ms: u64,
    ) -> Result<Decision, Reject> {
        match self.attachments.get(attachment) {
            // Where the attachment has a secret, only who knows it may go on with it.
            Some(known)
                if known.principal != actor.principal
                    || known.generation >= generation
                    || known.secret.is_some() =>
            {
                return Err(Reject::AttachmentGone);
            }
            Some(_) => {}
            None if self.attachments.len() >= self.limits.attachments => {
                return Err(Reject::Limit { what: "attachments" });
            }
            None => {}
        }
        let event = Event::AttachmentOpened {
            attachment: attachment.clone(),
            generation,
            principal: actor.principal.clone(),
            secret,
            window_ms,
        };
        Ok(self.attachment_decision(attachment, generation, event))
    }

    fn decide_take_over(
        &self,
        actor: &Actor,
        attachment: &AttachmentId,
        secret: Option<SecretHash>,
        next_secret: Option<SecretHash>,
    ) -> Result<Decision, Reject> {
        let known = self.attachments.get(attachment).ok_or(Reject::AttachmentGone)?;
        if known.principal != actor.principal || known.secret != secret {
            return Err(Reject::AttachmentGone);
        }
        let generation = known.generation.checked_add(1).ok_or(Reject::AttachmentGone)?;
        let event = Event::AttachmentOpened {
            attachment: attachment.clone(),
            generation,
            principal: actor.principal.clone(),
            secret: next_secret,
            window_ms: known.window_ms,
        };
        Ok(self.attachment_decision(attachment, generation, event))
    }

    fn attachment_decision(&self, attachment: &AttachmentId, generation: u32, event: Event) -> Decision {
        let Decision { events, reply: _ } = self.decision(vec![event]);
        let head = self.head.next();
        let view = match self.attachment(attachment) {
            Some(view) => AttachmentView { generation, head, ..view },
            None => AttachmentView {
                attachment: attachment.clone(),
                generation,
                linked: Vec::new(),
                turns: self.turns_of(attachment),
                head,
            },
        };
        Decision { events, reply: Reply::Attachment(Box::new(view)) }
    }

    fn is_current(&self, actor: &Actor, attachment: &AttachmentId, generation: u32) -> bool {
        self.attachments
            .get(attachment)
            .is_some_and(|known| known.principal == actor.principal && known.generation == generation)
    }

    fn decide_tools(&self, actor: &Actor, role: Role, change: &ToolChange) -> Result<Decision, Reject> {
        if matches!(actor.kind, ActorKind::Client) && !role.may_answer() {
            return Err(Reject::Forbidden);
        }
        if let Some(turn) = &change.turn
            && self.live_turn(turn)?.interrupted_at.is_some()
        {
            return Err(Reject::TurnOver(turn.clone()));
        }
        for tool in &change.add {
            if !self.may_register(actor, &tool.executor) {
                return Err(Reject::Forbidden);
            }
            if self.tools.get(&tool.name).is_some_and(|known| known.executor != tool.executor) {
                return Err(Reject::Invalid(format!(
                    "a tool of another executor has the name {}",
                    tool.name
                )));
            }
        }
        let removed: BTreeSet<&ToolName> = change
            .remove
            .iter()
            .filter(|name| self.tools.get(*name).is_some_and(|tool| self.may_register(actor, &tool.executor)))
            .collect();
        let mut names: BTreeSet<&ToolName> =
            self.tools.keys().filter(|name| !removed.contains(name)).collect();
        names.extend(change.add.iter().map(|tool| &tool.name));
        if names.len() > self.limits.tools.max(self.tools.len()) {
            return Err(Reject::Limit { what: "tools" });
        }
        if change.add.is_empty() && removed.is_empty() {
            return Ok(self.decision(Vec::new()));
        }
        Ok(self.decision(vec![Event::ToolsChanged {
            revision: self.tools_revision + 1,
            added: change.add.clone(),
            removed: removed.into_iter().cloned().collect(),
            turn: change.turn.clone(),
        }]))
    }

    fn may_register(&self, actor: &Actor, executor: &Executor) -> bool {
        match (&actor.kind, executor) {
            (ActorKind::Worker(_) | ActorKind::Server, _) => true,
            (ActorKind::Client, Executor::Attachment(attachment)) => {
                self.attachments.get(attachment).is_none_or(|known| known.principal == actor.principal)
            }
            (ActorKind::Client, Executor::Principal(principal)) => *principal == actor.principal,
            (ActorKind::Client, Executor::Device(device)) => actor.callsign.as_ref() == Some(device),
            (ActorKind::Client, Executor::Agent | Executor::Anyone) => false,
        }
    }

    /// Takes away the tools of an executor that is gone.
    pub(super) fn withdraw_tools(&self, executor: &Executor, events: &mut Vec<Event>) {
        let own = self.tools.values().filter(|tool| tool.executor == *executor);
        let removed: Vec<ToolName> = own.map(|tool| tool.name.clone()).collect();
        if !removed.is_empty() {
            let made = events.iter().filter(|event| matches!(event, Event::ToolsChanged { .. })).count();
            let revision = self.tools_revision + 1 + made as u64;
            events.push(Event::ToolsChanged { revision, added: Vec::new(), removed, turn: None });
        }
    }

    /// After a restart no transport of before is alive: attachments wait for their clients, and
    /// turns that hung on a transport without an attachment are over.
    fn decide_recover(&self, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        let mut gone = Vec::new();
        let mut detached = Vec::new();
        for (id, attachment) in &self.attachments {
            if attachment.detached_at.is_none() {
                detached.push(id.clone());
                events.push(Event::AttachmentDetached {
                    attachment: id.clone(),
                    generation: attachment.generation,
                });
            }
        }
        for turn in self.turns.values() {
            let anchored =
                turn.origin.attachment.as_ref().is_some_and(|id| self.attachments.contains_key(id));
            if turn.origin.bound
                && !anchored
                && Self::stop_turn(turn, None, Some("connection lost"), now, &mut events)
            {
                gone.push(turn.turn.clone());
            }
        }
        for callsign in self.devices_in_use() {
            self.fail_calls_to(&Executor::Device(callsign.clone()), &mut events);
            self.withdraw_tools(&Executor::Device(callsign), &mut events);
        }
        for (callsign, device) in &self.devices {
            if device.left_at.is_none() {
                events.push(Event::DeviceLeft { device: callsign.clone() });
            }
        }
        for executor in self.orphaned_executors() {
            self.withdraw_tools(&executor, &mut events);
        }
        self.let_go(&detached, &gone, &mut events);
        events
    }

    /// Attachments that offer tools but are not recorded, and so cannot come back.
    fn orphaned_executors(&self) -> Vec<Executor> {
        let mut orphaned: Vec<Executor> = Vec::new();
        for tool in self.tools.values() {
            let gone =
                matches!(&tool.executor, Executor::Attachment(id) if !self.attachments.contains_key(id));
            if gone && !orphaned.contains(&tool.executor) {
                orphaned.push(tool.executor.clone());
            }
        }
        orphaned
    }
}
