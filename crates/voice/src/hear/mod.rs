//! Making words of speech.

mod hints;
mod moonshine;
mod openai;
mod vocabulary;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use switchboard_core::{Heard, Unheard};

pub use hints::Hints;
pub use moonshine::Moonshine;
pub use openai::OpenAiRecogniser;

/// Something that somebody said.
#[derive(Clone, PartialEq)]
pub struct Speech {
    /// One channel at [`EAR_RATE`](crate::audio::EAR_RATE), from -1 to 1.
    pub samples: Vec<f32>,
    /// The language it should be in, as a BCP-47 tag.
    pub language: String,
    /// What may well have been said.
    pub hints: Arc<Hints>,
}

// What people say is not for logs.
impl fmt::Debug for Speech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Speech({} samples, {})", self.samples.len(), self.language)
    }
}

/// Understands speech.
#[async_trait]
pub trait Recogniser: Send + Sync + fmt::Debug {
    /// What was said; empty if these are no words. Dropping the future gives it up.
    async fn hear(&self, speech: &Speech) -> Result<Heard, HearError>;

    /// Whether it may also be asked what was said so far, again and again.
    fn interim(&self) -> bool;
}

/// Why speech was not understood. Says nothing of what was said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HearError {
    /// The language is not understood.
    #[error("the language is not understood")]
    Language,
    /// The audio cannot be used.
    #[error("{0}")]
    Audio(String),
    /// It cannot be understood here, or not now.
    #[error("{0}")]
    Unavailable(String),
    /// Whoever understands it was asked too often, or is not paid for more.
    #[error("{0}")]
    Exhausted(String),
    /// Whoever understands it does not take such a request.
    #[error("{0}")]
    Refused(String),
    /// It took too long.
    #[error("it took too long")]
    Late,
}

impl From<HearError> for Unheard {
    fn from(error: HearError) -> Self {
        match error {
            HearError::Language => Self::Language,
            HearError::Audio(reason) => Self::Audio(reason),
            HearError::Unavailable(reason) => Self::Unavailable(reason),
            HearError::Exhausted(reason) => Self::Exhausted(reason),
            HearError::Refused(reason) => Self::Refused(reason),
            HearError::Late => Self::Late,
        }
    }
}

/// The language of a BCP-47 tag without what else the tag says.
pub(crate) fn primary(tag: &str) -> &str {
    tag.split(['-', '_']).next().unwrap_or_default()
}
