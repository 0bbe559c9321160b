//! Which of the offers is meant.

use std::ops::Range;

use super::fill::{self, Words};
use super::hearing::{Heard, Sense, Word};
use super::numbers::{Number, numbers};
use super::offer::{Choice, Offer, Offers, Shape, Vocabulary};
use super::words::{FALSE, LITTLE, ORDINALS, TRUE, Verb};

/// What was said, held against everything that can be done.
#[derive(Debug)]
pub(super) struct Request<'r> {
    pub(super) heard: &'r Heard<'r>,
    pub(super) offers: &'r Offers<'r>,
    pub(super) numbers: Vec<Number>,
    /// Whether something is to be in force.
    pub(super) flag: Option<bool>,
    pub(super) verbs: Vec<Verb>,
    deeds: Vec<Sense>,
    /// For each word that was said, the known words that it may be, and how likely that is.
    hits: Vec<Vec<(usize, f64)>>,
}

/// How well an offer fits.
#[derive(Clone, Debug)]
pub(super) struct Rated {
    pub(super) offer: usize,
    pub(super) score: f64,
    /// Everything that was said speaks of it, and nothing of its name is missing.
    pub(super) exact: bool,
}

impl<'r> Request<'r> {
    pub(super) fn new(heard: &'r Heard<'r>, offers: &'r Offers<'r>) -> Self {
        let hits = hits(heard, &offers.vocabulary);
        let mut verbs: Vec<Verb> = Vec::new();
        let mut deeds: Vec<Sense> = Vec::new();
        for (token, hits) in heard.tokens.iter().zip(&hits) {
            verbs.extend(token.word.verb);
            let meant = hits.iter().filter(|(_, close)| *close >= SURE);
            let meant = meant.filter_map(|(word, _)| offers.vocabulary.words.get(*word)?.sense);
            deeds.extend(meant.chain(token.word.sense).filter(|sense| matches!(sense, Sense::Deed(_))));
        }
        let flag = flag(heard);
        verbs.extend(flag.map(|on| if on { Verb::On } else { Verb::Off }));
        Self { heard, offers, numbers: numbers(heard), flag, verbs, deeds, hits }
    }

    /// Of several that are spoken of alike, the one whose place among them was said.
    pub(super) fn by_place(&self, rated: &[Rated]) -> Option<usize> {
        let said = self.heard.tokens.iter().enumerate();
        let place = said.filter(|(place, _)| self.hits.get(*place).is_none_or(Vec::is_empty));
        let place = place.filter_map(|(_, token)| ordinal(&token.word)).next()?;
        let best = rated.first().filter(|best| best.is_possible())?;
        let alike = rated.iter().filter(|other| !best.is_ahead_of(other) && self.are_alike(best, other));
        let mut alike: Vec<usize> = alike.map(|other| other.offer).collect();
        alike.sort_unstable();
        let from_end = place.is_negative().then(|| alike.len().checked_add_signed(place));
        alike.get(from_end.unwrap_or_else(|| usize::try_from(place).ok())?).copied()
    }

    /// Whether two offers do the same, to different things.
    fn are_alike(&self, one: &Rated, other: &Rated) -> bool {
        let deeds = |rated: &Rated| self.offers.offers.get(rated.offer).map(|offer| &offer.deeds);
        deeds(one) == deeds(other)
    }

