//! The sessions that are alive in this process: one task each, found by identifier.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use switchboard_core::model::Tool;
use switchboard_core::{
    Actor, AttachmentId, Op, PrincipalId, Reject, Reply, Role, Session, SessionId, Timestamp, TurnState,
};
use switchboard_engine::{Command, Inspection, ReplyTo, Submission};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

#[cfg(test)]
mod ahead_tests;
mod environment;
mod executors;
#[cfg(test)]
mod projections_tests;
#[cfg(test)]
mod recover_tests;
mod task;
#[cfg(test)]
pub(crate) mod testing;
mod work;

pub(crate) use environment::{Environment, SessionBounds};
pub(crate) use executors::{CallBoard, Execution};
pub(crate) use task::read_failed;
pub(crate) use work::Work;

use task::SessionTask;

/// Finds, and brings to life, the task of a session.
#[derive(Debug)]
pub(crate) struct Sessions {
    shards: Vec<Mutex<Mailboxes>>,
    pub(crate) environment: Environment,
}

/// The mailboxes of the sessions that are alive.
#[derive(Debug, Default)]
struct Mailboxes(HashMap<SessionId, mpsc::Sender<Command<Environment>>>);

/// How an attachment is to a session, and what the session offers.
#[derive(Debug)]
pub(crate) struct AttachmentStatus {
    /// Whether the attachment waits for its client; none if the session does not know it.
    pub(crate) detached: Option<bool>,
    /// Counts its take-overs.
    pub(crate) generation: Option<u32>,
    /// Its turns that have not ended.
    pub(crate) turns: usize,
    /// The tools of the session.
    pub(crate) tools: Vec<Tool>,
    /// When the session came to be; none if it has not.
    pub(crate) opened_at: Option<Timestamp>,
}

impl AttachmentStatus {
    fn of(session: &Session, attachment: &AttachmentId) -> Self {
        let of = |turn: &&TurnState| turn.origin.attachment.as_ref() == Some(attachment);
        Self {
            detached: session.is_detached(attachment),
            generation: session.attachment(attachment).map(|view| view.generation),
            turns: session.turns().filter(of).count(),
            tools: session.tools().cloned().collect(),
            opened_at: session.owner().map(|_| session.opened_at()),
        }
    }
}

