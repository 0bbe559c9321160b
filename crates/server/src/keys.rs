//! Idempotency keys over all sessions.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use switchboard_core::{PrincipalId, SessionId, Timestamp};

/// Where each idempotency key was first used. Bounded, and forgets after a while.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex {
    sessions: HashMap<(PrincipalId, String), SessionId>,
    order: VecDeque<(Timestamp, (PrincipalId, String))>,
}

impl KeyIndex {
    /// The session in which a key belongs: where it was first used, or here.
    pub(crate) fn reserve(
        &mut self,
        key: (PrincipalId, String),
        session: SessionId,
        now: Timestamp,
    ) -> SessionId {
        while let Some((at, _)) = self.order.front()
            && (now.since(*at) >= KEY_MEMORY || self.order.len() >= MAX_KEYS)
        {
            if let Some((_, key)) = self.order.pop_front() {
                self.sessions.remove(&key);
            }
        }
        if let Some(known) = self.sessions.get(&key) {
            return known.clone();
        }
        self.insert(key, session.clone(), now);
        session
    }

    pub(crate) fn insert(&mut self, key: (PrincipalId, String), session: SessionId, at: Timestamp) {
        if self.sessions.insert(key.clone(), session).is_none() {
            self.order.push_back((at, key));
        }
    }

    /// Forgets a key that led to nothing in this session.
    pub(crate) fn forget(&mut self, key: &(PrincipalId, String), session: &SessionId) {
        if self.sessions.get(key) == Some(session) {
            self.sessions.remove(key);
            self.order.retain(|(_, known)| known != key);
        }
    }
}

/// A little longer than sessions remember keys, so that they decide.
const KEY_MEMORY: Duration = Duration::from_secs(16 * 60);
const MAX_KEYS: usize = 100_000;
