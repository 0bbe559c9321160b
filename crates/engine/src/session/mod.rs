//! One session at work: commands in, decisions, one append, then everybody is told.
//!
//! ```text
//!             ┌────────────────────────── failed ◀─────────────────────────┐
//!             ▼                                                            │
//!  Load ─▶ Ready ──commands──▶ decide ──▶ (Ahead, Collect) ──▶ Append ──▶ done: Answer, Publish, Start, Notify
//!             ▲                                                            │
//!             └────────────────────────────────────────────────────────────┘
//! ```
//!
//! The state runs ahead of the log while a batch is being committed, but nothing of it is visible
//! to anybody before the commit. When the commit fails, the state is thrown away and read again.
//!
//! The worker does no I/O. Whoever runs it hands in one [`Input`] and then drains
//! [`SessionWorker::poll_output`] until [`Output::Idle`]; an output that reads or writes the log is carried out and
//! answered before the next one is asked for. A server does so in a task for each session, the simulation in one
//! thread, with a log that is slow or fails.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::model::{Executor, Tool, ToolChange};
use switchboard_core::{
    Actor, AgentId, Chronicler, Op, PrincipalId, Reject, Right, Session, SessionId, SessionLimits, Timestamp,
    ToolName, TurnId, TurnState, WorkerId,
};

mod command;
mod commit;
mod decide;
mod lease;
mod output;
mod phase;
mod projections;

pub use command::{AttachRequest, Command, Inspection, ReplyTo, Submission};
pub use lease::Lease;
pub use output::{AppendFailed, Input, Notice, Output, ReadFailed, Start};

use crate::feed::{Feed, RingBounds};
use crate::shared::Shared;
use decide::Draft;
use phase::{Loading, Phase};
use projections::Projections;

/// What a session worker asks of the node it runs on, and is answered at once.
pub trait Node: Debug {
    /// Somebody beside the connections who waits for an answer.
    type Waiter: Debug;
    /// What a submission holds until it is committed or refused, such as room in a bounded buffer.
    type Hold;
    /// What an executor needs to begin.
    type Slot: Debug;

    /// What all sessions and connections of the node share.
    fn shared(&self) -> &Shared;

    /// Looks at an op before it is decided, and takes out what must not be stored.
    fn prepare(&self, session: &Session, op: &mut Op);

    /// Holds the arguments of a tool against its schema.
    ///
    /// # Errors
    /// What is wrong with them.
    fn check_arguments(&self, schema: &Value, args: &Value) -> Result<(), String>;

    /// Whether an op may be decided, as far as it stores something.
    ///
    /// # Errors
    /// The principal whose session it is has stored as much as it may.
    fn admit(&self, session: &Session, actor: &Actor, op: &Op, now: Timestamp) -> Result<(), Reject>;

    /// What somebody is told who may not follow a session, or cannot because it could not be opened.
    fn absent(&self, actor: &Actor) -> Reject;

    /// The tools that an agent brings along.
    fn tools(&self, agent: &AgentId) -> Vec<Tool>;

    /// Whether an agent goes on from what it has emitted when its executor is lost.
    fn continues(&self, agent: &AgentId) -> bool;

    /// Whether an agent may be told of answers before they are committed.
    fn hears_ahead(&self, agent: &AgentId) -> bool;

    /// What a turn needs to begin the moment it is accepted; none if it may have to wait.
    fn reserve(&self, turn: &TurnState) -> Option<Reserved<Self::Slot>>;

    /// A name for an executor that nobody has had before.
    fn worker(&self) -> WorkerId;

    /// Whoever keeps a projection.
    fn projector(&self, name: &str) -> Option<Arc<dyn Chronicler>>;

    /// Whether many sessions are in memory, so that idle ones should go.
    fn is_crowded(&self) -> bool;

    /// A credential did not allow what was asked.
    fn refused(&self, principal: &PrincipalId, right: Right);

    /// An op was decided, and is not yet applied.
    fn decided(&self, session: &Session, actor: &Actor, op: &Op);
}

/// What a turn needs to begin, taken in advance.
#[derive(Debug)]
pub struct Reserved<S> {
    /// As whom its executor works.
    pub worker: WorkerId,
    /// Whether the turn is passed on to somebody else's process.
    pub relayed: bool,
    /// The rest.
    pub slot: S,
}

/// Bounds of one session worker.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// Bounds of the session itself.
    pub limits: SessionLimits,
    /// What followers can read without going to the log.
    pub ring: RingBounds,
    /// Events after which a snapshot is due.
    pub snapshot_every: u64,
    /// For how long an idle session stays in memory.
    pub idle: Duration,
    /// For how long an executor may give no sign of life.
    pub lease: Duration,
}

