//! Who may come in, and as whom.

use std::net::IpAddr;
use std::sync::Arc;

use switchboard_core::{
    Credential, Opening, OpeningRequest, Pii, Principal, Protocol, Refusal, Right, Timestamp,
};

use super::{Door, RETRY_MS};
use crate::audit;
use crate::auth::{self, AuthError, Identity};
use crate::courtesy::Courtesy;
use crate::limits::{ConnectionGuard, TooMany};
use crate::origin::OriginError;
use crate::visitor::Visitor;

/// A visitor who may come in.
pub(super) struct Admitted {
    pub(super) request: OpeningRequest,
    pub(super) opening: Opening,
    pub(super) subprotocol: Option<Pii<String>>,
    pub(super) identity: Identity,
    pub(super) address: IpAddr,
    pub(super) guard: ConnectionGuard,
}

impl Door {
    /// Lets a visitor come as far as the protocol.
    pub(super) fn admit(
        &self,
        protocol: &Arc<dyn Protocol>,
        visitor: &Visitor,
        courtesy: &Courtesy,
    ) -> Result<Admitted, Refusal> {
        let address = self.origins.client(visitor.address.ip(), &visitor.headers);
        let guard = self.count(protocol, address)?;
        match courtesy.stranger {
            Some(OriginError::Host) => return Err(Refusal::Forbidden("the host is not allowed")),
            Some(OriginError::Origin) if !protocol.judges_origins() => {
                return Err(Refusal::Forbidden("the origin is not allowed"));
            }
            Some(OriginError::Origin) | None => {}
        }
        let request = visitor.opening_request(&**protocol, courtesy, &self.origins);
        let opening = protocol.inspect(&request)?;
        let shown = opening.credentials.iter().map(|credential| credential.token.0.as_str());
        self.authenticator.admit(shown, Some(visitor.address)).map_err(unauthenticated)?;
        self.vet(protocol, visitor.route.right, request, opening, address, guard)
    }

    /// Counts a visitor, unless there are too many or the server is leaving.
    pub(super) fn count(
        &self,
        protocol: &Arc<dyn Protocol>,
        address: IpAddr,
    ) -> Result<ConnectionGuard, Refusal> {
        let now = self.gateway.sessions.environment.clock.now();
        let guard = self.limits.open(address, protocol.name(), protocol.arrivals(), now);
        let guard = guard.map_err(too_many)?;
        if self.draining.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Refusal::Draining { retry_ms: RETRY_MS });
        }
        Ok(guard)
    }

    /// Finds out who it is, and whether they may come in.
    pub(super) fn vet(
        &self,
        protocol: &Arc<dyn Protocol>,
        right: Right,
        request: OpeningRequest,
        opening: Opening,
        address: IpAddr,
        mut guard: ConnectionGuard,
    ) -> Result<Admitted, Refusal> {
        let now = self.gateway.sessions.environment.clock.now();
        let known = match protocol.identify(&request, &opening, now) {
            Some(known) => known.and_then(|principal| self.recognise(principal)).map(|own| (own, None)),
            None => self.identify(&opening, now),
        };
        let (mut identity, subprotocol) = known.inspect_err(|refusal| {
            if matches!(refusal, Refusal::CredentialInvalid) {
                guard.count_bad_credential(now);
            }
        })?;
        // From here on only what counts in this protocol.
        identity.principal = identity.principal.within(protocol.name());
        let principal = &identity.principal;
        if !principal.scopes.permit(right, None) {
            audit::refused(&principal.id, right);
            return Err(Refusal::Forbidden(right.refusal()));
        }
        let host = &self.gateway.sessions.environment.host;
        if let Some(agent) = &opening.agent {
            if !host.knows(agent) {
                return Err(Refusal::UnknownAgent);
            }
            if !principal.scopes.allows_agent(agent) {
                audit::refused(&principal.id, Right::Ask);
                return Err(Refusal::Forbidden("the credential does not reach this agent"));
            }
        }
        guard.identify(&principal.id).map_err(too_many)?;
        let subprotocol = subprotocol.or_else(|| opening.subprotocol.clone());
        Ok(Admitted { request, opening, subprotocol, identity, address, guard })
    }

    /// Somebody whom the protocol knows by credentials of its own.
    fn recognise(&self, principal: Principal) -> Result<Identity, Refusal> {
        let identity = Identity { principal, credential: auth::Credential::Token { jti: None } };
        if self.authenticator.is_revoked(&identity) {
            return Err(Refusal::CredentialInvalid);
        }
        Ok(identity)
    }

    /// Who it is, and the sub-protocol that the credential which counts goes with.
    fn identify(
        &self,
        opening: &Opening,
        now: Timestamp,
    ) -> Result<(Identity, Option<Pii<String>>), Refusal> {
        let mut refused = None;
        for Credential { token, subprotocol } in &opening.credentials {
            match self.authenticator.identify(Some(&token.0), now) {
                Ok(identity) => return Ok((identity, subprotocol.clone())),
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) => Err(unauthenticated(error)),
            None => {
                let known = self.authenticator.identify(None, now).map_err(unauthenticated)?;
                Ok((known, None))
            }
        }
    }
}

const fn unauthenticated(error: AuthError) -> Refusal {
    match error {
        AuthError::Missing => Refusal::CredentialMissing,
        AuthError::Invalid => Refusal::CredentialInvalid,
        AuthError::Expired => Refusal::CredentialExpired,
    }
}

fn too_many(error: TooMany) -> Refusal {
    Refusal::TooMany { retry_ms: error.retry_ms() }
}
