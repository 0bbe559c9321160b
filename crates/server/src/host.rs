//! The in-process host of agents: claims a turn, runs its agent, and sees to it that the turn ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use parking_lot::{Mutex, RwLock};
use switchboard_agents::{Agent, AgentError, Brief, Recovery, Turn, TurnPort, Visit};
use switchboard_core::model::{
    Author, CallEnd, FailureKind, Output, Tool, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{
    Actor, AgentId, CallId, Callsign, Event, MessageId, MessageRow, Op, Reject, Reply, Session, Timestamp,
    TurnState, WorkerId,
};
use switchboard_engine::{Command, Lease, ReplyTo, Reserved, Start, Submission};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::config::LimitsConfig;
use crate::meters::TurnMeter;
use crate::routes::Routes;
use crate::secrets::Secrets;
use crate::sessions::{CallBoard, Environment, Execution, Work, inspection};
use crate::slots::{Slot, Slots};
use crate::workspace::Workspaces;

/// The agents of this server, and who is sent to which.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) agents: BTreeMap<AgentId, Arc<dyn Agent>>,
    /// Serves turns which name no other.
    pub(crate) default: AgentId,
    pub(crate) routes: Routes,
    /// The models behind those agents of which it is known.
    pub(crate) models: BTreeMap<AgentId, Model>,
    /// The MCP servers that an agent reaches, of those that do not reach all of them.
    pub(crate) servers: BTreeMap<AgentId, BTreeSet<String>>,
}

/// What produces the answers of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) name: String,
    /// Who runs it.
    pub(crate) provider: String,
}

impl Directory {
    /// Whether an agent reaches the tools of an MCP server.
    pub(crate) fn reaches(&self, agent: &AgentId, server: &str) -> bool {
        self.servers.get(agent).is_none_or(|names| names.contains(server))
    }

    /// The model behind an agent; where there is none, the agent itself.
    pub(crate) fn model(&self, agent: &AgentId) -> Model {
        self.models.get(agent).cloned().unwrap_or_else(|| Model {
            name: agent.to_string(),
            provider: self.agents.get(agent).map_or("none", |agent| agent.kind()).to_owned(),
        })
    }
}

/// Runs the agents of this server.
pub(crate) struct Host {
    directory: RwLock<Arc<Directory>>,
    /// Tells the workers of this process from those of any other, past or present.
    node: String,
    started: AtomicU64,
    slots: Slots,
    /// How long a turn may wait for a slot.
    turn_wait: Duration,
    lanes: Lanes,
    workspaces: Workspaces,
    /// What agents ask for and nobody may store.
    pub(crate) secrets: Secrets,
}

impl Host {
    pub(crate) fn new(
        directory: Directory,
        node: String,
        limits: &LimitsConfig,
        workspaces: Workspaces,
    ) -> Self {
        Self {
            directory: RwLock::new(Arc::new(directory)),
            node,
            started: AtomicU64::new(0),
            slots: Slots::new(limits),
            turn_wait: Duration::from_millis(limits.turn_wait_ms),
            lanes: Lanes::new(limits.device_turns),
            workspaces,
            secrets: Secrets::default(),
        }
    }

