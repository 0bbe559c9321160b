//! What has to be remembered from one request to the next, for minutes only: a repetition is answered as before,
//! and credentials are counted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard_core::Timestamp;

/// What was asked and answered recently.
#[derive(Default)]
pub(crate) struct Recent(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// By whom, and under which key.
    answers: BTreeMap<(String, String), Remembered>,
    /// In the order in which they were remembered.
    order: VecDeque<(Timestamp, (String, String))>,
    /// When a session was given credentials.
    credentials: BTreeMap<String, VecDeque<Timestamp>>,
}

struct Remembered {
    digest: [u8; 32],
    /// None while it is being answered.
    answer: Option<String>,
}

/// What is known about a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Repetition {
    /// It is new, and reserved from now on.
    New,
    /// The same was asked before; this was the answer.
    Answered(String),
    /// The same is just being answered.
    Underway,
    /// Something else was asked under this key.
    Conflict,
}

impl Recent {
    /// Whether this was asked before.
    pub(super) fn ask(&self, who: &str, key: &str, digest: [u8; 32], now: Timestamp) -> Repetition {
        let mut memory = self.memory();
        memory.forget(now);
        let name = (who.to_owned(), key.to_owned());
        match memory.answers.get(&name) {
            Some(Remembered { digest: known, .. }) if *known != digest => Repetition::Conflict,
            Some(Remembered { answer: Some(answer), .. }) => Repetition::Answered(answer.clone()),
            Some(Remembered { answer: None, .. }) => Repetition::Underway,
            None => {
                if memory.order.len() >= MOST_ANSWERS
                    && let Some((_, oldest)) = memory.order.pop_front()
                {
                    memory.answers.remove(&oldest);
                }
                memory.answers.insert(name.clone(), Remembered { digest, answer: None });
                memory.order.push_back((now, name));
                Repetition::New
            }
        }
    }

    /// What the answer was; none if there was none worth remembering.
    pub(super) fn answered(&self, who: &str, key: &str, answer: Option<String>) {
        let mut memory = self.memory();
        let name = (who.to_owned(), key.to_owned());
        match answer {
            Some(answer) => {
                if let Some(remembered) = memory.answers.get_mut(&name) {
                    remembered.answer = Some(answer);
                }
            }
            None => {
                memory.answers.remove(&name);
                memory.order.retain(|(_, known)| *known != name);
            }
        }
    }

    /// Whether a session may have one more credential now.
    pub(super) fn may_mint(&self, session: &str, most: u32, now: Timestamp) -> bool {
        let mut memory = self.memory();
        let recent = |at: &Timestamp| now.since(*at).as_secs() < MINUTE_S;
        memory.credentials.retain(|_, times| times.back().is_some_and(recent));
        let times = memory.credentials.entry(session.to_owned()).or_default();
        while times.front().is_some_and(|at| !recent(at)) {
            times.pop_front();
        }
        let room = times.len() < most as usize;
        if room {
            times.push_back(now);
        }
        room
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // What is in there is whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn forget(&mut self, now: Timestamp) {
        while self.order.front().is_some_and(|(at, _)| now.since(*at).as_secs() >= REMEMBERED_S) {
            if let Some((_, name)) = self.order.pop_front() {
                self.answers.remove(&name);
            }
        }
    }
}

// It holds tokens.
impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").finish_non_exhaustive()
    }
}

const REMEMBERED_S: u64 = 600;
const MINUTE_S: u64 = 60;
const MOST_ANSWERS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(1_000 + second)
    }

    #[test]
    fn vip_013_a_repetition_is_answered_as_before_for_ten_minutes() {
        let recent = Recent::default();
        assert_eq!(recent.ask("ann", "k", [1; 32], at(0)), Repetition::New);
        assert_eq!(recent.ask("ann", "k", [1; 32], at(0)), Repetition::Underway);
        assert_eq!(recent.ask("ann", "k", [2; 32], at(0)), Repetition::Conflict);
        recent.answered("ann", "k", Some("yes".into()));
        assert_eq!(recent.ask("ann", "k", [1; 32], at(599)), Repetition::Answered("yes".into()));
        assert_eq!(recent.ask("ann", "k", [2; 32], at(599)), Repetition::Conflict);
        assert_eq!(recent.ask("bob", "k", [2; 32], at(599)), Repetition::New, "keys are the asker's own");
        assert_eq!(recent.ask("ann", "k", [2; 32], at(600)), Repetition::New);
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let recent = Recent::default();
        for key in 0..=MOST_ANSWERS {
            assert_eq!(recent.ask("ann", &key.to_string(), [1; 32], at(0)), Repetition::New);
        }
        assert_eq!(recent.ask("ann", "1", [2; 32], at(0)), Repetition::Conflict);
        assert_eq!(recent.ask("ann", "0", [2; 32], at(0)), Repetition::New, "the oldest goes first");
    }

    #[test]
    fn a_refusal_is_not_remembered() {
        let recent = Recent::default();
        assert_eq!(recent.ask("ann", "k", [1; 32], at(0)), Repetition::New);
        recent.answered("ann", "k", None);
        assert_eq!(recent.ask("ann", "k", [2; 32], at(1)), Repetition::New);
    }

    #[test]
    fn credentials_are_counted_by_the_minute() {
        let recent = Recent::default();
        assert!(recent.may_mint("a", 2, at(0)));
        assert!(recent.may_mint("a", 2, at(30)));
        assert!(!recent.may_mint("a", 2, at(59)));
        assert!(recent.may_mint("b", 2, at(59)));
        assert!(recent.may_mint("a", 2, at(60)));
        assert!(!recent.may_mint("a", 2, at(61)));
    }
}
