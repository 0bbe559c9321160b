//! Sessions on a log of their own, without a server around them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard_agents::Agent;
use switchboard_core::{AgentId, Chronicler, SessionLimits};
use switchboard_engine::{RingBounds, SessionSettings, Shared};
use switchboard_store::{Log, SqliteLog, SqliteOptions};

use super::{Environment, SessionBounds, Sessions};
use crate::clock::Clock;
use crate::config::{Config, LimitsConfig};
use crate::host::{Directory, Host};
use crate::memory::Memory;
use crate::meters::SessionMeters;
use crate::quotas::Quotas;
use crate::routes::Routes;
use crate::workspace::Workspaces;

/// Opens the log in a folder, and sessions on it that save their state every few events.
pub(crate) fn sessions_in(
    folder: &Path,
    config: &Config,
    chroniclers: Vec<Arc<dyn Chronicler>>,
    agents: BTreeMap<AgentId, Arc<dyn Agent>>,
) -> (Arc<Sessions>, Arc<SqliteLog>) {
    let path = folder.join("log.db");
    let log = Arc::new(SqliteLog::open_with(path, SqliteOptions::default(), chroniclers.clone()).unwrap());
    (sessions_on(log.clone(), config, chroniclers, agents), log)
}

/// Sessions on a log, that save their state every few events.
pub(crate) fn sessions_on(
    log: Arc<dyn Log>,
    config: &Config,
    chroniclers: Vec<Arc<dyn Chronicler>>,
    agents: BTreeMap<AgentId, Arc<dyn Agent>>,
) -> Arc<Sessions> {
    let memory = Arc::new(Memory::new(config).unwrap());
    let directory = Directory {
        servers: BTreeMap::new(),
        agents,
        default: AgentId::from("nobody"),
        routes: Routes::default(),
        models: BTreeMap::new(),
    };
    let host = Host::new(directory, "node".into(), &LimitsConfig::default(), Workspaces::Any);
    let sessions = Arc::new(Sessions::new(Environment {
        quotas: Quotas::new(log.clone(), &LimitsConfig::default()),
        log,
        projectors: chroniclers.into(),
        host: Arc::new(host),
        memory: memory.clone(),
        clock: Clock::start(),
        meters: SessionMeters::new(),
        shared: Arc::new(Shared::new(Duration::from_secs(60), 100)),
        settings: Arc::new(SessionSettings {
            limits: SessionLimits::default(),
            ring: RingBounds { events: 16, bytes: 1 << 16 },
            snapshot_every: 7,
            idle: Duration::from_secs(60),
            lease: Duration::from_secs(30),
        }),
        bounds: SessionBounds { mailbox: 4096, resident: 100 },
        alive: Arc::default(),
    }));
    memory.note_in(&sessions);
    sessions
}