    /// The agents as they are now; what is running stays with the agent that it began with.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        self.directory.read().clone()
    }

    /// From now on turns begin with these agents.
    pub(crate) fn replace(&self, directory: Directory) {
        *self.directory.write() = Arc::new(directory);
    }

    pub(crate) fn knows(&self, agent: &AgentId) -> bool {
        self.directory.read().agents.contains_key(agent)
    }

    pub(crate) fn tools(&self, agent: &AgentId) -> Vec<Tool> {
        self.agent(agent).map(|agent| agent.tools()).unwrap_or_default()
    }

    pub(crate) fn recovery(&self, agent: &AgentId) -> Recovery {
        self.agent(agent).map_or(Recovery::Fail, |agent| agent.recovery())
    }

    /// Whether an agent can be told of answers before they are committed: it reacts at once, and is repeated if they
    /// never are.
    pub(crate) fn hears_ahead(&self, agent: &AgentId) -> bool {
        self.agent(agent).is_some_and(|agent| agent.recovery() == Recovery::Replay && agent.reacts_at_once())
    }

    pub(crate) fn is_remote(&self, agent: &AgentId) -> bool {
        self.agent(agent).is_some_and(|agent| agent.is_remote())
    }

    pub(crate) fn came(&self, agent: &AgentId, visit: &Visit, now: Timestamp) {
        if let Some(agent) = self.agent(agent) {
            agent.came(visit, now);
        }
    }

    pub(crate) fn left(&self, agent: &AgentId, visit: &Visit, now: Timestamp) {
        if let Some(agent) = self.agent(agent) {
            agent.left(visit, now);
        }
    }

    fn agent(&self, agent: &AgentId) -> Option<Arc<dyn Agent>> {
        self.directory.read().agents.get(agent).cloned()
    }

    /// Room for a turn that can be claimed the moment it is accepted; none if it may have to wait.
    pub(crate) fn reserve(&self, turn: &TurnState) -> Option<Reserved<TurnPermit>> {
        let lane = match &turn.device {
            Some(device) => Some(self.lanes.of(device).try_acquire_owned().ok()?),
            None => None,
        };
        let slot = self.slots.try_take(&turn.origin.principal)?;
        let slot = TurnPermit { slot, lane };
        Some(Reserved { worker: self.worker(), relayed: self.is_remote(&turn.agent), slot })
    }

    pub(crate) fn worker(&self) -> WorkerId {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        WorkerId::new(format!("{}.{number}", self.node))
    }

    /// Starts work on a turn that waits for an executor, or that was claimed for this one.
    pub(crate) fn start(
        &self,
        session: &Session,
        turn: &TurnState,
        mailbox: mpsc::Sender<Command<Environment>>,
        environment: &Environment,
        start: Start<Environment>,
    ) -> Execution {
        let Start { worker, slot: permit, lease, turn: _ } = start;
        let claim = turn.claim.as_ref().filter(|claim| claim.worker == worker);
        let (stop, stopped) = watch::channel(false);
        let board = Arc::new(CallBoard::default());
        let port = SessionPort {
            mailbox,
            actor: Actor::worker(worker),
            environment: environment.clone(),
            board: board.clone(),
            room: Arc::new(Semaphore::new(ROOM)),
            slots: self.slots.clone(),
            slot: Mutex::default(),
            afterwards: Mutex::default(),
            brief: Brief {
                session: session.id().clone(),
                turn: turn.turn.clone(),
                agent: turn.agent.clone(),
                origin: turn.origin.clone(),
                device: turn.device.clone(),
                request: turn.request.clone(),
                workspace: turn.workspace.clone(),
                recall: turn.recall,
                meta: turn.meta.clone(),
                remembered: Vec::new(),
                setting: turn.setting.clone(),
                deadline: turn.deadline,
                fence: claim.map_or(UNCLAIMED, |claim| claim.fence),
            },
            input: turn.input(),
        };
        let agent = self.agent(&turn.agent);
        let began = turn.first_output_at.is_some().then_some(turn.accepted.seq);
        let (turn_wait, workspaces) = (self.turn_wait, self.workspaces.clone());
        let lane = turn.device.as_ref().filter(|_| permit.is_none()).map(|device| self.lanes.of(device));
        let work = Work::new(async move {
            let (slot, _lane) = match permit {
                Some(TurnPermit { slot, lane }) => (Some(slot), lane),
                None => {
                    // Never closed, so it is the turn's in the end.
                    let lane = match lane {
                        Some(lane) => lane.acquire_owned().await.ok(),
                        None => None,
                    };
                    let Ok(slot) = port.wait_for_slot(turn_wait, stopped.clone()).await else { return };
                    (slot, lane)
                }
            };
            match slot {
                Some(slot) => {
                    *port.slot.lock() = Some(slot);
                    execute(port, agent, &workspaces, stopped, began).await;
                }
                None => port.turn_down(turn_wait).await,
            }
        });
        let (running, clock) = (work.clone().run(), environment.clock);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = running => {}
                // In the same task, so that an agent that blocks it loses its lease.
                () = renew(&lease, clock) => {}
            }
        });
        Execution { agent: turn.agent.clone(), work, stop, board }
    }
}

