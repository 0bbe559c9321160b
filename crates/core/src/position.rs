//! Where in a session's history a reader stands.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A place in a session's log: everything up to and including `seq` has been seen.
///
/// `seq` is dense from 1 per session; 0 means nothing was seen yet. `epoch` changes when history
/// was lost or replaced, so that a reader never resumes onto a different history by accident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Which history this is.
    pub epoch: u32,
    /// Number of the last event seen.
    pub seq: u64,
}

impl Position {
    /// The place before the first event of a history.
    pub const fn start(epoch: u32) -> Self {
        Self { epoch, seq: 0 }
    }

    /// The place after one more event.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { epoch: self.epoch, seq: self.seq + 1 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.seq)
    }
}

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (epoch, seq) = text.split_once('-').ok_or(InvalidPosition)?;
        Ok(Self {
            epoch: epoch.parse().map_err(|_| InvalidPosition)?,
            seq: seq.parse().map_err(|_| InvalidPosition)?,
        })
    }
}

/// The text is not `<epoch>-<seq>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is written <epoch>-<seq>")]
pub struct InvalidPosition;
