//! What functions can reach while and after they work: the invocations of this server.
//!
//! A function that runs is known by its `inv`. Whatever it pushes goes to the one run of the turn that
//! waits for it, and is acknowledged when that run's session has committed it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_asp::relay::{Answer, Answers, Cancellation, Piece};
use switchboard_core::{PrincipalId, SessionId, Timestamp};
use tokio::sync::{Notify, mpsc, oneshot};

use super::keys::RelayKey;

/// The invocations of this server, and the leaves to push that it has given.
#[derive(Debug)]
pub struct Relay {
    key: RelayKey,
    /// Under which URL functions reach this server.
    public_url: RwLock<String>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    running: HashMap<String, Arc<Running>>,
    /// What is over, for as long as functions may ask.
    over: HashMap<String, Over>,
    /// When that is to be forgotten, in order.
    forget: VecDeque<(Timestamp, String)>,
    /// Pushes that must not be taken twice, by connection, invocation and key.
    pushes: HashMap<PushKey, Timestamp>,
}

/// An invocation that a function works on.
#[derive(Debug)]
struct Running {
    cid: String,
    rid: u16,
    answers: Mutex<Vec<Answer>>,
    news: Notify,
    deliveries: mpsc::Sender<Delivery>,
}

type PushKey = (String, Option<String>, String);

#[derive(Debug)]
struct Over {
    cid: String,
    cancellation: Cancellation,
}

/// What was pushed, for the run of a turn.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) pieces: Vec<Piece>,
    /// Told when all of it is committed; dropped if the turn is over before that.
    pub(super) taken: oneshot::Sender<()>,
}

/// Leave to push, as a token carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The connection.
    pub cid: String,
    /// The invocation; none for a leave that only concerns the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inv: Option<String>,
    /// The request of the invocation.
    #[serde(default)]
    pub rid: u16,
    /// The session of the request.
    pub session: SessionId,
    /// Whose session it is in.
    pub principal: PrincipalId,
    /// The agent whose function this is.
    pub agent: String,
    /// Whether the client takes what belongs to no request.
    #[serde(default)]
    pub push: bool,
    /// When it ends, in Unix seconds.
    pub exp: u64,
}

/// Why a push was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushRefused {
    /// There is no such request, it is over, or it is another invocation's.
    #[error("the request is not open, or not this invocation's")]
    NotOpen,
    /// More than the session takes at the moment.
    #[error("the session cannot take more at the moment")]
    Busy,
}

impl Relay {
    /// No invocations yet.
    pub fn new(key: RelayKey) -> Self {
        Self { key, public_url: RwLock::default(), known: Mutex::default() }
    }

    /// From now on functions are told to reach this server here.
    pub fn set_public_url(&self, url: &str) {
        let mut known = self.public_url.write().unwrap_or_else(PoisonError::into_inner);
        *known = url.trim_end_matches('/').to_owned();
    }

