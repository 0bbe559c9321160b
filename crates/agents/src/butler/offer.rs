//! What can be done, in words: the tools that are offered, as somebody may speak of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use switchboard_core::model::Tool;

use super::hearing::{Sense, Word, words_of, words_of_name};
use super::words::{FOR_MODELS, PLACES, Verb};

/// All that can be done now.
#[derive(Debug)]
pub(super) struct Offers<'a> {
    pub(super) offers: Vec<Offer<'a>>,
    pub(super) vocabulary: Vocabulary,
}

/// Something that can be done.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    pub(super) tool: &'a Tool,
    /// The words that speak of it, by their number, and how much they say.
    pub(super) weights: BTreeMap<usize, f64>,
    /// The words of its name that tell it from others.
    pub(super) name: BTreeSet<usize>,
    /// What it does, in the words of its name, or as its description begins.
    pub(super) deeds: BTreeSet<Sense>,
    /// What its description speaks of besides.
    pub(super) mentions: BTreeSet<Sense>,
    pub(super) verbs: Vec<Verb>,
    pub(super) params: Vec<Param>,
}

/// A value that has to be, or may be, given.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) default: Option<Value>,
    pub(super) shape: Shape,
}

/// What a value has to be.
#[derive(Debug)]
pub(super) enum Shape {
    /// One of these.
    Choice(Vec<Choice>),
    /// Words, at most so many letters.
    Text { most: usize },
    /// A number within bounds.
    Number { whole: bool, least: Option<f64>, most: Option<f64> },
    /// Yes or no.
    Flag,
    /// Always the same.
    Fixed(Value),
    /// Something that nobody says in a few words.
    Other,
}

/// One of several values.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) value: Value,
    /// How it is spoken of.
    pub(super) label: String,
    /// The numbers of its words: those of the value, and those of its title.
    pub(super) names: Vec<BTreeSet<usize>>,
}

/// Every word that speaks of something that can be done.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub(super) words: Vec<Word>,
    numbers: BTreeMap<String, usize>,
    /// In how many offers a word occurs.
    offers: Vec<u32>,
    size: u32,
}

impl Vocabulary {
    fn number(&mut self, word: &Word) -> usize {
        // Of a verb and a thing with the same stem, one is not the other.
        let key = if word.verb.is_some() { word.text.clone() } else { format!("{}*", word.stem) };
        let next = self.words.len();
        *self.numbers.entry(key).or_insert_with(|| {
            self.words.push(word.clone());
            self.offers.push(0);
            next
        })
    }

    fn count(&mut self, offer: &Offer<'_>) {
        self.size += 1;
        for word in offer.weights.keys() {
            if let Some(count) = self.offers.get_mut(*word) {
                *count += 1;
            }
        }
    }

    /// How well a word tells one offer from the others, above 0 and up to 1.
    pub(super) fn salience(&self, word: usize) -> f64 {
        let all = f64::from(self.size.max(1));
        let having = f64::from(self.offers.get(word).copied().unwrap_or_default().max(1));
        (1.0 + all / having).ln() / (1.0 + all).ln()
    }
}

impl<'a> Offers<'a> {
    /// What these tools offer to somebody who speaks.
    pub(super) fn new(tools: impl IntoIterator<Item = &'a Tool>) -> Self {
        let mut vocabulary = Vocabulary::default();
        let mut offers = Vec::new();
        let tools = tools.into_iter().filter(|tool| !FOR_MODELS.contains(&tool.name.as_str()));
        for tool in tools.take(MAX_OFFERS) {
            let offer = Offer::new(tool, &mut vocabulary);
            vocabulary.count(&offer);
            offers.push(offer);
        }
        Self { offers, vocabulary }
    }
}

