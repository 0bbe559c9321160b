//! Answers as they come in pieces.

use std::collections::{BTreeMap, VecDeque};

use crate::Id;
use crate::message::AssistantSentence;
use switchboard_core::Pii;

use super::Answer;

/// The answers of a conversation that are not complete, and what those before them answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    open: Vec<OpenAnswer>,
    questions: BTreeMap<Id, Id>,
    order: VecDeque<Id>,
}

/// An answer that is not complete.
#[derive(Debug)]
struct OpenAnswer {
    id: Id,
    question: Option<Id>,
    text: Pii<String>,
    /// The last character, which decides whether a space follows.
    end: Option<char>,
    /// The number of the last sentence.
    last: Option<u32>,
    /// The id of the last sentence, by which some servers name the answer.
    sentence: Option<Id>,
    /// Whether all of it is in the text.
    whole: bool,
    /// Whether the connection was lost in the midst of it.
    interrupted: bool,
}

/// What a sentence adds.
#[derive(Debug, PartialEq)]
pub(super) struct Added {
    pub(super) answer: Id,
    /// Whether nothing was known of its answer before.
    pub(super) began: bool,
    /// What to append; none if nothing.
    pub(super) piece: Option<Pii<String>>,
    /// The whole answer, if this was its end.
    pub(super) complete: Option<Answer>,
}

impl Answers {
    /// Another one begins; answers whether it is new. Those that are too many are given up.
    pub(super) fn start(&mut self, id: &Id, question: Option<&Id>) -> bool {
        if self.is_open(id) {
            return false;
        }
        if self.open.len() >= MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push(OpenAnswer::new(id.clone(), question.cloned()));
        if let Some(question) = question {
            self.note(id, question);
        }
        true
    }

    /// Remembers what a message answers.
    pub(super) fn note(&mut self, answer: &Id, question: &Id) {
        if self.questions.insert(answer.clone(), question.clone()).is_none() {
            self.order.push_back(answer.clone());
        }
        if self.order.len() > MAX_QUESTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.questions.remove(&oldest);
        }
    }

    /// The message that this one answers, as far as it is an answer.
    pub(super) fn question_of(&self, answer: &Id) -> Option<&Id> {
        self.questions.get(answer)
    }

    pub(super) fn is_open(&self, id: &Id) -> bool {
        self.open.iter().any(|open| open.id == *id)
    }

    /// The answer that came last among those that are not complete.
    pub(super) fn newest(&self) -> Option<&Id> {
        self.open.last().map(|open| &open.id)
    }

    /// Whether it is coming in on this connection.
    pub(super) fn is_streaming(&self, id: &Id) -> bool {
        self.open.iter().any(|open| open.id == *id && !open.interrupted)
    }

    /// The connection is lost: answers what was coming in.
    pub(super) fn interrupt(&mut self) -> Vec<Id> {
        let running = self.open.iter_mut().filter(|open| !open.interrupted);
        let interrupted = running.map(|open| {
            open.interrupted = true;
            open.id.clone()
        });
        interrupted.collect()
    }

    /// The answer is known from elsewhere.
    pub(super) fn settle(&mut self, id: &Id) {
        self.open.retain(|open| open.id != *id);
    }

    /// The answer to which a sentence belongs, if that is not complete.
    pub(super) fn of(&self, sentence: &AssistantSentence) -> Option<&Id> {
        let previous = &sentence.previous_id;
        let named = |open: &&OpenAnswer| open.id == *previous || open.sentence.as_ref() == Some(previous);
        self.open.iter().find(named).map(|open| &open.id)
    }

    /// Takes in a sentence; none if it was here before.
    pub(super) fn add(&mut self, sentence: &AssistantSentence, most: usize) -> Option<Added> {
        let (id, began) = match self.of(sentence) {
            Some(id) => (id.clone(), false),
            None => (sentence.previous_id.clone(), self.start(&sentence.previous_id, None)),
        };
        let index = self.open.iter().position(|open| open.id == id)?;
        let open = self.open.get_mut(index)?;
        if began {
            open.whole = sentence.sequence <= 1;
        }
        if open.last.is_some_and(|last| sentence.sequence <= last) {
            return None;
        }
        let piece = open.append(sentence, most);
        let complete = sentence.is_final.then(|| self.open.remove(index).into_answer());
        Some(Added { answer: id, began, piece, complete })
    }
}

impl OpenAnswer {
    const fn new(id: Id, question: Option<Id>) -> Self {
        Self {
            id,
            question,
            text: Pii(String::new()),
            end: None,
            last: None,
            sentence: None,
            whole: true,
            interrupted: false,
        }
    }

