//! Words as they are heard: in any form, and not always well.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::words::{AFTER_ALL, DEEDS, FILLERS, KINDS, THINGS, VERBS, Verb};
use crate::memory::stem;

/// A word, and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) stem: String,
    sound: String,
    pub(super) verb: Option<Verb>,
    /// The group of words that mean the same.
    pub(super) sense: Option<Sense>,
}

/// A group of words that mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sense {
    /// Something that can be done; the first of them take something away.
    Deed(usize),
    /// Something that there is.
    Thing(usize),
}

impl Sense {
    /// Takes something away.
    pub(super) const REMOVAL: Self = Self::Deed(0);
}

/// A word of what was said, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) span: Range<usize>,
    pub(super) word: Word,
}

/// What was said, word by word.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heard<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
}

impl Word {
    fn new(text: String) -> Self {
        let stem = stem(text.clone());
        // Short stems belong to too many words: that of "settings" is "set".
        let known = LEXICON.get(&text).or_else(|| LEXICON.get(&stem).filter(|_| stem.len() > 3));
        Self {
            sound: sound(&text),
            verb: known.and_then(|known| known.verb),
            sense: known.and_then(|known| known.sense),
            text,
            stem,
        }
    }

    /// The same word, and the next, as one.
    pub(super) fn joined(&self, next: &Self) -> Self {
        Self::new(format!("{}{}", self.text, next.text))
    }

    pub(super) fn is_filler(&self) -> bool {
        FILLERS.binary_search(&self.text.as_str()).is_ok()
    }

    /// Whether it says only what sort of thing something is.
    pub(super) fn is_kind(&self) -> bool {
        KINDS.binary_search(&self.text.as_str()).is_ok()
    }

    /// Whether it can tell one thing from another.
    pub(super) fn has_content(&self) -> bool {
        self.verb.is_none() && !self.is_filler() && !self.is_kind()
    }

    pub(super) fn is_one_of(&self, words: &[&str]) -> bool {
        words.contains(&self.text.as_str())
    }

    /// Whether one is the other with an "un" before it: they speak of the same thing.
    fn is_opposite_of(&self, other: &Self) -> bool {
        let opposite =
            |a: &Self, b: &Self| a.text.strip_prefix("un").is_some_and(|a| a.len() > 4 && a == b.text);
        opposite(self, other) || opposite(other, self)
    }

    /// How likely it is that somebody who was heard to say this meant `other`, from 0 to 1.
    pub(super) fn closeness(&self, other: &Self) -> f64 {
        if self.text == other.text || self.stem == other.stem && self.verb == other.verb {
            return 1.0;
        }
        if self.sense.is_some() && self.sense == other.sense || self.is_opposite_of(other) {
            return SYNONYM;
        }
        // Another number is another thing, and words that are known were hardly misheard.
        let number = |word: &Self| word.text.contains(|c: char| c.is_ascii_digit());
        if number(self) || number(other) {
            return 0.0;
        }
        if self.verb.is_some() || self.sense.is_some() && other.sense.is_some() {
            return 0.0;
        }
        let spelled = misspelled(&self.text, &other.text).max(misspelled(&self.stem, &other.stem));
        let sounds = self.sound.len() > 1 && self.sound == other.sound && {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            distance(&letters(&self.text), &letters(&other.text)) <= 2
        };
        if sounds { spelled.max(SOUND) } else { spelled }
    }
}

impl<'a> Heard<'a> {
    /// The words of a text; what is beyond all measure is not listened to.
    pub(super) fn new(text: &'a str) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        let tokens = spans(text).take(MAX_WORDS).map(|span| {
            let letters = text[span.clone()].chars().filter(|c| !is_apostrophe(*c)).take(MAX_LETTERS);
            let word = letters.flat_map(char::to_lowercase).map(plain).collect();
            Token { span, word: Word::new(word) }
        });
        Self { text, tokens: tokens.collect() }
    }

    /// What was said in these places, as it was said.
    pub(super) fn said(&self, places: Range<usize>) -> &'a str {
        let (Some(first), Some(last)) = (self.tokens.get(places.start), places.end.checked_sub(1)) else {
            return "";
        };
        let Some(last) = self.tokens.get(last).filter(|_| !places.is_empty()) else { return "" };
        &self.text[first.span.start..last.span.end]
    }

    /// Whether the words from this place on begin with a phrase.
    pub(super) fn has(&self, place: usize, phrase: &[&str]) -> bool {
        let said = self.tokens.get(place..place + phrase.len());
        said.is_some_and(|said| said.iter().zip(phrase).all(|(token, word)| token.word.text == *word))
    }

    /// Whether a phrase is all that is said from this place on, but for words that say nothing.
    pub(super) fn is(&self, place: usize, phrases: &[&[&str]]) -> bool {
        let rest = |length: usize| self.tokens.iter().skip(place + length);
        let whole = |phrase: &[&str]| rest(phrase.len()).all(|token| token.word.is_filler());
        phrases.iter().any(|phrase| self.has(place, phrase) && whole(phrase))
    }

    /// How many words were said before a "please" at the end.
    pub(super) fn without_courtesy(&self) -> usize {
        let after = self.tokens.iter().rev().take_while(|token| token.word.is_one_of(AFTER_ALL));
        self.tokens.len() - after.count()
    }

    pub(super) fn begins(&self, place: usize, phrases: &[&[&str]]) -> bool {
        phrases.iter().any(|phrase| self.has(place, phrase))
    }
}

