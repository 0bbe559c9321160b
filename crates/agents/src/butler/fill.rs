//! The values that a tool needs, out of what was said.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value, json};

use super::choose::{Request, flag};
use super::offer::{Choice, Offer, Param, Shape};
use super::words::{BEFORE_VALUE, INTO, SAYING, Verb};

/// Numbers of words in the vocabulary.
pub(super) type Words = BTreeSet<usize>;

/// Why something cannot be done yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Gap {
    /// This value was not said.
    Missing,
    /// It could be either of these.
    Either(String, String),
    /// It is not what it has to be.
    Wrong(String),
    /// It is nothing that can be said.
    Unspeakable,
}

/// The arguments of a tool, as far as they were said, and the value that is still open.
pub(super) fn args(request: &Request<'_>, offer: &Offer<'_>) -> (Map<String, Value>, Option<(usize, Gap)>) {
    let mut args = Map::new();
    let mut open = None;
    let mut numbers = request.numbers.iter().filter(|number| !is_pronoun(request, &number.places));
    let text = text_places(request, offer);
    for (index, param) in offer.params.iter().enumerate() {
        let said = match &param.shape {
            Shape::Fixed(value) => Some(Ok(value.clone())),
            Shape::Choice(choices) => chosen(request, choices, param.required),
            Shape::Flag => flag_of(request).map(|flag| Ok(json!(flag))),
            Shape::Number { whole, least, most } => {
                numbers.next().map(|number| in_bounds(number.value, *whole, *least, *most))
            }
            Shape::Text { most } if text_param(offer) == Some(index) => {
                let places = text.clone().filter(|places| !places.is_empty());
                places.map(|places| Ok(json!(kept(request.heard.said(places), *most))))
            }
            Shape::Text { .. } | Shape::Other => None,
        };
        match said {
            Some(Ok(value)) => {
                args.insert(param.name.clone(), value);
            }
            // What need not be there is left out.
            Some(Err(_)) | None if !param.required => {}
            Some(Err(gap)) => open = open.or(Some((index, gap))),
            None => match (&param.default, &param.shape) {
                (Some(default), _) => {
                    args.insert(param.name.clone(), default.clone());
                }
                (None, Shape::Other) => open = open.or(Some((index, Gap::Unspeakable))),
                (None, _) => open = open.or(Some((index, Gap::Missing))),
            },
        }
    }
    (args, open)
}

/// The value that somebody has answered with when they were asked for it.
pub(super) fn answered(request: &Request<'_>, param: &Param) -> Result<Value, Gap> {
    match &param.shape {
        Shape::Choice(choices) => chosen(request, choices, true).unwrap_or(Err(Gap::Missing)),
        Shape::Flag => flag(request.heard).map(|flag| json!(flag)).ok_or(Gap::Missing),
        Shape::Number { whole, least, most } => {
            let number = request.numbers.first().ok_or(Gap::Missing)?;
            in_bounds(number.value, *whole, *least, *most)
        }
        Shape::Text { most } => {
            let places = 0..request.heard.without_courtesy();
            let said = request.heard.said(places);
            if said.is_empty() { Err(Gap::Missing) } else { Ok(json!(kept(said, *most))) }
        }
        Shape::Fixed(value) => Ok(value.clone()),
        Shape::Other => Err(Gap::Unspeakable),
    }
}

/// Where the text stands that a tool is to be given: in quotation marks, after "to" and the like, before the
/// name of what takes it, or after it.
pub(super) fn text_places(request: &Request<'_>, offer: &Offer<'_>) -> Option<Range<usize>> {
    let param = offer.params.get(text_param(offer)?)?;
    let tokens = &request.heard.tokens;
    let end = request.heard.without_courtesy();
    let quoted = quoted(request);
    if quoted.is_some() {
        return quoted;
    }
    let matched = |place: usize| request.fit(place, offer) >= MATCHED;
    let first = (0..end).find(|place| matched(*place))?;
    let saying = (first + 1..end).find(|place| tokens[*place].word.is_one_of(SAYING));
    if let Some(place) = saying.filter(|place| place + 1 < end) {
        return Some(place + 1..end);
    }
    if !param.required {
        return None;
    }
    let named = |places: Range<usize>| -> Words {
        let words = offer.name.iter().copied();
        words.filter(|word| places.clone().any(|place| request.may_be(place, *word))).collect()
    };
    for place in first + 1..end {
        let follows = (first..place).rev().find(|before| !tokens[*before].word.is_filler());
        let follows = follows.is_some_and(|before| matched(before) || tokens[before].word.is_kind());
        let (before, after) = (named(0..place), named(place + 1..end));
        if tokens[place].word.is_one_of(BEFORE_VALUE)
            && follows
            && place + 1 < end
            && after.is_subset(&before)
        {
            return Some(place + 1..end);
        }
    }
    if let Some(places) = between(request, offer, end, &named) {
        return Some(places);
    }
    let start = (first + 1..end).find(|place| tokens[*place].word.has_content() && !matched(*place))?;
    Some(start..end)
}

