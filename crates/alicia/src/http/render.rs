//! Rows as JSON.

use serde_json::{Map, Value, json};
use switchboard_core::Found;

use crate::annals::tables;
use crate::id::Id;
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

/// A message, in the spelling of the full profile and in that of the lite one.
pub(super) fn message(message: &StoredMessage) -> Value {
    let status = if message.status == "failed" { "error" } else { &message.status };
    json!({
        "content": message.contents,
        "status": status,
        "branch_index": message.branch,
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

/// A use of a tool.
pub(super) fn tool_use(cells: &Found) -> Value {
    let row = Row::new(&tables::TOOL_USES, cells);
    let json = |column| row.text(column).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let status = match row.text("status") {
        Some("success") => "success",
        Some("pending" | "running") | None => "pending",
        Some(_) => "error",
    };
    json!({
        "id": row.text("id"),
        "conversation_id": row.text("conversation_id"),
        "message_id": row.text("message_id"),
        "tool_name": row.text("tool_name"),
        "arguments": json("tool_arguments").unwrap_or_default(),
        "result": json("tool_result"),
        "status": status,
        "error": row.text("error_message"),
        "sequence_number": row.integer("sequence_number"),
        "completed_at": row.integer("completed_at").map(moment),
        "created_at": row.integer("created_at").map(moment),
    })
}

/// A use of a memory by a message, with what the memory says if it is still there.
pub(super) fn memory_use(cells: &Found, message: &Id, memory: Option<&Found>) -> Value {
    let row = Row::new(&tables::MEMORY_USED, cells);
    let memory = memory.map(|cells| Row::new(&tables::MEMORY, cells)).filter(|memory| !memory.is_deleted());
    json!({
        "id": row.text("id"),
        "memory_id": row.text("memory_id"),
        "message_id": message,
        "content": memory.and_then(|memory| memory.text("content")).unwrap_or_default(),
        "similarity": row.real("similarity_score"),
        "created_at": row.integer("created_at").map(moment),
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
        "importance": row.real("importance"),
        "source_type": row.text("source_type"),
        "created_at": row.integer("created_at").map(moment),
        "updated_at": row.integer("updated_at").map(moment),
    })
}
