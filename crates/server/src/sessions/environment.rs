//! What every session of this process stands on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use switchboard_agents::Recovery;
use switchboard_core::model::Tool;
use switchboard_core::{
    Actor, AgentId, Chronicler, Op, PrincipalId, Reject, Reply, Right, Session, Timestamp, TurnState,
    WorkerId,
};
use switchboard_engine::{Node, Reserved, SessionSettings, Shared};
use switchboard_store::Log;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::audit;
use crate::clock::Clock;
use crate::host::{Host, TurnPermit};
use crate::memory::Memory;
use crate::meters::SessionMeters;
use crate::quotas::Quotas;
use crate::schema::check_arguments;

/// What every session of this process stands on.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) log: Arc<dyn Log>,
    /// Who keeps projections of sessions.
    pub(crate) projectors: Arc<[Arc<dyn Chronicler>]>,
    pub(crate) host: Arc<Host>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Clock,
    pub(crate) meters: SessionMeters,
    /// What sessions and connections know together.
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Arc<SessionSettings>,
    /// What principals may store.
    pub(crate) quotas: Quotas,
    pub(crate) bounds: SessionBounds,
    /// Sessions that are in memory.
    pub(crate) alive: Arc<AtomicUsize>,
}

/// Bounds of sessions, taken together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionBounds {
    /// Commands that may wait in front of one.
    pub(crate) mailbox: usize,
    /// How many may be in memory at the same time.
    pub(crate) resident: usize,
}

impl Node for Environment {
    type Waiter = oneshot::Sender<Result<Reply, Reject>>;
    type Hold = OwnedSemaphorePermit;
    type Slot = TurnPermit;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn prepare(&self, session: &Session, op: &mut Op) {
        self.host.secrets.keep(session, op);
    }

    fn check_arguments(&self, schema: &Value, args: &Value) -> Result<(), String> {
        check_arguments(schema, args)
    }

    fn admit(&self, session: &Session, actor: &Actor, op: &Op, now: Timestamp) -> Result<(), Reject> {
        self.quotas.admit(session, actor, op, now)
    }

    fn absent(&self, actor: &Actor) -> Reject {
        self.quotas.absent(actor)
    }

    fn tools(&self, agent: &AgentId) -> Vec<Tool> {
        self.host.tools(agent)
    }

    fn continues(&self, agent: &AgentId) -> bool {
        self.host.recovery(agent) == Recovery::Replay
    }

    fn hears_ahead(&self, agent: &AgentId) -> bool {
        self.host.hears_ahead(agent)
    }

    fn reserve(&self, turn: &TurnState) -> Option<Reserved<TurnPermit>> {
        self.host.reserve(turn)
    }

    fn worker(&self) -> WorkerId {
        self.host.worker()
    }

    fn projector(&self, name: &str) -> Option<Arc<dyn Chronicler>> {
        self.projectors.iter().find(|known| known.name() == name).cloned()
    }

    fn is_crowded(&self) -> bool {
        self.alive.load(Ordering::Relaxed) > CROWD.min(self.bounds.resident / 2)
    }

    fn refused(&self, principal: &PrincipalId, right: Right) {
        audit::refused(principal, right);
    }

    fn decided(&self, session: &Session, actor: &Actor, op: &Op) {
        audit::decided(session, actor, op);
    }
}

/// So many sessions in memory are many.
const CROWD: usize = 512;
