//! Whoever asks through one connection, and what becomes of what it asks: admitted or refused by its credential, and
//! led to a session.

use std::sync::Arc;

use serde_json::Value;
use switchboard_core::model::{DeviceLoss, NewTurn};
use switchboard_core::{
    Actor, AgentId, AttachmentId, Callsign, Enrolment, Granted, Op, Position, Principal, PrincipalId, Reject,
    Reply, RequestId, Right, Role, SessionId, Signal, Timestamp,
};

use crate::inbox::{Delivery, Inbox};
use crate::session::{AttachRequest, Command, Node, ReplyTo, Submission};
use crate::shared::{Address, Shared};

/// What a connection asks of the node it runs on, and is answered at once.
pub trait Surroundings {
    /// What its sessions run on.
    type Node: Node;

    /// What all sessions and connections of the node share.
    fn shared(&self) -> &Shared;

    /// A credential did not allow what was asked.
    fn refused(&self, principal: &PrincipalId, right: Right);

    /// Looks at an op that the credential allows, and may send a turn on to another agent.
    fn prepare(&mut self, caller: &Caller, session: &SessionId, op: &mut Op);

    /// Whether there is such an agent.
    fn knows_agent(&self, agent: &AgentId) -> bool;

    /// Whether the principal has not used up its share.
    ///
    /// # Errors
    /// It has.
    fn take_share(&mut self, principal: &Principal, op: &Op, now: Timestamp) -> Result<(), Reject>;

    /// The connection speaks for somebody else from now on.
    ///
    /// # Errors
    /// Somebody who may not be here.
    fn adopt(&mut self, principal: &Principal) -> Result<(), Reject>;

    /// An attachment is the connection's own from here on: it was opened, or taken over.
    fn attached(&mut self, caller: &Caller, attachment: &AttachmentId);
}

/// Whoever asks through one connection.
#[derive(Debug)]
pub struct Caller {
    /// On whose behalf, and what the credential allows.
    pub principal: Principal,
    /// Where answers go.
    pub inbox: Arc<Inbox>,
    /// The name under which the connection is reached.
    name: Option<Callsign>,
    /// The name that it asked for, until it is told that it has it.
    asked_name: Option<Callsign>,
    /// As what it is registered, or asks to be.
    role: Option<Role>,
}

impl Caller {
    /// Somebody without a name.
    pub const fn new(principal: Principal, inbox: Arc<Inbox>) -> Self {
        Self { principal, inbox, name: None, asked_name: None, role: None }
    }

    /// As whom it asks.
    pub fn actor(&self) -> Actor {
        Actor::client(self.principal.id.clone())
            .allowed(self.principal.scopes.clone())
            .registered(self.name.clone().zip(self.role))
    }

    /// The name under which the connection is reached.
    pub const fn name(&self) -> Option<&Callsign> {
        self.name.as_ref()
    }

    /// Whether the credential allows what is asked; if not, the request is answered.
    pub fn may(&self, right: Right, request: RequestId, around: &impl Surroundings) -> bool {
        let role = self.role.filter(|_| self.name.is_some());
        let may = self.principal.scopes.permit(right, role);
        if !may {
            around.refused(&self.principal.id, right);
            self.inbox.answer(request, Err(Reject::Forbidden));
        }
        may
    }

    /// What a session is to be asked, and which one; none if it was refused.
    pub(crate) fn submit<S: Surroundings>(
        &self,
        request: RequestId,
        session: SessionId,
        mut op: Op,
        around: &mut S,
        now: Timestamp,
    ) -> Option<(SessionId, Command<S::Node>)> {
        if !self.may(Right::of(&op), request, around) {
            return None;
        }
        around.prepare(self, &session, &mut op);
        match self.lead(session, &op, around, now) {
            Ok(session) => {
                let reply = ReplyTo::Connection(self.inbox.clone(), request);
                let submission = Submission { actor: self.actor(), op, reply, hold: None };
                Some((session, Command::Submit(Box::new(submission))))
            }
            Err(reject) => {
                self.inbox.answer(request, Err(reject));
                None
            }
        }
    }