/// Decides what one session does. See the module's documentation.
#[derive(Debug)]
pub struct SessionWorker<N: Node> {
    session: Session,
    /// What protocols keep of it, as of the same event.
    projections: Projections,
    feed: Arc<Feed>,
    settings: Arc<SessionSettings>,
    phase: Phase<N>,
    /// Commands that are not decided yet.
    queue: VecDeque<Command<N>>,
    draft: Option<Box<Draft<N>>>,
    outputs: VecDeque<Output<N>>,
    executing: BTreeMap<TurnId, Executing>,
    /// Ops that the log could not take yet, and that must not be lost.
    retained: VecDeque<Box<Submission<N>>>,
    retry_at: Option<Timestamp>,
    backoff: Duration,
    events_since_snapshot: u64,
    /// Turns that wait for an executor are to be looked for.
    looks_for_turns: bool,
    /// Since when nothing was asked.
    quiet_since: Timestamp,
}

/// An execution of a turn, as its session sees it.
#[derive(Debug)]
struct Executing {
    agent: AgentId,
    worker: WorkerId,
    /// Its agent can be told what is not committed yet.
    ahead: bool,
    lease: Arc<Lease>,
}

impl<N: Node> SessionWorker<N> {
    /// A worker that begins by reading its session from the log.
    pub fn new(id: SessionId, settings: Arc<SessionSettings>, now: Timestamp) -> Self {
        Self {
            session: Session::new(id, settings.limits.clone()),
            projections: Projections::default(),
            feed: Arc::new(Feed::new(0, settings.ring)),
            settings,
            phase: Phase::Loading(Loading::First),
            queue: VecDeque::new(),
            draft: None,
            outputs: VecDeque::from([Output::Load]),
            executing: BTreeMap::new(),
            retained: VecDeque::new(),
            retry_at: None,
            backoff: FIRST_BACKOFF,
            events_since_snapshot: 0,
            looks_for_turns: false,
            quiet_since: now,
        }
    }

    /// The session, with what is not committed yet.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// What its followers share.
    pub const fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Whether commands can be handed in: not while something is asked of the log.
    pub const fn takes_commands(&self) -> bool {
        matches!(self.phase, Phase::Ready | Phase::Reacting | Phase::Broken(_))
    }

