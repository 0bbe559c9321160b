//! What can be done to a server while it runs.

use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::{Actor, Op, PrincipalId, Reject, Role, SessionId};

use crate::agents::Workshop;
use crate::auth::{Revocation, RevokeError};
use crate::config::Config;
use crate::serve::ServeError;
use crate::tls::Tls;
use crate::upgrade::Door;

/// Reaches a server while it runs.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) door: Arc<Door>,
    pub(crate) tls: Option<Tls>,
    pub(crate) workshop: Arc<Workshop>,
    /// What is in force.
    pub(crate) config: Arc<Mutex<Config>>,
}

impl Handle {
    /// Reads revocations and certificates again, and takes over the credentials, agents, routes and
    /// servers of tools of `config`. Connections stay, unless their credential is revoked, gone, or says
    /// something else now; a turn that runs stays with the agent that it began with. Returns the other keys
    /// that have changed: they count from the next start.
    ///
    /// # Errors
    /// Something cannot be used; what was valid before stays so.
    pub fn reload(&self, config: Config) -> Result<Vec<String>, ServeError> {
        let directory = self.workshop.directory(&config).map_err(ServeError::Config)?;
        self.door.authenticator.reload(&config).map_err(|error| ServeError::Config(error.to_string()))?;
        self.door.gateway.reserve(self.door.authenticator.reservations());
        if let Some(tls) = &self.tls {
            tls.reload().map_err(|error| ServeError::Config(error.to_string()))?;
        }
        let sessions = &self.door.gateway.sessions;
        sessions.environment.host.replace(directory);
        self.workshop.reconfigure(&config);
        sessions.refresh();
        let mut known = self.config.lock();
        let lasting = known.differences(&config);
        let Config { agent, agents, routes, mcp, auth, secrets, .. } = config;
        *known = Config { agent, agents, routes, mcp, auth, secrets, ..known.clone() };
        Ok(lasting)
    }

    /// Revokes a key, a token or a principal, for good; its live connections end.
    ///
    /// # Errors
    /// It could not be written down.
    pub fn revoke(&self, revocation: Revocation) -> Result<(), RevokeError> {
        self.door.authenticator.revoke(revocation, self.door.gateway.sessions.environment.clock.now())
    }

    /// Lets a principal take part in a session in some role, or no longer.
    ///
    /// # Errors
    /// There is no such session, its owner is not to be changed, or it has too many participants.
    pub async fn admit(
        &self,
        session: &SessionId,
        principal: PrincipalId,
        role: Option<Role>,
    ) -> Result<(), Reject> {
        let admit = Op::Admit { principal, role };
        self.door.gateway.sessions.ask(session, Actor::server(), admit).await.map(drop)
    }
}