/// What a turn needs to begin, taken in advance.
#[derive(Debug)]
pub(crate) struct TurnPermit {
    slot: Slot,
    /// Its place among the turns of its device.
    lane: Option<OwnedSemaphorePermit>,
}

/// Renews a lease for as long as it is polled.
async fn renew(lease: &Lease, clock: Clock) {
    let mut interval = tokio::time::interval(lease.interval());
    loop {
        interval.tick().await;
        lease.renew(clock.now());
    }
}

/// The turns of one device wait for each other, in the order in which they became ready.
struct Lanes {
    width: usize,
    of: Mutex<HashMap<Callsign, Weak<Semaphore>>>,
}

impl Lanes {
    fn new(width: usize) -> Self {
        Self { width: width.clamp(1, Semaphore::MAX_PERMITS), of: Mutex::default() }
    }

    fn of(&self, device: &Callsign) -> Arc<Semaphore> {
        let mut lanes = self.of.lock();
        if let Some(lane) = lanes.get(device).and_then(Weak::upgrade) {
            return lane;
        }
        // Nobody waits in a lane that nobody holds.
        lanes.retain(|_, lane| lane.strong_count() > 0);
        let lane = Arc::new(Semaphore::new(self.width));
        lanes.insert(device.clone(), Arc::downgrade(&lane));
        lane
    }
}

/// One execution of a turn, from its claim to its end.
async fn execute(
    mut port: SessionPort,
    agent: Option<Arc<dyn Agent>>,
    workspaces: &Workspaces,
    stopped: watch::Receiver<bool>,
    began: Option<u64>,
) {
    let turn = port.brief.turn.clone();
    if port.brief.fence == UNCLAIMED {
        let relayed = agent.as_ref().is_some_and(|agent| agent.is_remote());
        let claimed = port.ask(Op::Claim { turn: turn.clone(), relayed }).await;
        let Ok(Reply::Claimed { fence }) = claimed else { return };
        port.brief.fence = fence;
    }
    let fence = port.brief.fence;
    let _working = TurnMeter::start(&port.brief.agent);
    if agent.is_some() {
        port.remember(stopped.clone()).await;
    }
    let board = port.board.clone();
    let port = Arc::new(port);
    let prepared = match &port.brief.workspace {
        Some(workspace) => workspaces.check(workspace).await,
        None => Ok(()),
    };
    let end = match (prepared, agent) {
        (Err(lacking), _) => TurnEnd::failed(FailureKind::Unprepared, lacking),
        (Ok(()), None) => {
            let what = format!("no such agent: {}", port.brief.agent);
            TurnEnd::failed(FailureKind::Unprepared, what)
        }
        (Ok(()), Some(agent)) => {
            let journal = match began {
                Some(accepted) => port.journal(accepted).await,
                None => Vec::new(),
            };
            let end = run_agent(&*agent, &port, stopped, journal).await;
            board.verdict().unwrap_or(end)
        }
    };
    // A refusal means that the turn is over already, or that the process is going down.
    if port.ask(Op::Finish { turn, fence, end }).await.is_ok() {
        for then in std::mem::take(&mut *port.afterwards.lock()) {
            then();
        }
    }
}

async fn run_agent(
    agent: &dyn Agent,
    port: &Arc<SessionPort>,
    mut stopped: watch::Receiver<bool>,
    journal: Vec<Event>,
) -> TurnEnd {
    let mut turn = Turn::new(port.brief.clone(), port.clone(), stopped.clone(), journal);
    let run = AssertUnwindSafe(agent.run(&mut turn)).catch_unwind();
    let interrupted = || TurnEnd::new(TurnOutcome::Interrupted { abandoned: false });
    tokio::select! {
        biased;
        // Dropping the agent's future is what stops it.
        _ = stopped.wait_for(|stop| *stop) => interrupted(),
        result = run => match result {
            Ok(Ok(end)) => end,
            Ok(Err(AgentError::Over)) => interrupted(),
            Ok(Err(AgentError::Failed(failure))) => TurnEnd::new(TurnOutcome::Failed(failure)),
            Err(_panic) => {
                tracing::error!(agent = %port.brief.agent, "an agent panicked");
                TurnEnd::failed(FailureKind::Execution, "the agent crashed")
            }
        },
    }
}

