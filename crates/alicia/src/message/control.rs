//! Errors, acknowledgements, handshake, stop and variation (§4.1, §4.8, §4.10 to §4.12).

use switchboard_core::Pii;

use super::rows::body;
use super::words::names;
use crate::error::{FieldError, Severity};
use crate::id::Id;
use crate::limits::AliciaLimits;

body! {
    /// A request cannot be honoured, or a turn failed (§4.1).
    ErrorMessage {
        /// Its own id, `err_…`; written as `""` if there is none.
        id: Option<Id> = or_empty "id";
        ..conversation
        /// A number of [`crate::error::Code`], or one of a later table.
        code: u16 = required "code";
        /// For humans.
        message: Pii<String> = required "message" [0..=error_message];
        /// How bad it is.
        severity: Severity = required "severity";
        /// If not, the client ends the session for this conversation.
        recoverable: bool = required "recoverable";
        /// `id` of the offending message, else its stanza id in decimal.
        originating_id: Option<Id> = optional "originatingId";
    }
}

impl ErrorMessage {
    /// The same, ending the session for this conversation.
    #[must_use]
    pub fn unrecoverable(mut self) -> Self {
        self.recoverable = false;
        self
    }

    /// The same, this bad.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// The same, about this message.
    #[must_use]
    pub fn about(mut self, id: &Id) -> Self {
        self.originating_id = Some(id.clone());
        self
    }
}

body! {
    /// A stanza was accepted and stored, or refused (§4.8).
    Acknowledgement {
        ..conversation
        /// Exactly this stanza; in a handshake, the resume point.
        acknowledged_stanza_id: i32 = required "acknowledgedStanzaId";
        /// Whether it was accepted.
        success: bool = required "success";
    }
}

body! {
    /// Stop an answer (§4.10).
    ControlStop {
        ..conversation
        /// The answer; without it, whatever is active.
        target_id: Option<Id> = optional "targetId";
        /// Why.
        reason: Option<String> = optional "reason";
        /// What is stopped; without it, generation.
        stop_type: Option<StopType> = deciding_optional "stopType";
    }
}

names! {
    /// What a ControlStop stops.
    StopType {
        /// Model and pending tools.
        Generation = "generation",
        /// Playback and synthesis.
        Speech = "speech",
        /// Both.
        All = "all",
    }
}

/// What an absent `stopType` means.
impl Default for StopType {
    fn default() -> Self {
        Self::Generation
    }
}

body! {
    /// Regenerate, edit or continue (§4.11).
    ControlVariation {
        ..conversation
        /// A message of the user or the assistant.
        target_id: Id = required "targetId";
        /// What is to happen.
        mode: Mode = deciding "mode";
        /// The text of an edit.
        new_content: Option<Pii<String>> = optional "newContent" [0..=content];
    }
}

names! {
    /// What a ControlVariation does.
    Mode {
        /// Change a message.
        Edit = "edit",
        /// Answer once more.
        Regenerate = "regenerate" | "retry",
        /// Go on with an answer.
        Continue = "continue",
    }
}

body! {
    /// The handshake, both ways (§4.12).
    Configuration then normalised {
        ..known_conversation
        /// From a client, the last server stanza it has processed; from the server, the newest one. Never
        /// above 0: a positive number from the wire means its negative.
        last_sequence_seen: Option<i64> = optional "lastSequenceSeen";
        /// The build of the client.
        client_version: Option<String> = optional "clientVersion";
        /// Locale.
        preferred_language: Option<String> = optional "preferredLanguage";
        /// `web`, `mobile-ios`, `desktop`, …
        device: Option<String> = optional "device";
        /// Feature words, unknown ones included.
        features: Option<Vec<String>> = optional "features" [0..=items];
    }
}

impl Configuration {
    fn normalised(mut self, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        self.last_sequence_seen = self.last_sequence_seen.map(|seen| seen.saturating_abs().saturating_neg());
        Ok(self)
    }

    /// Whether the feature was declared, under any of its names.
    pub fn has(&self, feature: Feature) -> bool {
        let mut words = self.features.iter().flatten().filter_map(|word| Feature::from_name(word));
        words.any(|word| {
            word == feature || (word == Feature::PartialResponses && feature == Feature::Streaming)
        })
    }

    /// The tools that the client runs itself.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.features.iter().flatten().filter_map(|word| word.strip_prefix("tool:"))
    }
}

names! {
    /// The feature words of a Configuration, beside `tool:<name>`.
    Feature {
        /// Answers come as sentences.
        Streaming = "streaming",
        /// Implies streaming.
        PartialResponses = "partial_responses",
        /// Speech.
        AudioOutput = "audio_output",
        /// ReasoningSteps.
        ReasoningSteps = "reasoning_steps" | "reasoning_step_display",
        /// Interim Transcriptions.
        PartialTranscripts = "partial_transcripts",
        /// Tools.
        ToolUse = "tool_use",
    }
}
