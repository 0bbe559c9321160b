//! One session at work: ops in, decisions, one append, then everybody is told.
//!
//! The state runs ahead of the log while a batch is being committed, but nothing of it is visible
//! to anybody before the commit. When the commit fails, the state is thrown away and read again.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_agents::Recovery;
use switchboard_core::model::{Executor, Tool, ToolChange};
use switchboard_core::{
    Actor, AgentId, AttachmentId, Op, Reject, Session, SessionId, Timestamp, ToolName, TurnId, TurnState,
    TurnStatus,
};
use switchboard_store::StoreError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::accounts::Accounts;
use super::commit::Draft;
use super::{ActorBounds, Environment, Executing, Letter, Mail, ReplyTo, Sessions, Standing};
use crate::feed::Feed;
use crate::host::Reserved;

pub(super) struct SessionActor {
    pub(super) sessions: Arc<Sessions>,
    pub(super) session: Session,
    /// What protocols keep of it, as of the same event.
    pub(super) accounts: Accounts,
    pub(super) feed: Arc<Feed>,
    pub(super) executing: BTreeMap<TurnId, Executing>,
    /// Ops of executors that the log could not take yet.
    pub(super) retained: VecDeque<Box<Mail>>,
    pub(super) retry_at: Option<Instant>,
    pub(super) backoff: Duration,
    pub(super) events_since_snapshot: u64,
    mailbox: mpsc::WeakSender<Letter>,
    /// The log is closed: nothing can happen here any more.
    pub(super) closed: bool,
}

impl SessionActor {
    pub(super) fn new(id: SessionId, sessions: Arc<Sessions>, mailbox: mpsc::WeakSender<Letter>) -> Self {
        let environment = &sessions.environment;
        let feed = Arc::new(Feed::new(0, environment.bounds.ring));
        Self {
            session: Session::new(id, environment.limits.clone()),
            accounts: Accounts::default(),
            feed,
            executing: BTreeMap::new(),
            retained: VecDeque::new(),
            retry_at: None,
            backoff: FIRST_BACKOFF,
            events_since_snapshot: 0,
            mailbox,
            closed: false,
            sessions,
        }
    }

    /// Works until there is nothing left to do.
    pub(super) async fn run(&mut self, mailbox: &mut mpsc::Receiver<Letter>) {
        if let Err(error) = Box::pin(self.load()).await {
            tracing::error!(%error, "a session cannot be read from the log");
            self.refuse_all(mailbox, &error);
            return;
        }
        Box::pin(self.recover(mailbox)).await;
        let mut letters = Vec::new();
        let mut quiet_since = Instant::now();
        let mut timer = pin!(tokio::time::sleep_until(quiet_since));
        while !self.closed {
            let idle = self.idle_timeout().map(|idle| quiet_since + idle);
            let wake = self.wake_instant();
            let due = idle.into_iter().chain(wake).min();
            // The timer may go off early, which is harmless, but never late: most of what is waited for is over
            // long before its time.
            if let Some(at) = due.filter(|at| *at < timer.deadline() || timer.is_elapsed()) {
                timer.as_mut().reset(at);
            }
            tokio::select! {
                biased;
                received = mailbox.recv_many(&mut letters, BATCH_LETTERS) => {
                    if received == 0 {
                        return;
                    }
                    // Boxed, so that an idle session does not carry the room for its work.
                    Box::pin(self.work(&mut letters, mailbox)).await;
                    // A burst leaves no memory behind.
                    if mailbox.is_empty() && letters.capacity() > SMALL_BATCH {
                        letters = Vec::new();
                    }
                    quiet_since = Instant::now();
                }
                () = &mut timer, if due.is_some() => {
                    let now = Instant::now();
                    if wake.is_some_and(|at| at <= now) {
                        letters.push(own(Op::Wake));
                        letters.extend(self.lost_executors());
                        Box::pin(self.work(&mut letters, mailbox)).await;
                        quiet_since = Instant::now();
                    } else if idle.is_some_and(|at| at <= now) {
                        // Followers may have left since the pause began; what goes on here goes on without them.
                        let busy = self.session.is_live() || !self.retained.is_empty();
                        if busy || self.feed.has_followers() {
                            // Whoever is still behind reads the log.
                            self.feed.trim();
                        } else if self.sessions.retire(self.session.id(), mailbox) {
                            return;
                        }
                        quiet_since = now;
                    }
                }
            }
        }
    }

