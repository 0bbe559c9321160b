//! The heads of recently used sessions, bounded.

use std::collections::HashMap;

use std::sync::Arc;

use switchboard_core::{Position, SessionId, SessionRow};

/// What the writer knows of a session without asking the database.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Its number in the database; none until its first append is committed.
    pub(super) stream: i64,
    /// Its last event.
    pub(super) head: Position,
    /// Its row as it is in the database.
    pub(super) summary: Option<Arc<SessionRow>>,
    /// How many appends there were, over all sessions, with its last one.
    pub(super) appended: u64,
}

/// Two generations of sessions: what was used since the younger began, and what before. When the
/// younger is full it becomes the older, and the older is forgotten; so at most `capacity` are
/// kept, and none that is used is ever forgotten before half as many others were.
#[derive(Debug)]
pub(super) struct Heads {
    capacity: usize,
    younger: HashMap<SessionId, Known>,
    older: HashMap<SessionId, Known>,
}

impl Heads {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(2), younger: HashMap::new(), older: HashMap::new() }
    }

    pub(super) fn insert(&mut self, session: &SessionId, known: Known) {
        if let Some(place) = self.younger.get_mut(session) {
            *place = known;
            return;
        }
        if self.younger.len() >= self.capacity / 2 {
            self.older = std::mem::take(&mut self.younger);
        }
        self.older.remove(session);
        self.younger.insert(session.clone(), known);
    }

    pub(super) fn get(&self, session: &SessionId) -> Option<&Known> {
        self.younger.get(session).or_else(|| self.older.get(session))
    }

    pub(super) fn remove(&mut self, session: &SessionId) {
        for generation in [&mut self.younger, &mut self.older] {
            generation.remove(session);
            // A burst leaves no memory behind.
            if generation.capacity() > SMALL.max(generation.len() * 8) {
                generation.shrink_to(generation.len() * 2);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.younger.clear();
        self.older.clear();
    }
}

/// So few are not worth making room for.
const SMALL: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn known(stream: i64) -> Known {
        Known { stream, head: Position::default(), summary: None, appended: 0 }
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let mut heads = Heads::new(100);
        let busy = SessionId::from("busy");
        heads.insert(&busy, known(0));
        for number in 1..1000 {
            heads.insert(&SessionId::new(number.to_string()), known(number));
            heads.insert(&busy, known(0));
            assert!(heads.younger.len() + heads.older.len() <= 100);
            assert!(heads.get(&busy).is_some());
        }
        assert!(heads.get(&SessionId::from("999")).is_some());
        assert!(heads.get(&SessionId::from("1")).is_none());
    }

    #[test]
    fn what_is_removed_leaves_nothing_behind() {
        let mut heads = Heads::new(10_000);
        let session = |number: i64| SessionId::new(number.to_string());
        for number in 0..8_000 {
            heads.insert(&session(number), known(number));
        }
        for number in 0..8_000 {
            heads.remove(&session(number));
            assert!(heads.get(&session(number)).is_none());
        }
        assert!(heads.younger.capacity() <= SMALL && heads.older.capacity() <= SMALL);
    }

    #[test]
    fn the_newest_entry_wins() {
        let mut heads = Heads::new(2);
        let session = SessionId::from("s");
        heads.insert(&session, known(1));
        heads.insert(&SessionId::from("t"), known(2));
        heads.insert(&session, known(3));
        assert_eq!(heads.get(&session).map(|known| known.stream), Some(3));
    }
}
