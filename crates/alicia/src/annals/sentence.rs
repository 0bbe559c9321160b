//! An answer cut into sentences while it grows (§4.16, R-68).
//!
//! Where the text is cut depends on what it says and not on the pieces in which it came, so that every
//! reader of the log cuts it alike. Joined by the rule of §4.16 the pieces are the text again: a cut swallows
//! a single plain space, which the rule puts back; any other white space begins the later piece. Only a run of
//! more than [`MOST`] bytes without any white space cannot be cut that way; what was said is then what the
//! pieces join to.
//!
//! The last piece is held back until it is known whether it is the last. Where something else than text
//! follows, a sentence that is whole goes out before it; if text then goes on without any white space, what
//! was said has the space that the pieces are joined with.

use serde::{Deserialize, Serialize};

/// An answer that is being cut.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sentences {
    /// What was cut off, joined.
    said: String,
    /// What was not cut yet; at most [`MOST`] bytes between two calls.
    rest: String,
    /// Up to here there is no place to cut in `rest`.
    seen: usize,
    /// How many pieces were cut off.
    count: u32,
}

impl Sentences {
    /// Goes on with more text; answers what is cut off by it.
    pub(crate) fn push(&mut self, text: &str) -> Vec<String> {
        let (mut pieces, mut text) = (Vec::new(), text);
        // A little at a time, since every cut moves what is left.
        while !text.is_empty() {
            let (now, later) = text.split_at(text.floor_char_boundary(A_LITTLE));
            self.rest.push_str(now);
            text = later;
            while let Some(piece) = self.cut() {
                pieces.push(piece);
            }
        }
        pieces
    }

    /// Something else than text follows: answers the sentence that is whole by now.
    pub(crate) fn pause(&mut self) -> Option<String> {
        let whole = self.rest.trim_end_matches(is_plain_blank);
        // What begins there may be a sentence of its own.
        if !ends_sentence(whole, 'A') {
            return None;
        }
        let later = self.rest.split_off(whole.len());
        let piece = std::mem::replace(&mut self.rest, later);
        Some(self.say(piece))
    }

    /// What is left at the end.
    pub(crate) fn finish(&mut self) -> String {
        let last = std::mem::take(&mut self.rest);
        self.say(last)
    }

    /// Text of which nothing is cut off.
    pub(crate) fn append(&mut self, text: &str) {
        self.said.push_str(text);
    }

    /// Everything that was cut off or appended.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Takes back what was appended, in order to cut it after all.
    pub(crate) fn take_said(&mut self) -> String {
        std::mem::take(&mut self.said)
    }

    /// Numbers one more piece.
    pub(crate) fn number(&mut self) -> u32 {
        self.count = self.count.saturating_add(1);
        self.count
    }

    fn cut(&mut self) -> Option<String> {
        let window = self.rest.floor_char_boundary(MOST);
        let place = self.sentence_end(window).or_else(|| self.last_resort(window))?;
        let later = self.rest.split_off(place.later);
        self.rest.truncate(place.end);
        let piece = std::mem::replace(&mut self.rest, later);
        Some(self.say(piece))
    }

    /// Cuts off a piece, without the single space that joining puts back.
    fn say(&mut self, piece: String) -> String {
        self.seen = 0;
        let touches = |character: Option<char>| character.is_none_or(is_blank);
        let bare = piece.strip_prefix(' ').filter(|bare| !touches(bare.chars().next()));
        let piece = match bare {
            Some(bare) if !touches(self.said.chars().next_back()) => bare.to_owned(),
            Some(_) | None => piece,
        };
        join(&mut self.said, &piece);
        piece
    }

    /// The first end of a sentence or paragraph behind which text goes on within the window.
    fn sentence_end(&mut self, window: usize) -> Option<Place> {
        loop {
            let (begin, end) = gap(&self.rest, self.seen)?;
            let next = self.rest.get(end..).and_then(|rest| rest.chars().next());
            // Whether the gap is over is known only with what follows it.
            let Some(next) = next.filter(|_| end <= window) else {
                self.seen = begin;
                return None;
            };
            self.seen = end;
            let (before, blank) = (self.rest.get(..begin)?, self.rest.get(begin..end)?);
            let paragraph = blank.bytes().filter(|byte| *byte == b'\n').count() > 1;
            if begin > 0 && is_plain(blank) && (paragraph || ends_sentence(before, next)) {
                return Some(Place::at(begin, blank));
            }
        }
    }

