//! The pieces that a model puts words together from.

use std::collections::HashMap;

use serde::Deserialize;

/// What each number means that a model answers with.
#[derive(Debug)]
pub(super) struct Vocabulary(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    /// Part of a character that has no piece of its own.
    Byte(u8),
    /// Says something to the model, and nothing to anybody else.
    Mark,
}

#[derive(Deserialize)]
struct File {
    model: Model,
    added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Model {
    vocab: HashMap<String, usize>,
}

#[derive(Deserialize)]
struct Added {
    id: usize,
}

impl Vocabulary {
    /// Reads the description of a tokeniser; none if it is no such thing.
    pub(super) fn read(file: &[u8]) -> Option<Self> {
        let file: File = serde_json::from_slice(file).ok()?;
        let mut numbered: Vec<(usize, String)> =
            file.model.vocab.into_iter().map(|(text, number)| (number, text)).collect();
        numbered.sort_unstable();
        let count = numbered.last()?.0.max(file.added_tokens.iter().map(|added| added.id).max()?) + 1;
        if count > MOST_PIECES {
            return None;
        }
        let mut pieces = vec![Piece::Mark; count];
        for (number, text) in numbered {
            *pieces.get_mut(number)? = match byte(&text) {
                Some(byte) => Piece::Byte(byte),
                None => Piece::Text(text.replace('▁', " ").into()),
            };
        }
        for added in file.added_tokens {
            *pieces.get_mut(added.id)? = Piece::Mark;
        }
        Some(Self(pieces))
    }

    /// The words that some numbers stand for.
    pub(super) fn words(&self, numbers: &[usize]) -> String {
        let mut bytes = Vec::new();
        for piece in numbers.iter().filter_map(|number| self.0.get(*number)) {
            match piece {
                Piece::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                Piece::Byte(byte) => bytes.push(*byte),
                Piece::Mark => {}
            }
        }
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// The byte that a piece like `<0x0A>` stands for.
fn byte(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// More than any model has.
const MOST_PIECES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_put_together_from_pieces_and_bytes() {
        let file = r#"{"model":{"vocab":{"<s>":0,"▁Gr":1,"<0xC3>":2,"<0xBC>":3,"n":4,"▁day":5,"<0xZZ>":6}},
            "added_tokens":[{"id":0},{"id":7}]}"#;
        let vocabulary = Vocabulary::read(file.as_bytes()).unwrap();
        assert_eq!(vocabulary.words(&[0, 1, 2, 3, 4, 5, 7, 99]), "Grün day");
        assert_eq!(vocabulary.words(&[6]), "<0xZZ>");
        assert_eq!(vocabulary.words(&[2]), "\u{fffd}", "half a character");
    }

    #[test]
    fn what_is_no_vocabulary_is_refused() {
        for file in [
            "",
            "{}",
            r#"{"model":{"vocab":{}},"added_tokens":[]}"#,
            r#"{"model":{"vocab":{"a":9999999}},"added_tokens":[]}"#,
        ] {
            assert!(Vocabulary::read(file.as_bytes()).is_none(), "{file}");
        }
    }
}
