//! What people have asked to be remembered, found again for the agents that answer them.
//!
//! The memories of a person are noted in a session of their own, their notebook, and kept in a table
//! by the account of it. Here they are measured against what is asked: by meaning where a model for
//! that is configured, by words otherwise, and as long as that model cannot be asked.

mod meaning;
mod notebook;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use switchboard_agents::memory::{cosine, digest, overlap};
use switchboard_alicia::deed::{CHRONICLE, Deed};
use switchboard_core::model::Remembered;
use switchboard_core::{Actor, Op, PrincipalId, SessionId};
use switchboard_store::Log;

use self::meaning::Meaning;
use self::notebook::{Note, Notebooks, notebook_of};
use crate::config::{Config, MemoryConfig};
use crate::sessions::Sessions;

/// Finds memories.
#[derive(Debug)]
pub(crate) struct Memory {
    config: MemoryConfig,
    /// None if nobody is to remember anything.
    notebooks: Option<Notebooks>,
    meaning: Option<Meaning>,
    vacant: Mutex<Vacant>,
    /// Notebooks whose memories are being turned into numbers.
    busy: Mutex<HashSet<SessionId>>,
    sessions: OnceLock<Weak<Sessions>>,
}

impl Memory {
    /// As it is configured.
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        Ok(Self {
            notebooks: Notebooks::find().filter(|_| config.memory.enabled),
            meaning: Meaning::new(config)?,
            config: config.memory.clone(),
            vacant: Mutex::default(),
            busy: Mutex::default(),
            sessions: OnceLock::new(),
        })
    }

    /// From now on what is found out about memories can be noted.
    pub(crate) fn note_in(&self, sessions: &Arc<Sessions>) {
        let _ = self.sessions.set(Arc::downgrade(sessions));
    }

    /// What is remembered about a person that has to do with what they say, best first.
    pub(crate) async fn recall(
        self: &Arc<Self>,
        log: &dyn Log,
        person: &PrincipalId,
        said: &str,
    ) -> Vec<Remembered> {
        let Some(notebooks) = &self.notebooks else { return Vec::new() };
        let said = beginning(said.trim(), MAX_SAID);
        let notebook = notebook_of(person);
        let changes = {
            let vacant = self.vacant.lock();
            if said.is_empty() || vacant.notebooks.contains(&notebook) {
                return Vec::new();
            }
            vacant.changes
        };
        let most = if self.meaning.is_some() { MOST_BY_MEANING } else { MOST_BY_WORDS };
        let notes = match notebooks.read(log, person, &notebook, said, most).await {
            Ok(notes) => notes,
            Err(error) => {
                tracing::warn!(%error, "memories could not be read");
                return Vec::new();
            }
        };
        if notes.is_empty() {
            self.vacant.lock().mark(notebook, changes);
            return Vec::new();
        }
        let meant = match &self.meaning {
            Some(meaning) => meaning.of(said).await,
            None => None,
        };
        if self.meaning.is_some() && notes.iter().any(Note::lacks_vector) {
            self.catch_up(notebook);
        }
        self.best(notes, said, meant.as_deref())
    }

    /// Those that are close enough, best first. Where there are too many, what a person has pinned
    /// comes before what they have not.
    fn best(&self, notes: Vec<Note>, said: &str, meant: Option<&[f32]>) -> Vec<Remembered> {
        let mut close: Vec<(Note, f64)> = notes
            .into_iter()
            .filter_map(|note| {
                let relevance = self.closeness(&note, said, meant)?;
                Some((note, relevance))
            })
            .collect();
        let nearer = |a: &f64, b: &f64| b.partial_cmp(a).unwrap_or(Ordering::Equal);
        close.sort_by(|(a, near), (b, nearby)| b.pinned.cmp(&a.pinned).then(nearer(near, nearby)));
        close.truncate(self.config.top);
        close.sort_by(|(_, near), (_, nearby)| nearer(near, nearby));
        let remembered = |(note, relevance): (Note, f64)| Remembered {
            memory: note.id,
            content: note.content,
            relevance,
            source: note.source,
        };
        close.into_iter().map(remembered).collect()
    }

    /// How close a memory is to what is said; none if it is not close enough.
    fn closeness(&self, note: &Note, said: &str, meant: Option<&[f32]>) -> Option<f64> {
        let vector = note.vector.as_deref();
        let (closeness, least) = match (meant, vector) {
            (Some(meant), Some(vector)) if meant.len() == vector.len() => {
                (cosine(meant, vector), self.config.similarity)
            }
            _ => (overlap(said, beginning(&note.content, MAX_SAID)), self.config.overlap),
        };
        (closeness >= least).then_some(closeness)
    }

    /// Something was noted in an account of a session; memories that are new or have changed can be
    /// found from now on.
    pub(crate) fn noticed(self: &Arc<Self>, session: &SessionId, chronicle: &str, record: &Value) {
        let memorised = || record.get("deed").and_then(Value::as_str) == Some("memorised");
        if self.notebooks.is_none() || chronicle != CHRONICLE || !memorised() {
            return;
        }
        self.vacant.lock().unmark(session);
        if self.meaning.is_some() {
            self.catch_up(session.clone());
        }
    }

    /// Turns those memories of a notebook into numbers that are not yet, in the background.
    fn catch_up(self: &Arc<Self>, notebook: SessionId) {
        let Some(sessions) = self.sessions.get().and_then(Weak::upgrade) else { return };
        if !self.busy.lock().insert(notebook.clone()) {
            return;
        }
        let memory = self.clone();
        tokio::spawn(async move {
            memory.embed_missing(&notebook, &sessions).await;
            memory.busy.lock().remove(&notebook);
        });
    }

    async fn embed_missing(&self, notebook: &SessionId, sessions: &Arc<Sessions>) {
        let (Some(notebooks), Some(meaning)) = (&self.notebooks, &self.meaning) else { return };
        // Whoever writes faster than that is caught up with when something is asked.
        for _ in 0..MOST_ROUNDS {
            let log = &*sessions.environment.log;
            let Ok(mut notes) = notebooks.all(log, notebook, MOST_BY_MEANING).await else { return };
            notes.retain(Note::lacks_vector);
            notes.truncate(switchboard_agents::memory::MAX_BATCH);
            if notes.is_empty() {
                return;
            }
            let texts: Vec<&str> = notes.iter().map(|note| note.content.as_str()).collect();
            let Some(vectors) = meaning.of_all(&texts).await else { return };
            for (note, vector) in notes.iter().zip(vectors) {
                let digest = digest(&note.content);
                let record = Deed::Embedded { id: note.id.clone(), digest, vector }.to_record();
                let op = Op::Record { chronicle: CHRONICLE.into(), record };
                if let Err(reject) = sessions.ask(notebook, Actor::server(), op).await {
                    tracing::warn!(reason = reject.name(), "what a memory means could not be noted");
                    return;
                }
            }
        }
    }
}

/// Notebooks that are known to hold nothing, so that those who remember nothing cost nothing.
#[derive(Debug, Default)]
struct Vacant {
    notebooks: HashSet<SessionId>,
    /// Counts what was noted: who has looked before cannot know.
    changes: u64,
}

impl Vacant {
    fn mark(&mut self, notebook: SessionId, changes: u64) {
        if self.changes != changes {
            return;
        }
        if self.notebooks.len() >= MOST_VACANT {
            self.notebooks.clear();
        }
        self.notebooks.insert(notebook);
    }

    fn unmark(&mut self, notebook: &SessionId) {
        self.changes += 1;
        self.notebooks.remove(notebook);
    }
}

fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// Bytes of a text that count where words are compared.
const MAX_SAID: usize = 4 << 10;
/// Memories of a person that are compared word by word, besides those that a search finds.
const MOST_BY_WORDS: usize = 100;
/// Memories of a person whose meaning is compared.
const MOST_BY_MEANING: usize = 1_000;
const MOST_ROUNDS: usize = 32;
const MOST_VACANT: usize = 100_000;

#[cfg(test)]
mod tests;
