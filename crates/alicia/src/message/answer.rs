//! What the assistant says (§4.3, §4.5, §4.13, §4.16).

use bytes::Bytes;
use switchboard_core::Pii;

use super::Reason;
use super::rows::body;
use super::user::Superset;
use super::words::names;
use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;

body! {
    /// A whole answer, or the new text of a message that the client already holds (§4.3).
    AssistantMessage {
        /// `am_…`
        id: Id = required "id";
        /// The user message answered.
        previous_id: Option<Id> = optional "previousId";
        ..conversation
        /// The complete text.
        content: Pii<String> = required "content";
        /// When it was generated, in milliseconds since the Unix epoch.
        timestamp: Option<i64> = optional "timestamp";
        /// What a server adds on a socket.
        superset: Option<Superset> = beside "contents";
    }
}

body! {
    /// One thought (§4.5).
    ReasoningStep {
        /// `ar_…`
        id: Id = required "id";
        /// The assistant message being produced.
        message_id: Id = required "messageId";
        ..conversation
        /// From 1, step 1; a start at 0 is accepted.
        sequence: u32 = required "sequence";
        /// The thought.
        content: Pii<String> = required "content";
    }
}

body! {
    /// An answer begins (§4.13).
    StartAnswer {
        /// The assistant message about to stream.
        id: Id = required "id";
        /// The user message answered, or the message continued.
        previous_id: Id = required "previousId";
        ..conversation
        /// How it is delivered; without it, and for unknown ones, as text.
        answer_type: Option<AnswerType> = known_or_default "answerType";
        /// A hint.
        planned_sentence_count: Option<u32> = optional "plannedSentenceCount";
    }
}

names! {
    /// How an answer is delivered.
    AnswerType {
        /// Sentences.
        Text = "text",
        /// Speech.
        Voice = "voice",
        /// Both.
        TextAndVoice = "text+voice",
    }
}

/// What an absent or unknown `answerType` means.
impl Default for AnswerType {
    fn default() -> Self {
        Self::Text
    }
}

body! {
    /// A piece of an answer (§4.16).
    AssistantSentence then worded {
        /// `ams_…`
        id: Option<Id> = optional "id";
        /// The StartAnswer's id, on every sentence.
        previous_id: Id = required "previousId";
        ..conversation
        /// From 1, step 1; a start at 0 is accepted.
        sequence: u32 = required "sequence";
        /// Empty only in the final one.
        text: Pii<String> = required "text" [0..=sentence];
        /// Whether it is the last.
        is_final: bool = flag "isFinal";
        /// Its speech, on sockets alone.
        audio: Option<Bytes> = optional "audio";
    }
}

impl AssistantSentence {
    fn worded(self, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if self.text.0.is_empty() && !self.is_final {
            return Err(FieldError::new("text", Reason::Empty));
        }
        Ok(self)
    }
}
