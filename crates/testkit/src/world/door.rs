//! The way in, with the rules of `server/src/upgrade.rs`: inspect, authenticate, authorise, accept.

use switchboard_core::{
    Actor, Credential, Head, Opening, OpeningRequest, Pii, Principal, Protocol, Refusal, Reply, Right, Seed,
    SplitMix, Transport, Upgrade,
};

use super::peer::{Peer, answer};
use super::{PeerId, World};

impl World {
    /// Opens a connection whose principal is known, whatever the opening says of credentials.
    pub fn connect(&mut self, protocol: &dyn Protocol, principal: Principal, opening: Opening) -> PeerId {
        match self.try_connect(protocol, principal, opening) {
            Ok(peer) => peer,
            Err(refusal) => panic!("the connection was refused: {refusal:?}"),
        }
    }

    /// As [`World::connect`], for protocols that may say no.
    ///
    /// # Errors
    /// What the protocol, or a server that is down, says.
    pub fn try_connect(
        &mut self,
        protocol: &dyn Protocol,
        principal: Principal,
        opening: Opening,
    ) -> Result<PeerId, Refusal> {
        self.try_enter(protocol, principal, OpeningRequest::default(), opening)
    }

    /// As [`World::try_connect`], for protocols that look at what is asked for.
    ///
    /// # Errors
    /// What the protocol, or a server that is down, says.
    pub fn try_enter(
        &mut self,
        protocol: &dyn Protocol,
        principal: Principal,
        request: OpeningRequest,
        opening: Opening,
    ) -> Result<PeerId, Refusal> {
        if self.down || self.draining {
            return Err(Refusal::Draining { retry_ms: 1000 });
        }
        let agent = opening.agent.clone().unwrap_or_else(|| self.default_agent.clone());
        let actor = Actor::client(principal.id.clone());
        let preview = protocol.preview(&request, &principal);
        let known = match preview.map(|lookup| self.look(&actor, &lookup)) {
            Some(Ok(Reply::Rows(rows))) => rows,
            Some(Ok(_) | Err(_)) | None => Vec::new(),
        };
        let upgrade = Upgrade {
            known,
            remote: false,
            now: self.now,
            principal: principal.clone(),
            tools: self.process.agents().get(&agent).map(|script| script.tools.clone()).unwrap_or_default(),
            agent,
            agents: self.process.agents().keys().cloned().collect(),
            request,
            opening,
        };
        let seed = self.fresh_seed();
        let connection = protocol.accept(upgrade, seed)?;
        let id = PeerId(self.next_peer);
        self.next_peer += 1;
        let max_message = protocol.max_message();
        let peer = Peer::new(connection, principal, max_message, &self.process, self.now);
        self.peers.insert(id, peer);
        self.drain_peer(id);
        self.settle();
        Ok(id)
    }

    /// Opens a connection as an HTTP upgrade does: inspect, authenticate, authorise, accept.
    ///
    /// # Errors
    /// Why not; [`Protocol::refuse`] puts it into the protocol's words.
    pub fn knock(
        &mut self,
        protocol: &dyn Protocol,
        request: &OpeningRequest,
    ) -> Result<(PeerId, Option<String>), Refusal> {
        let mut request = request.clone();
        if request.target.is_empty() {
            request.target = request.path.to_owned();
        }
        let opening = protocol.inspect(&request)?;
        let (mut principal, mut selected) = (self.authenticate(None), None);
        for Credential { token, subprotocol } in &opening.credentials {
            principal = self.authenticate(Some(&token.0));
            selected.clone_from(subprotocol);
            if principal.is_ok() {
                break;
            }
        }
        let principal = principal?;
        let principal = principal.within(protocol.name());
        let transport =
            if request.websocket { Transport::WebSocket } else { Transport::Http(request.method) };
        let mut routes = protocol.routes().iter().filter(|route| route.path == request.path);
        // A test may leave the method out where there is only one.
        let route = routes.clone().find(|route| route.transport == transport).or_else(|| routes.next());
        let right = route.map_or(Right::Connect, |route| route.right);
        if !principal.scopes.permit(right, None) {
            return Err(Refusal::Forbidden(right.refusal()));
        }
        if let Some(agent) = &opening.agent {
            if !self.process.agents().contains_key(agent) {
                return Err(Refusal::UnknownAgent);
            }
            if !principal.scopes.allows_agent(agent) {
                return Err(Refusal::Forbidden("the credential does not reach this agent"));
            }
        }
        let selected = selected.or_else(|| opening.subprotocol.clone()).map(|Pii(name)| name);
        Ok((self.try_enter(protocol, principal, request, opening)?, selected))
    }

    /// One HTTP exchange: the body is the only frame that comes in, and what is sent until the world
    /// is at rest is the answer. A client that is still answered then has left. For an answer that
    /// takes its time, [`World::knock`] and send the body.
    ///
    /// # Errors
    /// Why not; [`Protocol::refuse`] puts it into the protocol's words.
    ///
    /// # Panics
    /// No answer has begun.
    pub fn exchange(
        &mut self,
        protocol: &dyn Protocol,
        request: &OpeningRequest,
        body: &[u8],
    ) -> Result<(Head, String), Refusal> {
        let (peer, _) = self.knock(protocol, request)?;
        self.send_bytes(peer, body);
        let received = self.take(peer);
        self.cut(peer);
        self.forget(peer);
        Ok(answer(received))
    }

    pub(super) fn authenticate(&self, token: Option<&str>) -> Result<Principal, Refusal> {
        let token = token.ok_or(Refusal::CredentialMissing)?;
        let principal = self.tokens.get(token).ok_or(Refusal::CredentialInvalid)?;
        if principal.expires_at.is_some_and(|at| at <= self.now) {
            return Err(Refusal::CredentialExpired);
        }
        Ok(principal.clone())
    }

    fn fresh_seed(&self) -> Seed {
        let mut random = SplitMix::new(self.settings.seed ^ (u64::from(self.next_peer) << 32));
        let mut entropy = [0; 32];
        for chunk in entropy.chunks_mut(8) {
            chunk.copy_from_slice(&random.next().to_be_bytes());
        }
        Seed::new(entropy)
    }
}

/// An opening that asks for nothing in particular.
pub fn opening() -> Opening {
    Opening { credentials: Vec::new(), subprotocol: None, agent: None, parameters: Vec::new() }
}
