//! A conversation as a whole: its row, its server log, its messages.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use switchboard_core::model::Standing;
use switchboard_core::{Cell, PrincipalId, Timestamp, TurnId};

use crate::codec::encode;
use crate::deed::Luggage;
use crate::id::{Id, Prefix};
use crate::message::{Body, ConversationStatus, Dimensions, Envelope, Meta, Trace};

use super::page::{Cells, Desk, Entry, millis};
use super::tables;

/// What is known of a conversation beside its live turns.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Conversation {
    pub(super) id: Id,
    pub(super) owner: PrincipalId,
    /// No conversation, but where the memories of a person are noted.
    pub(super) notebook: bool,
    pub(super) title: Option<String>,
    pub(super) standing: Standing,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) head: i32,
    /// Side entries behind the head.
    pub(super) asides: u32,
    pub(super) tip: Option<Id>,
    /// The greatest number that a message has.
    pub(super) highest: i64,
    pub(super) preferences: Map<String, Json>,
    pub(super) weights: Option<[f64; 7]>,
    pub(super) elite: Option<String>,
    pub(super) messages: u64,
    pub(super) tool_calls: u64,
    pub(super) memories: u64,
    recent: VecDeque<Recent>,
}

/// What is known of a message by heart.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Recent {
    pub(super) id: Id,
    pub(super) previous: Option<Id>,
    pub(super) number: i64,
    pub(super) created_at: Timestamp,
    /// The turn that has said it in sentences, and how many there are.
    #[serde(default)]
    pub(super) sentences: Option<(TurnId, u32)>,
}

impl Conversation {
    pub(super) fn new(id: Id) -> Self {
        Self {
            id,
            owner: PrincipalId::from(""),
            notebook: false,
            title: None,
            standing: Standing::Active,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            head: 0,
            asides: 0,
            tip: None,
            highest: 0,
            preferences: Map::new(),
            weights: None,
            elite: None,
            messages: 0,
            tool_calls: 0,
            memories: 0,
            recent: VecDeque::new(),
        }
    }

    /// An id that follows from what happened in this conversation.
    pub(super) fn derived(&self, prefix: Prefix, parts: &[&str]) -> Id {
        let mut all = vec![self.id.as_str()];
        all.extend(parts);
        Id::derived(prefix, &all)
    }

    /// The next stanza of the server log; none once the numbers are used up.
    pub(super) fn stanza(&mut self, body: impl Into<Body>, trace: Option<&Trace>, desk: &mut Desk) {
        if self.is_exhausted() {
            return;
        }
        self.head -= 1;
        self.asides = 0;
        desk.moved = true;
        let meta = trace.map_or_else(Meta::default, |trace| Meta::default().with_trace(trace));
        let envelope = Envelope {
            stanza_id: self.head,
            conversation_id: Some(self.id.clone()),
            meta,
            body: body.into(),
        };
        self.enter(envelope, desk);
    }

    /// A side entry behind the head.
    pub(super) fn aside(&mut self, body: impl Into<Body>, desk: &mut Desk) {
        self.asides = self.asides.saturating_add(1);
        self.enter(Envelope::new(Some(self.id.clone()), body), desk);
    }

    /// The conversation goes on from this message.
    pub(super) fn go_on_from(&mut self, tip: Id, desk: &mut Desk) {
        desk.moved = true;
        self.tip = Some(tip);
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.head <= LAST_STANZA
    }

    fn enter(&self, envelope: Envelope, desk: &mut Desk) {
        let bytes = encode(&envelope);
        let at = millis(desk.at);
        desk.put(&tables::SERVER_LOG, || {
            vec![
                ("conversation_id", self.id.as_str().into()),
                ("stanza_id", i64::from(self.head).into()),
                ("ordinal", i64::from(self.asides).into()),
                ("type", i64::from(envelope.body.number()).into()),
                ("envelope", bytes.clone().into()),
                ("created_at", at.into()),
            ]
        });
        desk.page.entries.push(Entry { stanza: self.head, ordinal: self.asides, envelope, bytes });
    }

    /// The number of one more message.
    pub(super) fn next_number(&mut self) -> i64 {
        self.highest = self.highest.saturating_add(1);
        self.highest
    }

    /// The number of a message that may bring one along.
    pub(super) fn number(&mut self, luggage: &Luggage) -> i64 {
        match luggage.number {
            Some(number) if luggage.sibling => number,
            // One that leaps too far would leave no numbers for those behind it.
            Some(number) if number > self.highest && number <= self.highest.saturating_add(LEAP) => {
                self.highest = number;
                number
            }
            Some(_) | None => self.next_number(),
        }
    }

