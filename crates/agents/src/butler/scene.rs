//! Questions about what there is to see, answered in the words of the scene.

use serde_json::Value;

use super::hearing::{Heard, Word, words_of, words_of_name};
use super::offer::shortened;

/// The sentences of a scene, and what its data says.
pub(super) fn sentences(scene: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in scene.lines().map(|line| line.trim().trim_start_matches(['-', '*', '•', '#', '|', ' '])) {
        let data = line.find(['{', '[']).and_then(|start| serde_json::from_str::<Value>(&line[start..]).ok());
        match data {
            Some(data) => facts("", &data, 0, &mut found),
            None => found.extend(cut(line).map(str::to_owned)),
        }
        if found.len() >= MAX_SENTENCES {
            break;
        }
    }
    found.retain(|sentence| sentence.contains(char::is_alphanumeric));
    found.truncate(MAX_SENTENCES);
    // What the page is called, it mostly says itself.
    if found.len() > 1 && found.first().is_some_and(|first| first.starts_with("Page: ")) {
        found.remove(0);
    }
    found
}

/// What data says, one sentence for each thing that has a name: "cart: items 2, total 12.50".
fn facts(name: &str, data: &Value, depth: usize, found: &mut Vec<String>) {
    if depth > MAX_DEPTH || found.len() >= MAX_SENTENCES {
        return;
    }
    match data {
        Value::Object(fields) => {
            let plain = fields
                .iter()
                .filter_map(|(name, value)| Some(format!("{} {}", spelled(name), plain(value)?)));
            let plain: Vec<String> = plain.collect();
            if !plain.is_empty() {
                let plain = plain.join(", ");
                found.push(if name.is_empty() { plain } else { format!("{name}: {plain}") });
            }
            for (inner, value) in fields.iter().filter(|(_, value)| plain_is_none(value)) {
                facts(&spelled(inner), value, depth + 1, found);
            }
        }
        Value::Array(items) => {
            let plain: Vec<String> = items.iter().filter_map(plain).collect();
            if !plain.is_empty() {
                found.push(format!("{name}: {}", plain.join(", ")));
            }
            for item in items.iter().filter(|item| plain_is_none(item)) {
                facts(name, item, depth + 1, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn plain_is_none(value: &Value) -> bool {
    plain(value).is_none()
}

fn spelled(name: &str) -> String {
    let words: Vec<String> = words_of_name(name).into_iter().map(|word| word.text).collect();
    words.join(" ")
}

/// The first sentences, as many as somebody likes to hear; none if there are none.
pub(super) fn beginning(scene: &str, count: usize) -> Option<String> {
    spoken(sentences(scene).iter().map(String::as_str).take(count))
}

/// The sentences that have to do with a question, in their order; none if there are none.
pub(super) fn about(question: &Heard<'_>, scene: &str) -> Option<String> {
    let words = question.tokens.iter().map(|token| &token.word).filter(|word| word.has_content());
    let words: Vec<&Word> = words.take(MAX_ASKED).collect();
    // What is written as one word may be heard as two.
    let joined = words.windows(2).filter_map(|pair| Some(pair.first()?.joined(pair.get(1)?)));
    let asked: Vec<Word> = joined.chain(words.iter().copied().cloned()).collect();
    let sentences = sentences(scene);
    let all: Vec<(&str, Vec<Word>)> =
        sentences.iter().map(|sentence| (sentence.as_str(), words_of(sentence))).collect();
    let close = |word: &Word, words: &[Word]| {
        let content = words.iter().filter(|word| word.has_content());
        content.map(|other| word.closeness(other)).fold(0.0, f64::max)
    };
    let count = all.len() as f64;
    // What is said in every sentence tells nothing about one of them.
    let weight = |word: &Word| {
        let having = all.iter().filter(|(_, words)| close(word, words) >= CLOSE).count() as f64;
        (1.0 + count / having.max(1.0)).ln()
    };
    let asked: Vec<(&Word, f64)> = asked.iter().map(|word| (word, weight(word))).collect();
    let score = |words: &[Word]| -> f64 {
        let found = asked.iter().map(|(word, weight)| (close(word, words), weight));
        found.filter(|(close, _)| *close >= CLOSE).map(|(close, weight)| close * weight).sum()
    };
    let scores: Vec<f64> = all.iter().map(|(_, words)| score(words)).collect();
    let best = scores.iter().copied().fold(0.0, f64::max);
    if best == 0.0 {
        return None;
    }
    let told = all
        .iter()
        .zip(&scores)
        .filter(|(_, score)| **score >= 0.7 * best)
        .map(|((sentence, _), _)| *sentence);
    spoken(told.take(MAX_TOLD))
}

fn spoken<'s>(sentences: impl Iterator<Item = &'s str>) -> Option<String> {
    let sentences: Vec<String> =
        sentences.map(|sentence| ended(&shortened(sentence, MAX_SENTENCE))).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// A sentence with its end.
pub(super) fn ended(sentence: &str) -> String {
    let sentence = sentence.trim().trim_end_matches([',', ';', ':']);
    if sentence.ends_with(['.', '!', '?', '…']) { sentence.to_owned() } else { format!("{sentence}.") }
}

fn cut(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (first, after) = super::offer::first_sentence(rest);
        rest = after;
        (!first.is_empty()).then_some(first)
    })
}

/// How close a word has to be to one that was asked for.
const CLOSE: f64 = 0.7;
/// Sentences of a scene that are looked at.
const MAX_SENTENCES: usize = 200;
/// Words of a question that are looked for.
const MAX_ASKED: usize = 16;
/// How deep data is looked into.
const MAX_DEPTH: usize = 6;
/// Sentences that are told at once.
const MAX_TOLD: usize = 3;
/// Letters of a sentence that are told.
const MAX_SENTENCE: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: &str = "Orders page. You have 3 orders, the last one is on its way.\n\
        - Order 17: a blue mug, delivered\n- Order 18: two teapots, 24.50 euros\nYour cart is empty.";

    #[test]
    fn a_scene_is_cut_into_sentences() {
        let found = sentences(SCENE);
        assert_eq!(found.len(), 5);
        assert_eq!(found[3], "Order 18: two teapots, 24.50 euros");
        assert!(sentences(" \n-\n").is_empty());
        assert_eq!(beginning(SCENE, 1).unwrap(), "Orders page.");
        assert_eq!(beginning("", 3), None);
    }

    #[test]
    fn data_is_put_into_words() {
        let scene = "Page: Cart\nTwo things.\nData: {\"cartItems\":[{\"name\":\"mug\",\"count\":2},\"tea\"],\"open\":true,\"x\":null}";
        assert_eq!(
            sentences(scene),
            ["Two things.", "open yes", "cart items: tea", "cart items: name mug, count 2"]
        );
        assert_eq!(sentences("Page: Cart"), ["Page: Cart"]);
        assert_eq!(sentences("a {b} c"), ["a {b} c"]);
        assert!(sentences(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_empty());
    }

    #[test]
    fn questions_find_their_sentences() {
        let answer = |question: &str| about(&Heard::new(question), SCENE);
        assert_eq!(answer("what is in my basket").unwrap(), "Your cart is empty.");
        assert_eq!(answer("what about the teapot").unwrap(), "Order 18: two teapots, 24.50 euros.");
        assert_eq!(answer("which order has the blue mug").unwrap(), "Order 17: a blue mug, delivered.");
        assert_eq!(answer("how is the weather"), None);
        assert_eq!(answer("what is it"), None);
    }
}
