//! Capabilities (§10): a sorted list of words.

use std::collections::BTreeSet;
use std::fmt;

/// Words that both sides may understand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Box<str>>);

impl Capabilities {
    /// Reads a list of words with commas between them.
    pub fn parse(text: &str) -> Self {
        Self(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(Box::from).collect())
    }

    /// Everything that this server understands.
    pub fn supported() -> Self {
        Self(SUPPORTED.iter().map(|word| Box::from(*word)).collect())
    }

    /// What both have.
    #[must_use]
    pub fn agreed(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).cloned().collect())
    }

    /// Whether a word is among them.
    pub fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, word) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(", ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

/// Lists come as `checklist`.
pub(crate) const CHECKLIST: &str = "event.checklist";
/// Lists come as `tasklist`.
pub(crate) const TASKLIST: &str = "event.tasklist";
/// A task can be followed again after a cut.
pub(crate) const RESUME: &str = "task.resume";

const SUPPORTED: &[&str] = &[
    "abort.terminal",
    "error.structured",
    CHECKLIST,
    TASKLIST,
    "stream.lossless",
    "stream.sse",
    "task.http",
    RESUME,
    "workspace.path",
];