    /// How a session is asked to be followed; none if that was refused.
    pub(crate) fn attach<S: Surroundings>(
        &self,
        request: RequestId,
        from: Option<Position>,
        around: &S,
    ) -> Option<Command<S::Node>> {
        let attach = || AttachRequest { actor: self.actor(), from, request, inbox: self.inbox.clone() };
        self.may(Right::Follow, request, around).then(|| Command::Attach(Box::new(attach())))
    }

    /// Whether an op may go on to its session, and in which session it belongs: a repeated idempotency key
    /// leads to the session in which it was first used. What the credential allows was looked at before.
    fn lead<S: Surroundings>(
        &self,
        session: SessionId,
        op: &Op,
        around: &mut S,
        now: Timestamp,
    ) -> Result<SessionId, Reject> {
        let known = |agent: &AgentId, around: &S| {
            if around.knows_agent(agent) && self.principal.scopes.allows_agent(agent) {
                Ok(())
            } else {
                Err(Reject::UnknownAgent(agent.clone()))
            }
        };
        match op {
            Op::Open { agent, .. } => {
                known(agent, around)?;
                around.take_share(&self.principal, op, now)?;
                Ok(session)
            }
            Op::StartTurn(turn) => {
                turn.agent.as_ref().map_or(Ok(()), |agent| known(agent, around))?;
                self.lead_turn(session, turn, op, around, now)
            }
            Op::Join(_) => {
                around.take_share(&self.principal, op, now)?;
                // So that the session which keeps the profile hears when the device is gone.
                if let Some(name) = self.name.as_ref() {
                    around.shared().presence.lock().invite(name, &session, Position::default());
                }
                Ok(session)
            }
            Op::Report { .. }
            | Op::Admit { .. }
            | Op::OpenAttachment { .. }
            | Op::TakeOver { .. }
            | Op::LinkAttachment { .. }
            | Op::Detach { .. }
            | Op::CloseAttachment { .. }
            | Op::ChangeTools(_)
            | Op::Import(_)
            | Op::Edit { .. }
            | Op::MoveTip { .. }
            | Op::Rename { .. }
            | Op::Stand(_)
            | Op::Chronicle { .. }
            | Op::Record { .. }
            | Op::Release { .. }
            | Op::Interrupt { .. }
            | Op::Conclude { .. }
            | Op::Progress { .. }
            | Op::Answer { .. }
            // No credential allows the rest.
            | Op::Claim { .. }
            | Op::Emit { .. }
            | Op::Request { .. }
            | Op::Finish { .. }
            | Op::Lose { .. }
            | Op::LoseDevice { .. }
            | Op::ReleaseDevice { .. }
            | Op::Recover
            | Op::Wake => {
                around.take_share(&self.principal, op, now)?;
                Ok(session)
            }
        }
    }

    fn lead_turn<S: Surroundings>(
        &self,
        session: SessionId,
        turn: &NewTurn,
        op: &Op,
        around: &mut S,
        now: Timestamp,
    ) -> Result<SessionId, Reject> {
        if let Some(device) = &turn.device
            && !self.reaches(device, around.shared())
        {
            return Err(Reject::Offline(device.clone()));
        }
        if around.shared().is_draining() {
            return Err(Reject::Draining);
        }
        around.take_share(&self.principal, op, now)?;
        let Some(key) = &turn.key else { return Ok(session) };
        let key = (self.principal.id.clone(), key.key.clone());
        Ok(around.shared().keys.lock().reserve(key, session, now))
    }

    /// Whether the caller may give work to a device: its own connection always may.
    fn reaches(&self, device: &Callsign, shared: &Shared) -> bool {
        self.name.as_ref() == Some(device)
            || shared.presence.lock().reaches(&self.principal, self.name.as_ref(), device)
    }