    /// Where functions reach this server.
    pub fn public_url(&self) -> String {
        self.public_url.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key that requests are signed with.
    pub const fn key(&self) -> &RelayKey {
        &self.key
    }

    /// The keys that functions verify requests with.
    pub fn jwks(&self) -> Value {
        self.key.jwks()
    }

    /// What a leave to push allows, if it is ours and has not ended.
    pub fn authorize(&self, token: &str, now: Timestamp) -> Option<Grant> {
        let grant: Grant = self.key.verify(PUSH_TOKEN, token)?;
        (grant.exp > seconds(now)).then_some(grant)
    }

    pub(super) fn grant(&self, grant: &Grant) -> Option<String> {
        self.key.sign(PUSH_TOKEN, grant)
    }

    /// Hands frames of a function to the turns that wait for them; comes back when they are committed.
    ///
    /// # Errors
    /// Nothing is taken.
    pub async fn deliver(&self, grant: &Grant, rid: u16, pieces: Vec<Piece>) -> Result<(), PushRefused> {
        let running = self.running(grant, rid).ok_or(PushRefused::NotOpen)?;
        let (taken, done) = oneshot::channel();
        let delivery = Delivery { pieces, taken };
        match tokio::time::timeout(PUSH_PATIENCE, running.deliveries.send(delivery)).await {
            Ok(Ok(())) => done.await.map_err(|_| PushRefused::NotOpen),
            Ok(Err(_)) => Err(PushRefused::NotOpen),
            Err(_) => Err(PushRefused::Busy),
        }
    }

    /// Whether a request is open for whoever holds this leave.
    pub fn is_open(&self, grant: &Grant, rid: u16) -> bool {
        self.running(grant, rid).is_some()
    }

    fn running(&self, grant: &Grant, rid: u16) -> Option<Arc<Running>> {
        let known = self.known();
        let running = match &grant.inv {
            Some(inv) => known.running.get(inv)?,
            None => known.running.values().find(|running| running.cid == grant.cid && running.rid == rid)?,
        };
        (running.cid == grant.cid && running.rid == rid).then(|| running.clone())
    }

    /// Whether an invocation was cancelled; none if it is unknown, or over for too long.
    pub fn cancellation(&self, cid: &str, inv: &str, now: Timestamp) -> Option<Cancellation> {
        let mut known = self.known();
        known.forget_old(now);
        if known.running.get(inv).is_some_and(|running| running.cid == cid) {
            return Some(Cancellation::default());
        }
        known.over.get(inv).filter(|over| over.cid == cid).map(|over| over.cancellation.clone())
    }

    /// The answers to what an invocation has asked, from number `after` + 1 on; waits a while if there are none.
    pub async fn answers(&self, cid: &str, inv: &str, after: u64, now: Timestamp) -> Option<Answers> {
        let running = self.known().running.get(inv).filter(|running| running.cid == cid).cloned();
        let Some(running) = running else {
            let over = self.cancellation(cid, inv, now)?;
            return Some(Answers { answers: Vec::new(), cancelled: over.cancelled });
        };
        let waiting = async {
            loop {
                let mut news = std::pin::pin!(running.news.notified());
                news.as_mut().enable();
                let later: Vec<Answer> = {
                    let answers = running.answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.iter().filter(|answer| answer.k > after).cloned().collect()
                };
                let over = !self.known().running.contains_key(inv);
                if !later.is_empty() || over {
                    return later;
                }
                news.await;
            }
        };
        let answers = tokio::time::timeout(ANSWER_PATIENCE, waiting).await.unwrap_or_default();
        let cancelled = self.cancellation(cid, inv, now).is_some_and(|over| over.cancelled);
        Some(Answers { answers, cancelled })
    }

    /// Whether a push under this key is new; it is remembered from now on.
    pub fn is_new_push(&self, grant: &Grant, idem: &str, now: Timestamp) -> bool {
        let mut known = self.known();
        if known.pushes.len() >= MAX_PUSHES {
            known.pushes.retain(|_, until| *until > now);
        }
        let until = now.after(PUSH_MEMORY);
        let key = push_key(grant, idem);
        let fresh = known.pushes.get(&key).is_none_or(|until| *until <= now);
        if fresh && known.pushes.len() < MAX_PUSHES {
            known.pushes.insert(key, until);
        }
        fresh
    }

    /// A push under this key has led to nothing, and may come again.
    pub fn forget_push(&self, grant: &Grant, idem: &str) {
        self.known().pushes.remove(&push_key(grant, idem));
    }

    pub(super) fn open(self: &Arc<Self>, cid: String, rid: u16, inv: String) -> Opened {
        let (sender, deliveries) = mpsc::channel(DELIVERIES);
        let running =
            Running { cid, rid, answers: Mutex::default(), news: Notify::new(), deliveries: sender };
        let running = Arc::new(running);
        self.known().running.insert(inv.clone(), running.clone());
        Opened { relay: self.clone(), inv, running, deliveries, over: None }
    }

    /// Every change is whole, so that what is known is good also after a panic.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn forget_old(&mut self, now: Timestamp) {
        while let Some((until, _)) = self.forget.front() {
            if *until > now && self.forget.len() <= MAX_OVER {
                return;
            }
            if let Some((_, inv)) = self.forget.pop_front() {
                self.over.remove(&inv);
            }
        }
    }
}

/// An invocation that is open until this is dropped.
#[derive(Debug)]
pub(super) struct Opened {
    relay: Arc<Relay>,
    inv: String,
    running: Arc<Running>,
    pub(super) deliveries: mpsc::Receiver<Delivery>,
    over: Option<Cancellation>,
}

impl Opened {
    /// Keeps an answer for whoever asks.
    pub(super) fn answer(&self, answer: Answer) {
        self.running.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        self.running.news.notify_waiters();
    }

    /// How many answers there were.
    pub(super) fn answered(&self) -> u64 {
        self.running.answers.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    /// It is over, and this is what functions are told that ask.
    pub(super) fn close(&mut self, cancellation: Cancellation, now: Timestamp) {
        let mut known = self.relay.known();
        // A run that has lost its turn must not close the one that has taken over.
        if known.running.get(&self.inv).is_some_and(|running| Arc::ptr_eq(running, &self.running)) {
            known.running.remove(&self.inv);
        }
        known.forget_old(now);
        known.forget.push_back((now.after(OVER_MEMORY), self.inv.clone()));
        known.over.insert(
            self.inv.clone(),
            Over { cid: self.running.cid.clone(), cancellation: cancellation.clone() },
        );
        drop(known);
        self.over = Some(cancellation);
        self.running.news.notify_waiters();
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.over.is_some()
    }
}

fn push_key(grant: &Grant, idem: &str) -> PushKey {
    (grant.cid.clone(), grant.inv.clone(), idem.to_owned())
}

/// Unix seconds.
pub(super) fn seconds(now: Timestamp) -> u64 {
    now.as_micros() / 1_000_000
}

const PUSH_TOKEN: &str = "asp-push+jwt";
/// For how long a leave to push is good.
pub(super) const GRANT_TIME: Duration = Duration::from_secs(15 * 60);
/// For how long a function can learn that it was cancelled.
const OVER_MEMORY: Duration = Duration::from_secs(10 * 60);
const MAX_OVER: usize = 100_000;
const PUSH_MEMORY: Duration = Duration::from_secs(15 * 60);
const MAX_PUSHES: usize = 100_000;
/// How long a push waits for those before it.
const PUSH_PATIENCE: Duration = Duration::from_secs(5);
/// How long a function may wait for an answer in one request.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);
/// Pushes that may wait.
const DELIVERIES: usize = 16;
