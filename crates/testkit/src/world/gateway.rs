//! The way from a connection to the sessions, with the rules of `server/src/gateway.rs`.

use switchboard_core::{
    Actor, Committed, Event, KeyIndex, Op, Position, Principal, Reject, RequestId, Right, SessionId,
};

use super::session::{Letter, Mail, ReplyTo};
use super::{Gate, PeerId, World};

impl World {
    /// Submits what a connection asks; the answer arrives in its inbox.
    pub(super) fn submit_for(&mut self, id: PeerId, request: RequestId, session: &SessionId, op: Op) {
        let Some(peer) = self.peers.get(&id) else { return };
        let (actor, principal) = (peer.actor(), peer.principal.clone());
        let reply = ReplyTo::Peer(id, request);
        match self.admit(&principal, &actor, session, &op) {
            Ok(session) => self.mail(&session, Letter::Op(Box::new(Mail { actor, op, reply }))),
            Err(reject) => self.answer(reply, Err(reject)),
        }
    }

    /// Whether the credential reaches this op, and in which session it belongs: a repeated
    /// idempotency key leads to the session in which it was first used.
    pub(super) fn admit(
        &mut self,
        principal: &Principal,
        actor: &Actor,
        session: &SessionId,
        op: &Op,
    ) -> Result<SessionId, Reject> {
        if let Some(Gate(gate)) = &mut self.gate {
            gate(principal, op, self.now)?;
        }
        if actor.lacks(Right::of(op)) {
            return Err(Reject::Forbidden);
        }
        let callsign = actor.callsign.as_ref();
        let reaches = |agent| self.agents.contains_key(agent) && principal.scopes.allows_agent(agent);
        match op {
            Op::Open { agent, .. } if !reaches(agent) => Err(Reject::UnknownAgent(agent.clone())),
            Op::StartTurn(turn) => {
                if let Some(agent) = &turn.agent
                    && !reaches(agent)
                {
                    return Err(Reject::UnknownAgent(agent.clone()));
                }
                if let Some(device) = &turn.device
                    && callsign != Some(device)
                    && !self.roll.reaches(principal, callsign, device)
                {
                    return Err(Reject::Offline(device.clone()));
                }
                if self.draining {
                    return Err(Reject::Draining);
                }
                let Some(key) = &turn.key else { return Ok(session.clone()) };
                Ok(self.keys.reserve((principal.id.clone(), key.key.clone()), session.clone(), self.now))
            }
            Op::Join(_) => {
                if let Some(callsign) = callsign {
                    // Noted only, so that the session hears when the device is lost.
                    self.roll.invite(callsign, session, Position::default());
                }
                Ok(session.clone())
            }
            _ => Ok(session.clone()),
        }
    }

    /// A key that led to nothing may be used for something else, somewhere else.
    pub(super) fn forget_key(&mut self, session: &SessionId, mail: &Mail) {
        if let Op::StartTurn(turn) = &mail.op
            && let Some(key) = &turn.key
            && !self.session(session).is_some_and(|known| known.knows_key(&mail.actor.principal, &key.key))
        {
            let key = (mail.actor.principal.clone(), key.key.clone());
            self.keys.forget(&key, session);
        }
    }

    /// Takes in the idempotency keys of the log, as a server does when it starts.
    pub(super) fn remember_keys(&mut self) {
        self.keys = KeyIndex::new(self.settings.limits.request_memory, MAX_KEYS);
        for (session, committed) in self.log.all().to_vec() {
            self.remember_key(&session, &committed);
        }
    }

    /// Others are led here by a key for as long as it is remembered here.
    pub(super) fn remember_key(&mut self, session: &SessionId, committed: &Committed) {
        if let Event::TurnAccepted { key: Some(key), origin, .. } = &committed.event {
            let key = (origin.principal.clone(), key.key.clone());
            self.keys.insert(key, session.clone(), committed.at);
        }
    }
}

/// More than any test uses.
pub(super) const MAX_KEYS: usize = 100_000;