    /// Makes the connection reachable under a name; answers whether it has to be looked up first who has had the name
    /// before. Meanwhile nobody else can take it, and nobody is reached under it.
    pub(crate) fn register(
        &mut self,
        request: RequestId,
        registration: Enrolment,
        shared: &Shared,
        now: Timestamp,
    ) -> Option<Callsign> {
        let name = registration.callsign.clone();
        if let Some(known) = self.name.as_ref().or(self.asked_name.as_ref()) {
            self.inbox.answer(request, Err(Reject::Enrolled(known.clone())));
            return None;
        }
        let role = registration.role;
        if !self.principal.scopes.allows_callsign(role, name.as_str()) {
            self.inbox.answer(request, Err(Reject::Forbidden));
            return None;
        }
        self.role = Some(role);
        let address = Address(self.inbox.clone());
        let granted = shared.presence.lock().enrol(registration, &self.principal, address, now);
        match granted {
            Ok(granted) => {
                self.asked_name = Some(name.clone());
                if granted == Granted::IfUnclaimed {
                    return Some(name);
                }
                self.inbox.answer(request, Ok(Reply::Enrolled));
            }
            Err(refused) => {
                if let Some(Address(inbox)) = refused.contested {
                    inbox.deliver(Delivery::Signal(Signal::Contested));
                }
                self.inbox.answer(request, Err(refused.reject));
            }
        }
        None
    }

    /// The connection has the name that it asked for, and speaks as whoever has it from here on.
    pub(crate) fn registered(&mut self) {
        self.name = self.asked_name.take();
    }

    /// Lists who is registered, as far as the caller may know.
    pub(crate) fn list(&self, request: RequestId, shared: &Shared) {
        let list = shared.presence.lock().list(&self.principal);
        self.inbox.answer(request, Ok(Reply::Roll(list)));
    }

    /// Passes a word from one connection to another.
    pub(crate) fn note(&self, request: RequestId, to: Callsign, body: Value, around: &impl Surroundings) {
        if !self.may(Right::Note, request, around) {
            return;
        }
        let found = around.shared().presence.lock().find(&self.principal, self.name.as_ref(), &to);
        let answer = match found {
            Some(Address(inbox)) => {
                let from = self.principal.id.clone();
                inbox.deliver(Delivery::Signal(Signal::Note { from, body }));
                Ok(Reply::Noted)
            }
            None => Err(Reject::Offline(to)),
        };
        self.inbox.answer(request, answer);
    }

    /// A device has no more business in a session, as far as it has seen.
    pub(crate) fn part(&self, session: SessionId, seen: u64, shared: &Shared) {
        let Some(name) = self.name.as_ref() else { return };
        if let Some(after) = shared.presence.lock().part(name, &session, seen) {
            self.inbox.deliver(Delivery::Signal(Signal::Invited { session, after }));
        }
    }

    /// The connection is gone, and its name is free: the device that is lost, why, and the sessions that have to hear
    /// of it.
    pub(crate) fn leave(&mut self, shared: &Shared) -> Option<(Callsign, DeviceLoss, Vec<SessionId>)> {
        let device = self.name.take().or_else(|| self.asked_name.take())?;
        let mut presence = shared.presence.lock();
        let (sessions, why) = (presence.leave(&device, &Address(self.inbox.clone())), presence.loss());
        Some((device, why, sessions))
    }
}

/// It was looked up whether another principal has had a device of a name that somebody asks for, who is answered.
pub fn name_looked_up(
    name: &Callsign,
    claimed: Result<bool, Reject>,
    (inbox, request): (Arc<Inbox>, RequestId),
    shared: &Shared,
) {
    let address = Address(inbox);
    let answer = match claimed {
        Ok(false) => Ok(Reply::Enrolled),
        Ok(true) => Err(Reject::Forbidden),
        Err(reject) => Err(reject),
    };
    let mut presence = shared.presence.lock();
    if answer.is_ok() {
        presence.confirm(name, &address);
    } else {
        presence.leave(name, &address);
    }
    drop(presence);
    address.0.answer(request, answer);
}
