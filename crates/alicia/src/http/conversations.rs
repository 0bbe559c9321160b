//! Conversations: list, create, show, change, delete; and what belongs to them as a whole.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};
use switchboard_core::model::Standing;
use switchboard_core::{Comparison, Condition, Lookup, Op, Order, Question, SessionId, Within};

use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed};
use crate::id::{Id, Prefix};
use crate::message::ConversationStatus;

use super::Problem;
use super::exchange::Exchange;
use super::render::StoredConversation;
use super::request::{object, text};

impl Exchange {
    /// What this deployment offers besides; no room is.
    pub(super) fn config(&mut self) {
        let config = json!({ "livekit_url": null, "tts_enabled": false, "asr_enabled": self.service.hears, "tts": null });
        self.answer(200, &config);
    }

    pub(super) fn list_conversations(&mut self) -> Result<(), Problem> {
        let limit = self.request.limit()?;
        let status = match self.request.parameter("status") {
            None => (Comparison::Unequal, ConversationStatus::Deleted),
            Some(name) => match ConversationStatus::from_name(&name) {
                Some(status @ (ConversationStatus::Active | ConversationStatus::Archived)) => {
                    (Comparison::Equal, status)
                }
                Some(ConversationStatus::Deleted) | None => {
                    return Err(Problem::malformed("status must be active or archived"));
                }
            },
        };
        let mut conditions =
            vec![Condition { column: "status", is: status.0, value: status.1.name().into() }];
        if let Some(before) = self.request.number("before")? {
            conditions.push(Condition { column: "updated_at", is: Comparison::Below, value: before.into() });
        }
        let lookup = Lookup {
            table: tables::CONVERSATIONS.name,
            within: Within::Own,
            conditions,
            question: Question::Rows(vec![("updated_at", Order::Falling), ("id", Order::Rising)]),
            limit: limit + 1,
        };
        self.look(lookup, move |exchange, rows| {
            let more = rows.len() > limit;
            let shown: Vec<_> = rows.iter().take(limit).filter_map(StoredConversation::read).collect();
            let before = shown.last().map(|last| last.updated_ms).filter(|_| more);
            let list: Vec<Value> = shown.into_iter().map(StoredConversation::into_json).collect();
            exchange.answer(200, &json!({ "conversations": list, "has_more": more, "next_before": before }));
        });
        Ok(())
    }

    pub(super) fn create_conversation(&mut self, body: &[u8]) -> Result<(), Problem> {
        let body = object(body)?;
        let name = title(&body)?;
        let preferences = preferences(&body)?;
        let session = SessionId::new(Id::fresh(Prefix::Conversation, &self.seed, 1).as_str());
        let open = Op::Open { epoch: self.seed.epoch(1), agent: self.agent.clone(), name };
        let mut ops = VecDeque::from([open, Op::Chronicle { chronicle: CHRONICLE.into() }]);
        ops.extend(preferences);
        self.submit_all(session.clone(), ops, move |exchange| exchange.show(201, &session));
        Ok(())
    }

    pub(super) fn show_conversation(&mut self) -> Result<(), Problem> {
        self.with_conversation(|exchange, _, conversation| exchange.answer(200, &conversation.into_json()))
    }

    pub(super) fn change_conversation(&mut self, body: &[u8]) -> Result<(), Problem> {
        let body = object(body)?;
        let standing = match text(&body, "status")?.as_deref().map(ConversationStatus::from_name) {
            None => None,
            Some(Some(ConversationStatus::Active)) => Some(Standing::Active),
            Some(Some(ConversationStatus::Archived)) => Some(Standing::Archived),
            Some(Some(ConversationStatus::Deleted)) => Some(Standing::Deleted),
            Some(None) => return Err(Problem::malformed("status must be active, archived or deleted")),
        };
        let mut ops = VecDeque::from_iter(title(&body)?.map(|name| Op::Rename { name }));
        ops.extend(preferences(&body)?);
        match standing {
            // What is put away takes no changes: it is taken up first, and put away last.
            Some(Standing::Active) => ops.push_front(Op::Stand(Standing::Active)),
            Some(away @ (Standing::Archived | Standing::Deleted)) => ops.push_back(Op::Stand(away)),
            None => {}
        }
        self.with_conversation(move |exchange, session, _| {
            exchange.submit_all(session.clone(), ops, move |exchange| match standing {
                Some(Standing::Deleted) => exchange.answer_empty(),
                Some(Standing::Active | Standing::Archived) | None => exchange.show(200, &session),
            });
        })
    }

    pub(super) fn delete_conversation(&mut self) -> Result<(), Problem> {
        self.with_conversation(|exchange, session, _| {
            let ops = VecDeque::from([Op::Stand(Standing::Deleted)]);
            exchange.submit_all(session, ops, Self::answer_empty);
        })
    }

    /// A conversation as it is now.
    pub(super) fn show(&mut self, status: u16, session: &SessionId) {
        self.look_conversation(session, move |exchange, found| match found {
            Some(conversation) => exchange.answer(status, &conversation.into_json()),
            None => exchange.refuse(&Problem::no_conversation()),
        });
    }

    /// A token for the room of a conversation: there are no rooms here.
    pub(super) fn token(&mut self) -> Result<(), Problem> {
        self.with_conversation(|exchange, _, _| {
            exchange.refuse(&Problem::new(
                501,
                "not_implemented",
                "LiveKit is not configured on this server",
            ));
        })
    }
}

/// The title in a body.
fn title(body: &Map<String, Value>) -> Result<Option<String>, Problem> {
    let title = text(body, "title")?.map(|title| title.trim().to_owned()).filter(|title| !title.is_empty());
    match title {
        Some(title) if title.len() > MOST_TITLE => Err(Problem::malformed("title is too long")),
        Some(title) if title.chars().any(char::is_control) => {
            Err(Problem::malformed("title must be one line of text"))
        }
        title => Ok(title),
    }
}

/// The change of preferences in a body.
fn preferences(body: &Map<String, Value>) -> Result<Option<Op>, Problem> {
    match body.get("preferences") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(preferences)) => {
            let record = Deed::Preferred { preferences: preferences.clone() }.to_record();
            if record.to_string().len() > MOST_PREFERENCES {
                return Err(Problem::too_large("preferences are too large"));
            }
            Ok(Some(Op::Record { chronicle: CHRONICLE.into(), record }))
        }
        Some(_) => Err(Problem::malformed("preferences must be an object")),
    }
}

/// Longest title, in bytes.
const MOST_TITLE: usize = 512;
/// Largest change of preferences, as JSON.
const MOST_PREFERENCES: usize = 16 << 10;
