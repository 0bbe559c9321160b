//! Rows as JSON.

use serde_json::{Map, Value, json};
use switchboard_core::Found;

use crate::annals::tables;
use crate::message::ConversationStatus;
use crate::rows::{Row, StoredMessage, moment};

/// A stored conversation.
pub(super) struct StoredConversation {
    pub(super) status: ConversationStatus,
    pub(super) tip: Option<String>,
    pub(super) elite: Option<String>,
    /// The newest stanza of its server log.
    pub(super) head: i64,
    pub(super) updated_ms: i64,
    json: Value,
}

impl StoredConversation {
    pub(super) fn read(cells: &Found) -> Option<Self> {
        let row = Row::new(&tables::CONVERSATIONS, cells);
        let status = ConversationStatus::from_name(row.text("status")?)?;
        let preferences = row.text("preferences").and_then(|json| serde_json::from_str(json).ok());
        let preferences = preferences.unwrap_or_else(|| Value::Object(Map::new()));
        let (tip, updated_ms) = (row.text("tip_message_id"), row.integer("updated_at").unwrap_or_default());
        let head = row.integer("last_server_stanza_id").unwrap_or_default();
        Some(Self {
            status,
            tip: tip.map(str::to_owned),
            elite: preferences.get("elite_id").and_then(Value::as_str).map(str::to_owned),
            head,
            updated_ms,
            json: json!({
                "id": row.text("id"),
                "user_id": row.text("user_id"),
                "title": row.text("title"),
                "status": status.name(),
                "tip_message_id": tip,
                "preferences": preferences,
                "livekit_room_name": row.text("livekit_room_name"),
                "last_server_stanza_id": head,
                "created_at": row.integer("created_at").map(moment),
                "updated_at": moment(updated_ms),
            }),
        })
    }

    pub(super) fn into_json(self) -> Value {
        self.json
    }
}

/// A message.
pub(super) fn message(message: &StoredMessage) -> Value {
    json!({
        "id": message.id,
        "conversation_id": message.conversation,
        "sequence_number": message.number,
        "previous_id": message.previous,
        "role": message.role.name(),
        "contents": message.contents,
        "completion_status": message.status,
        "local_id": message.local_id,
        "server_id": message.server_id,
        "sync_status": message.sync_status,
        "created_at": moment(message.created_ms),
        "updated_at": moment(message.updated_ms),
    })
}

/// A memory.
pub(super) fn memory(cells: &Found) -> Value {
    let row = Row::new(&tables::MEMORY, cells);
    let tags = row.text("tags").and_then(|tags| serde_json::from_str::<Vec<String>>(tags).ok());
    let tags = tags.unwrap_or_default();
    json!({
        "id": row.text("id"),
        "content": row.text("content"),
        "category": tags.first(),
        "tags": tags,
        "pinned": row.integer("pinned") == Some(1),
        "archived": row.integer("archived") == Some(1),
        "source_type": row.text("source_type"),
        "created_at": row.integer("created_at").map(moment),
        "updated_at": row.integer("updated_at").map(moment),
    })
}