impl<'a> Offer<'a> {
    fn new(tool: &'a Tool, vocabulary: &mut Vocabulary) -> Self {
        let mut offer = Self {
            tool,
            weights: BTreeMap::new(),
            name: BTreeSet::new(),
            deeds: BTreeSet::new(),
            mentions: BTreeSet::new(),
            verbs: Vec::new(),
            params: params(&tool.input_schema, vocabulary),
        };
        let name = words_of_name(tool.name.as_str());
        for word in &name {
            offer.does(word);
            if let Some(number) = offer.speaks(word, NAME, vocabulary) {
                offer.name.insert(number);
            }
        }
        // "checkout" is also said of what is called check_out.
        for pair in name.windows(2) {
            if let [first, second] = pair {
                offer.speaks(&first.joined(second), NAME, vocabulary);
            }
        }
        let (first, rest) = first_sentence(&tool.description);
        for (place, word) in words_of(first).iter().enumerate() {
            if place == 0 {
                offer.does(word);
            }
            offer.mentions.extend(word.sense.filter(|sense| matches!(sense, Sense::Deed(_))));
            offer.speaks(word, DESCRIPTION, vocabulary);
        }
        for word in words_of(rest) {
            offer.speaks(&word, DETAIL, vocabulary);
        }
        let params = std::mem::take(&mut offer.params);
        for param in &params {
            for word in words_of_name(&param.name) {
                offer.speaks(&word, PARAMETER, vocabulary);
            }
            if let Shape::Choice(choices) = &param.shape {
                for word in choices.iter().flat_map(|choice| &choice.names).flatten() {
                    offer.weighs(*word, NAME);
                }
            }
        }
        offer.params = params;
        offer
    }

    fn does(&mut self, word: &Word) {
        if let Some(deed @ Sense::Deed(_)) = word.sense {
            self.deeds.insert(deed);
        }
        self.verbs.extend(word.verb);
    }

    fn speaks(&mut self, word: &Word, weight: f64, vocabulary: &mut Vocabulary) -> Option<usize> {
        if !word.has_content() {
            return None;
        }
        let number = vocabulary.number(word);
        self.weighs(number, weight);
        Some(number)
    }

    fn weighs(&mut self, word: usize, weight: f64) {
        let known = self.weights.entry(word).or_insert(weight);
        *known = known.max(weight);
    }

    /// Whether it leads somewhere.
    pub(super) fn is_way(&self) -> bool {
        self.verbs.contains(&Verb::Open) || self.places().is_some()
    }

    /// Where it leads to, if there is a choice.
    pub(super) fn places(&self) -> Option<&[Choice]> {
        self.params.iter().find_map(|param| match &param.shape {
            Shape::Choice(choices) if PLACES.contains(&param.name.as_str()) => Some(choices.as_slice()),
            Shape::Choice(_)
            | Shape::Text { .. }
            | Shape::Number { .. }
            | Shape::Flag
            | Shape::Fixed(_)
            | Shape::Other => None,
        })
    }

    /// Whether one of these arguments is in somebody's own words.
    pub(super) fn takes_text(&self, args: &Map<String, Value>) -> bool {
        let texts = self.params.iter().filter(|param| matches!(param.shape, Shape::Text { .. }));
        texts.into_iter().any(|param| args.contains_key(&param.name))
    }

    /// What it is for, in a few words that can stand within a sentence.
    pub(super) fn label(&self) -> String {
        let (first, _) = first_sentence(&self.tool.description);
        let first = first.split_once(": ").map_or(first, |(first, _)| first);
        let first = first.trim_end_matches(['.', '!', '?', ':']);
        let text = if first.is_empty() {
            let words: Vec<String> =
                words_of_name(self.tool.name.as_str()).into_iter().map(|word| word.text).collect();
            words.join(" ")
        } else {
            first.to_owned()
        };
        small(&shortened(&as_request(&text), MAX_LABEL))
    }
}

/// The text up to the end of its first sentence, and what follows.
pub(super) fn first_sentence(text: &str) -> (&str, &str) {
    let text = text.trim();
    let mut letters = text.char_indices().peekable();
    while let Some((place, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        if letter == '\n' || matches!(letter, '.' | '!' | '?') && next.is_none_or(char::is_whitespace) {
            let (first, rest) = text.split_at(place + letter.len_utf8());
            return (first.trim(), rest.trim());
        }
    }
    (text, "")
}

/// At most so many letters, cut between words.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else { return text.to_owned() };
    let kept = &text[..end];
    let kept = kept.rsplit_once(char::is_whitespace).map_or(kept, |(kept, _)| kept);
    format!("{}…", kept.trim_end_matches([',', ';', ':']))
}

