//! What was said, for protocols in which the client tells it with every message.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use switchboard_client::acolyte::{HistoryEntry, HistoryKind, HistoryRole};
use switchboard_core::model::{Author, Part};
use switchboard_core::{MessageRow, Timestamp};

use super::random;
use crate::clock;
use crate::failure::Failure;

/// What was said, shared by a conversation and the answer that is under way.
#[derive(Clone, Debug)]
pub(super) struct History(Arc<Mutex<Entries>>);

#[derive(Debug)]
struct Entries {
    entries: VecDeque<HistoryEntry>,
    /// Makes ids that no other client of the session has.
    prefix: String,
    count: u64,
    bytes: usize,
}

impl History {
    /// With what was said before, the newest first.
    pub(super) fn new(past: &[MessageRow]) -> Result<Self, Failure> {
        let entries = Entries { entries: VecDeque::new(), prefix: random(8)?, count: 0, bytes: 0 };
        let history = Self(Arc::new(Mutex::new(entries)));
        for message in past.iter().rev() {
            let role = match message.author {
                Author::User(_) => HistoryRole::User,
                Author::Agent(_) => HistoryRole::Assistant,
                Author::System => HistoryRole::System,
            };
            history.add(role, text(&message.parts), message.at);
        }
        Ok(history)
    }

    /// Somebody said something. The oldest is forgotten where there is too much.
    pub(super) fn add(&self, role: HistoryRole, content: String, at: Timestamp) {
        if content.is_empty() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.count += 1;
        all.bytes += content.len();
        let entry = HistoryEntry {
            id: Some(format!("msg_{}{}", all.prefix, all.count)),
            role,
            content,
            kind: HistoryKind::Text,
            timestamp: Some(iso(at)),
        };
        all.entries.push_back(entry);
        while all.entries.len() > MAX_ENTRIES || all.bytes > MAX_BYTES {
            let Some(oldest) = all.entries.pop_front() else { break };
            all.bytes -= oldest.content.len();
        }
    }

    /// All of it, as it travels.
    pub(super) fn told(&self) -> Vec<Value> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entries.iter().filter_map(|entry| serde_json::to_value(entry).ok()).collect()
    }
}

/// The text of a message as the server compares it.
fn text(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Data { .. } | Part::Reference { .. } => String::new(),
    };
    parts.iter().map(text).collect()
}

/// ISO 8601 in UTC with milliseconds.
fn iso(at: Timestamp) -> String {
    format!("{}.{:03}Z", clock::utc(at).replace(' ', "T"), at.as_micros() / 1_000 % 1_000)
}

/// Servers take 500.
const MAX_ENTRIES: usize = 400;
/// Servers take messages of 16 MiB.
const MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let history = History::new(&[]).unwrap();
        for number in 0..450 {
            history.add(HistoryRole::User, format!("{number}"), Timestamp::from_millis(1_794_738_008_007));
        }
        history.add(HistoryRole::Assistant, String::new(), Timestamp::default());
        let told = history.told();
        assert_eq!((told.len(), &told[0]["content"]), (400, &"50".into()));
        assert_eq!(told[399]["timestamp"], "2026-11-15T10:20:08.007Z");
        let ids: std::collections::BTreeSet<&str> =
            told.iter().map(|entry| entry["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 400);
        assert!(ids.iter().all(|id| switchboard_client::acolyte::is_id(id, "msg")), "{ids:?}");
        history.add(HistoryRole::User, "x".repeat(MAX_BYTES), Timestamp::default());
        assert_eq!(history.told().len(), 1);
    }
}
