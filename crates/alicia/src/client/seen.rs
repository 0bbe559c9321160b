//! What was seen already, so that nothing is told twice.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::{Id, MessageType};

/// The newest messages of a conversation by their durable ids. Stanzas need no memory of their own: they are
/// taken in their order, so that the contiguous mark stands for all of them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// With a digest of what they said.
    known: BTreeMap<(MessageType, Id), u64>,
    order: VecDeque<(MessageType, Id)>,
}

impl Seen {
    /// Whether a message is new; from now on it is not.
    pub(super) fn is_new(&mut self, kind: MessageType, id: &Id) -> bool {
        let fresh = !self.known.contains_key(&(kind, id.clone()));
        if fresh {
            self.insert(kind, id, 0);
        }
        fresh
    }

    /// What is new about a message that may be replaced.
    pub(super) fn compare(&mut self, kind: MessageType, id: &Id, text: &str) -> Novelty {
        let digest = digest(text);
        match self.known.get_mut(&(kind, id.clone())) {
            Some(known) if *known == digest => Novelty::None,
            Some(known) => {
                *known = digest;
                Novelty::Changed
            }
            None => {
                self.insert(kind, id, digest);
                Novelty::New
            }
        }
    }

    pub(super) fn contains(&self, kind: MessageType, id: &Id) -> bool {
        self.known.contains_key(&(kind, id.clone()))
    }

    fn insert(&mut self, kind: MessageType, id: &Id, digest: u64) {
        self.known.insert((kind, id.clone()), digest);
        self.order.push_back((kind, id.clone()));
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// What is new about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// All of it.
    New,
    /// What it says.
    Changed,
    /// Nothing.
    None,
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// More than the reference asks for: a replay brings up to a thousand stanzas and what stands between them.
const REMEMBERED: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_and_the_oldest_forgotten() {
        let mut seen = Seen::default();
        let id = |number: usize| Id::new(format!("am_{number}")).unwrap();
        for number in 0..=REMEMBERED {
            assert!(seen.is_new(MessageType::UserMessage, &id(number)));
        }
        assert!((1..=REMEMBERED).all(|number| !seen.is_new(MessageType::UserMessage, &id(number))));
        assert_eq!(seen.known.len(), REMEMBERED);
        assert!(seen.is_new(MessageType::UserMessage, &id(0)), "forgotten");
        assert!(seen.is_new(MessageType::Transcription, &id(7)), "another kind");
    }

    #[test]
    fn what_may_be_replaced_is_new_by_what_it_says() {
        let mut seen = Seen::default();
        let id = Id::new("am_1").unwrap();
        let mut compare = |text| seen.compare(MessageType::AssistantMessage, &id, text);
        assert_eq!(compare("a"), Novelty::New);
        assert_eq!(compare("a"), Novelty::None);
        assert_eq!(compare("b"), Novelty::Changed);
        assert_eq!(compare("b"), Novelty::None);
    }
}