    /// Reads the session from the log: its last snapshot and what came after it.
    pub(super) async fn load(&mut self) -> Result<(), StoreError> {
        let environment = &self.sessions.environment;
        let id = self.session.id().clone();
        let mut session = Session::new(id.clone(), environment.limits.clone());
        let mut accounts = Accounts::default();
        self.events_since_snapshot = 0;
        if let Some(loaded) = environment.log.load(&id).await? {
            let mut states = BTreeMap::new();
            if let Some(mut snapshot) = loaded.snapshot {
                states = snapshot.take_accounts();
                session = snapshot.with_limits(environment.limits.clone());
            }
            let saved = (session.head().seq, states);
            let since = loaded.batches.iter().flat_map(|batch| &batch.events);
            for committed in since.clone() {
                session.apply(committed);
                self.events_since_snapshot += 1;
            }
            let Environment { chroniclers, log, .. } = environment;
            accounts = Accounts::load(chroniclers, &**log, &session, saved, since).await?;
        }
        if let Some(agent) = session.agent() {
            let offered = environment.host.tools(agent);
            session.share_tools(&offered);
        }
        self.feed.reset_head(session.head().seq);
        self.session = session;
        self.accounts = accounts;
        Ok(())
    }

    /// After a restart: transports of before are gone, and so are the executors.
    async fn recover(&mut self, mailbox: &mut mpsc::Receiver<Letter>) {
        if self.session.owner().is_none() {
            return;
        }
        let mut letters = vec![own(Op::Recover)];
        for turn in self.session.turns().filter(|turn| turn.claim.is_some()) {
            let continues = self.continues(&turn.agent);
            letters.push(own(Op::Lose { turn: turn.turn.clone(), continues }));
        }
        if let Some(change) = self.missing_tools() {
            letters.push(own(Op::ChangeTools(change)));
        }
        if self.session.is_live() || letters.len() > 1 {
            self.work(&mut letters, mailbox).await;
        }
        // Also those that the process before had released and not begun again: nothing has happened to them now.
        self.start_ready_turns();
    }

    /// What the session's agent offers and the session does not know yet, and what servers of tools
    /// offer no more.
    pub(super) fn missing_tools(&self) -> Option<ToolChange> {
        let agent = self.session.agent()?;
        let offered = self.sessions.environment.host.tools(agent);
        let gone = |known: &&Tool| {
            known.options.get(FROM_SERVER).is_some() && offered.iter().all(|tool| tool.name != known.name)
        };
        let remove: Vec<ToolName> = self.session.tools().filter(gone).map(|tool| tool.name.clone()).collect();
        let add: Vec<Tool> = offered
            .into_iter()
            .filter(|tool| {
                tool.executor == Executor::Agent && !self.session.tools().any(|known| known == tool)
            })
            .collect();
        (!add.is_empty() || !remove.is_empty()).then_some(ToolChange { add, remove, turn: None })
    }

    async fn work(&mut self, letters: &mut Vec<Letter>, mailbox: &mut mpsc::Receiver<Letter>) {
        let now = self.sessions.environment.clock.now();
        let mut draft = Draft::new(self.session.head());
        letters.splice(..0, std::mem::take(&mut self.retained).into_iter().map(Letter::Op));
        let mut reacted = false;
        loop {
            self.read(letters, now, &mut draft).await;
            if reacted || !self.tell_ahead(&mut draft) {
                break;
            }
            // What agents make of it at once is committed with it.
            reacted = true;
            while letters.len() < BATCH_LETTERS
                && let Ok(letter) = mailbox.try_recv()
            {
                letters.push(letter);
            }
        }
        self.commit(draft).await;
    }

    async fn read(&mut self, letters: &mut Vec<Letter>, now: Timestamp, draft: &mut Draft) {
        for letter in letters.drain(..) {
            match letter {
                Letter::Op(mail) => self.decide(mail, now, draft).await,
                Letter::Attach(request) => self.attach(request, draft),
                Letter::Tools(turn, reply) => drop(reply.send(self.session.tools_of(&turn))),
                Letter::Standing(attachment, reply) => drop(reply.send(self.standing(&attachment))),
                Letter::Role(principal, reply) => self.tell_role(&principal, reply, draft),
                Letter::Refresh => self.offer_tools(now, draft),
            }
        }
    }

    fn standing(&self, attachment: &AttachmentId) -> Standing {
        let view = self.session.attachment(attachment);
        let of = |turn: &&TurnState| turn.origin.attachment.as_ref() == Some(attachment);
        Standing {
            detached: self.session.is_detached(attachment),
            generation: view.map(|view| view.generation),
            turns: self.session.turns().filter(of).count(),
            tools: self.session.tools().cloned().collect(),
            opened_at: self.session.owner().map(|_| self.session.opened_at()),
        }
    }

