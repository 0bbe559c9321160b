//! The in-process host of agents: claims a turn, runs its agent, and sees to it that the turn ends.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use switchboard_agents::{Agent, AgentError, Brief, Recovery, Turn, TurnPort};
use switchboard_core::model::{CallEnd, FailureKind, Output, Tool, TurnEnd, TurnOutcome};
use switchboard_core::{
    Actor, AgentId, CallId, Callsign, Event, MessageId, MessageRow, Op, Reject, Reply, Session, Timestamp,
    TurnState, WorkerId,
};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::meters::TurnMeter;
use crate::sessions::{CallBoard, Environment, Executing, Letter, Mail, ReplyTo};
use crate::workspace::Workspaces;

/// The agents of this server.
pub(crate) struct Host {
    agents: BTreeMap<AgentId, Arc<dyn Agent>>,
    default: AgentId,
    /// Tells the workers of this process from those of any other, past or present.
    node: String,
    started: AtomicU64,
    /// How many turns may be worked on at the same time.
    room: Arc<Semaphore>,
    lanes: Lanes,
    workspaces: Workspaces,
}

impl Host {
    pub(crate) fn new(
        agents: BTreeMap<AgentId, Arc<dyn Agent>>,
        default: AgentId,
        node: String,
        running: usize,
        per_device: usize,
        workspaces: Workspaces,
    ) -> Self {
        let room = Arc::new(Semaphore::new(running.min(Semaphore::MAX_PERMITS)));
        Self {
            agents,
            default,
            node,
            started: AtomicU64::new(0),
            room,
            lanes: Lanes::new(per_device),
            workspaces,
        }
    }

    pub(crate) fn agents(&self) -> Vec<AgentId> {
        self.agents.keys().cloned().collect()
    }

    pub(crate) fn default_agent(&self) -> &AgentId {
        &self.default
    }

    pub(crate) fn knows(&self, agent: &AgentId) -> bool {
        self.agents.contains_key(agent)
    }

    pub(crate) fn tools(&self, agent: &AgentId) -> Vec<Tool> {
        self.agents.get(agent).map(|agent| agent.tools()).unwrap_or_default()
    }

    pub(crate) fn recovery(&self, agent: &AgentId) -> Recovery {
        self.agents.get(agent).map_or(Recovery::Fail, |agent| agent.recovery())
    }

    /// Starts work on a turn that waits for an executor.
    pub(crate) fn start(
        &self,
        session: &Session,
        turn: &TurnState,
        mailbox: mpsc::Sender<Letter>,
        environment: &Environment,
    ) -> Executing {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let worker = WorkerId::new(format!("{}.{number}", self.node));
        let (stop, stopped) = watch::channel(false);
        let board = Arc::new(CallBoard::default());
        let port = SessionPort {
            mailbox,
            actor: Actor::worker(worker),
            environment: environment.clone(),
            board: board.clone(),
            room: Arc::new(Semaphore::new(ROOM)),
            brief: Brief {
                session: session.id().clone(),
                turn: turn.turn.clone(),
                agent: turn.agent.clone(),
                principal: turn.origin.principal.clone(),
                attachment: turn.origin.attachment.clone(),
                device: turn.device.clone(),
                request: turn.request.clone(),
                workspace: turn.workspace.clone(),
                recall: turn.recall,
                meta: turn.meta.clone(),
                deadline: turn.deadline,
                fence: 0,
            },
        };
        let agent = self.agents.get(&turn.agent).cloned();
        let began = turn.first_output_at.is_some().then_some(turn.accepted.seq);
        let (room, workspaces) = (self.room.clone(), self.workspaces.clone());
        let lane = turn.device.as_ref().map(|device| self.lanes.of(device));
        tokio::spawn(async move {
            let _lane = match lane {
                Some(lane) => lane.acquire_owned().await.ok(),
                None => None,
            };
            // Never closed, so there is always room in the end.
            let _place = room.acquire_owned().await;
            execute(port, agent, &workspaces, stopped, began).await;
        });
        Executing { agent: turn.agent.clone(), stop, board }
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
    let Ok(Reply::Claimed { fence }) = port.ask(Op::Claim { turn: turn.clone() }).await else { return };
    port.brief.fence = fence;
    let _working = TurnMeter::start(&port.brief.agent);
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
    let _ = port.ask(Op::Finish { turn, fence, end }).await;
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
    mailbox: mpsc::Sender<Letter>,
    actor: Actor,
    environment: Environment,
    board: Arc<CallBoard>,
    /// Bytes that may be on their way into the session.
    room: Arc<Semaphore>,
    brief: Brief,
}

impl SessionPort {
    async fn ask(&self, op: Op) -> Result<Reply, Reject> {
        let (reply, answer) = oneshot::channel();
        self.send(op, ReplyTo::Waiter(reply)).await?;
        answer.await.unwrap_or(Err(Reject::Busy))
    }

    async fn send(&self, op: Op, reply: ReplyTo) -> Result<(), Reject> {
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
        let room = Some(self.room.clone().acquire_many_owned(permits).await.map_err(|_| Reject::Busy)?);
        let mail = Mail { actor: self.actor.clone(), op, reply, room };
        self.mailbox.send(Letter::Op(Box::new(mail))).await.map_err(|_| Reject::Busy)
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
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                    continue;
                }
            };
            for committed in batches.iter().flat_map(|batch| &batch.events) {
                if committed.position.seq <= position {
                    continue;
                }
                position = committed.position.seq;
                let own = committed.event.turn() == Some(&self.brief.turn);
                let produced = matches!(
                    committed.event,
                    Event::TurnOutput { .. }
                        | Event::CallRequested { .. }
                        | Event::CallProgress { .. }
                        | Event::CallEnded { .. }
                        | Event::ToolsChanged { .. }
                );
                if own && produced {
                    journal.push(committed.event.clone());
                }
            }
        }
    }
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
        self.board.end_of(call).await
    }

    async fn history(&self, limit: usize) -> Vec<MessageRow> {
        let tip = MessageId::input_of(&self.brief.turn);
        let log = &self.environment.log;
        match log.history(&self.brief.session, &tip, limit.saturating_add(1)).await {
            Ok(mut rows) => {
                rows.retain(|row| row.message != tip);
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
        let (reply, answer) = oneshot::channel();
        match self.mailbox.send(Letter::Tools(self.brief.turn.clone(), reply)).await {
            Ok(()) => answer.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("agents", &self.agents.keys()).finish_non_exhaustive()
    }
}

const JOURNAL_READ: usize = 1024;
/// Bytes of one turn that may be on their way into its session.
const ROOM: usize = 512 << 10;
/// What the smallest piece counts for.
const SMALLEST: usize = 1 << 10;