/// A turn's way into its session.
struct SessionPort {
    mailbox: mpsc::Sender<Command<Environment>>,
    actor: Actor,
    environment: Environment,
    board: Arc<CallBoard>,
    /// Bytes that may be on their way into the session.
    room: Arc<Semaphore>,
    slots: Slots,
    /// None while an answer is waited for.
    slot: Mutex<Option<Slot>>,
    /// What is to be done once the end is committed.
    afterwards: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    brief: Brief,
    /// The message that the turn is about.
    input: MessageId,
}

impl SessionPort {
    async fn ask(&self, op: Op) -> Result<Reply, Reject> {
        let (reply, answer) = oneshot::channel();
        self.send(op, ReplyTo::Waiter(reply)).await?;
        answer.await.unwrap_or(Err(Reject::Busy))
    }

    async fn send(
        &self,
        op: Op,
        reply: ReplyTo<oneshot::Sender<Result<Reply, Reject>>>,
    ) -> Result<(), Reject> {
        let size = if let Op::Emit { output: Output::Text(text) | Output::Reasoning(text), .. }
        | Op::Progress { delta: text, .. } = &op
        {
            text.len()
        } else if let Op::Emit { output: Output::Data { value, .. }, .. } = &op {
            value.to_string().len()
        } else {
            0
        };
        // An agent that runs ahead of the log waits, so that neither its pieces nor their number fill
        // the memory, and others find room in the mailbox.
        let permits = u32::try_from(size.clamp(SMALLEST, ROOM)).unwrap_or(u32::MAX);
        let hold = Some(self.room.clone().acquire_many_owned(permits).await.map_err(|_| Reject::Busy)?);
        let submission = Submission { actor: self.actor.clone(), op, reply, hold };
        self.mailbox.send(Command::Submit(Box::new(submission))).await.map_err(|_| Reject::Busy)
    }

    /// A slot, or none if there was none in time.
    ///
    /// # Errors
    /// The turn is over, and needs none.
    async fn wait_for_slot(
        &self,
        patience: Duration,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<Option<Slot>, TurnIsOver> {
        let over = async { while stopped.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            slot = tokio::time::timeout(patience, self.slots.take(&self.brief.origin.principal)) => {
                Ok(slot.ok().and_then(Result::ok))
            }
            () = over => Err(TurnIsOver),
        }
    }

    /// Ends a turn for which there was no slot.
    async fn turn_down(&self, patience: Duration) {
        tracing::warn!(
            patience_ms = patience.as_millis(),
            "no slot became free for a turn, which fails (limits.running_turns, \
             limits.running_turns_per_principal, limits.turn_wait_ms)"
        );
        let turn = self.brief.turn.clone();
        let claimed = self.ask(Op::Claim { turn: turn.clone(), relayed: false }).await;
        let Ok(Reply::Claimed { fence }) = claimed else { return };
        let end = TurnEnd::failed(FailureKind::ModelUnavailable, NO_SLOT);
        // A refusal means that the turn is over already, or that the process is going down.
        let _ = self.ask(Op::Finish { turn, fence, end }).await;
    }

    /// Lays before the agent what is remembered about whoever asks, unless the turn is stopped first.
    async fn remember(&mut self, mut stopped: watch::Receiver<bool>) {
        let Brief { turn, fence, origin, request, .. } = &self.brief;
        if !matches!(request, TurnRequest::Chat { .. }) {
            return;
        }
        let Environment { memory, log, .. } = &self.environment;
        let said = request.text();
        let remembered = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => return,
            remembered = memory.recall(&**log, &origin.principal, &said) => remembered,
        };
        for memory in &remembered {
            let output = Output::Remembered(memory.clone());
            let op = Op::Emit { turn: turn.clone(), fence: *fence, output };
            if self.send(op, ReplyTo::Nobody).await.is_err() {
                return;
            }
        }
        self.brief.remembered = remembered;
    }

