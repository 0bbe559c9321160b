//! Reasoning that an endpoint puts before the answer, between `<think>` and `</think>`.

/// Tells reasoning and answer apart, however they are cut into pieces.
///
/// ```text
///   Start ──"<think>"──▶ Inside ──"</think>"──▶ After ──not a space──▶ Answer
///     └──────────────anything else────────────────────────────────────▶┘
/// ```
#[derive(Debug)]
pub(super) struct Thought {
    state: State,
    /// What may be the beginning of a tag.
    held: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Inside,
    After,
    Answer,
}

/// A piece of what the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// To itself.
    Reasoning(String),
    /// To whoever asked.
    Text(String),
}

impl Thought {
    /// If there are no tags to look for, everything is the answer.
    pub(super) const fn new(tags: bool) -> Self {
        Self { state: if tags { State::Start } else { State::Answer }, held: String::new() }
    }

    /// Takes the next piece, and hands out what is clear by now.
    pub(super) fn take(&mut self, piece: String) -> Vec<Said> {
        let mut said = Vec::new();
        let mut rest = if self.held.is_empty() { piece } else { std::mem::take(&mut self.held) + &piece };
        if self.state == State::Start {
            let begun = rest.trim_start();
            if let Some(after) = begun.strip_prefix(OPEN) {
                rest = after.to_owned();
                self.state = State::Inside;
            } else if OPEN.starts_with(begun) && rest.len() <= MAX_HELD {
                self.held = rest;
                return said;
            } else {
                self.state = State::Answer;
            }
        }
        if self.state == State::Inside {
            if let Some((reasoning, after)) = rest.split_once(CLOSE) {
                push(&mut said, Said::Reasoning, reasoning);
                rest = after.to_owned();
                self.state = State::After;
            } else {
                let clear = rest.len() - begun_tag(&rest);
                push(&mut said, Said::Reasoning, &rest[..clear]);
                self.held = rest[clear..].to_owned();
                return said;
            }
        }
        if self.state == State::After {
            rest = rest.trim_start().to_owned();
            if !rest.is_empty() {
                self.state = State::Answer;
            }
        }
        push(&mut said, Said::Text, &rest);
        said
    }

    /// Nothing follows: what was held back is no tag.
    pub(super) fn finish(&mut self) -> Option<Said> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            _ if held.is_empty() => None,
            State::Inside => Some(Said::Reasoning(held)),
            State::Start | State::After | State::Answer => Some(Said::Text(held)),
        }
    }
}

fn push(said: &mut Vec<Said>, kind: fn(String) -> Said, text: &str) {
    if !text.is_empty() {
        said.push(kind(text.to_owned()));
    }
}

/// How many bytes at the end of a text may be the beginning of the closing tag.
fn begun_tag(text: &str) -> usize {
    (1..CLOSE.len()).rev().find(|count| text.ends_with(&CLOSE[..*count])).unwrap_or_default()
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// Bytes of white space that may stand before the tag.
const MAX_HELD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning and answer of a text that comes in these pieces.
    fn told<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut thought = Thought::new(true);
        let (mut reasoning, mut text) = (String::new(), String::new());
        let mut said: Vec<Said> =
            pieces.into_iter().flat_map(|piece| thought.take(piece.to_owned())).collect();
        said.extend(thought.finish());
        assert_eq!(thought.finish(), None);
        for said in said {
            match said {
                Said::Reasoning(piece) => reasoning += &piece,
                Said::Text(piece) => text += &piece,
            }
        }
        (reasoning, text)
    }

    #[test]
    fn every_split_gives_the_same() {
        for (story, reasoning, text) in [
            ("\n<think>a < b </thin é></think>\n\nYes, <think> 😀", "a < b </thin é>", "Yes, <think> 😀"),
            ("<think></think>x", "", "x"),
            ("<think>never </ends", "never </ends", ""),
            ("<think>x</thi", "x</thi", ""),
            (" <thing> is no thought", "", " <thing> is no thought"),
            ("<thin", "", "<thin"),
            ("plain <think>x</think>", "", "plain <think>x</think>"),
            ("  ", "", "  "),
            ("", "", ""),
        ] {
            let wanted = (reasoning.to_owned(), text.to_owned());
            assert_eq!(told([story]), wanted, "{story}");
            let letters: Vec<String> = story.chars().map(String::from).collect();
            assert_eq!(told(letters.iter().map(String::as_str)), wanted, "{story}");
            for (at, _) in story.char_indices() {
                assert_eq!(told([&story[..at], &story[at..]]), wanted, "{story} split at {at}");
            }
        }
    }

    #[test]
    fn what_is_clear_is_not_held_back() {
        let mut thought = Thought::new(true);
        assert_eq!(thought.take("<think>a<".into()), [Said::Reasoning("a".into())]);
        assert_eq!(thought.take("b".into()), [Said::Reasoning("<b".into())]);
        assert_eq!(thought.take("</think>".into()), []);
        assert_eq!(thought.take("\nx<".into()), [Said::Text("x<".into())]);
        let mut thought = Thought::new(true);
        assert_eq!(thought.take(" ".repeat(65)), [Said::Text(" ".repeat(65))]);
        let mut plain = Thought::new(false);
        assert_eq!(plain.take("<think>".into()), [Said::Text("<think>".into())]);
    }
}
