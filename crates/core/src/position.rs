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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        for position in
            [Position::start(0), Position { epoch: 7, seq: 42 }, Position { epoch: u32::MAX, seq: u64::MAX }]
        {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        assert_eq!(Position { epoch: 7, seq: 42 }.to_string(), "7-42");
    }

    #[test]
    fn anything_else_is_no_position() {
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "a-1",
            "1-b",
            " 1-2",
            "1--2",
            "4294967296-1",
            "1-18446744073709551616",
        ] {
            assert_eq!(text.parse::<Position>(), Err(InvalidPosition), "{text:?}");
        }
    }

    #[test]
    fn positions_are_dense_within_an_epoch_and_epochs_come_first() {
        let start = Position::start(2);
        assert_eq!(start.next(), Position { epoch: 2, seq: 1 });
        assert!(start < start.next());
        assert!(Position { epoch: 1, seq: 9 } < start);
    }
}
