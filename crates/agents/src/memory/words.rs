//! How much two texts have in common, word by word.
//!
//! Words are what stands between spaces and marks, in small letters. Of English words only the stem counts, and
//! those that stand in every sentence do not count at all. Where a script puts no spaces between words, each two
//! letters that follow each other count as one.

use std::collections::BTreeSet;

/// The share of the words that matter which both texts have, from 0 to 1: it is 1 where everything that the
/// shorter one says is found in the other, and 0 where one of them says nothing.
pub fn overlap(query: &str, memory: &str) -> f64 {
    let (query, memory) = (significant(query), significant(memory));
    let fewer = query.len().min(memory.len());
    if fewer == 0 {
        return 0.0;
    }
    query.intersection(&memory).count() as f64 / fewer as f64
}

/// The stems of the words that matter.
fn significant(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in text.split(|c: char| !is_part_of_word(c)).filter(|word| !word.is_empty()).take(MAX_WORDS) {
        let word: String = word.to_lowercase().chars().take(MAX_LETTERS).collect();
        if word.chars().any(is_unspaced) {
            found.extend(pairs(&word));
        } else if word.bytes().all(|b| b.is_ascii_lowercase()) {
            if word.len() > 1 && STOP_WORDS.binary_search(&word.as_str()).is_err() {
                found.insert(stem(word));
            }
        } else {
            found.insert(word);
        }
    }
    found
}

/// Letters and digits, and marks that belong to the letter before.
fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '\u{300}'..='\u{36f}' | '\u{94d}' | '\u{e31}'..='\u{e4e}')
}

/// Thai, Lao, Burmese, Khmer, Japanese and Chinese.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

fn pairs(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    if letters.len() == 1 {
        return vec![word.to_owned()];
    }
    letters.windows(2).map(|pair| pair.iter().collect()).collect()
}

/// What is left of an English word in small letters without its plural, its tense and its last e. No word of a
/// dictionary, but the same for all forms of most words.
pub(crate) fn stem(mut word: String) -> String {
    drop_plural(&mut word);
    drop_tense(&mut word);
    if word.len() > 2 && word.ends_with('e') {
        word.pop();
    }
    let end = word.as_bytes();
    if let [.., before, last] = end
        && end.len() > 3
        && before == last
        && !is_vowel(*last)
    {
        word.pop();
    }
    word
}

fn drop_plural(word: &mut String) {
    let drop = if word.len() < 4 || !word.ends_with('s') {
        return;
    } else if word.ends_with("ies") && word.len() > 4 {
        word.truncate(word.len() - 3);
        word.push('y');
        return;
    } else if ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        0
    } else if ["sses", "xes", "zzes", "ches", "shes", "oes"].iter().any(|end| word.ends_with(end))
        && word.len() > 4
    {
        2
    } else {
        1
    };
    word.truncate(word.len() - drop);
}

fn drop_tense(word: &mut String) {
    if word.len() > 4 && word.ends_with("ied") {
        word.truncate(word.len() - 3);
        word.push('y');
        return;
    }
    let Some(stem) = word.strip_suffix("ing").or_else(|| word.strip_suffix("ed")) else { return };
    // "bring" and "need" are whole.
    let whole = stem.len() < 2 || stem.ends_with('e') && word.ends_with("ed") || !stem.bytes().any(is_vowel);
    if !whole {
        word.truncate(stem.len());
    }
}

fn is_vowel(letter: u8) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

/// Words of one text that are looked at.
const MAX_WORDS: usize = 4096;
/// Letters of one word that count.
const MAX_LETTERS: usize = 64;

