//! What is to be done about a request.

use serde_json::{Map, Value};

use super::choose::{Rated, Request};
use super::fill::{self, Gap};
use super::hearing::Heard;
use super::offer::{Offer, Offers, Shape};
use super::words::{FIRST, SECOND};

/// What a request for something to be done leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// A tool is used.
    Act(Deed),
    /// A value is asked for: which, and why.
    Ask { deed: Deed, param: usize, gap: Gap },
    /// Either of two could be meant.
    Either(usize, usize),
    /// Nothing fits.
    Nothing,
}

/// A use of one of the offers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deed {
    pub(super) offer: usize,
    pub(super) args: Map<String, Value>,
}

/// Finds out what a request asks for.
pub(super) fn plan(heard: &Heard<'_>, offers: &Offers<'_>) -> Plan {
    let request = Request::new(heard, offers);
    let rated = request.rated();
    if let Some(offer) = request.by_place(&rated) {
        return carry_out(&request, offer);
    }
    match rated.as_slice() {
        [best, next, ..] if best.is_possible() && next.is_possible() && !best.is_ahead_of(next) => {
            Plan::Either(best.offer, next.offer)
        }
        [best, ..] if best.is_good() => carry_out(&request, best.offer),
        _ => Plan::Nothing,
    }
}

/// Whether what was said is the very name of something that can be done.
pub(super) fn is_name(heard: &Heard<'_>, offers: &Offers<'_>) -> bool {
    Request::new(heard, offers).rated().first().is_some_and(|best| best.exact)
}

/// What an answer to the question that a plan has led to, adds to it; none if it is no answer.
pub(super) fn settle(open: Plan, heard: &Heard<'_>, offers: &Offers<'_>, asked: &Heard<'_>) -> Option<Plan> {
    let request = Request::new(heard, offers);
    match open {
        Plan::Ask { mut deed, param, .. } => {
            let offer = offers.offers.get(deed.offer)?;
            let wanted = offer.params.get(param)?;
            match fill::answered(&request, wanted) {
                Ok(value) => {
                    deed.args.insert(wanted.name.clone(), value);
                    Some(complete(deed, offer, param))
                }
                Err(Gap::Missing | Gap::Unspeakable) => None,
                Err(gap @ (Gap::Either(..) | Gap::Wrong(_))) => Some(Plan::Ask { deed, param, gap }),
            }
        }
        Plan::Either(first, second) => {
            let chosen = one_of(&request, first, second)?;
            Some(carry_out(&Request::new(asked, offers), chosen))
        }
        Plan::Act(_) | Plan::Nothing => None,
    }
}

fn carry_out(request: &Request<'_>, index: usize) -> Plan {
    let Some(offer) = request.offers.offers.get(index) else { return Plan::Nothing };
    let (args, open) = fill::args(request, offer);
    let deed = Deed { offer: index, args };
    match open {
        None => Plan::Act(deed),
        Some((param, gap)) => Plan::Ask { deed, param, gap },
    }
}

/// A deed whose value in this place was given; another one may still be open.
fn complete(deed: Deed, offer: &Offer<'_>, given: usize) -> Plan {
    let later = offer.params.iter().enumerate().skip(given + 1);
    let open = later.filter(|(_, param)| param.required && !deed.args.contains_key(&param.name));
    match open.map(|(index, param)| (index, matches!(param.shape, Shape::Other))).next() {
        None => Plan::Act(deed),
        Some((param, true)) => Plan::Ask { deed, param, gap: Gap::Unspeakable },
        Some((param, false)) => Plan::Ask { deed, param, gap: Gap::Missing },
    }
}

/// Which of two offers an answer names.
fn one_of(request: &Request<'_>, first: usize, second: usize) -> Option<usize> {
    let rated = request.rated();
    let score = |offer: usize| rated.iter().find(|rated| rated.offer == offer);
    let place = |words: &[&str]| request.heard.tokens.iter().any(|token| token.word.is_one_of(words));
    match (score(first), score(second)) {
        (Some(a), Some(b)) if a.score > b.score && Rated::is_ahead_of(a, b) => return Some(first),
        (Some(a), Some(b)) if b.score > a.score && Rated::is_ahead_of(b, a) => return Some(second),
        (Some(_), None) => return Some(first),
        (None, Some(_)) => return Some(second),
        _ => {}
    }
    match (place(FIRST), place(SECOND)) {
        (true, false) => Some(first),
        // "the second one"
        (_, true) => Some(second),
        (false, false) => None,
    }
}
