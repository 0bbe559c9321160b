//! What a person says: typed, spoken, or as audio (§4.2, §4.4, §4.9, §8.5).

use bytes::Bytes;
use switchboard_core::Pii;

use super::Reason;
use super::memory::Ratio;
use super::rows::body;
use super::sync::Role;
use super::words::Word;
use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;

body! {
    /// A typed turn, or its announcement to other devices (§4.2).
    UserMessage then worded {
        /// Made by the sender, and kept.
        id: Id = required "id";
        /// The message it follows; without it, the tip of the conversation.
        previous_id: Option<Id> = optional "previousId";
        ..conversation
        /// The text, not blank.
        content: Pii<String> = required "content" [1..=content];
        /// When it was written, in milliseconds since the Unix epoch.
        timestamp: Option<i64> = optional "timestamp";
        /// What a server adds on a socket.
        superset: Option<Superset> = beside "contents";
    }
}

impl UserMessage {
    fn worded(self, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if self.content.0.trim().is_empty() {
            return Err(FieldError::new("content", Reason::Empty));
        }
        Ok(self)
    }
}

body! {
    /// What UserMessage and AssistantMessage carry on a socket besides, from the server (§8.5); `contents`,
    /// which repeats `content`, is written along with it.
    Superset {
        /// Whose message it is.
        role: Word<Role> = required "role";
        /// Its number within the conversation.
        sequence_number: i64 = required "sequenceNumber";
        /// When it was made, RFC 3339.
        created_at: String = required "createdAt";
        /// When it was last changed, RFC 3339.
        updated_at: String = required "updatedAt";
        /// The id a client gave it offline.
        local_id: Option<String> = optional "localId";
        /// The id the server gave it then.
        server_id: Option<String> = optional "serverId";
    }
}

body! {
    /// Audio, or what describes a track (§4.4).
    AudioChunk {
        ..conversation
        /// For example `audio/opus` or `pcm_s16le_24000`.
        format: String = required "format";
        /// From 1 within the utterance.
        sequence: u32 = required "sequence" | "seq";
        /// How long it lasts, in milliseconds.
        duration_ms: u32 = required "durationMs" | "duration";
        /// The track it describes.
        track_sid: Option<String> = optional "trackSid";
        /// The audio itself, when there is no track.
        data: Option<Bytes> = optional "data";
        /// End of the utterance.
        is_last: bool = flag "isLast";
        /// Start of the segment, in milliseconds since the Unix epoch.
        timestamp: Option<u64> = optional "timestamp";
    }
}

body! {
    /// A spoken turn; once final, it is the user's message (§4.9).
    Transcription {
        /// One per utterance, on interims and final alike.
        id: Id = required "id";
        /// The message it follows.
        previous_id: Option<Id> = optional "previousId";
        ..conversation
        /// The whole utterance so far.
        text: Pii<String> = required "text";
        /// Whether it is complete.
        is_final: bool = defaulted "final" | "isFinal";
        /// How sure the recogniser is.
        confidence: Option<Ratio> = optional "confidence";
        /// BCP-47 tag.
        language: Option<String> = optional "language";
    }
}
