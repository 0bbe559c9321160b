//! The process that a world simulates: what its sessions and connections ask of it. Gone when it crashes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;
use switchboard_core::model::Tool;
use switchboard_core::{
    Actor, AgentId, AttachmentId, Chronicler, Op, Principal, PrincipalId, Reject, Right, Session, SessionId,
    SplitMix, Timestamp, TurnId, TurnState, WorkerId,
};
use switchboard_engine::{Caller, Node, Reserved, Shared, Surroundings};

use super::executor::Asked;
use super::{Order, Settings};
use crate::script::{Recovery, Script};

/// The process that a world simulates.
pub(super) struct Process {
    shared: Shared,
    agents: RwLock<Arc<BTreeMap<AgentId, Script>>>,
    turns_wait: bool,
    projectors: Vec<Arc<dyn Chronicler>>,
    check: fn(&Value, &Value) -> Result<(), String>,
    gate: Mutex<Option<Gate>>,
    /// Tells the workers of this process from those of another one.
    generation: u32,
    started: AtomicU64,
    /// Decides which turns need not wait for an executor; none if no turn has to.
    random: Option<Mutex<SplitMix>>,
}

/// Says no to an op before its session sees it.
#[expect(clippy::type_complexity, reason = "this is the definition that gives it a name")]
struct Gate(Box<dyn FnMut(&Principal, &Op, Timestamp) -> Result<(), Reject> + Send>);

/// Somebody beside the connections who waits for an answer.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    /// Whoever uses the world.
    Caller(u64),
    /// An executor.
    Execution {
        /// The session of its turn.
        session: SessionId,
        /// Its turn.
        turn: TurnId,
        /// As whom it works.
        worker: WorkerId,
        /// What it asked for.
        asked: Asked,
    },
}

impl Process {
    pub(super) fn new(settings: &Settings, agents: BTreeMap<AgentId, Script>, generation: u32) -> Self {
        let random = match settings.order {
            Order::Fixed => None,
            Order::Seeded(seed) => Some(Mutex::new(SplitMix::new(seed ^ u64::from(generation)))),
        };
        Self {
            shared: Shared::new(settings.limits.request_memory, MAX_KEYS),
            agents: RwLock::new(Arc::new(agents)),
            turns_wait: settings.turns_wait,
            projectors: Vec::new(),
            check: settings.check,
            gate: Mutex::default(),
            generation,
            started: AtomicU64::new(0),
            random,
        }
    }

    /// The same, after it was started again: it knows nothing any more.
    pub(super) fn restarted(&self, settings: &Settings) -> Self {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).take();
        Self {
            projectors: self.projectors.clone(),
            gate: Mutex::new(gate),
            ..Self::new(settings, BTreeMap::clone(&self.agents()), self.generation + 1)
        }
    }

    pub(super) fn add_projector(&mut self, projector: Arc<dyn Chronicler>) {
        self.projectors.push(projector);
    }

    pub(super) fn set_gate(
        &self,
        gate: impl FnMut(&Principal, &Op, Timestamp) -> Result<(), Reject> + Send + 'static,
    ) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Gate(Box::new(gate)));
    }

    pub(super) fn agents(&self) -> Arc<BTreeMap<AgentId, Script>> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn add_agent(&self, agent: AgentId, script: Script) {
        let mut agents = BTreeMap::clone(&self.agents());
        agents.insert(agent, script);
        *self.agents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(agents);
    }

    fn replays(&self, agent: &AgentId) -> bool {
        self.agents().get(agent).is_some_and(|script| script.recovery == Recovery::Replay)
    }
}

impl Node for Process {
    type Waiter = Asker;
    type Hold = ();
    type Slot = ();

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn prepare(&self, _: &Session, _: &mut Op) {}

    fn check_arguments(&self, schema: &Value, args: &Value) -> Result<(), String> {
        (self.check)(schema, args)
    }

    fn admit(&self, _: &Session, _: &Actor, _: &Op, _: Timestamp) -> Result<(), Reject> {
        Ok(())
    }

    fn absent(&self, _: &Actor) -> Reject {
        Reject::NotFound
    }

    fn tools(&self, agent: &AgentId) -> Vec<Tool> {
        self.agents().get(agent).map(|script| script.tools.clone()).unwrap_or_default()
    }

    fn continues(&self, agent: &AgentId) -> bool {
        self.replays(agent)
    }

    /// In a world without chance nobody does, so that one thing happens after the other.
    fn hears_ahead(&self, agent: &AgentId) -> bool {
        self.random.is_some() && self.replays(agent)
    }

    fn reserve(&self, turn: &TurnState) -> Option<Reserved<()>> {
        if self.turns_wait {
            return None;
        }
        if let Some(random) = &self.random
            && random.lock().unwrap_or_else(PoisonError::into_inner).next() % 2 == 0
        {
            return None;
        }
        self.agents().contains_key(&turn.agent).then(|| Reserved {
            worker: self.worker(),
            relayed: false,
            slot: (),
        })
    }

    fn worker(&self) -> WorkerId {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        WorkerId::new(format!("sim{}.{number}", self.generation))
    }

    fn projector(&self, name: &str) -> Option<Arc<dyn Chronicler>> {
        self.projectors.iter().find(|known| known.name() == name).cloned()
    }

    fn is_crowded(&self) -> bool {
        false
    }

    fn refused(&self, _: &PrincipalId, _: Right) {}

    fn decided(&self, _: &Session, _: &Actor, _: &Op) {}
}

/// A connection, as the simulated process knows it.
#[derive(Debug)]
pub(super) struct Visitor(pub(super) Arc<Process>);

impl Surroundings for Visitor {
    type Node = Process;

    fn shared(&self) -> &Shared {
        self.0.shared()
    }

    fn refused(&self, _: &PrincipalId, _: Right) {}

    fn prepare(&mut self, _: &Caller, _: &SessionId, _: &mut Op) {}

    fn knows_agent(&self, agent: &AgentId) -> bool {
        self.0.agents().contains_key(agent)
    }

    fn take_share(&mut self, principal: &Principal, op: &Op, now: Timestamp) -> Result<(), Reject> {
        match &mut *self.0.gate.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Gate(gate)) => gate(principal, op, now),
            None => Ok(()),
        }
    }

    fn adopt(&mut self, _: &Principal) -> Result<(), Reject> {
        Ok(())
    }

    fn attached(&mut self, _: &Caller, _: &AttachmentId) {}
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// More than any test uses.
const MAX_KEYS: usize = 100_000;