    /// What fits, the best first.
    pub(super) fn rated(&self) -> Vec<Rated> {
        let all = self.offers.offers.iter().enumerate();
        let mut rated: Vec<Rated> = all.filter_map(|(index, offer)| self.rate(index, offer)).collect();
        rated.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.offer.cmp(&b.offer)));
        rated
    }

    fn rate(&self, index: usize, offer: &Offer<'_>) -> Option<Rated> {
        let removes = offer.deeds.contains(&Sense::REMOVAL);
        if removes && !(self.asks_for_deed_of(offer) && self.names_thing_of(offer)) {
            return None;
        }
        let value = fill::text_places(self, offer);
        let (mut all, mut covered) = (0.0, 0.0);
        let (mut sure, mut strange) = (false, 0.0);
        for place in self.content(offer, value.as_ref()) {
            let salience = self.salience(place);
            let fit = self.fit(place, offer);
            all += salience;
            covered += salience * fit;
            sure |= fit >= DOUBTFUL;
            strange += if fit < DOUBTFUL { 1.0 } else { 0.0 };
        }
        if !sure || all == 0.0 {
            return None;
        }
        let cover: f64 = covered / all;
        let said = self.said_of_name(offer, value.as_ref());
        // What takes something away had better be meant.
        let caution = if removes { 0.15 * strange } else { 0.0 };
        let score = 0.8 * cover + 0.2 * said + self.affinity(offer) - caution;
        Some(Rated { offer: index, score, exact: cover > 0.99 && said > 0.99 })
    }

    /// Whether a verb was said that tells what an offer does.
    fn asks_for_deed_of(&self, offer: &Offer<'_>) -> bool {
        offer.deeds.iter().chain(&offer.mentions).any(|deed| self.deeds.contains(deed))
    }

    /// Whether it was said what an offer is about, if its name says so itself.
    fn names_thing_of(&self, offer: &Offer<'_>) -> bool {
        let is_deed = |word: &usize| {
            let known = self.offers.vocabulary.words.get(*word);
            known.is_some_and(|word| matches!(word.sense, Some(Sense::Deed(_))))
        };
        let said =
            |word: &usize| self.hits.iter().flatten().any(|(hit, close)| hit == word && *close >= SURE);
        let mut things = offer.weights.keys().filter(|word| !is_deed(word)).peekable();
        things.peek().is_none() || things.any(said)
    }

    /// The places of the words by which an offer is judged: not those that are a value of it.
    fn content(&self, offer: &Offer<'_>, value: Option<&Range<usize>>) -> impl Iterator<Item = usize> {
        let takes_number = offer.params.iter().any(|param| matches!(param.shape, Shape::Number { .. }));
        let tokens = self.heard.tokens.iter().enumerate();
        tokens.filter_map(move |(place, token)| {
            let number = takes_number && self.numbers.iter().any(|number| number.places.contains(&place));
            let given = value.is_some_and(|value| value.contains(&place));
            // A word without content may be one after all, together with the next: "check out".
            let joined = self.hits.get(place).is_some_and(|hits| !hits.is_empty());
            // "the first order": where no name says "first", it is a place among several.
            let content = token.word.has_content() && ordinal(&token.word).is_none();
            (!given && !number && (content || joined)).then_some(place)
        })
    }

    /// How well the word in this place fits an offer, from 0 to 1.
    pub(super) fn fit(&self, place: usize, offer: &Offer<'_>) -> f64 {
        let hits = self.hits.get(place).into_iter().flatten();
        hits.filter_map(|(word, close)| Some(close * offer.weights.get(word)?)).fold(0.0, f64::max)
    }

    /// Whether the word in this place may be one of the vocabulary.
    pub(super) fn may_be(&self, place: usize, word: usize) -> bool {
        let hits = self.hits.get(place).into_iter().flatten();
        hits.into_iter().any(|(hit, close)| *hit == word && *close >= SURE)
    }

    /// How well the words outside of a value fit one of these words, on the whole.
    fn cover_of(&self, words: &Words, value: Option<&Range<usize>>) -> f64 {
        let (mut all, mut said) = (0.0, 0.0);
        for word in words {
            let salience = self.offers.vocabulary.salience(*word);
            let places = self.hits.iter().enumerate();
            let outside = places.filter(|(place, _)| value.is_none_or(|value| !value.contains(place)));
            let close = outside.flat_map(|(_, hits)| hits).filter(|(hit, _)| hit == word);
            all += salience;
            said += salience * close.map(|(_, close)| *close).fold(0.0, f64::max);
        }
        if all == 0.0 { 0.0 } else { said / all }
    }

    /// How well a choice was named.
    pub(super) fn cover_of_choice(&self, choice: &Choice, value: Option<&Range<usize>>) -> f64 {
        choice.names.iter().map(|name| self.cover_of(name, value)).fold(0.0, f64::max)
    }

    fn said_of_name(&self, offer: &Offer<'_>, value: Option<&Range<usize>>) -> f64 {
        let choices = offer.params.iter().filter_map(|param| match &param.shape {
            Shape::Choice(choices) => Some(choices),
            Shape::Text { .. } | Shape::Number { .. } | Shape::Flag | Shape::Fixed(_) | Shape::Other => None,
        });
        let chosen = choices.flatten().map(|choice| self.cover_of_choice(choice, value)).fold(0.0, f64::max);
        self.cover_of(&offer.name, value).max(chosen)
    }

    /// How much the word in this place tells.
    fn salience(&self, place: usize) -> f64 {
        let hits = self.hits.get(place).into_iter().flatten();
        let known = hits.filter(|(_, close)| *close >= DOUBTFUL);
        known.map(|(word, _)| self.offers.vocabulary.salience(*word)).reduce(f64::max).unwrap_or(UNKNOWN)
    }

    /// What speaks for or against an offer beside the words: whether it does what the verbs ask for.
    fn affinity(&self, offer: &Offer<'_>) -> f64 {
        let has = |verb: Verb| self.verbs.contains(&verb);
        let takes = |fits: fn(&Shape) -> bool| offer.params.iter().any(|param| fits(&param.shape));
        let mut sum: f64 = 0.0;
        if has(Verb::Open) {
            sum += if offer.is_way() { 0.1 } else { -0.08 };
        }
        if has(Verb::Press) && offer.params.iter().all(|param| !param.required) {
            sum += 0.08;
        }
        if has(Verb::Set) {
            let value = |shape: &Shape| !matches!(shape, Shape::Fixed(_) | Shape::Other);
            sum += if takes(value) && offer.places().is_none() { 0.1 } else { -0.08 };
        }
        let flagged = self.flag.is_some() && takes(|shape| matches!(shape, Shape::Flag));
        if let Some(on) = self.flag {
            let (same, other) = if on { (Verb::On, Verb::Off) } else { (Verb::Off, Verb::On) };
            if flagged || offer.verbs.contains(&same) {
                sum += 0.15;
            } else if offer.verbs.contains(&other) {
                sum -= 0.4;
            } else if !on {
                sum -= 0.3;
            }
        }
        if !flagged && !offer.deeds.is_empty() && !self.asks_for_deed_of(offer) {
            // Something else is asked for, or nothing at all.
            sum -= if !self.deeds.is_empty() || has(Verb::Open) { 0.35 } else { 0.1 };
        }
        if self.deeds.contains(&Sense::REMOVAL) && !offer.deeds.contains(&Sense::REMOVAL) {
            sum -= 0.35;
        }
        sum
    }
}

