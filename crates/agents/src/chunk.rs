//! How a text is cut into deltas.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a text is cut into deltas: `"words"`, `"whole"`, or a number of characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunk {
    /// One word with the space after it.
    #[default]
    Words,
    /// Not at all.
    Whole,
    /// So many characters; at least one.
    Chars(usize),
}

impl Chunk {
    /// Reads the name of a way, or a number of characters.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "words" => Some(Self::Words),
            "whole" => Some(Self::Whole),
            number => number.parse().ok().filter(|count| *count > 0).map(Self::Chars),
        }
    }

    /// The pieces of `text`. Put together they are the text again; no piece is empty or larger
    /// than [`MAX_DELTA_BYTES`], and none splits a character.
    pub fn split(self, text: &str) -> impl Iterator<Item = &str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let wanted = match self {
                Self::Whole => rest.len(),
                Self::Chars(count) => {
                    rest.char_indices().nth(count.max(1)).map_or(rest.len(), |(index, _)| index)
                }
                Self::Words => end_of_word(rest),
            };
            let (piece, after) = rest.split_at(floor_boundary(rest, wanted));
            rest = after;
            Some(piece)
        })
    }
}

/// Where the first word ends, with the white space that follows it.
fn end_of_word(text: &str) -> usize {
    let word = text.find(|c: char| !c.is_whitespace()).unwrap_or(text.len());
    let space = text[word..].find(char::is_whitespace).map_or(text.len(), |index| word + index);
    text[space..].find(|c: char| !c.is_whitespace()).map_or(text.len(), |index| space + index)
}

/// The last character boundary at or before `wanted` that keeps a piece within bounds.
fn floor_boundary(text: &str, wanted: usize) -> usize {
    let mut end = wanted.min(MAX_DELTA_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

impl Serialize for Chunk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Words => serializer.serialize_str("words"),
            Self::Whole => serializer.serialize_str("whole"),
            Self::Chars(count) => serializer.serialize_u64(*count as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Chunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Count(u64),
            Name(String),
        }
        let text = match Raw::deserialize(deserializer)? {
            Raw::Count(count) => count.to_string(),
            Raw::Name(name) => name,
        };
        Self::parse(&text).ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &EXPECTED))
    }
}

/// What a chunking has to be, in words.
pub(crate) const EXPECTED: &str = "\"words\", \"whole\" or a number of characters above 0";

/// Bytes that one delta may have.
pub const MAX_DELTA_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(chunk: Chunk, text: &str) -> Vec<&str> {
        chunk.split(text).collect()
    }

    #[test]
    fn words_keep_their_space() {
        assert_eq!(pieces(Chunk::Words, "  one two\n three"), ["  one ", "two\n ", "three"]);
        assert_eq!(pieces(Chunk::Words, "   "), ["   "]);
        assert!(pieces(Chunk::Words, "").is_empty());
    }

    #[test]
    fn characters_are_never_split() {
        assert_eq!(pieces(Chunk::Chars(2), "aé😀b"), ["aé", "😀b"]);
        assert_eq!(pieces(Chunk::Whole, "aé😀b"), ["aé😀b"]);
    }

    #[test]
    fn pieces_are_bounded_and_complete() {
        let text = "€".repeat(MAX_DELTA_BYTES);
        for chunk in [Chunk::Words, Chunk::Whole, Chunk::Chars(usize::MAX)] {
            assert!(chunk.split(&text).all(|piece| !piece.is_empty() && piece.len() <= MAX_DELTA_BYTES));
            assert_eq!(chunk.split(&text).collect::<String>(), text);
        }
    }

    #[test]
    fn it_is_read_from_names_and_numbers() {
        let read = |json: &str| serde_json::from_str::<Chunk>(json);
        assert_eq!(read("\"words\"").unwrap(), Chunk::Words);
        assert_eq!(read("7").unwrap(), Chunk::Chars(7));
        assert!(read("0").is_err());
        assert!(read("\"lines\"").unwrap_err().to_string().contains("number of characters"));
    }
}