/// The words of a name, such as `cart.addItem`.
pub(super) fn words_of_name(name: &str) -> Vec<Word> {
    let mut apart = String::with_capacity(name.len() + 8);
    let mut before = ' ';
    for letter in name.chars().take(MAX_BYTES) {
        if before.is_lowercase() && letter.is_uppercase() {
            apart.push(' ');
        }
        apart.push(if letter.is_alphanumeric() { letter } else { ' ' });
        before = letter;
    }
    words_of(&apart)
}

/// The words of a text.
pub(super) fn words_of(text: &str) -> Vec<Word> {
    Heard::new(text).tokens.into_iter().map(|token| token.word).collect()
}

/// Where words stand: letters, digits, and what belongs between them, as in `don't` and `3.5`.
fn spans(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text[rest..].find(char::is_alphanumeric)?;
        let mut end = start;
        let mut letters = text[start..].chars().peekable();
        let mut before = ' ';
        while let Some(letter) = letters.next() {
            let next = letters.peek().copied().unwrap_or(' ');
            let inside = is_apostrophe(letter) && next.is_alphabetic()
                || matches!(letter, '.' | ',') && before.is_ascii_digit() && next.is_ascii_digit();
            if !letter.is_alphanumeric() && !inside {
                break;
            }
            end += letter.len_utf8();
            before = letter;
        }
        rest = end;
        Some(start..end)
    })
}

const fn is_apostrophe(letter: char) -> bool {
    matches!(letter, '\'' | '\u{2019}')
}

/// Letters without their marks, as far as they are common.
const fn plain(letter: char) -> char {
    match letter {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => 'a',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        other => other,
    }
}

/// How close two words are that differ in a letter or two.
fn misspelled(a: &str, b: &str) -> f64 {
    // Cheap, and true of most words.
    if a.len().abs_diff(b.len()) > 6 {
        return 0.0;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let shorter = a.len().min(b.len());
    if shorter < 4 || a.len().abs_diff(b.len()) > 2 {
        return 0.0;
    }
    // Another beginning makes a short word another word: "home" and "come".
    if shorter < 6 && a.first() != b.first() {
        return 0.0;
    }
    match distance(&a, &b) {
        1 if shorter < 5 => 0.7,
        1 => 0.8,
        2 if shorter >= 7 => 0.65,
        _ => 0.0,
    }
}

/// How many letters have to be added, dropped, changed or swapped with the next.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![0; (a.len() + 1) * width];
    for (column, cell) in rows.iter_mut().take(width).enumerate() {
        *cell = column;
    }
    for row in 1..=a.len() {
        rows[row * width] = row;
        for column in 1..=b.len() {
            let same = usize::from(a[row - 1] != b[column - 1]);
            let mut best = (rows[(row - 1) * width + column] + 1)
                .min(rows[row * width + column - 1] + 1)
                .min(rows[(row - 1) * width + column - 1] + same);
            if row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1] {
                best = best.min(rows[(row - 2) * width + column - 2] + 1);
            }
            rows[row * width + column] = best;
        }
    }
    rows[rows.len() - 1]
}

/// A rough key of how an English word sounds: the same for most words that are taken for one another.
fn sound(word: &str) -> String {
    if !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let word =
        word.replace("ph", "f").replace("ck", "k").replace("wr", "r").replace("kn", "n").replace("gh", "");
    let letters = word.as_bytes();
    let mut key = String::new();
    for (place, letter) in letters.iter().enumerate() {
        let next = letters.get(place + 1).copied().unwrap_or(b' ');
        let soft = matches!(next, b'e' | b'i' | b'y');
        let sound = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' if place == 0 => 'a',
            b'a' | b'e' | b'i' | b'o' | b'u' | b'h' | b'w' | b'y' => continue,
            b'c' if next == b'h' => 'j',
            b'c' if soft => 's',
            b'g' if soft => 'j',
            b'c' | b'k' | b'q' | b'g' => 'k',
            b'z' | b's' => 's',
            b'x' => {
                key.push('k');
                's'
            }
            b'v' | b'f' => 'f',
            b'd' | b't' => 't',
            b'b' | b'p' => 'p',
            other => char::from(*other),
        };
        if !key.ends_with(sound) {
            key.push(sound);
        }
    }
    key
}

