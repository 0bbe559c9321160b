//! What clients do beside the turns (§5.7, §10).

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};
use switchboard_core::{Cell, PrincipalId, hex};

use crate::deed::Deed;
use crate::id::{Id, Prefix};

use super::conversation::Conversation;
use super::page::{Cells, Desk, Notice, millis};
use super::tables;

impl Conversation {
    /// Something was done. What must not be noted in a conversation, or not in a notebook, is passed over.
    pub(super) fn note(&mut self, by: &PrincipalId, deed: Deed, desk: &mut Desk) {
        match deed {
            Deed::Memorised { .. } | Deed::Embedded { .. } => self.memorise(by, deed, desk),
            Deed::Preferred { preferences } if self.notebook => {
                for (key, value) in &preferences {
                    self.annotate(PERSONAL, key, value, desk);
                }
            }
            _ if self.notebook => {}
            Deed::Commented { id, message, content, kind, mut meta } => {
                if let Some(kind) = kind {
                    meta.insert("commentary_type".to_owned(), json!(kind));
                }
                desk.make(&tables::COMMENTARIES, || {
                    let mut cells = self.key(&id);
                    cells.extend([
                        ("message_id", message.into()),
                        ("content", content.into()),
                        ("created_by", by.as_str().into()),
                        ("meta", Json::Object(meta).to_string().into()),
                    ]);
                    cells
                });
            }
            Deed::Voted { .. } => self.vote(by, deed, desk),
            Deed::Noted { id, message, content: Some(content), category: Some(category) } => {
                desk.make(&tables::NOTES, || {
                    let mut cells = self.key(&id);
                    cells.extend([
                        ("message_id", message.into()),
                        ("created_digest", digest(&content).into()),
                        ("content", content.into()),
                        ("category", category.into()),
                        ("created_by", by.as_str().into()),
                        ("deleted_at", Cell::Null),
                    ]);
                    cells
                });
            }
            Deed::Noted { id, content, .. } => {
                let now = millis(desk.at);
                desk.set(&tables::NOTES, || {
                    let mut cells = self.key(&id);
                    cells.push(match content {
                        Some(content) => ("content", content.into()),
                        None => ("deleted_at", now.into()),
                    });
                    cells
                });
            }
            Deed::Weighed { weights } => {
                self.weights = Some(weights);
                self.touch(desk, preferences);
                desk.page.notices.push(Notice::Elites);
            }
            Deed::Chose { elite } => {
                self.elite = Some(elite);
                self.touch(desk, preferences);
                desk.page.notices.push(Notice::Elites);
            }
            Deed::Introduced { device, version, language } => {
                let about = self.id.to_string();
                for (key, value) in [("device", device), ("clientVersion", version)] {
                    if let Some(value) = value {
                        self.annotate(&about, key, &json!(value), desk);
                    }
                }
                if let Some(language) = language {
                    self.prefer(&Map::from_iter([("language".to_owned(), json!(language))]));
                }
                self.touch(desk, preferences);
            }
            Deed::Preferred { preferences: changes } => {
                self.prefer(&changes);
                self.touch(desk, preferences);
            }
            // It is about an answer, which is not of the conversation as a whole.
            Deed::Replied { .. } => {}
            Deed::Conflicted { message } => desk.set(&tables::MESSAGES, || {
                let mut cells = self.key(Id::of(Prefix::Message, &message).as_str());
                cells.push(("sync_status", "conflict".into()));
                cells
            }),
            Deed::Heard { id, message, format, duration_ms, transcription, mut meta } => {
                meta.insert("duration".to_owned(), json!(duration_ms));
                desk.make(&tables::AUDIO, || {
                    let mut cells = self.key(&id);
                    cells.extend([
                        ("message_id", message.into()),
                        ("audio_type", "input".into()),
                        ("audio_format", format.into()),
                        ("duration_ms", i64::try_from(duration_ms).unwrap_or(i64::MAX).into()),
                        ("transcription", transcription.into()),
                        ("transcription_meta", Json::Object(meta).to_string().into()),
                    ]);
                    cells
                });
            }
        }
    }