impl Sessions {
    pub(crate) fn new(environment: Environment) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), environment }
    }

    /// Hands a command to the task of a session, bringing it to life if needed. The order of
    /// commands to one session is kept. Fails, giving the command back, when its mailbox is full.
    pub(crate) fn send(
        self: &Arc<Self>,
        session: &SessionId,
        command: Command<Environment>,
    ) -> Result<(), Command<Environment>> {
        let mut shard = self.shard(session).lock();
        let command = match shard.0.get(session) {
            Some(mailbox) => match mailbox.try_send(command) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(command)) => return Err(command),
                // The task died; its successor recovers from the log.
                Err(TrySendError::Closed(command)) => command,
            },
            None if self.alive() >= self.environment.bounds.resident => return Err(command),
            None => command,
        };
        self.spawn(session, &mut shard).try_send(command).map_err(TrySendError::into_inner)
    }

    /// Hands a command of the server's own to a session, however full its mailbox is now.
    pub(crate) fn insist(self: &Arc<Self>, session: &SessionId, command: Command<Environment>) {
        let mut shard = self.shard(session).lock();
        let known = shard.0.get(session).filter(|mailbox| !mailbox.is_closed()).cloned();
        let mailbox = known.unwrap_or_else(|| self.spawn(session, &mut shard).clone());
        if let Err(TrySendError::Full(command)) = mailbox.try_send(command) {
            // It waits in front of whatever comes later.
            tokio::spawn(async move { mailbox.send(command).await });
        }
    }

    /// Brings a session to life, so that it looks after its turns and attachments.
    pub(crate) fn awaken(self: &Arc<Self>, session: &SessionId) {
        let mut shard = self.shard(session).lock();
        if !shard.0.contains_key(session) {
            self.spawn(session, &mut shard);
        }
    }

    /// How many sessions are alive here.
    pub(crate) fn alive(&self) -> usize {
        self.environment.alive.load(Ordering::Relaxed)
    }

    /// Asks something of a session, and waits until it is committed.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        session: &SessionId,
        actor: Actor,
        op: Op,
    ) -> Result<Reply, Reject> {
        let (reply, answer) = oneshot::channel();
        let submission = Submission { actor, op, reply: ReplyTo::Waiter(reply), hold: None };
        self.send(session, Command::Submit(Box::new(submission))).map_err(|_| Reject::Busy)?;
        answer.await.unwrap_or(Err(Reject::Busy))
    }

    /// How an attachment is to a session; none if nobody can say at the moment.
    pub(crate) async fn status(
        self: &Arc<Self>,
        session: &SessionId,
        attachment: &AttachmentId,
    ) -> Option<AttachmentStatus> {
        let attachment = attachment.clone();
        self.inspect(session, move |session| AttachmentStatus::of(session, &attachment)).await.ok()
    }

    /// What a principal may do in a session, once everything that was asked before is committed; none
    /// if it may not know of it.
    pub(crate) async fn role(
        self: &Arc<Self>,
        session: &SessionId,
        principal: PrincipalId,
    ) -> Result<Option<Role>, Reject> {
        self.inspect(session, move |session| session.role_of(&principal)).await
    }

    /// Looks at a session, once everything that was asked before is committed.
    async fn inspect<T: Send + 'static>(
        self: &Arc<Self>,
        session: &SessionId,
        look: impl FnOnce(&Session) -> T + Send + 'static,
    ) -> Result<T, Reject> {
        let (inspect, answer) = inspection(look);
        self.send(session, inspect).map_err(|_| Reject::Busy)?;
        answer.await.map_err(|_| Reject::Busy)
    }

    /// Lets every session that is alive look at the tools of its agent again; others do so when they
    /// come to life.
    pub(crate) fn refresh(&self) {
        for shard in &self.shards {
            let mailboxes: Vec<_> = shard.lock().0.values().cloned().collect();
            for mailbox in mailboxes {
                if let Err(TrySendError::Full(command)) = mailbox.try_send(Command::RefreshTools) {
                    tokio::spawn(async move { mailbox.send(command).await });
                }
            }
        }
    }

    /// Removes a session that has nothing to do, unless a command has just arrived.
    fn retire(&self, session: &SessionId, mailbox: &mpsc::Receiver<Command<Environment>>) -> bool {
        let mut shard = self.shard(session).lock();
        let idle = mailbox.is_empty();
        if idle {
            shard.0.remove(session);
            self.environment.alive.fetch_sub(1, Ordering::Relaxed);
            self.environment.meters.resident.decrement(1);
            self.environment.log.release(session);
        }
        idle
    }

    fn spawn<'a>(
        self: &Arc<Self>,
        session: &SessionId,
        shard: &'a mut Mailboxes,
    ) -> &'a mpsc::Sender<Command<Environment>> {
        let (sender, mut mailbox) = mpsc::channel(self.environment.bounds.mailbox);
        let mut task = SessionTask::new(session.clone(), self.clone(), sender.downgrade());
        let span = tracing::info_span!("session", session_id = %session);
        tokio::spawn(async move { task.run(&mut mailbox).await }.instrument(span));
        match shard.0.entry(session.clone()) {
            Entry::Occupied(mut entry) => {
                entry.insert(sender);
                entry.into_mut()
            }
            Entry::Vacant(entry) => {
                self.environment.alive.fetch_add(1, Ordering::Relaxed);
                self.environment.meters.resident.increment(1);
                entry.insert(sender)
            }
        }
    }

    fn shard(&self, session: &SessionId) -> &Mutex<Mailboxes> {
        let hash = session.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        &self.shards[(hash % SHARDS) as usize]
    }
}

/// A command that looks at a session, and where the answer arrives.
pub(crate) fn inspection<T: Send + 'static>(
    look: impl FnOnce(&Session) -> T + Send + 'static,
) -> (Command<Environment>, oneshot::Receiver<T>) {
    let (reply, answer) = oneshot::channel();
    // Whoever has gone away needs no answer.
    let look = move |session: &Session| drop(reply.send(look(session)));
    (Command::Inspect(Inspection::new(look)), answer)
}

const SHARDS: u64 = 16;
