//! Numbers, in digits and in words.

use std::ops::Range;

use super::hearing::Heard;
use super::words::NUMBERS;

/// A number, and where it was said.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) places: Range<usize>,
}

/// The numbers that were said, in their order.
pub(super) fn numbers(heard: &Heard<'_>) -> Vec<Number> {
    let mut found = Vec::new();
    let mut place = 0;
    while place < heard.tokens.len() {
        match number(heard, place) {
            Some(number) => {
                place = number.places.end;
                found.push(number);
            }
            None => place += 1,
        }
    }
    found
}

/// The number that begins here: "minus three point five", "a hundred and twenty", "1,000".
fn number(heard: &Heard<'_>, start: usize) -> Option<Number> {
    let word = |place: usize| heard.tokens.get(place).map(|token| token.word.text.as_str());
    let mut place = start;
    let negative = matches!(word(place), Some("minus" | "negative")) || {
        let before = heard.tokens.get(place)?.span.start;
        word(place).is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            && heard.text[..before].ends_with('-')
            && !heard.text[..before - 1].ends_with(char::is_alphanumeric)
    };
    if matches!(word(place), Some("minus" | "negative")) {
        place += 1;
    }
    let mut value;
    if let Some(digits) = word(place).and_then(digits) {
        value = digits;
        place += 1;
    } else {
        (value, place) = in_words(&word, place)?;
    }
    if word(place) == Some("point")
        && let Some(tenths) = word(place + 1).and_then(small).filter(|tenths| *tenths < 10.0)
    {
        value += tenths / 10.0;
        place += 2;
    }
    Some(Number { value: if negative { -value } else { value }, places: start..place })
}

/// A whole number in words, and where it ends.
fn in_words<'w>(word: &impl Fn(usize) -> Option<&'w str>, start: usize) -> Option<(f64, usize)> {
    let mut place = start;
    let scale = |place: usize| match word(place) {
        Some("hundred") => Some(100.0),
        Some("thousand") => Some(1000.0),
        Some("million") => Some(1_000_000.0),
        _ => None,
    };
    if word(place) == Some("a") && scale(place + 1).is_some() {
        place += 1;
    }
    let (mut whole, mut part) = (0.0, 0.0);
    let mut known = false;
    loop {
        if let Some(small) = word(place).and_then(small) {
            // "two five" are two numbers, "twenty five" is one.
            if known && !(part % 100.0 == 0.0 || part % 100.0 >= 20.0 && part % 10.0 == 0.0 && small < 10.0) {
                break;
            }
            part += small;
        } else if let Some(times) = scale(place) {
            let counted = if part == 0.0 { 1.0 } else { part };
            if times > 100.0 {
                whole += counted * times;
                part = 0.0;
            } else {
                part = counted * times;
            }
        } else if known && word(place) == Some("and") && scale(place - 1).is_some() && {
            word(place + 1).and_then(small).is_some()
        } {
            place += 1;
            continue;
        } else {
            break;
        }
        known = true;
        place += 1;
    }
    known.then_some((whole + part, place))
}

fn small(word: &str) -> Option<f64> {
    NUMBERS.iter().find(|(name, _)| *name == word).map(|(_, value)| f64::from(*value))
}

fn digits(word: &str) -> Option<f64> {
    let plain: String = word.chars().filter(|c| *c != ',').collect();
    let number = plain.starts_with(|c: char| c.is_ascii_digit())
        && plain.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    number.then(|| plain.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_understood() {
        for (text, wanted) in [
            ("three", &[3.0][..]),
            ("set it to 25 percent", &[25.0]),
            ("twenty five and two five", &[25.0, 2.0, 5.0]),
            ("a hundred and twenty", &[120.0]),
            ("two thousand three hundred forty one", &[2341.0]),
            ("one hundred and orders", &[100.0]),
            ("minus five, -7 and a-8", &[-5.0, -7.0, 8.0]),
            ("3.5 and three point five", &[3.5, 3.5]),
            ("1,000", &[1000.0]),
            ("a mug and 2nd", &[]),
            ("hundred", &[100.0]),
            ("", &[]),
        ] {
            let found: Vec<f64> = numbers(&Heard::new(text)).iter().map(|number| number.value).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }

    #[test]
    fn numbers_know_where_they_stand() {
        let heard = Heard::new("add twenty one mugs");
        assert_eq!(numbers(&heard), [Number { value: 21.0, places: 1..3 }]);
    }
}
