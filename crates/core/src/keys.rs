//! Idempotency keys over all sessions.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::id::{PrincipalId, SessionId};
use crate::time::Timestamp;

/// A key, and whose it is.
pub type OwnedKey = (PrincipalId, String);

/// Where each idempotency key was first used, for as long as its session remembers it. Sessions
/// decide what a key stands for; this only leads to the right one.
#[derive(Debug)]
pub struct KeyIndex {
    memory: Duration,
    most: usize,
    known: HashMap<OwnedKey, (SessionId, Timestamp)>,
    /// Oldest first; an entry counts only if its time is the one that is known.
    order: VecDeque<(Timestamp, OwnedKey)>,
}

impl KeyIndex {
    /// An empty index of at most so many keys. `memory` is that of the sessions.
    pub fn new(memory: Duration, most: usize) -> Self {
        Self { memory, most, known: HashMap::new(), order: VecDeque::new() }
    }

    /// The session in which a key belongs: where it was first used, or here.
    pub fn reserve(&mut self, key: OwnedKey, session: SessionId, now: Timestamp) -> SessionId {
        while self.order.front().is_some_and(|(at, _)| now.since(*at) >= self.memory) {
            self.forget_oldest();
        }
        if let Some((known, _)) = self.known.get(&key) {
            return known.clone();
        }
        self.insert(key, session.clone(), now);
        session
    }

    /// A key has led to a turn: from now on the session remembers it.
    pub fn insert(&mut self, key: OwnedKey, session: SessionId, at: Timestamp) {
        self.known.insert(key.clone(), (session, at));
        self.order.push_back((at, key));
        if self.order.len() > self.most.saturating_mul(2) {
            let known = &self.known;
            self.order.retain(|(at, key)| known.get(key).is_some_and(|(_, counts)| counts == at));
        }
        while self.known.len() > self.most {
            self.forget_oldest();
        }
    }

    /// Forgets a key that led to nothing in this session.
    pub fn forget(&mut self, key: &OwnedKey, session: &SessionId) {
        if self.known.get(key).is_some_and(|(known, _)| known == session) {
            self.known.remove(key);
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((at, key)) = self.order.pop_front()
            && self.known.get(&key).is_some_and(|(_, known)| *known == at)
        {
            self.known.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(name: &str) -> OwnedKey {
        ("ann".into(), name.to_owned())
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn a_key_leads_to_where_it_was_first_used() {
        let mut keys = KeyIndex::new(MINUTE, 10);
        assert_eq!(keys.reserve(key("k"), "one".into(), at(0)), "one".into());
        assert_eq!(keys.reserve(key("k"), "two".into(), at(59)), "one".into());
        assert_eq!(keys.reserve(("bob".into(), "k".into()), "two".into(), at(0)), "two".into());
        assert_eq!(keys.reserve(key("k"), "two".into(), at(60)), "two".into());
    }

    #[test]
    fn the_memory_counts_from_when_the_session_took_it() {
        let mut keys = KeyIndex::new(MINUTE, 10);
        keys.reserve(key("k"), "one".into(), at(0));
        // However long that took, or however far the clock has jumped.
        keys.insert(key("k"), "one".into(), at(100));
        assert_eq!(keys.reserve(key("k"), "two".into(), at(159)), "one".into());
        assert_eq!(keys.reserve(key("k"), "two".into(), at(160)), "two".into());
    }

    #[test]
    fn a_key_that_led_to_nothing_is_free_again_and_only_there() {
        let mut keys = KeyIndex::new(MINUTE, 10);
        keys.reserve(key("k"), "one".into(), at(0));
        keys.forget(&key("k"), &"two".into());
        assert_eq!(keys.reserve(key("k"), "two".into(), at(1)), "one".into());
        keys.forget(&key("k"), &"one".into());
        assert_eq!(keys.reserve(key("k"), "two".into(), at(1)), "two".into());
    }

    #[test]
    fn of_too_many_the_oldest_goes() {
        let mut keys = KeyIndex::new(MINUTE, 2);
        for name in ["a", "b", "c"] {
            keys.reserve(key(name), "one".into(), at(0));
        }
        assert_eq!(keys.reserve(key("b"), "two".into(), at(1)), "one".into());
        assert_eq!(keys.reserve(key("a"), "two".into(), at(1)), "two".into());
        assert!(keys.known.len() <= 2);
    }

    #[test]
    fn what_is_forgotten_leaves_nothing_behind() {
        let mut keys = KeyIndex::new(MINUTE, 3);
        for number in 0..100 {
            let key = key(&number.to_string());
            keys.reserve(key.clone(), "one".into(), at(0));
            keys.insert(key.clone(), "one".into(), at(1));
            keys.forget(&key, &"one".into());
            assert!(keys.order.len() <= 6 && keys.known.is_empty());
        }
        for number in 0..100 {
            keys.insert(key(&number.to_string()), "one".into(), at(2));
            assert!(keys.order.len() <= 6 && keys.known.len() <= 3);
        }
    }
}
