//! What may well be said: the labels of what can be done, and how they are spoken.
//!
//! A recogniser that is in doubt compares what it has understood with transcripts in which a part is replaced by
//! one of these. They only say what to look for: which transcript fits the sound decides the recogniser.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// Phrases and words that may well be said.
#[derive(Clone, Default, PartialEq)]
pub struct Hints {
    /// Word by word, in small letters.
    phrases: Vec<Vec<String>>,
    words: BTreeSet<String>,
}

// What is on somebody's screen is not for logs.
impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hints({} phrases, {} words)", self.phrases.len(), self.words.len())
    }
}

impl Hints {
    /// Hints of labels and descriptions, in English.
    #[must_use]
    pub fn new<'l>(labels: impl IntoIterator<Item = &'l str>) -> Self {
        let mut hints = Self::default();
        for label in labels.into_iter().take(MOST_LABELS) {
            let all = words_of(label);
            // A label of one word is meant to be said, however short it is.
            let alone = all.len() == 1;
            for word in all.into_iter().filter(|word| alone || tells(word)) {
                if hints.words.len() < MOST_WORDS {
                    hints.words.insert(word);
                }
            }
            let clause = label.split([':', ';', ',', '.', '(', '!', '?']).next().unwrap_or_default();
            let words: Vec<String> = words_of(clause).into_iter().filter(|word| !is_number(word)).collect();
            if !words.is_empty() && words.len() <= LONGEST_PHRASE {
                for phrase in spoken(&words) {
                    if phrase.len() > 1
                        && hints.phrases.len() < MOST_PHRASES
                        && !hints.phrases.contains(&phrase)
                    {
                        hints.phrases.push(phrase);
                    }
                }
            }
        }
        hints
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.phrases.is_empty()
    }

    /// Transcripts that may have been meant instead of this one, the closest first, and at most so many.
    pub(super) fn alternatives(&self, text: &str, most: usize) -> Vec<String> {
        let said = Said::new(text);
        if said.words.is_empty() || said.words.len() > MOST_SAID {
            return Vec::new();
        }
        let mut found: Vec<(f32, String)> = Vec::new();
        let mut add = |distance: f32, places: Range<usize>, words: &str| {
            let text = said.with(places, words);
            match found.iter_mut().find(|(_, known)| *known == text) {
                Some((known, _)) => *known = known.min(distance),
                None => found.push((distance, text)),
            }
        };
        for phrase in &self.phrases {
            if said.places_of(phrase).next().is_none()
                && let Some((distance, places)) = said.closest(phrase)
            {
                add(distance, places, &phrase.join(" "));
            }
        }
        for start in 0..said.words.len() {
            for end in [start + 1, start + 2].into_iter().filter(|end| *end <= said.words.len()) {
                let heard = said.joined(start..end);
                if end == start + 1 && self.words.contains(&heard) {
                    continue;
                }
                for word in &self.words {
                    let distance = relative_distance(&heard, word);
                    if distance > 0.0 && distance <= SIMILAR_WORD {
                        add(distance, start..end, word);
                    }
                }
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        found.into_iter().take(most).map(|(_, text)| text).collect()
    }

    /// How many words of a transcript are hints; those of a whole phrase count more.
    pub(super) fn count(&self, text: &str) -> f32 {
        let said = Said::new(text);
        let mut counts: Vec<f32> =
            said.words.iter().map(|(_, word)| if self.words.contains(word) { 1.0 } else { 0.0 }).collect();
        for phrase in &self.phrases {
            for start in said.places_of(phrase) {
                counts[start..start + phrase.len()].fill(IN_PHRASE);
            }
        }
        counts.iter().sum()
    }
}

/// How something with this label is spoken of.
fn spoken(label: &[String]) -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut phrases = Vec::new();
    // "Turn the lamp on or off"
    if let [verb, thing @ .., on, or, off] = label
        && (on.as_str(), or.as_str(), off.as_str()) == ("on", "or", "off")
    {
        for way in [on, off] {
            phrases.push([&[verb.clone(), way.clone()], thing].concat());
            phrases.push([std::slice::from_ref(verb), thing, std::slice::from_ref(way)].concat());
        }
    } else {
        phrases.push(label.to_vec());
    }
    // A thing, or a place.
    if label.len() <= 2 {
        let name: Vec<String> =
            label.iter().filter(|word| !ARTICLES.contains(&word.as_str())).cloned().collect();
        for (before, after) in PLACES {
            phrases.push([words(before), name.clone(), words(after)].concat());
        }
    }
    if let [verb, thing] = label {
        phrases.push(vec![verb.clone(), "the".to_owned(), thing.clone()]);
    }
    // "Add tea to the cart" may be cut short.
    let end = (2..label.len()).find(|place| PREPOSITIONS.contains(&label[*place].as_str()));
    phrases.extend(end.map(|end| label[..end].to_vec()));
    // What is searched for may be anything.
    if let [verb, preposition, ..] = label
        && PREPOSITIONS.contains(&preposition.as_str())
    {
        phrases.push(vec![verb.clone(), preposition.clone()]);
    }
    phrases
}