    /// Where to cut what has grown too long.
    fn last_resort(&self, window: usize) -> Option<Place> {
        let (before, after) = self.rest.split_at_checked(window)?;
        let next = after.chars().next()?;
        let last = before.chars().next_back()?;
        if is_plain_blank(last) || is_plain_blank(next) {
            return Some(Place { end: window, later: window });
        }
        let (mut from, mut found) = (0, None);
        while let Some((begin, end)) = gap(before, from) {
            let blank = before.get(begin..end)?;
            if is_plain(blank) {
                // White space with which everything begins ends a piece as well as it begins one.
                let place = if begin > 0 { Place::at(begin, blank) } else { Place { end, later: end } };
                found = Some(place);
            }
            from = end;
        }
        // Behind a blank, wherever it is, nothing is put in when the pieces are joined.
        Some(found.unwrap_or_else(|| {
            let end = before.rfind(is_plain_blank).map_or(window, |blank| blank + 1);
            Place { end, later: end }
        }))
    }
}

/// Where to cut.
struct Place {
    /// Where the earlier piece ends.
    end: usize,
    /// Where the later one begins.
    later: usize,
}

impl Place {
    fn at(begin: usize, blank: &str) -> Self {
        Self { end: begin, later: if blank == " " { begin + 1 } else { begin } }
    }
}

/// The joining rule of §4.16.
pub fn join(said: &mut String, piece: &str) {
    let touches = |character: Option<char>| character.is_none_or(char::is_whitespace);
    if !touches(said.chars().next_back()) && !touches(piece.chars().next()) {
        said.push(' ');
    }
    said.push_str(piece);
}

/// The next gap between words at or behind a place.
fn gap(text: &str, from: usize) -> Option<(usize, usize)> {
    let rest = text.get(from..)?;
    let begin = from + rest.find(is_blank)?;
    let blank = text.get(begin..)?;
    Some((begin, begin + blank.find(|character| !is_blank(character)).unwrap_or(blank.len())))
}

/// White space in anybody's eyes: languages differ about the last two.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{feff}' | '\u{180e}')
}

/// White space in everybody's eyes.
fn is_plain_blank(character: char) -> bool {
    matches!(character, ' ' | '\n' | '\r' | '\t')
}

fn is_plain(blank: &str) -> bool {
    blank.chars().all(is_plain_blank)
}

/// Whether a sentence ends with `before` if the next one begins with `next`.
fn ends_sentence(before: &str, next: char) -> bool {
    if next.is_lowercase() {
        return false;
    }
    let core = before.trim_end_matches(CLOSING);
    match core.chars().next_back() {
        Some('!' | '?' | '…' | '。' | '！' | '？') => true,
        Some('.') => !is_abbreviated(core.trim_end_matches('.'), next),
        Some(_) | None => false,
    }
}

/// Whether the dot behind this text belongs to its last word, if `next` follows.
fn is_abbreviated(text: &str, next: char) -> bool {
    let opening = |character: char| !character.is_alphanumeric();
    let word = text.rsplit(is_blank).next().unwrap_or_default().trim_start_matches(opening);
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        // The number of an item: "1. …".
        let line = text.rsplit('\n').next().unwrap_or_default();
        return line.trim_start_matches(opening) == word;
    }
    let single = |part: &str| {
        let mut characters = part.chars();
        let cased = characters.next().is_some_and(|first| first.is_uppercase() || first.is_lowercase());
        cased && characters.next().is_none()
    };
    let lower = word.to_lowercase();
    word.split('.').all(single)
        || ABBREVIATIONS.contains(&lower.as_str())
        || (next.is_numeric() && ABBREVIATIONS_OF_NUMBERS.contains(&lower.as_str()))
}

