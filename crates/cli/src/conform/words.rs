//! The words of the conformance story that an agent knows. Each is tried by itself: an agent that knows some of them is
//! checked with those, and what it does not know is no fault of its server.

use std::collections::BTreeSet;
use std::time::Duration;

/// What came of something that was said, within [`TIME`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The text of the answer.
    pub(super) text: String,
    /// Whether it has ended, and well.
    pub(super) end: Option<bool>,
}

/// One word of the story.
pub(super) struct Word {
    name: &'static str,
    /// What is said to try it.
    pub(super) say: &'static str,
    fits: fn(&Heard) -> bool,
}

impl Word {
    /// Whether this is what the story answers.
    pub(super) fn is_known(&self, heard: &Heard) -> bool {
        (self.fits)(heard)
    }
}

/// The words with these names, each once.
pub(super) fn called(names: &BTreeSet<&'static str>) -> Vec<(&'static str, &'static Word)> {
    names.iter().filter_map(|name| Some((*name, WORDS.iter().find(|word| word.name == *name)?))).collect()
}

/// Says so much, and ends well.
fn says(heard: &Heard, text: &str) -> bool {
    heard.end == Some(true) && heard.text.trim() == text
}

const fn word(name: &'static str, say: &'static str, fits: fn(&Heard) -> bool) -> Word {
    Word { name, say, fits }
}

const WORDS: &[Word] = &[
    word("echo", "echo conform", |heard| says(heard, "conform")),
    word("words", "words two conform", |heard| says(heard, "two conform")),
    word("count", "count 3", |heard| says(heard, "1 2 3")),
    word("deltas", "deltas 2 of 3", |heard| says(heard, "abcabc")),
    word("size", "size 5", |heard| says(heard, "abcde")),
    word("quotes", "quotes 1 of 3", |heard| says(heard, "\"\n\"")),
    word("wait", "wait 1", |heard| says(heard, "waited")),
    word("hang", "hang after 1", |heard| heard.end.is_none() && heard.text.trim() == "1"),
    word("fail", "fail execution after 1", |heard| heard.end == Some(false)),
    word("panic", "panic", |heard| heard.end == Some(false)),
    word("finish", "finish length", |heard| says(heard, "text")),
    word("nothing", "nothing", |heard| says(heard, "")),
    word("everything", "everything", |heard| heard.end == Some(true) && heard.text.contains("1,2,3,")),
    // Nobody has such a tool, so the story fails; whoever does not know the word says something.
    word("call", "call conform_has_no_such_tool within 100", |heard| {
        heard.end == Some(false) && heard.text.is_empty()
    }),
    word("try", "try conform_has_no_such_tool within 100", |heard| heard.text.trim() == "trying"),
    word("ask", "ask conform within 100", |heard| heard.end != Some(true) && heard.text.is_empty()),
    word("add tool", "add tool", |heard| says(heard, "added")),
    word("remove tool", "remove tool", |heard| says(heard, "removed")),
    word("tool", "tool conform 1", |heard| says(heard, "done")),
    word("tool-error", "tool-error conform", |heard| says(heard, "done")),
    word("reason", "reason 1", |heard| says(heard, "done")),
    word("checklist", "checklist", |heard| says(heard, "done")),
];

/// How long an answer is listened to.
pub(super) const TIME: Duration = Duration::from_millis(2_500);