    /// One space between two pieces, unless either has blanks there.
    fn append(&mut self, sentence: &AssistantSentence, most: usize) -> Option<Pii<String>> {
        self.interrupted = false;
        self.last = Some(sentence.sequence);
        self.sentence.clone_from(&sentence.id);
        let text = sentence.text.0.as_str();
        let start = text.chars().next()?;
        let apart = self.end.is_some_and(|end| !end.is_whitespace()) && !start.is_whitespace();
        self.end = text.chars().next_back();
        let piece = if apart { format!(" {text}") } else { text.to_owned() };
        if self.text.0.len().saturating_add(piece.len()) <= most {
            self.text.0.push_str(&piece);
        } else {
            self.whole = false;
        }
        Some(Pii(piece))
    }

    fn into_answer(self) -> Answer {
        let Self { id, question, text, whole, .. } = self;
        Answer { id, question, text, replaces: false, whole }
    }
}

/// A conversation has one generation at a time; more are left over from cuts only.
const MAX_OPEN: usize = 16;
const MAX_QUESTIONS: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::new(text).unwrap()
    }

    fn sentence(previous: &str, sequence: u32, text: &str, is_final: bool) -> AssistantSentence {
        AssistantSentence {
            id: Some(id(&format!("ams_{sequence}"))),
            previous_id: id(previous),
            sequence,
            text: Pii(text.to_owned()),
            is_final,
            audio: None,
        }
    }

    fn joined(pieces: &[&str]) -> String {
        let mut answers = Answers::default();
        answers.start(&id("a"), None);
        for (number, piece) in (1..).zip(pieces) {
            answers.add(&sentence("a", number, piece, false), 1_000).unwrap();
        }
        let end = sentence("a", 99, "", true);
        answers.add(&end, 1_000).unwrap().complete.unwrap().text.0
    }

    #[test]
    fn pieces_are_joined_by_a_space_unless_there_is_one() {
        assert_eq!(joined(&["One.", "Two."]), "One. Two.");
        assert_eq!(joined(&["One. ", "Two."]), "One. Two.");
        assert_eq!(joined(&["One.", "\n\nTwo."]), "One.\n\nTwo.");
        assert_eq!(joined(&["One.", " ", "Two."]), "One. Two.");
        assert_eq!(joined(&["", "One."]), "One.");
        assert_eq!(joined(&["一。", "二。"]), "一。 二。");
    }

    #[test]
    fn the_first_of_two_sentences_of_the_same_number_is_kept() {
        let mut answers = Answers::default();
        answers.start(&id("a"), Some(&id("q")));
        assert!(answers.add(&sentence("a", 0, "x", false), 10).is_some());
        assert_eq!(answers.add(&sentence("a", 0, "y", false), 10), None);
        let added = answers.add(&sentence("a", 1, "z", true), 10).unwrap();
        let answer = added.complete.unwrap();
        assert_eq!((answer.text.0.as_str(), answer.question, answer.whole), ("x z", Some(id("q")), true));
        assert_eq!(answers.newest(), None);
        assert_eq!(answers.question_of(&id("a")), Some(&id("q")));
    }

    #[test]
    fn a_sentence_may_name_the_one_before_it_instead_of_its_answer() {
        let mut answers = Answers::default();
        answers.start(&id("a"), None);
        answers.add(&sentence("a", 1, "x", false), 10);
        let added = answers.add(&sentence("ams_1", 2, "y", true), 10).unwrap();
        assert_eq!((added.answer, added.began), (id("a"), false));
        assert_eq!(added.complete.unwrap().text.0, "x y");
    }

    #[test]
    fn an_answer_whose_beginning_was_missed_is_not_whole() {
        let mut answers = Answers::default();
        let added = answers.add(&sentence("a", 3, "rest", true), 10).unwrap();
        assert!(added.began && !added.complete.unwrap().whole);
        let added = answers.add(&sentence("b", 1, "all", true), 10).unwrap();
        assert!(added.began && added.complete.unwrap().whole);
    }

    #[test]
    fn what_is_kept_of_an_answer_is_bounded() {
        let mut answers = Answers::default();
        answers.add(&sentence("a", 1, "1234", false), 6);
        let added = answers.add(&sentence("a", 2, "5678", true), 6).unwrap();
        assert_eq!(added.piece, Some(Pii(" 5678".to_owned())), "it is told nevertheless");
        let answer = added.complete.unwrap();
        assert_eq!((answer.text.0.as_str(), answer.whole), ("1234", false));
        for number in 0..100 {
            answers.start(&id(&format!("b{number}")), None);
        }
        assert_eq!(answers.open.len(), MAX_OPEN);
    }
}
