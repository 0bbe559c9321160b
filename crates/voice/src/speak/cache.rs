//! What was said before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::audio::Sound;

/// The sentences that were spoken last, which are often the same: greetings, questions, excuses. Holds so many
/// samples at most, and forgets what was not said for the longest time.
#[derive(Debug)]
pub(crate) struct Cache {
    most_samples: usize,
    shelves: Mutex<Shelves>,
}

#[derive(Debug, Default)]
struct Shelves {
    by_words: HashMap<Key, (u64, Arc<Sound>)>,
    by_age: BTreeMap<u64, Key>,
    samples: usize,
    uses: u64,
}

/// What makes a sentence sound as it does.
#[derive(Clone, Hash, PartialEq, Eq)]
pub(crate) struct Key {
    text: String,
    language: String,
    voice: Option<String>,
}

impl Key {
    pub(crate) fn new(text: &str, language: &str, voice: Option<&str>) -> Self {
        Self { text: text.to_owned(), language: language.to_owned(), voice: voice.map(str::to_owned) }
    }
}

// What is said is not for logs.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({} bytes)", self.text.len())
    }
}

impl Cache {
    pub(crate) fn new(most_samples: usize) -> Self {
        Self { most_samples, shelves: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Sound>> {
        let shelves = &mut *self.shelves.lock();
        let (age, sound) = shelves.by_words.get_mut(key)?;
        shelves.uses += 1;
        let kept = shelves.by_age.remove(age)?;
        *age = shelves.uses;
        shelves.by_age.insert(shelves.uses, kept);
        Some(Arc::clone(sound))
    }

    pub(crate) fn put(&self, key: Key, sound: Arc<Sound>) {
        // One long story should not push out a hundred greetings.
        if sound.samples.len() > self.most_samples / 8 {
            return;
        }
        let shelves = &mut *self.shelves.lock();
        shelves.uses += 1;
        shelves.samples += sound.samples.len();
        if let Some((age, old)) = shelves.by_words.insert(key.clone(), (shelves.uses, sound)) {
            shelves.by_age.remove(&age);
            shelves.samples -= old.samples.len();
        }
        shelves.by_age.insert(shelves.uses, key);
        while shelves.samples > self.most_samples {
            let Some((_, oldest)) = shelves.by_age.pop_first() else { break };
            if let Some((_, sound)) = shelves.by_words.remove(&oldest) {
                shelves.samples -= sound.samples.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text, "en", None)
    }

    fn sound(samples: usize) -> Arc<Sound> {
        Arc::new(Sound { samples: vec![0.0; samples], rate: 16_000 })
    }

    #[test]
    fn what_was_not_said_for_long_is_forgotten_first() {
        let cache = Cache::new(80);
        for text in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            cache.put(key(text), sound(10));
        }
        assert!(cache.get(&key("a")).is_some());
        cache.put(key("i"), sound(10));
        assert!(cache.get(&key("a")).is_some(), "it was said again");
        assert!(cache.get(&key("b")).is_none());
        assert!(cache.get(&key("c")).is_some());
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let cache = Cache::new(800);
        for round in 0..1_000_usize {
            cache.put(key(&(round % 37).to_string()), sound(round % 120));
            let shelves = cache.shelves.lock();
            let held: usize = shelves.by_words.values().map(|(_, sound)| sound.samples.len()).sum();
            assert!(held == shelves.samples && held <= 800);
            assert_eq!(shelves.by_words.len(), shelves.by_age.len());
        }
    }

    #[test]
    fn another_voice_or_language_is_another_sentence() {
        let cache = Cache::new(800);
        cache.put(Key::new("a", "en", None), sound(1));
        assert!(cache.get(&Key::new("a", "de", None)).is_none());
        assert!(cache.get(&Key::new("a", "en", Some("slt"))).is_none());
        assert!(!format!("{cache:?}").contains("\"a\""));
    }
}
