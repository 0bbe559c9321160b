//! Reasoning cut into steps (§4.5).

use serde::{Deserialize, Serialize};

/// Reasoning that is being cut.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Thoughts {
    /// What was not cut yet; at most [`MOST`] bytes between two calls.
    rest: String,
    /// How many steps there were.
    count: u32,
    /// Steps that wait for the answer which they led to.
    kept: Vec<(u32, String)>,
    /// How many bytes those hold.
    kept_bytes: usize,
}

impl Thoughts {
    /// Goes on with more text; answers the steps that are complete.
    pub(crate) fn push(&mut self, text: &str) -> Vec<(u32, String)> {
        self.rest.push_str(text);
        let mut steps = Vec::new();
        while let Some(end) = blank_line(&self.rest).or_else(|| too_long(&self.rest)) {
            let later = self.rest.split_off(end);
            let step = std::mem::replace(&mut self.rest, later);
            steps.extend(self.step(&step));
        }
        steps
    }

    /// The step that ends because something else follows.
    pub(crate) fn finish(&mut self) -> Option<(u32, String)> {
        let step = std::mem::take(&mut self.rest);
        self.step(&step)
    }

    /// Keeps a step for later, as long as there is room.
    pub(crate) fn keep(&mut self, step: (u32, String)) {
        self.kept_bytes = self.kept_bytes.saturating_add(step.1.len());
        if self.kept_bytes <= MOST_KEPT {
            self.kept.push(step);
        }
    }

    /// The steps that were kept.
    pub(crate) fn take_kept(&mut self) -> Vec<(u32, String)> {
        self.kept_bytes = 0;
        std::mem::take(&mut self.kept)
    }

    fn step(&mut self, text: &str) -> Option<(u32, String)> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        self.count = self.count.saturating_add(1);
        Some((self.count, text.to_owned()))
    }
}

/// Where a blank line ends behind some text.
fn blank_line(text: &str) -> Option<usize> {
    let first = text.find(|character: char| !character.is_whitespace())?;
    let mut line = first;
    loop {
        let newline = line + text.get(line..)?.find('\n')?;
        let next = text.get(newline + 1..)?;
        let blank = next.find(|character: char| !matches!(character, ' ' | '\t' | '\r'))?;
        if next.get(blank..)?.starts_with('\n') {
            return Some(newline + 1 + blank + 1);
        }
        line = newline + 1;
    }
}

/// Where to cut a step that has grown too long: behind its last white space, or anywhere.
fn too_long(text: &str) -> Option<usize> {
    let window = text.floor_char_boundary(MOST);
    let (before, after) = text.split_at_checked(window)?;
    if after.is_empty() {
        return None;
    }
    let blank = before.char_indices().rev().find(|(_, character)| character.is_whitespace());
    Some(blank.map(|(index, character)| index + character.len_utf8()).unwrap_or(window))
}

/// Longest step, in bytes.
const MOST: usize = 4_096;
/// Most that waits for its answer, in bytes.
const MOST_KEPT: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> Vec<(u32, String)> {
        let mut thoughts = Thoughts::default();
        let mut steps: Vec<_> = pieces.iter().flat_map(|piece| thoughts.push(piece)).collect();
        steps.extend(thoughts.finish());
        steps
    }

    #[test]
    fn a_blank_line_ends_a_step() {
        let steps = [(1, "One\ntwo".to_owned()), (2, "Three".to_owned())];
        assert_eq!(split(&["\n\nOne\ntwo\n \n\n\nThree\n\n"]), steps);
        assert_eq!(split(&["\n", "\nOne\nt", "wo\n", " ", "\n\n\nThr", "ee\n", "\n"]), steps);
        assert!(split(&[" ", "\n\n"]).is_empty());
    }

    #[test]
    fn a_long_step_is_cut() {
        let steps = split(&["word ".repeat(2_000).as_str()]);
        assert_eq!(steps.len(), 3);
        assert!(steps.iter().all(|(_, step)| step.len() <= MOST && step.ends_with("word")));
        assert_eq!(split(&["x".repeat(5_000).as_str()]).len(), 2);
        let blank = " ".repeat(9_000);
        assert!(split(&[&blank]).is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut thoughts = Thoughts::default();
        for number in 0..1_000 {
            thoughts.keep((number, "x".repeat(4_096)));
        }
        assert_eq!(thoughts.take_kept().len(), 64);
        thoughts.keep((1, "x".to_owned()));
        assert_eq!(thoughts.take_kept().len(), 1);
    }
}
