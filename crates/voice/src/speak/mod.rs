//! Making speech of words.

mod cache;
mod openai;
mod plain;
mod process;
mod program;

use std::fmt;

use async_trait::async_trait;
use switchboard_core::Dumb;

pub(crate) use cache::{Cache, Key};
pub use openai::{OpenAiSpeech, SpeechConfig};
pub(crate) use plain::Plain;
pub use program::{Program, Speaker};

use crate::audio::Sound;

/// Speaks.
#[async_trait]
pub trait Synthesiser: Send + Sync + fmt::Debug {
    /// One sentence, spoken. Dropping the future gives it up.
    async fn speak(&self, text: &str, language: &str, voice: Option<&str>) -> Result<Sound, SpeakError>;

    /// Whether it knows a language, given as a BCP-47 tag.
    fn knows(&self, language: &str) -> bool;
}

/// Why words were not spoken. Says nothing of the words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpeakError {
    /// The language is not spoken here.
    #[error("nobody here speaks this language")]
    Language,
    /// It cannot be spoken here, or not now.
    #[error("{0}")]
    Unavailable(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
    /// It took too long.
    #[error("it took too long")]
    Late,
}

impl From<SpeakError> for Dumb {
    fn from(error: SpeakError) -> Self {
        match error {
            SpeakError::Language | SpeakError::Unavailable(_) => Self::Unavailable(error.to_string()),
            SpeakError::Failed(_) | SpeakError::Late => Self::Failed(error.to_string()),
        }
    }
}