/// Words that say little by themselves, sorted. The parts of "don't" and the like are among them, and so are the
/// words with which one asks for a memory.
const STOP_WORDS: &[&str] = &[
    "about", "again", "all", "also", "am", "an", "and", "any", "are", "aren", "as", "at", "be", "because",
    "been", "being", "but", "by", "can", "could", "couldn", "did", "didn", "do", "does", "doesn", "doing",
    "don", "each", "for", "from", "get", "give", "had", "hadn", "has", "hasn", "have", "haven", "having",
    "he", "her", "here", "him", "his", "how", "if", "in", "into", "is", "isn", "it", "its", "just", "let",
    "ll", "may", "me", "might", "mine", "more", "most", "must", "my", "no", "not", "of", "on", "or", "our",
    "please", "re", "remember", "shall", "she", "should", "shouldn", "so", "some", "such", "tell", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "us",
    "user", "ve", "very", "was", "wasn", "we", "were", "weren", "what", "when", "where", "which", "who",
    "whom", "whose", "why", "will", "with", "won", "would", "wouldn", "yes", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_can_be_found() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn what_belongs_together_has_much_in_common() {
        for (query, memory, least) in [
            ("what do I like to drink in the morning?", "likes green tea in the morning", 0.6),
            ("Which dogs do I have?", "User has a dog called Rex.", 0.9),
            ("Can you recommend a restaurant? I'm hungry", "prefers vegetarian restaurants", 0.3),
            ("Where did my sister move?", "Ann's sister moved to Bern", 0.9),
            ("plan my running week", "Runs 10 km every week", 0.6),
            ("what am I allergic to", "Is allergic to peanuts", 0.9),
            ("MÖCHTE ICH EINEN KAFFEE?", "trinkt gerne kaffee", 0.3),
            ("私の好きなお茶は何ですか", "お茶が好きです", 0.5),
        ] {
            let share = overlap(query, memory);
            assert!(share >= least, "{query} / {memory}: {share}");
            assert!((share - overlap(memory, query)).abs() < 1e-12);
        }
    }

    #[test]
    fn what_does_not_has_little() {
        for (query, memory) in [
            ("what is the capital of France?", "likes green tea in the morning"),
            ("can you tell me what I should do about this?", "What I have is all that you are to do."),
            ("How do I sort a list in Rust?", "Lives in Bern with her two cats"),
            ("don't they?", "don't tell them"),
            ("天気はどう", "お茶が好きです"),
        ] {
            let share = overlap(query, memory);
            assert!(share < 0.1, "{query} / {memory}: {share}");
        }
    }

    #[test]
    fn the_shorter_side_counts() {
        assert_eq!(overlap("tea", "likes green tea in the morning"), 1.0);
        assert_eq!(overlap("likes green tea in the morning", "Tea!"), 1.0);
        assert_eq!(overlap("tea or coffee", "likes green tea in the morning"), 0.5);
        assert_eq!(
            (overlap("", "tea"), overlap("tea", ""), overlap("?!", "…"), overlap("the", "the")),
            (0.0, 0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn forms_of_a_word_are_the_same() {
        for forms in [
            &["like", "likes", "liked", "liking"][..],
            &["run", "runs", "running"],
            &["city", "cities"],
            &["study", "studies", "studied", "studying"],
            &["box", "boxes"],
            &["dish", "dishes"],
            &["house", "houses", "housing"],
            &["bus", "buses"],
            &["tomato", "tomatoes"],
            &["fall", "falls", "falling"],
            &["control", "controls", "controlled", "controlling"],
            &["need", "needs", "needed", "needing"],
            &["use", "uses", "used", "using"],
            &["bring", "brings", "bringing"],
        ] {
            let stems: BTreeSet<String> = forms.iter().map(|form| stem((*form).to_owned())).collect();
            assert_eq!(stems.len(), 1, "{forms:?}: {stems:?}");
        }
        for word in ["bed", "red", "sing", "ring", "gas", "glass", "this"] {
            assert!(stem(word.to_owned()).len() + 1 >= word.len(), "{word}");
        }
    }

    #[test]
    fn marks_belong_to_their_letters() {
        assert_eq!(significant("cafe\u{301}").len(), 1);
        assert_eq!(significant("l'eau d'Évian"), BTreeSet::from(["eau".to_owned(), "évian".to_owned()]));
        assert_eq!(significant("C3PO 42"), BTreeSet::from(["c3po".to_owned(), "42".to_owned()]));
    }

    #[test]
    fn long_texts_are_bounded() {
        let long = "word ".repeat(1_000_000) + "tea";
        assert_eq!(overlap(&long, "tea"), 0.0);
        assert_eq!(significant(&"x".repeat(100_000)), BTreeSet::from(["x".repeat(MAX_LETTERS - 1)]));
    }
}
