//! What was asked before: no leg of an invocation is answered twice (ASP-065).
//!
//! ```text
//! begin ─▶ running ─ finish ─▶ finished: every repetition is a duplicate
//!             └──── drop ───▶ broken: a later attempt may begin, the same one may not
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::invocation::Invocation;

/// Remembers invocations for [`MEMORY`], the last ones if there are more than it holds. Clones share what they
/// remember.
#[derive(Debug, Clone)]
pub struct Seen(Arc<Mutex<Legs>>);

impl Seen {
    /// Remembers up to this many.
    pub fn new(capacity: usize) -> Self {
        let legs =
            Legs { capacity: capacity.max(1), by_key: HashMap::new(), by_age: BTreeMap::new(), next: 0 };
        Self(Arc::new(Mutex::new(legs)))
    }

    /// Takes an invocation on. [`Ticket::finish`] says that it was answered; a ticket that is dropped, that it broke
    /// off.
    ///
    /// # Errors
    /// It runs or was answered already: answer with 409.
    pub fn begin(&self, invocation: &Invocation) -> Result<Ticket, Duplicate> {
        let key = Key { inv: invocation.inv().to_owned(), leg: invocation.leg() };
        let now = Instant::now();
        let mut legs = self.0.lock();
        legs.forget(now);
        match legs.by_key.get(&key) {
            Some(Leg { state: State::Broken, attempt, .. }) if invocation.attempt() > *attempt => {}
            Some(_) => return Err(Duplicate),
            None => {}
        }
        legs.put(key.clone(), State::Running, invocation.attempt(), now);
        Ok(Ticket { seen: self.clone(), key, attempt: invocation.attempt(), becomes: State::Broken })
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

/// An invocation that was taken on.
#[derive(Debug)]
pub struct Ticket {
    seen: Seen,
    key: Key,
    attempt: u32,
    becomes: State,
}

impl Ticket {
    /// It was answered: whatever repeats it is a duplicate.
    pub fn finish(mut self) {
        self.becomes = State::Finished;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let key = std::mem::take(&mut self.key);
        self.seen.0.lock().put(key, self.becomes, self.attempt, Instant::now());
    }
}

/// It was taken on already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this invocation was taken already")]
pub struct Duplicate;

/// How long an invocation is remembered after it ended.
pub const MEMORY: Duration = Duration::from_secs(15 * 60);
const DEFAULT_CAPACITY: usize = 100_000;

#[derive(Debug)]
struct Legs {
    capacity: usize,
    by_key: HashMap<Key, Leg>,
    /// Keys in the order in which they were touched last.
    by_age: BTreeMap<u64, Key>,
    next: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Key {
    inv: String,
    leg: u32,
}

#[derive(Debug)]
struct Leg {
    state: State,
    attempt: u32,
    touched: Instant,
    age: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Broken,
    Finished,
}

impl Legs {
    fn put(&mut self, key: Key, state: State, attempt: u32, now: Instant) {
        let age = self.next;
        self.next += 1;
        self.by_age.insert(age, key.clone());
        if let Some(before) = self.by_key.insert(key, Leg { state, attempt, touched: now, age }) {
            self.by_age.remove(&before.age);
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.by_age.first_entry() {
            let Some(leg) = self.by_key.get(oldest.get()) else { return };
            let full = self.by_key.len() >= self.capacity;
            if !full && now.duration_since(leg.touched) <= MEMORY {
                return;
            }
            let (state, attempt, key) = (leg.state, leg.attempt, oldest.remove());
            self.by_key.remove(&key);
            // What runs is remembered however long it takes.
            if state == State::Running && !full {
                self.put(key, state, attempt, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_asp::relay::{self, Event, Payload};

    use super::*;

    fn invocation(inv: &str, leg: u32, attempt: u32) -> Invocation {
        let mut body = relay::Invocation::new(Event::Invoke, "c", 1, inv);
        (body.leg, body.attempt) = (leg, attempt);
        body.payload = Some(Payload::Json("hi".into()));
        Invocation::new(body).expect("an invocation")
    }

    #[tokio::test(start_paused = true)]
    async fn asp_065_what_was_answered_is_a_duplicate_for_15_minutes() {
        let seen = Seen::default();
        seen.begin(&invocation("a", 0, 1)).expect("new").finish();
        for minutes in [0, 14] {
            tokio::time::advance(Duration::from_secs(minutes * 60)).await;
            for attempt in [1, 2] {
                assert_eq!(seen.begin(&invocation("a", 0, attempt)).err(), Some(Duplicate), "{minutes} min");
            }
        }
        assert!(seen.begin(&invocation("a", 1, 1)).is_ok(), "the next leg is another request");
        assert!(seen.begin(&invocation("b", 0, 1)).is_ok(), "so is another invocation");
        tokio::time::advance(MEMORY).await;
        assert!(seen.begin(&invocation("a", 0, 1)).is_ok(), "it need not be remembered for longer");
    }

    #[tokio::test(start_paused = true)]
    async fn asp_065_what_runs_is_a_duplicate_however_long_it_takes() {
        let seen = Seen::default();
        let ticket = seen.begin(&invocation("a", 0, 1)).expect("new");
        tokio::time::advance(MEMORY * 3).await;
        assert!(seen.begin(&invocation("b", 0, 1)).is_ok());
        assert_eq!(seen.begin(&invocation("a", 0, 2)).err(), Some(Duplicate));
        drop(ticket);
    }

    #[test]
    fn asp_065_what_broke_off_may_be_tried_again_by_a_later_attempt_only() {
        let seen = Seen::default();
        drop(seen.begin(&invocation("a", 0, 1)).expect("new"));
        assert_eq!(seen.begin(&invocation("a", 0, 1)).err(), Some(Duplicate), "a replay");
        seen.begin(&invocation("a", 0, 2)).expect("the next attempt").finish();
        assert_eq!(seen.begin(&invocation("a", 0, 3)).err(), Some(Duplicate));
    }

    #[test]
    fn memory_is_bounded() {
        let seen = Seen::new(100);
        for number in 0..1_000 {
            seen.begin(&invocation(&number.to_string(), 0, 1)).expect("new").finish();
        }
        let legs = seen.0.lock();
        assert_eq!((legs.by_key.len(), legs.by_age.len()), (100, 100));
        drop(legs);
        assert_eq!(seen.begin(&invocation("999", 0, 1)).err(), Some(Duplicate), "the last are kept");
        assert!(seen.begin(&invocation("0", 0, 1)).is_ok());
    }
}