/// The text in "type … into the field".
fn between(
    request: &Request<'_>,
    offer: &Offer<'_>,
    end: usize,
    named: &impl Fn(Range<usize>) -> Words,
) -> Option<Range<usize>> {
    let tokens = &request.heard.tokens;
    let start = tokens.iter().position(|token| token.word.verb == Some(Verb::Set))? + 1;
    let into = (start + 1..end).rev().find(|place| tokens[*place].word.is_one_of(INTO))?;
    let goal = |place: usize| request.fit(place, offer) >= MATCHED || !tokens[place].word.has_content();
    let named_after = !named(into + 1..end).is_empty() && (into + 1..end).all(goal);
    (named_after && named(start..into).is_empty()).then_some(start..into)
}

/// The text in quotation marks.
fn quoted(request: &Request<'_>) -> Option<Range<usize>> {
    let text = request.heard.text;
    let open = text.find(QUOTES)?;
    let start = open + text[open..].chars().next()?.len_utf8();
    let end = start + text[start..].find(QUOTES)?;
    let tokens = &request.heard.tokens;
    let first = tokens.iter().position(|token| token.span.start >= start)?;
    let count = tokens.iter().skip(first).take_while(|token| token.span.end <= end).count();
    (count > 0).then_some(first..first + count)
}

/// The value that takes a text.
fn text_param(offer: &Offer<'_>) -> Option<usize> {
    let texts = || {
        let params = offer.params.iter().enumerate();
        params.filter(|(_, param)| matches!(param.shape, Shape::Text { .. }))
    };
    let required = texts().find(|(_, param)| param.required).map(|(index, _)| index);
    required.or_else(|| texts().map(|(index, _)| index).next().filter(|_| texts().count() == 1))
}

/// One of several values, if one was said.
fn chosen(request: &Request<'_>, choices: &[Choice], required: bool) -> Option<Result<Value, Gap>> {
    let mut rated: Vec<(f64, &Choice)> =
        choices.iter().map(|choice| (cover(request, choice), choice)).collect();
    let size = |choice: &Choice| choice.names.iter().map(BTreeSet::len).max();
    // Of two that were said wholly, the longer one was meant.
    rated.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(size(y).cmp(&size(x))));
    let (best, choice) = rated.first()?;
    if *best < if required { 0.6 } else { 0.9 } {
        return None;
    }
    match rated.get(1) {
        Some((next, other)) if best - next < 0.1 && size(other) == size(choice) => {
            Some(Err(Gap::Either(choice.label.clone(), other.label.clone())))
        }
        _ => Some(Ok(choice.value.clone())),
    }
}

fn cover(request: &Request<'_>, choice: &Choice) -> f64 {
    let number: Option<f64> = choice.label.parse().ok();
    if number.is_some_and(|number| request.numbers.iter().any(|said| said.value == number)) {
        return 1.0;
    }
    request.cover_of_choice(choice, None)
}

/// Whether something is to be in force: said, or meant with "use" and "switch to".
fn flag_of(request: &Request<'_>) -> Option<bool> {
    let to = request.heard.tokens.windows(2).any(|pair| match pair {
        [first, second] => first.word.verb == Some(Verb::Switch) && second.word.text == "to",
        _ => false,
    });
    request.flag.or_else(|| (to || request.verbs.contains(&Verb::Set)).then_some(true))
}

fn in_bounds(value: f64, whole: bool, least: Option<f64>, most: Option<f64>) -> Result<Value, Gap> {
    let wrong = |text: String| Err(Gap::Wrong(text));
    match (least, most) {
        (Some(least), Some(most)) if value < least || value > most => {
            return wrong(format!("It has to be between {least} and {most}."));
        }
        (Some(least), _) if value < least => return wrong(format!("It has to be at least {least}.")),
        (_, Some(most)) if value > most => return wrong(format!("It can be at most {most}.")),
        _ => {}
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked: whole, and small enough to be exact")]
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Ok(json!(value as i64));
    }
    if whole { wrong("It has to be a whole number.".to_owned()) } else { Ok(json!(value)) }
}

/// Whether a number is none, as in "the blue one".
fn is_pronoun(request: &Request<'_>, places: &Range<usize>) -> bool {
    let tokens = &request.heard.tokens;
    let one = tokens.get(places.start).is_some_and(|token| token.word.text == "one");
    let before = places.start.checked_sub(1).and_then(|before| tokens.get(before));
    let last = request.heard.without_courtesy() == places.end;
    one && last
        && before.is_some_and(|before| {
            before.word.has_content() || before.word.is_one_of(&["this", "that", "which", "the"])
        })
}

/// At most so many letters.
fn kept(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

const QUOTES: [char; 5] = ['"', '\u{201c}', '\u{201d}', '\u{201e}', '\u{ab}'];
/// From where on a word is taken for one of the tool.
const MATCHED: f64 = 0.5;
