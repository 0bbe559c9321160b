//! How much each principal may store.
//!
//! What a principal has stored is read when it connects, and again while it is at work, at most once in a while; what
//! it begins meanwhile is added. A bound may therefore be passed by what is written within that time, never for good.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::model::{Actor, ActorKind};
use switchboard_core::{Op, PrincipalId, Reject, Session, Timestamp};
use switchboard_store::{Log, Usage};

use crate::config::LimitsConfig;

/// What principals have stored, and what they may.
#[derive(Clone, Debug)]
pub(crate) struct Quotas {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    log: Arc<dyn Log>,
    most: Usage,
    known: Mutex<HashMap<PrincipalId, Known>>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    usage: Usage,
    /// When that was read.
    at: Timestamp,
    /// Whether it is being read again.
    reading: bool,
    /// When it was last said in the log that it is too much.
    told_at: Option<Timestamp>,
}

impl Quotas {
    pub(crate) fn new(log: Arc<dyn Log>, limits: &LimitsConfig) -> Self {
        let most =
            Usage { sessions: limits.sessions_per_principal, bytes: limits.stored_bytes_per_principal };
        Self { shared: Arc::new(Shared { log, most, known: Mutex::default() }) }
    }

    /// Makes sure that it is known what a principal has stored.
    pub(crate) async fn learn(&self, principal: &PrincipalId, now: Timestamp) {
        if !self.shared.known.lock().contains_key(principal) {
            self.shared.read(principal, now).await;
        }
    }

    /// Why there is no such session for somebody: perhaps it could not be opened. One of somebody else's is answered
    /// like one that is not there.
    pub(crate) fn absent(&self, actor: &Actor) -> Reject {
        let known = self.shared.known.lock().get(&actor.principal).copied();
        let full = known.and_then(|known| self.shared.full(known.usage, true));
        full.map_or(Reject::NotFound, |what| Reject::Quota { what })
    }

    /// Whether an op may be decided, as far as it stores something.
    ///
    /// # Errors
    /// The principal whose session it is has stored as much as it may.
    pub(crate) fn admit(
        &self,
        session: &Session,
        actor: &Actor,
        op: &Op,
        now: Timestamp,
    ) -> Result<(), Reject> {
        if !matches!(actor.kind, ActorKind::Client) || !stores(op) {
            return Ok(());
        }
        // Whoever has no part in a session is answered as if it were not there, and could be opened.
        let owner = session.owner().filter(|_| session.role_of_actor(actor).is_some());
        let (principal, is_new) = (owner.unwrap_or(&actor.principal), owner.is_none());
        let (usage, stale) = self.shared.look(principal, now);
        if stale {
            let (shared, principal) = (self.shared.clone(), principal.clone());
            tokio::spawn(async move { shared.read(&principal, now).await });
        }
        if let Some(what) = self.shared.full(usage, is_new) {
            if self.shared.is_news(principal, now) {
                tracing::warn!(%principal, "a principal has stored as much as it may (limits.{what})");
            }
            return Err(Reject::Quota { what });
        }
        if is_new
            && matches!(op, Op::Open { .. })
            && let Some(known) = self.shared.known.lock().get_mut(principal)
        {
            known.usage.sessions += 1;
        }
        Ok(())
    }
}

impl Shared {
    /// The bound that is reached.
    const fn full(&self, usage: Usage, is_new: bool) -> Option<&'static str> {
        if is_new && usage.sessions >= self.most.sessions {
            Some("sessions_per_principal")
        } else if usage.bytes >= self.most.bytes {
            Some("stored_bytes_per_principal")
        } else {
            None
        }
    }

    /// What is known, and whether it has to be read again.
    fn look(&self, principal: &PrincipalId, now: Timestamp) -> (Usage, bool) {
        let mut known = self.known.lock();
        let Some(known) = known.get_mut(principal) else { return (Usage::default(), true) };
        let stale = !known.reading && now.since(known.at) >= FRESH;
        known.reading |= stale;
        (known.usage, stale)
    }

    /// Whether it was not said a short while ago that there is too much.
    fn is_news(&self, principal: &PrincipalId, now: Timestamp) -> bool {
        let mut known = self.known.lock();
        let Some(known) = known.get_mut(principal) else { return true };
        let news = known.told_at.is_none_or(|at| now.since(at) >= SILENCE);
        if news {
            known.told_at = Some(now);
        }
        news
    }

    async fn read(&self, principal: &PrincipalId, now: Timestamp) {
        let read = self.log.usage(principal).await;
        let mut known = self.known.lock();
        match read {
            Ok(usage) => {
                if known.len() >= MOST_KNOWN {
                    known.retain(|_, known| now.since(known.at) < KEPT);
                }
                if known.len() < MOST_KNOWN {
                    let told_at = known.get(principal).and_then(|known| known.told_at);
                    known.insert(principal.clone(), Known { usage, at: now, reading: false, told_at });
                }
            }
            // The log itself says what is the matter with it, and takes nothing anyhow.
            Err(_) => {
                if let Some(known) = known.get_mut(principal) {
                    known.reading = false;
                }
            }
        }
    }
}

/// Whether an op begins something that stays. What ends or answers what has begun does not count, nor what lets a client
/// come and go.
const fn stores(op: &Op) -> bool {
    match op {
        Op::Open { .. }
        | Op::StartTurn(_)
        | Op::Import(_)
        | Op::Edit { .. }
        | Op::ChangeTools(_)
        | Op::Chronicle { .. }
        | Op::Record { .. }
        | Op::Report { .. } => true,
        Op::OpenAttachment { .. }
        | Op::TakeOver { .. }
        | Op::LinkAttachment { .. }
        | Op::Detach { .. }
        | Op::CloseAttachment { .. }
        | Op::MoveTip { .. }
        | Op::Admit { .. }
        | Op::Rename { .. }
        | Op::Stand(_)
        | Op::Interrupt { .. }
        | Op::Release { .. }
        | Op::Conclude { .. }
        | Op::Join(_)
        | Op::Progress { .. }
        | Op::Answer { .. }
        | Op::Claim { .. }
        | Op::Emit { .. }
        | Op::Request { .. }
        | Op::Finish { .. }
        | Op::Lose { .. }
        | Op::LoseDevice { .. }
        | Op::ReleaseDevice { .. }
        | Op::Recover
        | Op::Wake => false,
    }
}

/// How old what is known may be.
const FRESH: Duration = Duration::from_secs(1);
/// How long something is known of whom nothing was heard, where there are many.
const KEPT: Duration = Duration::from_secs(60);
const MOST_KNOWN: usize = 20_000;
/// How long the same is not said again in the log.
const SILENCE: Duration = Duration::from_secs(600);