    /// What earlier runs of this turn have committed, in order.
    async fn journal(&self, accepted: u64) -> Vec<Event> {
        let mut journal = Vec::new();
        let mut position = accepted;
        loop {
            let read = self.environment.log.read(&self.brief.session, position, JOURNAL_READ).await;
            let batches = match read {
                Ok(batches) if !batches.is_empty() => batches,
                Ok(_) => return journal,
                Err(error) => {
                    tracing::warn!(%error, "a journal could not be read; trying again");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    continue;
                }
            };
            for committed in batches.iter().flat_map(|batch| &batch.events) {
                if committed.position.seq <= position {
                    continue;
                }
                position = committed.position.seq;
                let own = committed.event.turn() == Some(&self.brief.turn);
                if own && is_of_executor(&committed.event) {
                    journal.push(committed.event.clone());
                }
            }
        }
    }
}

/// Whether an event is something that an executor has done, or an answer to it.
fn is_of_executor(event: &Event) -> bool {
    if let Event::TurnOutput { output, .. } = event {
        return output.is_progress();
    }
    event.is_passing() || matches!(event, Event::ToolsChanged { .. })
}

#[async_trait]
impl TurnPort for SessionPort {
    async fn submit(&self, op: Op) -> Result<(), Reject> {
        self.ask(op).await.map(|_| ())
    }

    async fn post(&self, op: Op) -> Result<(), Reject> {
        self.send(op, ReplyTo::Nobody).await
    }

    async fn call_end(&self, call: &CallId) -> CallEnd {
        if let Some(end) = self.board.take(call) {
            return end;
        }
        // Others work meanwhile; whoever answers may take days.
        drop(self.slot.lock().take());
        let end = self.board.end_of(call).await;
        let none = self.slot.lock().is_none();
        if none {
            let slot = self.slots.take_again(&self.brief.origin.principal).await.ok();
            *self.slot.lock() = slot;
        }
        end
    }

    async fn history(&self, limit: usize) -> Vec<MessageRow> {
        let tip = &self.input;
        let log = &self.environment.log;
        match log.history(&self.brief.session, tip, limit.saturating_add(1)).await {
            Ok(mut rows) => {
                // The input is shown as the request, unless it is something that an agent has said and
                // is to go on with.
                rows.retain(|row| row.message != *tip || matches!(row.author, Author::Agent(_)));
                // Nobody has said what holds nothing: an answer that never came, and is followed by something.
                rows.retain(|row| !row.parts.is_empty());
                rows.truncate(limit);
                rows.reverse();
                rows
            }
            Err(error) => {
                tracing::warn!(%error, "history could not be read");
                Vec::new()
            }
        }
    }

    async fn tools(&self) -> Vec<Tool> {
        let turn = self.brief.turn.clone();
        let (inspect, answer) = inspection(move |session| session.tools_of(&turn));
        match self.mailbox.send(inspect).await {
            Ok(()) => answer.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    async fn settled(&self) {
        // What is on its way holds some of the room until it is committed.
        let all = u32::try_from(ROOM).unwrap_or(u32::MAX);
        let _ = self.room.acquire_many(all).await;
    }

    fn when_ended(&self, then: Box<dyn FnOnce() + Send>) {
        self.afterwards.lock().push(then);
    }

    fn stop_reason(&self) -> Option<String> {
        self.board.stop_reason()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("agents", &self.directory().agents.keys()).finish_non_exhaustive()
    }
}

/// Nobody waits for what a turn would do.
struct TurnIsOver;

/// What the asker is told where there was no slot.
const NO_SLOT: &str = "the server is busy with other turns; try again later";
/// Fences begin at 1.
const UNCLAIMED: u32 = 0;
const JOURNAL_READ: usize = 1024;
/// Bytes of one turn that may be on their way into its session.
const ROOM: usize = 512 << 10;
/// What the smallest piece counts for.
const SMALLEST: usize = 1 << 10;