impl Rated {
    /// Whether it fits well enough to be done.
    pub(super) fn is_good(&self) -> bool {
        self.score >= GOOD
    }

    /// Whether it could be meant.
    pub(super) fn is_possible(&self) -> bool {
        self.score >= POSSIBLE
    }

    /// Whether it is clearly rather meant than another.
    pub(super) fn is_ahead_of(&self, other: &Self) -> bool {
        self.score - other.score >= AHEAD || self.exact && !other.exact && self.score > other.score
    }
}

fn hits(heard: &Heard<'_>, vocabulary: &Vocabulary) -> Vec<Vec<(usize, f64)>> {
    let mut hits: Vec<Vec<(usize, f64)>> = heard
        .tokens
        .iter()
        .take(MAX_MATCHED)
        .map(|token| {
            // Little words and verbs are meant when they are the very word, as in a choice of "on" and "off".
            let strict = !token.word.has_content();
            let known = vocabulary.words.iter().enumerate();
            let close = known.map(|(number, word)| match strict {
                true => (number, f64::from(u8::from(token.word.text == word.text))),
                false => (number, token.word.closeness(word)),
            });
            close.filter(|(_, close)| *close > 0.0).collect()
        })
        .collect();
    // What is written as one word may be heard as two.
    for (place, pair) in heard.tokens.windows(2).enumerate().take(MAX_MATCHED) {
        let [first, second] = pair else { continue };
        let joined = first.word.joined(&second.word);
        // If one of them was heard well, or says nothing, they are two.
        let well = hits.iter().skip(place).take(2).flatten().any(|(_, close)| *close >= WELL);
        let apart = well || first.word.is_filler() || second.word.is_filler();
        let least = if apart { WELL } else { TOGETHER };
        for (number, word) in vocabulary.words.iter().enumerate() {
            let close = joined.closeness(word);
            if close >= least || close > 0.0 && joined.sense.is_some() && joined.sense == word.sense {
                for hit in hits.iter_mut().skip(place).take(2) {
                    hit.push((number, close.min(JOINED)));
                }
            }
        }
    }
    hits
}

/// The place that a word tells.
fn ordinal(word: &Word) -> Option<isize> {
    ORDINALS.iter().find(|(name, _)| *name == word.text).map(|(_, place)| *place)
}

/// Whether something is to be in force, if that was said.
pub(super) fn flag(heard: &Heard<'_>) -> Option<bool> {
    let turned = heard.tokens.iter().any(|token| token.word.verb == Some(Verb::Switch));
    let last = heard.without_courtesy().checked_sub(1)?;
    let mut flag = None;
    for (place, token) in heard.tokens.iter().enumerate() {
        // "on" is mostly something else, unless it follows "turn", or nothing follows it.
        let ends = place == last || place == 0;
        let follows = place.checked_sub(1).and_then(|before| heard.tokens.get(before));
        let follows = follows.is_some_and(|before| before.word.verb == Some(Verb::Switch));
        let counts = match token.word.text.as_str() {
            "of" => place == last || follows,
            "on" | "off" => ends || turned,
            _ => ends,
        };
        if token.word.is_one_of(LITTLE) && !counts {
            continue;
        }
        if token.word.is_one_of(TRUE) {
            flag = flag.or(Some(true));
        } else if token.word.is_one_of(FALSE) {
            flag = Some(false);
        }
    }
    flag
}

/// Words that are held against everything that can be done; what follows can only be a value.
const MAX_MATCHED: usize = 40;
/// From where on something is done.
const GOOD: f64 = 0.55;
/// From where on it is asked whether something is meant.
const POSSIBLE: f64 = 0.42;
/// How far ahead of the next something has to be.
const AHEAD: f64 = 0.12;
/// From where on a word speaks for something at all.
const DOUBTFUL: f64 = 0.5;
/// From where on a word is taken for another.
const SURE: f64 = 0.65;
/// From where on a word is beyond doubt.
const WELL: f64 = 0.97;
/// From where on two words are taken for one.
const TOGETHER: f64 = 0.8;
/// How close two words are to one that is written together.
const JOINED: f64 = 0.95;
/// How much a word tells that nothing is known about.
const UNKNOWN: f64 = 0.5;
