//! The sessions that are alive in this process: one actor each, found by identifier.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::{
    Actor, AttachmentId, KeyIndex, Op, Position, PrincipalId, Reject, Reply, RequestId, Role, Roll,
    SessionId, SessionLimits,
};
use switchboard_store::Log;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use tracing::Instrument as _;

use crate::clock::Clock;
use crate::feed::RingBounds;
use crate::gateway::Place;
use crate::host::Host;
use crate::memory::Memory;
use crate::meters::SessionMeters;
use crate::port::Port;

mod accounts;
#[cfg(test)]
mod accounts_tests;
mod actor;
#[cfg(test)]
mod ahead_tests;
mod commit;
mod executors;
mod mail;
#[cfg(test)]
mod recover_tests;
#[cfg(test)]
pub(crate) mod testing;
mod work;

pub(crate) use accounts::Chroniclers;
pub(crate) use executors::{CallBoard, Executing, Lease};
pub(crate) use mail::{AttachRequest, Letter, Mail, ReplyTo, Standing};
pub(crate) use work::Work;

pub(crate) use actor::own;

use actor::SessionActor;

/// Finds, and brings to life, the actor of a session.
#[derive(Debug)]
pub(crate) struct Sessions {
    shards: Vec<Mutex<HashMap<SessionId, mpsc::Sender<Letter>>>>,
    alive: AtomicUsize,
    pub(crate) environment: Environment,
}

/// What every session actor stands on.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) log: Arc<dyn Log>,
    /// Who keeps accounts of sessions.
    pub(crate) chroniclers: Chroniclers,
    pub(crate) host: Arc<Host>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Clock,
    pub(crate) meters: SessionMeters,
    pub(crate) keys: Arc<Mutex<KeyIndex>>,
    /// Who is enrolled.
    pub(crate) roll: Arc<Mutex<Roll<Place>>>,
    pub(crate) limits: SessionLimits,
    pub(crate) bounds: ActorBounds,
}

/// Bounds of one session actor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActorBounds {
    /// Letters that may wait.
    pub(crate) mailbox: usize,
    /// What followers can read without going to the log.
    pub(crate) ring: RingBounds,
    /// Sessions that may be in memory at the same time.
    pub(crate) resident: usize,
    /// Events after which a snapshot is due.
    pub(crate) snapshot_every: u64,
    /// For how long an idle session stays in memory.
    pub(crate) idle: Duration,
}

