//! Messages that are put into the tree, or put right, by somebody else than a turn.

use serde_json::json;
use switchboard_core::model::{Author, Message, Part};
use switchboard_core::{MessageId, Pii, Timestamp};

use crate::deed::Luggage;
use crate::id::{Id, Prefix};
use crate::message::{AssistantMessage, Ratio, Role, Superset, Transcription, UserMessage, Word};
use crate::moment::rfc3339;

use super::conversation::{Conversation, Recent};
use super::page::{Desk, millis};
use super::{MOST_WHOLE, clip, tables};

impl Conversation {
    /// A message was put into the tree.
    pub(super) fn add(&mut self, message: &Message, desk: &mut Desk) {
        let luggage = Luggage::of(&message.meta);
        let said = Said {
            id: Id::of(Prefix::Message, message.id.as_str()),
            previous: message.parent.as_ref().map(|parent| Id::of(Prefix::Message, parent.as_str())),
            role: match message.author {
                Author::User(_) => Role::User,
                Author::Agent(_) => Role::Assistant,
                Author::System => Role::System,
            },
            text: message.text(),
            number: self.number(&luggage),
            times: Times::of(&luggage, desk.at),
        };
        self.write(&said, &luggage, desk);
        self.go_on_from(said.id.clone(), desk);
        self.announce(said, luggage, desk);
    }

    fn write(&mut self, said: &Said, luggage: &Luggage, desk: &mut Desk) {
        let Said { id, previous, role, text, number, times } = said;
        let now = millis(desk.at);
        let branch = self.branch_index(previous.as_ref());
        desk.put(&tables::MESSAGES, || {
            let local = luggage.local_id.as_ref();
            vec![
                ("id", id.as_str().into()),
                ("conversation_id", self.id.as_str().into()),
                ("previous_id", previous.as_ref().map(Id::as_str).into()),
                ("message_role", role.name().into()),
                ("contents", text.as_str().into()),
                ("sequence_number", (*number).into()),
                ("branch_index", branch.into()),
                ("completion_status", "completed".into()),
                ("local_id", local.cloned().into()),
                ("server_id", local.map(|_| id.as_str()).into()),
                ("sync_status", "synced".into()),
                ("synced_at", local.map(|_| now).into()),
                ("created_at", millis(times.created_at).into()),
                ("updated_at", millis(times.updated_at).into()),
            ]
        });
        for (key, value) in &luggage.meta {
            self.annotate(id.as_str(), key, value, desk);
        }
        if luggage.spoken.is_some() {
            self.annotate(id.as_str(), "source", &json!("asr"), desk);
        }
        self.remember(Recent {
            id: id.clone(),
            previous: previous.clone(),
            number: *number,
            created_at: times.created_at,
            sentences: None,
        });
    }

    /// Tells who else is there; whoever wrote it knows.
    fn announce(&mut self, said: Said, luggage: Luggage, desk: &mut Desk) {
        let Said { id, previous, role, mut text, number, times } = said;
        let superset = Some(Superset {
            role: Word::Known(role),
            sequence_number: number,
            created_at: rfc3339(times.created_at),
            updated_at: rfc3339(times.updated_at),
            server_id: luggage.local_id.as_ref().map(|_| id.to_string()),
            local_id: luggage.local_id,
        });
        let timestamp = Some(millis(times.written_at));
        match (role, luggage.spoken) {
            (Role::User, Some(spoken)) => {
                let transcription = Transcription {
                    id,
                    previous_id: previous,
                    text: Pii(text),
                    is_final: true,
                    confidence: spoken.confidence.and_then(Ratio::new),
                    language: spoken.language,
                };
                self.stanza(transcription, None, desk);
            }
            // What is blank has no form on the wire.
            (Role::User, None) if text.trim().is_empty() => {}
            (Role::User, None) => {
                clip(&mut text, MOST_CONTENT);
                let content = Pii(text);
                self.aside(UserMessage { id, previous_id: previous, content, timestamp, superset }, desk);
            }
            (Role::Assistant, _) => {
                clip(&mut text, MOST_WHOLE);
                let content = Pii(text);
                self.aside(
                    AssistantMessage { id, previous_id: previous, content, timestamp, superset },
                    desk,
                );
            }
            (Role::System, _) => {}
        }
    }

    /// The sentences of a message do not say any more what it says.
    fn withdraw_sentences(&self, known: Option<&Recent>, desk: &mut Desk) {
        let Some((turn, sentences)) = known.and_then(|known| known.sentences.as_ref()) else { return };
        let now = millis(desk.at);
        for sequence in 1..=*sentences {
            desk.set(&tables::SENTENCES, || {
                vec![
                    ("conversation_id", self.id.as_str().into()),
                    ("id", self.sentence_id(turn, sequence).as_str().into()),
                    ("deleted_at", now.into()),
                ]
            });
        }
    }

    /// What an agent had said was put right.
    pub(super) fn edit(&mut self, message: &MessageId, parts: &[Part], desk: &mut Desk) {
        let id = Id::of(Prefix::Message, message.as_str());
        let mut text: String = parts.iter().filter_map(text_of).collect();
        desk.set(&tables::MESSAGES, || {
            vec![
                ("conversation_id", self.id.as_str().into()),
                ("id", id.as_str().into()),
                ("contents", text.as_str().into()),
            ]
        });
        let known = self.recall(&id).cloned();
        self.withdraw_sentences(known.as_ref(), desk);
        let (number, created_at) =
            known.as_ref().map_or((0, desk.at), |known| (known.number, known.created_at));
        clip(&mut text, MOST_WHOLE);
        let edited = AssistantMessage {
            id,
            previous_id: known.and_then(|known| known.previous),
            content: Pii(text),
            timestamp: Some(millis(desk.at)),
            superset: Some(Superset {
                role: Word::Known(Role::Assistant),
                sequence_number: number,
                created_at: rfc3339(created_at),
                updated_at: rfc3339(desk.at),
                local_id: None,
                server_id: None,
            }),
        };
        self.stanza(edited, None, desk);
    }
}

/// A message that is written down.
struct Said {
    id: Id,
    previous: Option<Id>,
    role: Role,
    text: String,
    number: i64,
    times: Times,
}

/// The moments of a message.
struct Times {
    /// As its author says.
    written_at: Timestamp,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Times {
    /// Who writes offline knows best when; otherwise the moment of receipt counts.
    fn of(luggage: &Luggage, at: Timestamp) -> Self {
        let moment = |millis: Option<i64>| {
            millis.and_then(|millis| u64::try_from(millis).ok()).map(Timestamp::from_millis)
        };
        let written_at = moment(luggage.written_ms).unwrap_or(at);
        if luggage.local_id.is_none() {
            return Self { written_at, created_at: at, updated_at: at };
        }
        let updated_at = moment(luggage.changed_ms).unwrap_or(written_at);
        Self { written_at, created_at: written_at, updated_at }
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Data { .. } | Part::Reference { .. } => None,
    }
}

/// Longest `content` of a UserMessage, in bytes (§11.1).
const MOST_CONTENT: usize = 65_536;
