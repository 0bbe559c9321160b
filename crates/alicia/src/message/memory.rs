//! Memories: their use in a turn, and changes to them (§4.14, §4.20).

use switchboard_core::Pii;

use super::Reason;
use super::rows::body;
use super::wire::{Wire, here};
use super::words::{Word, names};
use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::value::Value;

body! {
    /// A memory was used (§4.14).
    MemoryTrace {
        /// `amu_…`
        id: Id = required "id";
        /// The user message that caused it to be found.
        message_id: Id = required "messageId";
        ..conversation
        /// `amem_…`
        memory_id: Id = required "memoryId";
        /// A snippet.
        content: Pii<String> = required "content" [0..=snippet];
        /// How similar it is.
        relevance: Ratio = required "relevance";
        /// Where it comes from.
        source: Option<String> = optional "source";
    }
}

body! {
    /// A memory is to be changed (§4.20).
    MemoryAction then worded {
        /// The memory; for a new one, the id it is to have.
        id: Id = required "id";
        /// What is to happen; an unknown action is answered with a failure.
        action: Word<MemoryActionKind> = required "action";
        /// Its content, needed to create and update it.
        memory: Option<MemoryContent> = optional "memory";
        /// When it was asked for, in milliseconds since the Unix epoch.
        timestamp: i64 = required "timestamp";
    }
}

impl MemoryAction {
    fn worded(self, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        let needs_text =
            matches!(self.action, Word::Known(MemoryActionKind::Create | MemoryActionKind::Update));
        if needs_text && self.memory.as_ref().is_some_and(|memory| memory.content.0.is_empty()) {
            return Err(FieldError::new("content", Reason::Empty).below("memory"));
        }
        Ok(self)
    }
}

names! {
    /// What a MemoryAction does.
    MemoryActionKind {
        /// Make it.
        Create = "create",
        /// Change content, category and pinned.
        Update = "update",
        /// Delete it.
        Delete = "delete",
        /// Set its pinned flag.
        Pin = "pin",
        /// Set its archived flag.
        Archive = "archive",
    }
}

body! {
    /// `memory` of a MemoryAction.
    MemoryContent {
        /// The text; empty only where nothing but flags change.
        content: Pii<String> = defaulted "content" [0..=memory];
        /// What it is; a fact unless said otherwise.
        category: MemoryCategory = defaulted "category";
        /// Whether it is preferred.
        pinned: bool = flag "pinned";
    }
}

names! {
    /// What a memory is.
    MemoryCategory {
        /// What the user likes.
        Preference = "preference",
        /// A fact.
        Fact = "fact" | "",
        /// Circumstances.
        Context = "context",
        /// What the assistant is to do.
        Instruction = "instruction",
    }
}

/// What a missing category means.
impl Default for MemoryCategory {
    fn default() -> Self {
        Self::Fact
    }
}

body! {
    /// What became of a MemoryAction (§4.20).
    MemoryConfirmation {
        /// The `id` of the request.
        memory_id: Id = required "memoryId";
        /// Its action.
        action: Word<MemoryActionKind> = required "action";
        /// Whether it was done.
        success: bool = required "success";
    }
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Ratio(f64);

impl Ratio {
    /// Accepts a number from 0 to 1.
    pub fn new(number: f64) -> Option<Self> {
        (0.0..=1.0).contains(&number).then_some(Self(number))
    }

    /// The nearest number from 0 to 1; 0 for what is no number.
    pub fn clamped(number: f64) -> Self {
        Self(if number.is_nan() { 0.0 } else { number.clamp(0.0, 1.0) })
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Wire for Ratio {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        Self::new(f64::from_value(value, limits)?).ok_or_else(|| here(Reason::Range))
    }

    fn to_value(&self) -> Value {
        self.0.into()
    }
}