/// What may stand between the end of a sentence and the space behind it.
const CLOSING: &[char] = &[
    '"', '\'', ')', ']', '}', '”', '’', '»', '›', '“', '‘', '」', '』', '）', '】', '》', '*', '_', '`', '~',
];

/// Words behind which a dot ends no sentence.
const ABBREVIATIONS: &[&str] = &[
    "mr", "mrs", "ms", "mx", "dr", "prof", "sr", "jr", "st", "rev", "hon", "gen", "capt", "lt", "sgt", "vs",
    "cf", "dept", "inc", "ltd", "corp", "bzw", "evtl", "ggf", "vgl", "bspw", "sog", "hr", "fr", "mme",
    "mlle", "sra",
];
/// The same before a number.
const ABBREVIATIONS_OF_NUMBERS: &[&str] = &[
    "no", "nos", "nr", "fig", "figs", "eq", "vol", "ed", "pp", "ch", "sec", "art", "abs", "ca", "approx",
    "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
];

/// Longest piece, in bytes.
const MOST: usize = 8_192;
/// How much is looked at in one go, in bytes.
const A_LITTLE: usize = 1_024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> Vec<String> {
        let mut sentences = Sentences::default();
        let mut pieces = sentences.push(text);
        pieces.push(sentences.finish());
        pieces
    }

    fn joined(pieces: &[String]) -> String {
        pieces.iter().fold(String::new(), |mut said, piece| {
            join(&mut said, piece);
            said
        })
    }

    #[test]
    fn sentences_end_at_their_marks() {
        assert_eq!(split("One. Two! Three? Four"), ["One.", "Two!", "Three?", "Four"]);
        assert_eq!(split("Well… Yes. \"No.\" (Maybe.) So"), ["Well…", "Yes.", "\"No.\"", "(Maybe.)", "So"]);
        assert_eq!(split("はい。 そう！ 何？ 終"), ["はい。", "そう！", "何？", "終"]);
        assert_eq!(split("**Bold.** Next"), ["**Bold.**", "Next"]);
        assert_eq!(split("It is 3.5. 7 is more."), ["It is 3.5.", "7 is more."]);
        assert_eq!(split("In 1999. Then"), ["In 1999.", "Then"]);
    }

    #[test]
    fn a_dot_need_not_end_a_sentence() {
        for text in [
            "Dr. Who met Mr. Smith",
            "J. R. R. Tolkien",
            "e.g. This and i.e. That",
            "the U.S. Army",
            "wait... what",
            "\"Really?\" she asked",
            "1. First",
            "v1.2 is out",
            "see Fig. 3 and No. 7",
            "bzw. Zweitens, z.B. Drittens",
        ] {
            assert_eq!(split(text), [text]);
        }
        assert_eq!(split("a\n1. First. Second"), ["a\n1. First.", "Second"]);
        assert_eq!(split("a\n  - (2. First"), ["a\n  - (2. First"]);
        assert_eq!(split("Wait... What"), ["Wait...", "What"]);
    }

    #[test]
    fn a_separating_newline_begins_the_later_piece() {
        assert_eq!(split("Title\n\nText"), ["Title", "\n\nText"]);
        assert_eq!(split("One.\nTwo"), ["One.", "\nTwo"]);
        assert_eq!(split("One.  Two"), ["One.", "  Two"]);
        assert_eq!(split("- a\n- b"), ["- a\n- b"]);
        assert_eq!(split("\n\nOne. "), ["\n\nOne. "]);
        assert_eq!(split("a\r\n\r\nb"), ["a", "\r\n\r\nb"]);
    }

    #[test]
    fn the_last_piece_waits_for_the_end() {
        let mut sentences = Sentences::default();
        assert!(sentences.push("One. ").is_empty(), "it may be the last one");
        assert_eq!(sentences.push("T"), ["One."]);
        assert_eq!(sentences.finish(), "T");
        assert_eq!(sentences.said(), "One. T");
        assert_eq!(Sentences::default().finish(), "");
    }

    #[test]
    fn a_sentence_that_is_whole_goes_out_before_something_else() {
        for (before, after, pieces) in [
            ("Looking it up. ", "It is noon.", ["Looking it up.", "It is noon."]),
            ("Looking it up.", " It is noon.", ["Looking it up.", "It is noon."]),
            ("Looking it up.\n\n", "It is noon.", ["Looking it up.", "\n\nIt is noon."]),
            ("Looking it up.", "It is noon.", ["Looking it up.", "It is noon."]),
            ("Done? ", "", ["Done?", " "]),
        ] {
            let mut sentences = Sentences::default();
            assert!(sentences.push(before).is_empty());
            let mut said = vec![sentences.pause().unwrap()];
            assert_eq!(sentences.pause(), None, "once");
            said.extend(sentences.push(after));
            said.push(sentences.finish());
            assert_eq!(said, pieces);
            assert_eq!(sentences.said(), joined(&said));
        }
        for unfinished in ["Let me see", "as Mr. ", "1. ", "", "  "] {
            let mut sentences = Sentences::default();
            assert!(sentences.push(unfinished).is_empty());
            assert_eq!(sentences.pause(), None);
            assert_eq!(sentences.finish(), unfinished);
        }
    }

    #[test]
    fn a_long_piece_is_cut_at_a_space_or_at_a_character() {
        let words = "word ".repeat(4_000);
        let pieces = split(&words);
        assert!(pieces.len() > 2 && pieces.iter().all(|piece| piece.len() <= MOST));
        assert_eq!(joined(&pieces), words);

        let word = "é".repeat(10_000);
        let pieces = split(&word);
        assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [8_192, 8_192, 3_616]);
        let mut sentences = Sentences::default();
        sentences.push(&word);
        sentences.finish();
        assert_eq!(sentences.said(), joined(&pieces), "what was said is what clients put together");

        let blank = format!("a{}b", " ".repeat(20_000));
        assert_eq!(joined(&split(&blank)), blank);
    }

    #[test]
    fn white_space_about_which_languages_differ_is_no_place_to_cut() {
        for blank in ["\u{feff} ", "\u{85}", "\u{2028}", "\u{180e}"] {
            let text = format!("One.{blank}Two");
            assert_eq!(split(&text), [text]);
        }
    }

    /// Text in which everything occurs that matters to a cut.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            8 => "[a-zA-Z]{1,9}",
            4 => prop::sample::select(vec![".", "!", "?", "…", "。", "...", "\"", ")", "Dr.", "e.g.", "1."]).prop_map(str::to_owned),
            5 => Just(" ".to_owned()),
            2 => prop::sample::select(vec!["\n", "\n\n", "  ", "\t", "\r\n", "\u{a0}", "\u{feff}", "é", "日本"]).prop_map(str::to_owned),
            1 => (1_usize..6_000).prop_map(|length| "lorem ipsum ".chars().cycle().take(length).collect()),
            1 => (1_usize..9_000).prop_map(|length| " ".repeat(length)),
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn a_long_indent_is_cut_behind_itself() {
        let text = format!("{}one\u{a0}word{}", " ".repeat(MOST - 10), "x".repeat(20));
        let pieces = split(&text);
        assert_eq!((pieces.len(), joined(&pieces)), (2, text));
        for blank in ["\u{feff}", "\u{180e}"] {
            let text = format!("{}{blank}word", " ".repeat(MOST - blank.len()));
            assert_eq!(joined(&split(&text)), text, "and in the middle, if it has to be");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn joined_pieces_are_the_text_however_it_came(text in text(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
            let whole = split(&text);
            prop_assert!(whole.iter().all(|piece| piece.len() <= MOST));
            prop_assert!(whole.iter().rev().skip(1).all(|piece| !piece.is_empty()));
            prop_assert_eq!(&joined(&whole), &text);

            let mut places: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let mut sentences = Sentences::default();
            let mut pieces = Vec::new();
            for pair in places.windows(2) {
                pieces.extend(sentences.push(&text[pair[0]..pair[1]]));
            }
            pieces.push(sentences.finish());
            prop_assert_eq!(pieces, whole);
            prop_assert_eq!(sentences.said(), text);
        }
    }
}
