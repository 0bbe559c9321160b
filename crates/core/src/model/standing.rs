//! What a session is to its owner.

use serde::{Deserialize, Serialize};

/// What a session is to its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// In use.
    #[default]
    Active,
    /// Put away: it can be read, but takes no more work until it is taken up again.
    Archived,
    /// Gone, for everybody and for ever. The log keeps what has happened.
    Deleted,
}

impl Standing {
    /// Whether it is in use.
    pub const fn is_active(&self) -> bool {
        matches!(self, Self::Active)
    }

    /// Why what goes on in a session is stopped when it comes to this; for people.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Active => "the conversation was taken up again",
            Self::Archived => "the conversation was archived",
            Self::Deleted => "the conversation was deleted",
        }
    }
}
