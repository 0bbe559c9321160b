//! Messages written offline (§4.17).

use switchboard_core::Pii;

use super::rows::body;
use super::words::{Word, names};
use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::value::{Map, Value};

body! {
    /// Messages written offline (§4.17).
    SyncRequest {
        /// In their order.
        messages: Vec<SyncMessage> = elements "messages" [0..=sync_batch];
    }
}

body! {
    /// One of them. What is missing, not allowed or of a wrong type here is a conflict of this message, not a
    /// fault of all: a client sends the same batch until it is answered.
    SyncMessage then tidied {
        /// The id the client gave it, normally `local_…`; a conflict if empty.
        local_id: String = lenient "localId";
        /// The client's idea of its place; the next free one if it is none.
        sequence_number: i64 = lenient "sequenceNumber";
        /// A server id, or a `localId` of this or an earlier batch; a conflict if it is no text.
        previous_id: Option<String> = reference "previousId";
        /// Whose message it is; a conflict unless `user` or `assistant`.
        role: Word<Role> = lenient "role";
        /// The text; a conflict if blank.
        contents: Pii<String> = lenient "contents";
        /// When it was made, RFC 3339; the server's time if it cannot be read.
        created_at: String = lenient "createdAt";
        /// When it was last changed, RFC 3339; the moment it was made if it cannot be read.
        updated_at: Option<String> = lenient_optional "updatedAt";
    }
}

impl SyncMessage {
    /// An empty parent is none.
    fn tidied(mut self, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        self.previous_id = self.previous_id.filter(|previous| !previous.is_empty());
        Ok(self)
    }
}

names! {
    /// Whose message it is.
    Role {
        /// The user's.
        User = "user",
        /// The assistant's.
        Assistant = "assistant",
        /// The system's.
        System = "system",
    }
}

body! {
    /// What became of them (§4.17).
    SyncResponse {
        /// As many as were asked for, in the same order.
        synced_messages: Vec<SyncedMessage> = required "syncedMessages" [0..=sync_batch];
        /// When, RFC 3339.
        synced_at: String = required "syncedAt";
    }
}

body! {
    /// What became of one of them.
    SyncedMessage {
        /// The id the client gave it.
        local_id: String = required "localId";
        /// The server's id for it, if there is a row.
        server_id: Option<Id> = or_empty "serverId";
        /// Whether it is stored.
        status: Word<SyncStatus> = required "status";
        /// The row, when synced.
        message: Option<MessageResponse> = optional "message";
        /// What stands against it.
        conflict: Option<SyncConflict> = optional "conflict";
    }
}

names! {
    /// Whether a message is stored.
    SyncStatus {
        /// It is.
        Synced = "synced",
        /// It is not, or differently.
        Conflict = "conflict",
    }
}

body! {
    /// What stands against a message.
    SyncConflict {
        /// Why.
        reason: String = required "reason";
        /// What the server has.
        server_message: Option<MessageResponse> = optional "serverMessage";
        /// `manual`: the user decides.
        resolution: String = required "resolution";
    }
}

body! {
    /// A stored message.
    MessageResponse {
        /// `am_…`
        id: Id = required "id";
        /// Its conversation.
        conversation_id: Id = required "conversationId";
        /// Its place.
        sequence_number: i64 = required "sequenceNumber";
        /// The message it follows.
        previous_id: Option<Id> = optional "previousId";
        /// Whose it is.
        role: Word<Role> = required "role";
        /// The text.
        contents: Pii<String> = required "contents";
        /// The id a client gave it offline.
        local_id: Option<String> = optional "localId";
        /// The id the server gave it then.
        server_id: Option<String> = optional "serverId";
        /// The tools it used.
        tool_uses: Option<Vec<ToolUseResponse>> = optional "toolUses" [0..=items];
        /// When it was made, RFC 3339.
        created_at: String = required "createdAt";
        /// When it was last changed, RFC 3339.
        updated_at: String = required "updatedAt";
    }
}

body! {
    /// A stored use of a tool.
    ToolUseResponse {
        /// `atu_…`
        id: Id = required "id";
        /// The message that needed it.
        message_id: Id = required "messageId";
        /// The tool.
        tool_name: String = required "toolName";
        /// Its arguments.
        arguments: Option<Map> = optional "arguments";
        /// What it gave.
        result: Option<Value> = optional "result";
        /// `pending`, `running`, `success`, `error` or `cancelled`.
        status: String = required "status";
        /// Why it failed.
        error_message: Option<Pii<String>> = optional "errorMessage";
        /// Its place within the message.
        sequence_number: i64 = required "sequenceNumber";
        /// When it ended, RFC 3339.
        completed_at: Option<String> = optional "completedAt";
        /// When it was made, RFC 3339.
        created_at: String = required "createdAt";
        /// When it was last changed, RFC 3339.
        updated_at: String = required "updatedAt";
    }
}
