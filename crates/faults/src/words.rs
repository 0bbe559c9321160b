//! What clients ask for: words of which each says where it belongs, so that whoever sees one knows whether it is
//! new, late or missing.
//!
//! `R7w0. R7w1. R7w2.` are the first three words of request 7. A word is a sentence of its own, because some
//! protocols deliver by sentence.

use std::fmt::Write as _;

/// A word of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The request that it answers.
    pub(crate) request: u64,
    /// Its place in the answer, from 0.
    pub(crate) index: u32,
}

/// What an answer is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many words.
    pub(crate) words: u32,
    /// Letters that make each word longer.
    pub(crate) padding: usize,
    /// The pause between two of them.
    pub(crate) every_ms: u32,
}

impl Shape {
    /// What to say to the story `conformance` in order to be answered like this.
    pub(crate) fn prompt(&self, request: u64) -> String {
        let padding = "x".repeat(self.padding);
        let mut text = "words".to_owned();
        for index in 0..self.words {
            // Writing to a string cannot fail.
            let _ = write!(text, " R{request}w{index}{padding}.");
        }
        let _ = write!(text, " every {}", self.every_ms);
        text
    }
}

/// The request that a prompt is, and how many words it asks for.
pub(crate) fn read_prompt(text: &str) -> Option<(u64, u32)> {
    let words = Words::default().push(text.strip_prefix("words ")?);
    let request = words.first().copied().flatten()?.request;
    Some((request, u32::try_from(words.len()).ok()?))
}

/// Reads words out of the pieces in which they come.
#[derive(Debug, Default)]
pub(crate) struct Words {
    rest: String,
}

impl Words {
    /// The words that this piece completes; none stands for something that is no word.
    pub(crate) fn push(&mut self, piece: &str) -> Vec<Option<Word>> {
        self.rest.push_str(piece);
        let (mut words, mut done) = (Vec::new(), 0);
        while let Some((word, _)) = self.rest.get(done..).and_then(|rest| rest.split_once('.')) {
            done += word.len() + 1;
            words.push(read_word(word.trim()));
        }
        self.rest.drain(..done);
        if self.rest.len() > LONGEST {
            self.rest.clear();
            words.push(None);
        }
        words
    }
}

fn read_word(text: &str) -> Option<Word> {
    let (request, rest) = text.strip_prefix('R')?.split_once('w')?;
    let index = rest.trim_end_matches('x');
    Some(Word { request: request.parse().ok()?, index: index.parse().ok()? })
}

/// Bytes without the end of a word.
const LONGEST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_can_be_read_again() {
        let shape = Shape { words: 3, padding: 4, every_ms: 5 };
        assert_eq!(shape.prompt(7), "words R7w0xxxx. R7w1xxxx. R7w2xxxx. every 5");
        assert_eq!(read_prompt(&shape.prompt(7)), Some((7, 3)));
        assert_eq!(read_prompt("echo R7w0."), None);
        assert_eq!(read_prompt("words of somebody else"), None);
    }

    #[test]
    fn words_are_the_same_in_whatever_pieces_they_come() {
        let text = "R7w0. R7w1xx. R12w30.";
        let expected = [(7, 0), (7, 1), (12, 30)].map(|(request, index)| Some(Word { request, index }));
        for size in 1..text.len() {
            let mut words = Words::default();
            let pieces = text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap());
            let read: Vec<_> = pieces.flat_map(|piece| words.push(piece)).collect();
            assert_eq!(read, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_word_is_not_passed_over() {
        assert_eq!(Words::default().push("R7w. 7w1. Rw1. R7w-1. R7w1y."), [None; 5]);
        assert_eq!(Words::default().push(&"x".repeat(LONGEST + 1)), [None]);
    }
}