    /// Gives every turn that waits for an executor one.
    pub(super) fn start_ready_turns(&mut self) {
        let Some(mailbox) = self.mailbox.upgrade() else { return };
        let environment = &self.sessions.environment;
        for turn in self.session.turns() {
            if turn.status() == TurnStatus::Ready && !self.executing.contains_key(&turn.turn) {
                let mailbox = mailbox.clone();
                let executing = environment.host.start(&self.session, turn, mailbox, environment, None);
                self.executing.insert(turn.turn.clone(), executing);
            }
        }
    }

    /// Lets those turns begin that were claimed with their acceptance.
    pub(super) fn start_claimed_turns(&mut self, claimed: Vec<(TurnId, Reserved)>) {
        let Some(mailbox) = self.mailbox.upgrade() else { return };
        let environment = &self.sessions.environment;
        for (turn, reserved) in claimed {
            // It may have come and gone within one batch.
            let Some(turn) = self.session.turns().find(|known| known.turn == turn) else { continue };
            let mailbox = mailbox.clone();
            let executing = environment.host.start(&self.session, turn, mailbox, environment, Some(reserved));
            self.executing.insert(turn.turn.clone(), executing);
        }
    }

    fn wake_instant(&self) -> Option<Instant> {
        if let Some(at) = self.retry_at {
            return Some(at);
        }
        let clock = &self.sessions.environment.clock;
        let session = self.session.next_wake().map(|at: Timestamp| clock.instant(at));
        let leases = self.executing.values().map(|executing| executing.lease.due());
        leases.chain(session).min()
    }

    /// Ops for the turns whose executors have not renewed their lease.
    fn lost_executors(&self) -> Vec<Letter> {
        let now = Instant::now();
        let lost = self.executing.iter().filter(|(_, executing)| executing.lease.look(now));
        lost.map(|(turn, executing)| {
            tracing::warn!(turn = %turn, agent = %executing.agent, "an executor has not renewed its lease");
            own(Op::Lose { turn: turn.clone(), continues: self.continues(&executing.agent) })
        })
        .collect()
    }

    /// Whether an agent goes on from what it has emitted when its executor is lost.
    fn continues(&self, agent: &AgentId) -> bool {
        self.sessions.environment.host.recovery(agent) == Recovery::Replay
    }

    /// How long the session, or the ring of its events, may stay in memory with nothing to do; none
    /// while it has something.
    fn idle_timeout(&self) -> Option<Duration> {
        if self.feed.has_followers() {
            // Whoever followed what is over has mostly left by then, which nobody tells the actor.
            let patience = if self.session.is_live() { RING_IDLE } else { OVER_IDLE };
            return self.feed.holds_events().then_some(patience);
        }
        if self.session.is_live() || !self.retained.is_empty() {
            return None;
        }
        let ActorBounds { idle, resident, .. } = self.sessions.environment.bounds;
        if self.session.owner().is_none() {
            Some(Duration::ZERO)
        } else if self.sessions.alive() > CROWD.min(resident / 2) {
            // Many come and go: whoever is needed again is read from the log again.
            Some(idle.min(CROWDED_IDLE))
        } else {
            Some(idle)
        }
    }

    fn refuse_all(&self, mailbox: &mut mpsc::Receiver<Letter>, error: &StoreError) {
        loop {
            while let Ok(letter) = mailbox.try_recv() {
                let reject = || Reject::Unavailable { reason: error.to_string() };
                match letter {
                    Letter::Op(mail) => mail.reply.answer(Err(reject())),
                    Letter::Attach(request) => request.port.answer(request.request, Err(reject())),
                    Letter::Tools(_, reply) => drop(reply),
                    Letter::Standing(_, reply) => drop(reply),
                    Letter::Role(_, reply) => drop(reply),
                    Letter::Refresh => {}
                }
            }
            if self.sessions.retire(self.session.id(), mailbox) {
                return;
            }
        }
    }
}

/// A letter of the server's own.
pub(crate) fn own(op: Op) -> Letter {
    Letter::Op(own_mail(op))
}

/// An op of the server's own.
pub(super) fn own_mail(op: Op) -> Box<Mail> {
    Box::new(Mail { actor: Actor::server(), op, reply: ReplyTo::Nobody, room: None })
}

/// The option of a tool that names the server which it comes from.
const FROM_SERVER: &str = "mcp";
const BATCH_LETTERS: usize = 1024;
const SMALL_BATCH: usize = 4;
/// So many sessions in memory are many.
const CROWD: usize = 512;
/// How long an idle session stays in memory when there are many.
const CROWDED_IDLE: Duration = Duration::from_millis(100);
/// For how long events of a session in which nothing goes on stay in memory.
const OVER_IDLE: Duration = Duration::from_millis(250);
/// For how long events stay in memory after the last one.
const RING_IDLE: Duration = Duration::from_secs(2);
pub(super) const FIRST_BACKOFF: Duration = Duration::from_millis(50);