    /// How many messages follow this one already, among those that are kept in mind: older ones have been gone on
    /// from long ago.
    pub(super) fn branch_index(&self, previous: Option<&Id>) -> i64 {
        let siblings = self.recent.iter().filter(|known| known.previous.as_ref() == previous).count();
        i64::try_from(siblings).unwrap_or(i64::MAX)
    }

    /// Counts a message and keeps it in mind.
    pub(super) fn remember(&mut self, message: Recent) {
        self.messages = self.messages.saturating_add(1);
        self.recent.push_back(message);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// What is known of a message by heart.
    pub(super) fn recall(&self, id: &Id) -> Option<&Recent> {
        self.recent.iter().rev().find(|known| known.id == *id)
    }

    /// Keeps in mind that a message was said in so many sentences.
    pub(super) fn said_in(&mut self, id: &Id, turn: &TurnId, sentences: u32) {
        if let Some(known) = self.recent.iter_mut().rev().find(|known| known.id == *id) {
            known.sentences = Some((turn.clone(), sentences));
        }
    }

    /// The id of a sentence.
    pub(super) fn sentence_id(&self, turn: &TurnId, sequence: u32) -> Id {
        self.derived(Prefix::Sentence, &[turn.as_str(), &sequence.to_string()])
    }

    /// The row of a conversation that has come to be.
    pub(super) fn open(&self, desk: &mut Desk) {
        let at = millis(desk.at);
        desk.put(&tables::CONVERSATIONS, || {
            vec![
                ("id", self.id.as_str().into()),
                ("user_id", self.owner.as_str().into()),
                ("title", self.title.clone().into()),
                ("status", self.status().name().into()),
                ("preferences", self.preferences_json().into()),
                ("livekit_room_name", self.id.room().into()),
                ("last_client_stanza_id", Cell::Integer(0)),
                ("last_server_stanza_id", Cell::Integer(0)),
                ("created_at", at.into()),
                ("updated_at", at.into()),
            ]
        });
    }

    /// Writes down what an event has changed of the row.
    pub(super) fn touch(&mut self, desk: &mut Desk, changes: impl FnOnce(&Self) -> Cells) {
        self.updated_at = desk.at;
        desk.set(&tables::CONVERSATIONS, || {
            let mut cells = vec![("id", self.id.as_str().into())];
            cells.extend(changes(self));
            cells
        });
    }

    /// An entry of `alicia_meta`; what is not text is written as JSON.
    pub(super) fn annotate(&self, about: &str, key: &str, value: &Json, desk: &mut Desk) {
        desk.make(&tables::META, || {
            vec![
                ("id", self.derived(Prefix::Meta, &[about, key]).as_str().into()),
                ("conversation_id", self.id.as_str().into()),
                ("ref", about.into()),
                ("key", key.into()),
                ("value", value.as_str().map_or_else(|| value.to_string(), str::to_owned).into()),
            ]
        });
    }

    pub(super) fn status(&self) -> ConversationStatus {
        match self.standing {
            Standing::Active => ConversationStatus::Active,
            Standing::Archived => ConversationStatus::Archived,
            Standing::Deleted => ConversationStatus::Deleted,
        }
    }

    /// The preferences, with what has messages of its own to be chosen by.
    pub(super) fn all_preferences(&self) -> Map<String, Json> {
        let mut all = self.preferences.clone();
        if let Some(weights) = self.weights {
            let weights = Dimensions::from_array(weights).to_map(None);
            all.insert("dimension_weights".to_owned(), json!(weights));
        }
        if let Some(elite) = &self.elite {
            all.insert("elite_id".to_owned(), json!(elite));
        }
        all
    }

    pub(super) fn preferences_json(&self) -> String {
        Json::Object(self.all_preferences()).to_string()
    }

    /// Whether thoughts are shown.
    pub(super) fn shows_reasoning(&self) -> bool {
        self.preferences.get("enable_reasoning") != Some(&Json::Bool(false))
    }

    /// Changes preferences member by member; what would make them too large is left out.
    pub(super) fn prefer(&mut self, changes: &Map<String, Json>) {
        for (key, value) in changes {
            let reserved = matches!(key.as_str(), "dimension_weights" | "elite_id");
            if reserved || value.is_null() {
                self.preferences.remove(key);
                continue;
            }
            let before = self.preferences.insert(key.clone(), value.clone());
            if Json::Object(self.preferences.clone()).to_string().len() > MOST_PREFERENCES {
                match before {
                    Some(before) => self.preferences.insert(key.clone(), before),
                    None => self.preferences.remove(key),
                };
            }
        }
    }
}

/// Where the server takes no more turns (§2.3).
const LAST_STANZA: i32 = -2_147_483_647;
/// How far the number of a message may lie above the others.
const LEAP: i64 = 1_000_000;
/// Messages that are known by heart.
const RECENT: usize = 256;
/// Largest preferences, as JSON.
const MOST_PREFERENCES: usize = 16 << 10;
