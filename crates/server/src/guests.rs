//! What is served besides what is configured: how an embedding program adds to the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_agents::Agent;
use switchboard_core::{AgentId, Protocol};

use crate::errands::Errands;
use crate::voices::House;

/// What is served besides what is configured; see [`Server::start_hosting`](crate::Server::start_hosting).
#[derive(Debug, Default)]
pub struct Guests {
    /// Instead of the configured ones.
    pub(crate) agents: Option<BTreeMap<AgentId, Arc<dyn Agent>>>,
    pub(crate) protocols: Vec<Arc<dyn Protocol>>,
    /// Who runs their errands, by the name of the protocol.
    pub(crate) errands: BTreeMap<&'static str, Arc<dyn Errands>>,
    /// Who listens and speaks instead of those who are configured.
    pub(crate) voices: Option<Arc<dyn House>>,
}

impl Guests {
    /// With these agents, instead of the configured ones.
    #[must_use]
    pub fn with_agents(mut self, agents: BTreeMap<AgentId, Arc<dyn Agent>>) -> Self {
        self.agents = Some(agents);
        self
    }

    /// With one more protocol. Its connections are authenticated, limited, counted, driven and drained as
    /// those of every other, and reach the same sessions. Its name and paths must be its own.
    #[must_use]
    pub fn with_protocol(mut self, protocol: impl Protocol + 'static) -> Self {
        self.protocols.push(Arc::new(protocol));
        self
    }
}
