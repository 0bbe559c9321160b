//! The tables of §10, as anybody can read them with SQL.
//!
//! Moments are whole milliseconds since the Unix epoch, flags are 0 or 1, JSON is compact text. Rows are
//! never removed: what is gone has a `deleted_at`. A `created_digest` stands for what a row said when it was
//! made, by which a repeat is known after every change. `alicia_conversations.last_client_stanza_id` stays 0: it is
//! informational, and no event of a conversation names it.

use switchboard_core::{Column, ColumnKind, Table};

macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $name:ident = $table:literal of $session:literal
            key [$($key:literal)+] indexes [$([$($index:literal)+])*] $(words $words:literal)? {
            $($column:literal $kind:ident,)+
        }
    )+) => {
        $(
            $(#[$doc])*
            pub const $name: Table = Table {
                name: $table,
                columns: &[$(Column { name: $column, kind: ColumnKind::$kind },)+],
                key: &[$($key,)+],
                session: $session,
                indexes: &[$(&[$($index,)+],)*],
                words: [$(Some($words),)? None][0],
            };
        )+

        /// All of them.
        pub static TABLES: &[Table] = &[$($name,)+];
    };
}

tables! {
    /// One row per conversation.
    CONVERSATIONS = "alicia_conversations" of "id" key ["id"] indexes [["user_id" "updated_at"]] {
        "id" Text,
        "user_id" Text,
        "title" Text,
        "status" Text,
        "tip_message_id" Text,
        "preferences" Text,
        "livekit_room_name" Text,
        "last_client_stanza_id" Integer,
        "last_server_stanza_id" Integer,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// What was said, as a tree.
    MESSAGES = "alicia_messages" of "conversation_id" key ["conversation_id" "id"]
        indexes [
            ["id"]
            ["conversation_id" "previous_id"]
            ["conversation_id" "sequence_number"]
            ["conversation_id" "local_id"]
        ] {
        "id" Text,
        "conversation_id" Text,
        "previous_id" Text,
        "message_role" Text,
        "contents" Text,
        "sequence_number" Integer,
        "branch_index" Integer,
        "completion_status" Text,
        "local_id" Text,
        "server_id" Text,
        "sync_status" Text,
        "synced_at" Integer,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// The pieces of streamed answers.
    SENTENCES = "alicia_sentences" of "conversation_id" key ["conversation_id" "id"]
        indexes [["conversation_id" "message_id" "sentence_sequence_number"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "sentence_sequence_number" Integer,
        "text" Text,
        "audio_type" Text,
        "audio_format" Text,
        "audio_data" Blob,
        "duration_ms" Integer,
        "completion_status" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// The thoughts that led to answers.
    REASONING_STEPS = "alicia_reasoning_steps" of "conversation_id" key ["conversation_id" "id"]
        indexes [["conversation_id" "message_id" "sequence_number"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "sequence_number" Integer,
        "content" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// The tools that answers used.
    TOOL_USES = "alicia_tool_uses" of "conversation_id" key ["conversation_id" "id"]
        indexes [["id"] ["conversation_id" "message_id" "sequence_number"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "tool_name" Text,
        "tool_arguments" Text,
        "tool_result" Text,
        "status" Text,
        "error_message" Text,
        "sequence_number" Integer,
        "completed_at" Integer,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// The memories that answers used: `message_id` is the question, `answer_id` what was answered.
    MEMORY_USED = "alicia_memory_used" of "conversation_id" key ["conversation_id" "id"]
        indexes [["id"] ["conversation_id" "message_id"] ["conversation_id" "answer_id"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "answer_id" Text,
        "memory_id" Text,
        "similarity_score" Real,
        "position_in_results" Integer,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// Remarks beside the turns.
    COMMENTARIES = "alicia_user_conversation_commentaries" of "conversation_id" key ["conversation_id" "id"]
        indexes [["id"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "content" Text,
        "created_by" Text,
        "meta" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// One vote per person and target.
    VOTES = "alicia_votes" of "conversation_id" key ["conversation_id" "created_by" "target_type" "target_id"]
        indexes [["conversation_id" "target_type" "target_id"] ["conversation_id" "id"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "target_type" Text,
        "target_id" Text,
        "vote" Text,
        "quick_feedback" Text,
        "note" Text,
        "created_by" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// Every vote that was ever cast or taken back, by the id of its Feedback: a repeat changes nothing.
    VOTES_CAST = "alicia_votes_cast" of "conversation_id" key ["conversation_id" "id"] indexes [] {
        "id" Text,
        "conversation_id" Text,
        "target_type" Text,
        "target_id" Text,
        "vote" Text,
        "created_by" Text,
        "created_at" Integer,
    }

    /// Notes on messages.
    NOTES = "alicia_notes" of "conversation_id" key ["conversation_id" "id"] indexes [["id"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "content" Text,
        "created_digest" Text,
        "category" Text,
        "created_by" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// What is remembered of people; `conversation_id` is their notebook.
    MEMORY = "alicia_memory" of "conversation_id" key ["conversation_id" "id"]
        indexes [["id"] ["conversation_id" "updated_at"]] words "content" {
        "id" Text,
        "conversation_id" Text,
        "user_id" Text,
        "content" Text,
        "created_digest" Text,
        "embeddings" Blob,
        "embedding_digest" Text,
        "importance" Real,
        "confidence" Real,
        "tags" Text,
        "pinned" Integer,
        "archived" Integer,
        "source_type" Text,
        "created_by" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// What goes with messages and conversations, entry by entry.
    META = "alicia_meta" of "conversation_id" key ["conversation_id" "ref" "key"] indexes [] {
        "id" Text,
        "conversation_id" Text,
        "ref" Text,
        "key" Text,
        "value" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// What was heard.
    AUDIO = "alicia_audio" of "conversation_id" key ["conversation_id" "id"]
        indexes [["conversation_id" "message_id"]] {
        "id" Text,
        "conversation_id" Text,
        "message_id" Text,
        "audio_type" Text,
        "audio_format" Text,
        "duration_ms" Integer,
        "livekit_track_sid" Text,
        "audio_data" Blob,
        "transcription" Text,
        "transcription_meta" Text,
        "created_at" Integer,
        "updated_at" Integer,
        "deleted_at" Integer,
    }

    /// Totals, as they were after the last turn.
    SESSION_STATS = "alicia_session_stats" of "conversation_id" key ["conversation_id"] indexes [] {
        "id" Text,
        "conversation_id" Text,
        "message_count" Integer,
        "tool_call_count" Integer,
        "memories_used" Integer,
        "session_duration_seconds" Integer,
        "created_at" Integer,
        "updated_at" Integer,
    }

    /// The server log: what was sent, byte by byte (§6.1).
    SERVER_LOG = "alicia_server_log" of "conversation_id" key ["conversation_id" "stanza_id" "ordinal"]
        indexes [] {
        "conversation_id" Text,
        "stanza_id" Integer,
        "ordinal" Integer,
        "type" Integer,
        "envelope" Blob,
        "created_at" Integer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_indexes_name_columns_and_begin_with_the_session() {
        for table in TABLES {
            let named = table.key.iter().chain(table.indexes.iter().copied().flatten());
            for column in named.chain([&table.session]).copied().chain(table.words) {
                assert!(table.column(column).is_some(), "{}.{column}", table.name);
            }
            assert_eq!(table.key.first(), Some(&table.session), "{}", table.name);
        }
        assert_eq!(MEMORY.words, Some("content"));
        assert_eq!(MESSAGES.words, None);
    }
}
