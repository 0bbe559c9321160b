//! The pieces that a model puts words together from.

use std::collections::HashMap;

use serde::Deserialize;

/// What each number means that a model answers with.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pieces: Vec<Piece>,
    numbers: HashMap<String, usize>,
}

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
        let numbers = file.model.vocab;
        let mut numbered: Vec<(usize, String)> =
            numbers.iter().map(|(text, number)| (*number, text.clone())).collect();
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
        Some(Self { pieces, numbers })
    }

    /// The numbers that some words are written in; none if they cannot be. Pairs are joined in the order in which
    /// the vocabulary was made, which is that of its numbers.
    pub(super) fn numbers(&self, words: &str) -> Option<Vec<usize>> {
        let marked = format!(" {words}").replace(' ', "▁");
        let mut pieces: Vec<String> = marked.chars().map(String::from).collect();
        loop {
            let joined = pieces.windows(2).enumerate().filter_map(|(place, pair)| {
                let joined = pair.concat();
                Some((*self.numbers.get(&joined)?, place, joined))
            });
            let Some((_, place, joined)) = joined.min() else { break };
            pieces.splice(place..place + 2, [joined]);
        }
        pieces.iter().map(|piece| self.numbers.get(piece).copied()).collect()
    }

    /// The words that some numbers stand for.
    pub(super) fn words(&self, numbers: &[usize]) -> String {
        let mut bytes = Vec::new();
        for piece in numbers.iter().filter_map(|number| self.pieces.get(*number)) {
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
    fn words_are_written_as_the_vocabulary_was_made() {
        let vocab = r#"{"▁":0,"a":1,"b":2,"d":3,"▁a":4,"dd":5,"▁add":7,"ab":6}"#;
        let file = format!(r#"{{"model":{{"vocab":{vocab}}},"added_tokens":[{{"id":8}}]}}"#);
        let vocabulary = Vocabulary::read(file.as_bytes()).unwrap();
        assert_eq!(vocabulary.numbers("add ab"), Some(vec![7, 4, 2]));
        assert_eq!(vocabulary.numbers("bab"), Some(vec![0, 2, 6]));
        assert_eq!(vocabulary.numbers("ü"), None);
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