/// A transcript, and where its words stand.
struct Said<'t> {
    text: &'t str,
    words: Vec<(Range<usize>, String)>,
}

impl<'t> Said<'t> {
    fn new(text: &'t str) -> Self {
        let mut words: Vec<(Range<usize>, String)> = Vec::new();
        for (place, letter) in text.char_indices().filter(|(_, letter)| is_letter(*letter)) {
            let after = place + letter.len_utf8();
            match words.last_mut().filter(|(span, _)| span.end == place) {
                Some((span, word)) => {
                    span.end = after;
                    word.extend(letter.to_lowercase());
                }
                None => words.push((place..after, letter.to_lowercase().collect())),
            }
        }
        Self { text, words }
    }

    /// The letters of some of the words.
    fn joined(&self, places: Range<usize>) -> String {
        let words = self.words.get(places).unwrap_or_default();
        words.iter().flat_map(|(_, word)| word.chars()).filter(|letter| *letter != '\'').collect()
    }

    /// The text with something else in these places; it begins with a capital letter as before.
    fn with(&self, places: Range<usize>, words: &str) -> String {
        let span = |place: usize| self.words.get(place).map_or(0..0, |(span, _)| span.clone());
        let (start, end) = (span(places.start).start, span(places.end.saturating_sub(1)).end);
        let mut letters = words.chars();
        let first = letters.next().into_iter();
        let first: String =
            if places.start == 0 { first.flat_map(char::to_uppercase).collect() } else { first.collect() };
        let (before, after) = (&self.text[..start], &self.text[end..]);
        format!("{before}{first}{}{after}", letters.as_str())
    }

    /// Where a phrase was said word by word.
    fn places_of(&self, phrase: &[String]) -> impl Iterator<Item = usize> {
        let starts = (self.words.len() + 1).saturating_sub(phrase.len());
        let same =
            |start: usize| phrase.iter().enumerate().all(|(at, word)| self.words[start + at].1 == *word);
        (0..starts).filter(move |start| same(*start))
    }

    /// The words that come closest to a phrase, if any come close.
    fn closest(&self, phrase: &[String]) -> Option<(f32, Range<usize>)> {
        let sought: String = phrase.iter().flat_map(|word| word.chars()).collect();
        let mut best: Option<(f32, Range<usize>)> = None;
        for start in 0..self.words.len() {
            let shortest = start + phrase.len().saturating_sub(MORE_WORDS).max(1);
            let longest = (start + phrase.len() + MORE_WORDS).min(self.words.len());
            for end in shortest..=longest {
                let heard = self.joined(start..end);
                let (length, wanted) = (heard.len() as f32, sought.len() as f32);
                if length < wanted * 0.5 || length > wanted * 1.7 {
                    continue;
                }
                let distance = relative_distance(&heard, &sought);
                if distance <= SIMILAR_PHRASE && best.as_ref().is_none_or(|(known, _)| distance < *known) {
                    best = Some((distance, start..end));
                }
            }
        }
        best
    }
}

/// The words of a label, in small letters.
fn words_of(label: &str) -> Vec<String> {
    Said::new(label).words.into_iter().map(|(_, word)| word).collect()
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '\''
}

fn is_number(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_digit())
}

/// Whether a word tells one thing from another.
fn tells(word: &str) -> bool {
    word.chars().count() > 2 && !is_number(word) && !COMMON.contains(&word)
}

/// The edit distance of two words or phrases by their letters, as a part of the longer one. Letters that sound
/// alike count half.
fn relative_distance(a: &str, b: &str) -> f32 {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let longer = a.len().max(b.len()).max(1);
    let mut row: Vec<f32> = (0..=b.len()).map(|place| place as f32).collect();
    for (above, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = above as f32 + 1.0;
        for (place, y) in b.iter().enumerate() {
            let change = if x == y {
                0.0
            } else if alike(*x, *y) {
                0.5
            } else {
                1.0
            };
            let best = (row[place + 1] + 1.0).min(row[place] + 1.0).min(diagonal + change);
            diagonal = row[place + 1];
            row[place + 1] = best;
        }
    }
    row[b.len()] / longer as f32
}

