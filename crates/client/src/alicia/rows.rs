//! What is stored, as it is served over HTTP.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A conversation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ConversationRow {
    /// `ac_…`
    pub id: String,
    /// Its title.
    #[serde(default)]
    pub title: Option<String>,
    /// `active`, `archived` or `deleted`.
    pub status: String,
    /// The newest message of its active path.
    #[serde(default)]
    pub tip_message_id: Option<String>,
    /// The newest stanza of its log, to go on from with [`Since::Stanza`](super::Since::Stanza).
    #[serde(default)]
    pub last_server_stanza_id: i32,
    /// What is preferred in it.
    #[serde(default)]
    pub preferences: Map<String, Value>,
    /// When it was made, RFC 3339.
    #[serde(default)]
    pub created_at: String,
    /// When it was last changed, RFC 3339.
    #[serde(default)]
    pub updated_at: String,
}

/// A message.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageRow {
    /// `am_…`
    pub id: String,
    /// Its conversation.
    pub conversation_id: String,
    /// Its place; siblings have the same.
    pub sequence_number: i64,
    /// The message it follows.
    #[serde(default)]
    pub previous_id: Option<String>,
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// The text.
    pub contents: String,
    /// `pending`, `streaming`, `completed` or `failed`.
    #[serde(default)]
    pub completion_status: Option<String>,
    /// The id a client gave it offline.
    #[serde(default)]
    pub local_id: Option<String>,
    /// When it was made, RFC 3339.
    #[serde(default)]
    pub created_at: String,
    /// When it was last changed, RFC 3339.
    #[serde(default)]
    pub updated_at: String,
}

/// Something that is remembered for a user.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// `amem_…`
    pub id: String,
    /// What.
    pub content: String,
    /// `preference`, `fact`, `context` or `instruction`.
    #[serde(default)]
    pub category: Option<String>,
    /// Whether it is preferred.
    #[serde(default)]
    pub pinned: bool,
    /// Whether it is left out.
    #[serde(default)]
    pub archived: bool,
    /// When it was made, RFC 3339.
    #[serde(default)]
    pub created_at: String,
    /// When it was last changed, RFC 3339.
    #[serde(default)]
    pub updated_at: String,
}

/// How many messages of a conversation were written offline, and what became of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncCounts {
    /// Not stored.
    pub pending_count: u64,
    /// Stored.
    pub synced_count: u64,
    /// Stored differently.
    pub conflict_count: u64,
    /// When some were stored last, RFC 3339.
    #[serde(default)]
    pub last_synced_at: Option<String>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// What it holds.
    pub items: Vec<T>,
    /// Where the next part begins; none if this is the last.
    pub next: Option<i64>,
}

/// Shows no content.
macro_rules! shows_no_content {
    ($($row:ident)*) => {$(
        impl fmt::Debug for $row {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct(stringify!($row)).field("id", &self.id).finish_non_exhaustive()
            }
        }
    )*};
}

shows_no_content! { ConversationRow MessageRow MemoryRow }
