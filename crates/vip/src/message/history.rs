//! The history of a conversation (§13).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::payload::quiet;
use crate::named::named;
use crate::size::{is_id, is_id_if_any};

named! {
    /// On whose behalf something is said.
    #[derive(Default)]
    Role {
        /// Whoever talks to the app.
        User = "user",
        /// Whoever answers.
        Assistant = "assistant",
        /// The protocol itself.
        #[default]
        System = "system",
    }
}

named! {
    /// What an item of the history is.
    HistoryKind {
        /// Something was said.
        Message = "message",
        /// The app was asked to do something.
        Action = "action",
        /// The app has done something.
        Result = "result",
        /// Something went wrong.
        Error = "error",
        /// The state changed.
        State = "state",
    }
}

named! {
    /// Whether an item is all there was to be.
    HistoryStatus {
        /// It is.
        Complete = "complete",
        /// It was interrupted.
        Incomplete = "incomplete",
    }
}

/// One item of the history.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryItem {
    /// Its number, without gaps. What a client says of it is not used.
    #[serde(default)]
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub role: Role,
    /// What it is.
    pub kind: HistoryKind,
    /// The words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether it is all there was to be.
    pub status: HistoryStatus,
    /// The turn it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The response it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The action it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// More.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// When, in milliseconds.
    pub ts: u64,
    /// About it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

quiet!(HistoryItem);

impl HistoryItem {
    /// Whether its ids are such.
    pub(crate) fn has_ids(&self) -> bool {
        is_id(&self.id) && is_id_if_any(self.turn_id.as_ref()) && is_id_if_any(self.response_id.as_ref())
    }
}