    fn key(&self, id: &str) -> Cells {
        vec![("conversation_id", self.id.as_str().into()), ("id", id.into())]
    }

    /// A new vote takes the place of the old one; one that is taken back stays as a deleted row.
    fn vote(&self, by: &PrincipalId, deed: Deed, desk: &mut Desk) {
        let Deed::Voted { id, message, target_type, target, vote, quick, note } = deed else { return };
        let now = millis(desk.at);
        desk.put(&tables::VOTES_CAST, || {
            let mut cells = self.key(&id);
            cells.extend([
                ("target_type", target_type.clone().into()),
                ("target_id", target.clone().into()),
                ("vote", vote.clone().into()),
                ("created_by", by.as_str().into()),
                ("created_at", now.into()),
            ]);
            cells
        });
        let key: Cells = vec![
            ("conversation_id", self.id.as_str().into()),
            ("created_by", by.as_str().into()),
            ("target_type", target_type.into()),
            ("target_id", target.into()),
        ];
        let Some(vote) = vote else {
            desk.set(&tables::VOTES, || {
                let mut cells = key;
                cells.push(("deleted_at", now.into()));
                cells
            });
            return;
        };
        desk.make(&tables::VOTES, || {
            let mut cells = key;
            cells.extend([
                ("id", id.into()),
                ("message_id", message.into()),
                ("vote", vote.into()),
                ("quick_feedback", quick.into()),
                ("note", note.into()),
                ("deleted_at", Cell::Null),
            ]);
            cells
        });
    }

    fn memorise(&self, by: &PrincipalId, deed: Deed, desk: &mut Desk) {
        match deed {
            Deed::Memorised { id, content, category, pinned, archived, deleted, created } => {
                let now = millis(desk.at);
                let mut cells = self.key(&id);
                if let Some(content) = content {
                    cells.extend(created.then(|| ("created_digest", digest(&content).into())));
                    cells.push(("content", content.into()));
                    cells.extend([("embeddings", Cell::Null), ("embedding_digest", Cell::Null)]);
                }
                cells.extend(category.map(|category| ("tags", json!([category]).to_string().into())));
                cells.extend(pinned.map(|pinned| ("pinned", pinned.into())));
                cells.extend(archived.map(|archived| ("archived", archived.into())));
                cells.extend(deleted.then(|| ("deleted_at", now.into())));
                if !created {
                    return desk.set(&tables::MEMORY, || cells);
                }
                let known = |column: &str| cells.iter().any(|(name, _)| *name == column);
                let flags = ["pinned", "archived"].map(|flag| (!known(flag)).then_some((flag, false.into())));
                cells.extend(flags.into_iter().flatten());
                cells.extend([
                    ("user_id", self.owner.as_str().into()),
                    ("importance", 0.5.into()),
                    ("confidence", 1.0.into()),
                    ("source_type", "manual".into()),
                    ("created_by", by.as_str().into()),
                    ("deleted_at", Cell::Null),
                ]);
                desk.make(&tables::MEMORY, || cells);
            }
            Deed::Embedded { id, digest, vector } => desk.set(&tables::MEMORY, || {
                let numbers: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                let mut cells = self.key(&id);
                cells.extend([
                    ("embeddings", Bytes::from(numbers).into()),
                    ("embedding_digest", digest.into()),
                ]);
                cells
            }),
            Deed::Commented { .. }
            | Deed::Voted { .. }
            | Deed::Noted { .. }
            | Deed::Weighed { .. }
            | Deed::Chose { .. }
            | Deed::Introduced { .. }
            | Deed::Preferred { .. }
            | Deed::Conflicted { .. }
            | Deed::Replied { .. }
            | Deed::Heard { .. } => {}
        }
    }
}

/// What the entries of `alicia_meta` are about that hold what a person prefers.
pub(crate) const PERSONAL: &str = "preferences";

/// Stands for what a row says.
pub(crate) fn digest(content: &str) -> String {
    hex(&Sha256::digest(content.as_bytes()))
}

fn preferences(book: &Conversation) -> Cells {
    vec![("preferences", book.preferences_json().into())]
}