impl Sessions {
    pub(crate) fn new(environment: Environment) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            alive: AtomicUsize::new(0),
            environment,
        }
    }

    /// Hands a letter to the actor of a session, bringing it to life if needed. The order of
    /// letters to one session is kept. Fails, giving the letter back, when its mailbox is full.
    pub(crate) fn send(self: &Arc<Self>, session: &SessionId, letter: Letter) -> Result<(), Letter> {
        let mut shard = self.shard(session).lock();
        let letter = match shard.get(session) {
            Some(mailbox) => match mailbox.try_send(letter) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(letter)) => return Err(letter),
                // The actor died; its successor recovers from the log.
                Err(TrySendError::Closed(letter)) => letter,
            },
            None if self.alive() >= self.environment.bounds.resident => return Err(letter),
            None => letter,
        };
        self.spawn(session, &mut shard).try_send(letter).map_err(TrySendError::into_inner)
    }

    /// Hands a letter of the server's own to a session, however full its mailbox is now.
    pub(crate) fn insist(self: &Arc<Self>, session: &SessionId, letter: Letter) {
        let mut shard = self.shard(session).lock();
        let known = shard.get(session).filter(|mailbox| !mailbox.is_closed()).cloned();
        let mailbox = known.unwrap_or_else(|| self.spawn(session, &mut shard).clone());
        if let Err(TrySendError::Full(letter)) = mailbox.try_send(letter) {
            // It waits in front of whatever comes later.
            tokio::spawn(async move { mailbox.send(letter).await });
        }
    }

    /// Brings a session to life, so that it looks after its turns and attachments.
    pub(crate) fn awaken(self: &Arc<Self>, session: &SessionId) {
        let mut shard = self.shard(session).lock();
        if !shard.contains_key(session) {
            self.spawn(session, &mut shard);
        }
    }

    /// How many sessions are alive here.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// Follows a session on behalf of a connection.
    pub(crate) fn attach(
        self: &Arc<Self>,
        session: &SessionId,
        actor: Actor,
        from: Option<Position>,
        request: RequestId,
        port: &Arc<Port>,
    ) {
        let attach = AttachRequest { actor, from, request, port: port.clone() };
        if self.send(session, Letter::Attach(Box::new(attach))).is_err() {
            port.answer(request, Err(Reject::Busy));
        }
    }

    /// Asks something of a session, and waits until it is committed.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        session: &SessionId,
        actor: Actor,
        op: Op,
    ) -> Result<Reply, Reject> {
        let (reply, answer) = oneshot::channel();
        let mail = Mail { actor, op, reply: ReplyTo::Waiter(reply), room: None };
        self.send(session, Letter::Op(Box::new(mail))).map_err(|_| Reject::Busy)?;
        answer.await.unwrap_or(Err(Reject::Busy))
    }

    /// How an attachment is to a session; none if nobody can say at the moment.
    pub(crate) async fn standing(
        self: &Arc<Self>,
        session: &SessionId,
        attachment: &AttachmentId,
    ) -> Option<Standing> {
        let (reply, answer) = oneshot::channel();
        self.send(session, Letter::Standing(attachment.clone(), reply)).ok()?;
        answer.await.ok()
    }

    /// What a principal may do in a session, once everything that was asked before is committed; none
    /// if it may not know of it.
    pub(crate) async fn role(
        self: &Arc<Self>,
        session: &SessionId,
        principal: PrincipalId,
    ) -> Result<Option<Role>, Reject> {
        let (reply, answer) = oneshot::channel();
        self.send(session, Letter::Role(principal, reply)).map_err(|_| Reject::Busy)?;
        answer.await.map_err(|_| Reject::Busy)
    }

    /// Lets every session that is alive look at the tools of its agent again; others do so when they
    /// come to life.
    pub(crate) fn refresh(&self) {
        for shard in &self.shards {
            let mailboxes: Vec<_> = shard.lock().values().cloned().collect();
            for mailbox in mailboxes {
                if let Err(TrySendError::Full(letter)) = mailbox.try_send(Letter::Refresh) {
                    tokio::spawn(async move { mailbox.send(letter).await });
                }
            }
        }
    }

    /// Removes an actor that has nothing to do, unless a letter has just arrived.
    fn retire(&self, session: &SessionId, mailbox: &mpsc::Receiver<Letter>) -> bool {
        let mut shard = self.shard(session).lock();
        let idle = mailbox.is_empty();
        if idle {
            shard.remove(session);
            self.alive.fetch_sub(1, Ordering::Relaxed);
            self.environment.meters.resident.decrement(1);
            self.environment.log.release(session);
        }
        idle
    }

    fn spawn<'a>(
        self: &Arc<Self>,
        session: &SessionId,
        shard: &'a mut HashMap<SessionId, mpsc::Sender<Letter>>,
    ) -> &'a mpsc::Sender<Letter> {
        let (sender, mut mailbox) = mpsc::channel(self.environment.bounds.mailbox);
        let mut actor = SessionActor::new(session.clone(), self.clone(), sender.downgrade());
        let span = tracing::info_span!("session", session_id = %session);
        tokio::spawn(async move { actor.run(&mut mailbox).await }.instrument(span));
        match shard.entry(session.clone()) {
            Entry::Occupied(mut entry) => {
                entry.insert(sender);
                entry.into_mut()
            }
            Entry::Vacant(entry) => {
                self.alive.fetch_add(1, Ordering::Relaxed);
                self.environment.meters.resident.increment(1);
                entry.insert(sender)
            }
        }
    }

    fn shard(&self, session: &SessionId) -> &Mutex<HashMap<SessionId, mpsc::Sender<Letter>>> {
        let hash = session.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        &self.shards[(hash % SHARDS) as usize]
    }
}

const SHARDS: u64 = 16;