/// What is described as "opens a page", as one asks for it.
fn as_request(text: &str) -> String {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let endings = ["ches", "shes", "sses", "xes", "oes"];
    let long = endings.iter().any(|ending| first.ends_with(ending));
    let is_verb = |plain: &str| {
        let word = words_of(plain).into_iter().next();
        word.is_some_and(|word| word.verb.is_some() || matches!(word.sense, Some(Sense::Deed(_))))
    };
    match first.strip_suffix(if long { "es" } else { "s" }) {
        Some(plain) if is_verb(plain) => format!("{plain} {rest}").trim_end().to_owned(),
        Some(_) | None => text.to_owned(),
    }
}

/// A sentence as it stands within another one.
fn small(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), second) if second.is_none_or(|second| !second.is_uppercase()) => {
            let rest = &text[first.len_utf8()..];
            first.to_lowercase().collect::<String>() + rest
        }
        _ => text.to_owned(),
    }
}

fn params(schema: &Value, vocabulary: &mut Vocabulary) -> Vec<Param> {
    let required = |name: &str| {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|required| required == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut params: Vec<Param> = properties
        .into_iter()
        .flatten()
        .take(MAX_PARAMS)
        .map(|(name, schema)| Param {
            name: name.clone(),
            required: required(name),
            default: schema.get("default").cloned(),
            shape: shape(schema, vocabulary),
        })
        .collect();
    // Whatever has to be there, but is described nowhere, cannot be said.
    let unknown = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in unknown.filter_map(Value::as_str).take(MAX_PARAMS) {
        if params.iter().all(|param| param.name != name) {
            let name = name.to_owned();
            params.push(Param { name, required: true, default: None, shape: Shape::Other });
        }
    }
    params
}

fn shape(schema: &Value, vocabulary: &mut Vocabulary) -> Shape {
    if let Some(value) = schema.get("const") {
        return Shape::Fixed(value.clone());
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let choices = values.iter().take(MAX_CHOICES).map(|value| choice(value, None, vocabulary));
        return Shape::Choice(choices.collect());
    }
    let either = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    if let Some(either) = either {
        let choices: Option<Vec<Choice>> = either
            .iter()
            .take(MAX_CHOICES)
            .map(|one| Some(choice(one.get("const")?, one.get("title").and_then(Value::as_str), vocabulary)))
            .collect();
        return choices.map_or(Shape::Other, Shape::Choice);
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    if kinds.contains(&"boolean") {
        Shape::Flag
    } else if kinds.contains(&"integer") || kinds.contains(&"number") {
        let whole = !kinds.contains(&"number");
        Shape::Number { whole, least: bound("minimum"), most: bound("maximum") }
    } else if kinds.contains(&"string") {
        let most =
            schema.get("maxLength").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
        Shape::Text { most: most.unwrap_or(MAX_TEXT).min(MAX_TEXT) }
    } else {
        Shape::Other
    }
}

fn choice(value: &Value, title: Option<&str>, vocabulary: &mut Vocabulary) -> Choice {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    // The root of all pages has no name of its own.
    let words = words_of_name(if text == "/" { "home" } else { &text });
    let label = title.map_or_else(
        || words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "),
        |title| shortened(title, MAX_LABEL),
    );
    let mut names = vec![spoken(&words, vocabulary)];
    names.extend(title.map(|title| spoken(&words_of(title), vocabulary)));
    Choice { value: value.clone(), names, label }
}

/// The numbers of words that name a choice. Here every word counts: where there is a choice, even "on" is one.
fn spoken(words: &[Word], vocabulary: &mut Vocabulary) -> BTreeSet<usize> {
    let telling = words.iter().filter(|word| !word.is_filler() || words.len() == 1);
    telling.map(|word| vocabulary.number(word)).collect()
}

/// How much a word of the name, and of a choice, says.
const NAME: f64 = 1.0;
/// How much a word of what it is for says.
const DESCRIPTION: f64 = 0.85;
/// How much a word of what else is said about it says.
const DETAIL: f64 = 0.5;
/// How much the name of a value says.
const PARAMETER: f64 = 0.6;
/// Tools that are looked at.
const MAX_OFFERS: usize = 512;
/// Values of a tool that are looked at.
const MAX_PARAMS: usize = 32;
/// Choices of a value that are looked at.
const MAX_CHOICES: usize = 256;
/// Letters of a text that is filled in.
const MAX_TEXT: usize = 4096;
/// Letters of what something is called in a sentence.
const MAX_LABEL: usize = 80;
