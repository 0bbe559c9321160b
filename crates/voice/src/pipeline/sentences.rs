//! Sentences out of text that comes in pieces.

/// Cuts a stream of text where one would take a breath.
#[derive(Debug, Default)]
pub(crate) struct Sentences {
    /// What has not ended yet.
    pending: String,
    /// Whether a sentence was given already: the first has to come early, the others need not.
    begun: bool,
}

impl Sentences {
    /// Takes a piece of text, and gives the sentences that are complete with it.
    pub(crate) fn push(&mut self, text: &str, into: &mut Vec<String>) {
        self.pending.push_str(text);
        while let Some(end) = self.end() {
            self.cut(end, into);
        }
    }

    /// There is no more: what is left is the last sentence.
    pub(crate) fn finish(&mut self, into: &mut Vec<String>) {
        while let Some(end) = self.end() {
            self.cut(end, into);
        }
        self.cut(self.pending.len(), into);
    }

    fn cut(&mut self, end: usize, into: &mut Vec<String>) {
        let rest = self.pending.split_off(end);
        let sentence = std::mem::replace(&mut self.pending, rest);
        let sentence = sentence.trim();
        if !sentence.is_empty() {
            self.begun = true;
            into.push(sentence.to_owned());
        }
    }

    /// Where the next sentence ends, if that is certain already.
    fn end(&self) -> Option<usize> {
        let text = self.pending.as_str();
        let most_words = if self.begun { MOST_WORDS } else { FIRST_WORDS };
        let mut words = 0;
        let mut clause = None;
        let mut after_space = true;
        let mut word_start = 0;
        for (at, character) in text.char_indices() {
            let end = at + character.len_utf8();
            if character == '\n' {
                if !text[..at].trim().is_empty() {
                    return Some(end);
                }
            } else if matches!(character, '。' | '！' | '？') {
                return Some(end);
            }
            if character.is_whitespace() {
                let so_far = text[..at].trim_end_matches(CLOSING);
                if !after_space {
                    words += 1;
                    if ends_sentence(so_far, text[word_start..at].trim_end_matches(CLOSING)) {
                        return Some(end);
                    }
                    if so_far.ends_with([',', ';', ':', '–', '—']) && words >= FEWEST_WORDS {
                        clause = Some(end);
                    }
                    if words >= most_words {
                        return Some(clause.unwrap_or(end));
                    }
                }
                after_space = true;
            } else {
                if after_space {
                    word_start = at;
                }
                after_space = false;
            }
            if end >= LONGEST {
                return Some(clause.unwrap_or(end));
            }
        }
        None
    }
}

/// Whether a sentence ends after this text, whose last word this is, and not just an abbreviation or a number
/// of a list.
fn ends_sentence(text: &str, last_word: &str) -> bool {
    if text.ends_with(['!', '?', '…']) {
        return true;
    }
    let Some(word) = last_word.strip_suffix('.') else {
        return false;
    };
    let word = word.trim_start_matches(['(', '"', '\'', '*', '_', '“']);
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase) && word != "I";
    let counts =
        !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) && text.trim_start() == last_word;
    let short = ABBREVIATIONS.iter().any(|known| known.eq_ignore_ascii_case(word));
    !initial && !counts && !short
}

const CLOSING: [char; 8] = ['"', '\'', ')', ']', '*', '_', '”', '’'];
const ABBREVIATIONS: [&str; 17] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "e.g", "i.e", "approx", "no", "nr", "z.b", "bzw",
    "ca", "usw",
];
/// Words after which the first sentence is spoken though it has not ended, so that something is heard soon.
const FIRST_WORDS: usize = 12;
/// Words after which any other sentence is.
const MOST_WORDS: usize = 40;
/// Words before a comma is worth a breath.
const FEWEST_WORDS: usize = 4;
/// Bytes of a sentence of a language without spaces.
const LONGEST: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let mut sentences = Sentences::default();
        let mut cut = Vec::new();
        sentences.push(text, &mut cut);
        sentences.finish(&mut cut);
        cut
    }

    #[test]
    fn sentences_end_where_one_would_take_a_breath() {
        assert_eq!(cut("Hello there. How are you? Fine!"), ["Hello there.", "How are you?", "Fine!"]);
        assert_eq!(cut("He said \"Stop.\" Then he left."), ["He said \"Stop.\"", "Then he left."]);
        assert_eq!(cut("# Title\n\n- one\n- two"), ["# Title", "- one", "- two"]);
        assert_eq!(cut("こんにちは。元気ですか？"), ["こんにちは。", "元気ですか？"]);
        assert_eq!(cut("no end at all"), ["no end at all"]);
        assert_eq!(cut("So do I. Good."), ["So do I.", "Good."]);
    }

    #[test]
    fn numbers_and_abbreviations_are_no_ends() {
        for whole in
            ["It is 3.5 degrees.", "Ask Dr. Smith, e.g. today.", "1. Open the door", "J. R. Smith is here."]
        {
            assert_eq!(cut(whole), [whole]);
        }
        assert_eq!(cut("It was 1999. Then it was 2000."), ["It was 1999.", "Then it was 2000."]);
    }

    #[test]
    fn a_sentence_is_given_as_soon_as_it_is_certain() {
        let mut sentences = Sentences::default();
        let mut given = Vec::new();
        for piece in ["Two app", "les are in", " the cart", "."] {
            sentences.push(piece, &mut given);
            assert!(given.is_empty(), "{piece}: {given:?}");
        }
        sentences.push(" An", &mut given);
        assert_eq!(given, ["Two apples are in the cart."]);
        sentences.finish(&mut given);
        assert_eq!(given[1..], ["An"]);
    }

    #[test]
    fn the_first_one_does_not_wait_for_its_end_for_long() {
        let long = "Well this is one of those answers that simply never come to any end whatsoever and go on";
        let mut sentences = Sentences::default();
        let mut given = Vec::new();
        sentences.push(long, &mut given);
        assert_eq!(given, ["Well this is one of those answers that simply never come to"]);
        let commas = "If you would like that, then I can open the settings and turn on everything for you";
        assert_eq!(cut(commas)[0], "If you would like that,");
        let short_first = format!("Sure. {long}");
        assert_eq!(cut(&short_first).len(), 2, "only the first is cut early");
    }

    #[test]
    fn pieces_of_any_size_give_the_same_sentences() {
        let text = "Hello, Dr. Who! It costs 3.50 at most; e.g. now. **Bold.** And:\n1. one\n2. two\nÜber 100 – gut.";
        let whole = cut(text);
        for size in 1..12 {
            let mut sentences = Sentences::default();
            let mut given = Vec::new();
            let characters: Vec<char> = text.chars().collect();
            for piece in characters.chunks(size) {
                sentences.push(&piece.iter().collect::<String>(), &mut given);
            }
            sentences.finish(&mut given);
            assert_eq!(given, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn nothing_is_lost_and_nothing_is_endless() {
        let endless = "a".repeat(5_000);
        let parts = cut(&endless);
        assert!(parts.iter().all(|part| part.len() <= LONGEST) && parts.concat() == endless);
        let wide = "é".repeat(2_000);
        assert_eq!(cut(&wide).concat(), wide);
        assert!(cut("").is_empty() && cut(" \n \n").is_empty());
    }
}