fn alike(a: char, b: char) -> bool {
    const VOWELS: [char; 6] = ['a', 'e', 'i', 'o', 'u', 'y'];
    const PAIRS: [(char, char); 11] = [
        ('d', 't'),
        ('b', 'p'),
        ('g', 'k'),
        ('c', 'k'),
        ('c', 'g'),
        ('s', 'z'),
        ('c', 's'),
        ('f', 'v'),
        ('m', 'n'),
        ('l', 'r'),
        ('g', 'j'),
    ];
    VOWELS.contains(&a) && VOWELS.contains(&b) || PAIRS.contains(&(a.min(b), a.max(b)))
}

/// How a place with a short name is asked for.
const PLACES: [(&[&str], &[&str]); 5] = [
    (&["open"], &[]),
    (&["open", "the"], &[]),
    (&["open", "the"], &["page"]),
    (&["go", "to"], &[]),
    (&["go", "to", "the"], &["page"]),
];
const ARTICLES: [&str; 5] = ["a", "an", "the", "my", "your"];
const PREPOSITIONS: [&str; 9] = ["to", "in", "into", "on", "from", "with", "for", "of", "at"];
/// Words that are said everywhere, and tell nothing.
const COMMON: [&str; 19] = [
    "the", "and", "for", "with", "what", "how", "many", "your", "you", "come", "are", "this", "that", "now",
    "off", "from", "into", "can", "not",
];
/// How much of a phrase may differ from what was understood for it to be looked at.
const SIMILAR_PHRASE: f32 = 0.6;
const SIMILAR_WORD: f32 = 0.5;
/// What each word of a whole phrase counts, where a word by itself counts one.
const IN_PHRASE: f32 = 1.5;
/// How many words more or less than a phrase has may be that phrase.
const MORE_WORDS: usize = 2;
const LONGEST_PHRASE: usize = 8;
/// Labels that are looked at, and what is made of them.
const MOST_LABELS: usize = 512;
const MOST_PHRASES: usize = 512;
const MOST_WORDS: usize = 512;
/// Words of a transcript beyond which it is no command.
const MOST_SAID: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Hints {
        Hints::new([
            "Add honey to the cart",
            "Turn dark mode on or off",
            "Cancel order 1042, Coffee beans and rye bread",
            "Your orders",
            "Help",
        ])
    }

    #[test]
    fn labels_become_what_is_said() {
        let hints = shop();
        let has = |phrase: &str| hints.phrases.contains(&phrase.split(' ').map(str::to_owned).collect());
        for phrase in [
            "add honey to the cart",
            "add honey",
            "turn on dark mode",
            "turn dark mode off",
            "cancel the order",
            "open the orders page",
            "go to help",
        ] {
            assert!(has(phrase), "{phrase}");
        }
        assert!(!has("turn dark mode on or off") && !has("open the your orders"));
        assert!(
            hints.words.contains("coffee") && !hints.words.contains("the") && !hints.words.contains("1042")
        );
        assert!(Hints::new([""; 3]).is_empty() && !hints.is_empty());
    }

    #[test]
    fn what_may_have_been_meant_is_found_within_what_was_understood() {
        let hints = shop();
        let found = |text: &str, meant: &str| hints.alternatives(text, 12).contains(&meant.to_owned());
        assert!(found("At honey to the card.", "Add honey to the cart."));
        assert!(found("Please and honey to the cart, now.", "Please add honey to the cart, now."));
        assert!(found("Can Sylvia order?", "Cancel the order?"));
        assert!(found("Turned on dark moody.", "Turned on dark mode."));
        let search = Hints::new(["Search for products"]);
        assert!(search.alternatives("So, for coffee.", 12).contains(&"Search for coffee.".to_owned()));
        assert!(found("What's in my kart?", "What's in my cart?"));
        // What was said is not an alternative to itself, and nothing is far-fetched.
        assert!(
            !hints.alternatives("Add honey to the cart.", 12).iter().any(|text| text.contains("honey honey"))
        );
        assert_eq!(hints.alternatives("Why?", 12), Vec::<String>::new());
        assert_eq!(hints.alternatives(&"on and ".repeat(200), 12), Vec::<String>::new());
        assert_eq!(hints.alternatives("", 12), Vec::<String>::new());
    }

    #[test]
    fn whole_phrases_count_more_than_words() {
        let hints = shop();
        assert_eq!(hints.count("Add honey to the cart."), 7.5);
        assert_eq!(hints.count("Honey in the cart."), 2.0);
        assert_eq!(hints.count("It rains."), 0.0);
    }

    #[test]
    fn hints_are_bounded() {
        let many: Vec<String> = (0..10_000).map(|n| format!("Open drawer{n} of cupboard{n}")).collect();
        let hints = Hints::new(many.iter().map(String::as_str));
        assert!(hints.phrases.len() <= MOST_PHRASES && hints.words.len() <= MOST_WORDS);
    }
}