/// What is known about a word.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    verb: Option<Verb>,
    sense: Option<Sense>,
}

/// Every word that is known, and its stem.
static LEXICON: LazyLock<BTreeMap<String, Known>> = LazyLock::new(|| {
    let mut lexicon: BTreeMap<String, Known> = BTreeMap::new();
    for (verb, words) in VERBS {
        for word in *words {
            for form in [(*word).to_owned(), stem((*word).to_owned())] {
                lexicon.entry(form).or_default().verb.get_or_insert(*verb);
            }
        }
    }
    let deeds = DEEDS.iter().enumerate().map(|(index, words)| (Sense::Deed(index), words));
    let things = THINGS.iter().enumerate().map(|(index, words)| (Sense::Thing(index), words));
    for (sense, words) in deeds.chain(things) {
        for word in *words {
            for form in [(*word).to_owned(), stem((*word).to_owned())] {
                lexicon.entry(form).or_default().sense.get_or_insert(sense);
            }
        }
    }
    lexicon
});

/// How close a word is to another that means the same.
const SYNONYM: f64 = 0.85;
/// How close a word is to another that sounds the same.
const SOUND: f64 = 0.75;
/// Bytes of a text that are listened to.
const MAX_BYTES: usize = 4096;
/// Words of a text that are listened to.
const MAX_WORDS: usize = 128;
/// Letters of a word that are listened to.
const MAX_LETTERS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn closeness(a: &str, b: &str) -> f64 {
        Word::new(a.into()).closeness(&Word::new(b.into()))
    }

    #[test]
    fn lists_that_are_searched_are_sorted() {
        assert!(FILLERS.is_sorted() && KINDS.is_sorted());
        assert_eq!(DEEDS[0], super::super::words::REMOVAL);
    }

    #[test]
    fn words_that_are_heard_badly_are_found() {
        for (heard, meant) in [
            ("oders", "orders"),
            ("order", "orders"),
            ("setings", "settings"),
            ("kart", "cart"),
            ("notifikations", "notifications"),
            ("cancle", "cancel"),
            ("chekout", "checkout"),
            ("qantity", "quantity"),
            ("adress", "address"),
            ("newsleter", "newsletter"),
            ("fone", "phone"),
            ("unsubscribe", "subscribe"),
        ] {
            assert!(closeness(heard, meant) >= 0.65, "{heard} {meant} {}", closeness(heard, meant));
        }
        assert!(closeness("basket", "cart") > 0.8);
    }

    #[test]
    fn other_words_are_not() {
        for (heard, other) in [
            ("home", "come"),
            ("night", "right"),
            ("mug", "rug"),
            ("red", "bed"),
            ("orders", "borders"),
            ("help", "held"),
            ("settings", "sittings"),
            ("day", "dark"),
            ("open", "often"),
            ("cancel", "save"),
        ] {
            let close = closeness(heard, other);
            assert!(close < 0.85, "{heard} {other} {close}");
        }
        for (heard, other) in [
            ("home", "come"),
            ("mug", "rug"),
            ("red", "bed"),
            ("cancel", "save"),
            ("warm", "room"),
            ("1042", "1043"),
        ] {
            assert!(closeness(heard, other) < 0.5, "{heard} {other}");
        }
    }

    #[test]
    fn texts_are_cut_into_words() {
        let heard = Heard::new("What's 3.5 × Café-\"Sets\", 1,000?");
        let words: Vec<&str> = heard.tokens.iter().map(|token| token.word.text.as_str()).collect();
        assert_eq!(words, ["whats", "3.5", "cafe", "sets", "1,000"]);
        assert_eq!(heard.said(1..4), "3.5 × Café-\"Sets");
        assert_eq!((heard.said(2..2), heard.said(4..9), heard.said(9..10)), ("", "", ""));
        let name: Vec<String> =
            words_of_name("cart.addItem:blue-mug_2").into_iter().map(|word| word.text).collect();
        assert_eq!(name, ["cart", "add", "item", "blue", "mug", "2"]);
        assert!(Heard::new(&"word ".repeat(100_000)).tokens.len() <= MAX_WORDS);
        assert!(Heard::new("").tokens.is_empty());
    }
}