    /// Whether the state is that of the log, as far as the worker knows: nothing is on its way.
    pub const fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Ready) && self.draft.is_none()
    }

    /// Whether the worker will never do anything again: the log is closed.
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// How many commands and retained ops wait inside.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.retained.len()
    }

    /// Feeds one input; drain [`SessionWorker::poll_output`] before the next one that is no command.
    pub fn handle(&mut self, input: Input<N>, node: &N, now: Timestamp) {
        match input {
            Input::Command(command) => {
                self.queue.push_back(command);
                self.quiet_since = now;
            }
            Input::Loaded(loaded) => self.loaded(loaded, node, now),
            Input::Page(page) => self.paged(page, node, now),
            Input::Found(found) => self.found(found, node, now),
            Input::Appended(appended) => self.appended(appended, node, now),
            Input::Collected => {
                if matches!(self.phase, Phase::Reacting) {
                    self.phase = Phase::Ready;
                }
            }
            Input::Timeout => self.timeout(node, now),
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self, node: &N, now: Timestamp) -> Output<N> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return output;
            }
            if !self.proceed(node, now) {
                // A burst leaves no memory behind.
                if self.outputs.capacity() > SMALL || self.queue.capacity() > SMALL {
                    (self.outputs, self.queue) = (VecDeque::new(), VecDeque::new());
                }
                return Output::Idle { wake: self.next_timeout(node) };
            }
        }
    }

    /// Goes on with what was handed in; false if there is nothing to go on with.
    fn proceed(&mut self, node: &N, now: Timestamp) -> bool {
        match self.phase {
            Phase::Ready => {
                if self.draft.is_none() && !self.queue.is_empty() {
                    self.open_draft();
                }
                if let Some(command) = self.queue.pop_front() {
                    self.take_command(command, node, now);
                    return true;
                }
                if let Some(draft) = self.draft.take() {
                    self.close_draft(draft, node, now);
                    return true;
                }
                if std::mem::take(&mut self.looks_for_turns) {
                    self.start_ready_turns(node, now);
                }
                !self.outputs.is_empty()
            }
            Phase::Broken(_) => self.refuse_all(),
            Phase::Loading(_)
            | Phase::CatchingUp(_)
            | Phase::Finding { .. }
            | Phase::Reacting
            | Phase::Appending(_)
            | Phase::Verifying(..)
            | Phase::Closed => false,
        }
    }

    /// When something has to happen although nobody asks for it.
    fn next_timeout(&self, node: &N) -> Option<Timestamp> {
        match &self.phase {
            Phase::Ready => {
                let idle = self.idle_timeout(node).map(|idle| self.quiet_since.after(idle));
                idle.into_iter().chain(self.wake()).min()
            }
            Phase::Loading(_) | Phase::Verifying(..) | Phase::Broken(_) => self.retry_at,
            Phase::CatchingUp(_)
            | Phase::Finding { .. }
            | Phase::Reacting
            | Phase::Appending(_)
            | Phase::Closed => None,
        }
    }

    /// When the session has something to do by itself.
    fn wake(&self) -> Option<Timestamp> {
        if self.retry_at.is_some() {
            return self.retry_at;
        }
        let leases = self.executing.values().map(|executing| executing.lease.due());
        leases.chain(self.session.next_wake()).min()
    }

    fn timeout(&mut self, node: &N, now: Timestamp) {
        match &self.phase {
            Phase::Ready => {}
            Phase::Loading(_) | Phase::Verifying(..) | Phase::Broken(_)
                if self.retry_at.is_some_and(|at| at <= now) =>
            {
                self.retry_at = None;
                return self.read_again();
            }
            Phase::Loading(_)
            | Phase::CatchingUp(_)
            | Phase::Finding { .. }
            | Phase::Reacting
            | Phase::Appending(_)
            | Phase::Verifying(..)
            | Phase::Broken(_)
            | Phase::Closed => return,
        }
        if self.wake().is_some_and(|at| at <= now) {
            self.queue.push_back(Command::own(Op::Wake));
            self.lose_silent_executors(node, now);
            self.quiet_since = now;
        } else if self.idle_timeout(node).is_some_and(|idle| self.quiet_since.after(idle) <= now) {
            // Followers may have left since the pause began; what goes on here goes on without them.
            let busy = self.session.is_live() || !self.retained.is_empty();
            if busy || self.feed.has_followers() {
                // Whoever is still behind reads the log.
                self.feed.trim();
            } else {
                self.outputs.push_back(Output::Retire);
            }
            self.quiet_since = now;
        }
    }

    /// Ends the turns whose executors have not renewed their lease.
    fn lose_silent_executors(&mut self, node: &N, now: Timestamp) {
        for (turn, executing) in &self.executing {
            if executing.lease.has_run_out(now) {
                tracing::warn!(turn = %turn, agent = %executing.agent, "an executor has not renewed its lease");
                let continues = node.continues(&executing.agent);
                self.queue.push_back(Command::own(Op::Lose { turn: turn.clone(), continues }));
            }
        }
    }

    /// How long the session, or the ring of its events, may stay in memory with nothing to do; none
    /// while it has something.
    fn idle_timeout(&self, node: &N) -> Option<Duration> {
        if self.feed.has_followers() {
            // Whoever followed what is over has mostly left by then, which nobody tells the worker.
            let patience = if self.session.is_live() { RING_IDLE } else { OVER_IDLE };
            return self.feed.holds_events().then_some(patience);
        }
        if self.session.is_live() || !self.retained.is_empty() {
            return None;
        }
        if self.session.owner().is_none() {
            Some(Duration::ZERO)
        } else if node.is_crowded() {
            // Many come and go: whoever is needed again is read from the log again.
            Some(self.settings.idle.min(CROWDED_IDLE))
        } else {
            Some(self.settings.idle)
        }
    }

    /// What the session's agent offers and the session does not know yet, and what servers of tools
    /// offer no more.
    fn missing_tools(&self, node: &N) -> Option<ToolChange> {
        let offered = node.tools(self.session.agent()?);
        let gone = |known: &&Tool| {
            known.options.get(FROM_SERVER).is_some() && offered.iter().all(|tool| tool.name != known.name)
        };
        let remove: Vec<ToolName> = self.session.tools().filter(gone).map(|tool| tool.name.clone()).collect();
        let missing = |tool: &Tool| {
            tool.executor == Executor::Agent && !self.session.tools().any(|known| known == tool)
        };
        let add: Vec<Tool> = offered.into_iter().filter(missing).collect();
        (!add.is_empty() || !remove.is_empty()).then_some(ToolChange { add, remove, turn: None })
    }
}

/// The option of a tool that names the server which it comes from.
const FROM_SERVER: &str = "mcp";
/// How long an idle session stays in memory when there are many.
const CROWDED_IDLE: Duration = Duration::from_millis(100);
/// For how long events of a session in which nothing goes on stay in memory.
const OVER_IDLE: Duration = Duration::from_millis(250);
/// For how long events stay in memory after the last one.
const RING_IDLE: Duration = Duration::from_secs(2);
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Queues that have grown beyond this are given back.
const SMALL: usize = 16;
