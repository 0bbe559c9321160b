//! What is wrong with a member, and the code that says so.

use std::fmt;

use crate::error::Code;

/// What is wrong with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Required and not there.
    Missing,
    /// Of another type than the one named.
    Type(&'static str),
    /// A name that decides what happens and is none of these.
    Deciding(&'static [&'static str]),
    /// A name that is none of these.
    Choice(&'static [&'static str]),
    /// Text longer than this many bytes.
    TooLong(usize),
    /// More than this many items.
    TooMany(usize),
    /// Larger than this many bytes in its encoding.
    TooLarge(usize),
    /// Text or a list that needs something in it.
    Empty,
    /// A number outside its range.
    Range,
    /// Text that cannot be an id.
    Id,
    /// An id that a failed generator made.
    Fallback,
}

impl Reason {
    /// The code that answers it: sizes are 104, values 105, and what keeps a message from being understood
    /// at all is 101.
    pub fn code(self) -> Code {
        match self {
            Self::Missing | Self::Type(_) | Self::Deciding(_) => Code::Malformed,
            Self::TooLong(_) | Self::TooMany(_) | Self::TooLarge(_) => Code::TooLarge,
            Self::Choice(_) | Self::Empty | Self::Range | Self::Id | Self::Fallback => Code::OutOfRange,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(formatter, "is missing"),
            Self::Type(expected) => write!(formatter, "must be {expected}"),
            Self::Deciding(names) | Self::Choice(names) => {
                write!(formatter, "must be one of {}", names.join(", "))
            }
            Self::TooLong(most) | Self::TooLarge(most) => write!(formatter, "is longer than {most} bytes"),
            Self::TooMany(most) => write!(formatter, "has more than {most} items"),
            Self::Empty => write!(formatter, "must not be empty"),
            Self::Range => write!(formatter, "is out of range"),
            Self::Id => write!(formatter, "must be 1 to 128 printable ASCII characters"),
            Self::Fallback => write!(formatter, "is no usable id"),
        }
    }
}
