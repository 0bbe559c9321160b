//! One thing that was said, and what to make of it.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_core::ToolName;

use super::hearing::{Heard, Sense, Word};
use super::offer::{Offer, Offers};
use super::plan::{Deed, Plan, is_name, plan, settle};
use super::words::{
    ABILITIES, AGAIN, BYE, FORBIDDING, HELLO, LOOK, POLITE, QUESTIONS, STOP, THANKS, THEN, WHERE, YES,
};
use super::{say, scene};

/// What a person has been asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// What the butler has said last.
    pub(super) said: Option<String>,
    /// What it has said that to.
    pub(super) heard: Option<String>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Say something.
    Say(String),
    /// Say that something is not clear.
    Ask(String),
    /// Use a tool, and say this if the tool has nothing to say.
    Use { tool: ToolName, args: Value, done: String },
}

/// The things that are to be done one after another, each in its own words.
pub(super) fn parts(text: &str, offers: &Offers<'_>) -> Vec<String> {
    let heard = Heard::new(text);
    let mut parts = Vec::new();
    let (mut start, mut place) = (0, 0);
    while place < heard.tokens.len() {
        let then = THEN.iter().find(|phrase| heard.has(place, phrase)).map(|phrase| phrase.len());
        match then {
            Some(length) if place > start && place + length < heard.tokens.len() => {
                parts.extend(joined(heard.said(start..place), offers));
                place += length;
                start = place;
            }
            Some(_) | None => place += 1,
        }
    }
    let last = if start == 0 { text } else { heard.said(start..heard.tokens.len()) };
    parts.extend(joined(last, offers));
    parts.truncate(MAX_PARTS);
    parts
}

/// What "and" joins, if it joins things to be done and is not a part of one of them.
fn joined(text: &str, offers: &Offers<'_>) -> Vec<String> {
    let heard = Heard::new(text);
    let ands = heard.tokens.iter().enumerate().skip(1).filter(|(_, token)| token.word.text == "and");
    let ands: Vec<usize> = ands.map(|(place, _)| place).take(MAX_PARTS).collect();
    if ands.is_empty() {
        return vec![text.to_owned()];
    }
    let deeds = |parts: &[String]| -> Option<Vec<usize>> {
        let plans = parts.iter().map(|part| plan(&Heard::new(part), offers));
        let deed = |plan| if let Plan::Act(deed) = plan { Some(deed.offer) } else { None };
        plans.map(deed).collect::<Option<Vec<usize>>>().filter(|deeds| deeds.len() > 1)
    };
    // "open the cart and place the order", "… and also please place the order"
    let verb = |place: &usize| {
        let mut after = heard.tokens.iter().skip(place + 1).skip_while(|token| token.word.is_filler());
        after.next().is_some_and(|token| asks(&token.word))
    };
    let verbs: Vec<usize> = ands.iter().copied().filter(verb).collect();
    let parts = cut(&heard, &verbs, "");
    if deeds(&parts).is_some() || parts.len() > 1 && are_requests(&parts, offers) {
        return parts;
    }
    // "add coffee and bread": the verb is meant twice, if these are two things.
    let takes_all = match plan(&heard, offers) {
        Plan::Act(deed) => offers.offers.get(deed.offer).is_none_or(|offer| offer.takes_text(&deed.args)),
        Plan::Either(..) => false,
        Plan::Ask { .. } | Plan::Nothing => true,
    };
    let begun = heard.tokens.iter().take_while(|token| asks(&token.word) || token.word.is_filler()).count();
    let parts = cut(&heard, &ands, heard.said(0..begun));
    let all_differ = |deeds: Vec<usize>| deeds.iter().collect::<BTreeSet<_>>().len() == deeds.len();
    if !takes_all && begun > 0 && deeds(&parts).is_some_and(all_differ) {
        return parts;
    }
    vec![text.to_owned()]
}

/// Whether these are several requests, even if one of them cannot be met: it is better told than dropped. What is
/// written down may hold any words, and is left as it is.
fn are_requests(parts: &[String], offers: &Offers<'_>) -> bool {
    let plans: Vec<Plan> = parts.iter().map(|part| plan(&Heard::new(part), offers)).collect();
    let writes = plans.iter().any(|plan| match plan {
        Plan::Act(deed) | Plan::Ask { deed, .. } => {
            offers.offers.get(deed.offer).is_none_or(|offer| offer.takes_text(&deed.args))
        }
        Plan::Either(..) | Plan::Nothing => false,
    });
    let begins = |part: &String| {
        let heard = Heard::new(part);
        let mut words = heard.tokens.iter().skip_while(|token| token.word.is_filler());
        words.next().is_some_and(|token| asks(&token.word))
    };
    !writes && plans.iter().any(|plan| matches!(plan, Plan::Act(_))) && parts.iter().all(begins)
}

/// Whether a word asks for something to be done.
const fn asks(word: &Word) -> bool {
    word.verb.is_some() || matches!(word.sense, Some(Sense::Deed(_)))
}

/// What was said between these places; every part but the first begins with `before`.
fn cut(heard: &Heard<'_>, places: &[usize], before: &str) -> Vec<String> {
    let mut parts = Vec::with_capacity(places.len() + 1);
    let mut start = 0;
    for end in places.iter().copied().chain([heard.tokens.len()]) {
        let said = heard.said(start..end);
        parts.push(if start == 0 {
            said.to_owned()
        } else {
            format!("{before} {said}").trim_start().to_owned()
        });
        start = end + 1;
    }
    parts
}

/// What to do about one thing that was said.
pub(super) fn step(text: &str, offers: &Offers<'_>, scene: &str, past: &Past) -> Step {
    let whole = Heard::new(text);
    if whole.tokens.is_empty() {
        return Step::Ask(say::UNHEARD.to_owned());
    }
    if let Some(step) = after_question(&whole, offers, past) {
        return step;
    }
    let said = |phrases: &[&[&str]]| whole.is(0, phrases);
    if said(STOP) && !is_name(&whole, offers) {
        return Step::Say(say::STOPPED.to_owned());
    }
    for (phrases, answer) in [(BYE, say::GOODBYE), (THANKS, say::WELCOME), (YES, say::STOPPED)] {
        if said(phrases) {
            return Step::Say(answer.to_owned());
        }
    }
    if said(HELLO) {
        return Step::Say(format!("Hello. {}", say::abilities(offers)));
    }
    if said(AGAIN) {
        return Step::Say(past.said.clone().unwrap_or_else(|| say::NOTHING_SAID.to_owned()));
    }
    if whole.begins(0, FORBIDDING) {
        return Step::Say(say::LEFT.to_owned());
    }
    let heard = Heard::new(without_courtesy(&whole));
    if heard.begins(0, FORBIDDING) {
        return Step::Say(say::LEFT.to_owned());
    }
    if heard.is(0, ABILITIES) {
        return Step::Say(say::abilities(offers));
    }
    if heard.is(0, WHERE) {
        return Step::Say(scene::beginning(scene, 1).unwrap_or_else(|| say::NOTHING_SEEN.to_owned()));
    }
    if heard.is(0, LOOK) {
        return Step::Say(scene::beginning(scene, 4).unwrap_or_else(|| say::NOTHING_SEEN.to_owned()));
    }
    if is_question(&heard) {
        return Step::Say(answer(&heard, offers, scene));
    }
    match plan(&heard, offers) {
        Plan::Nothing => {
            // "show me my cart", where there is no way to it, but something to see.
            let seen = scene::about(&heard, scene)
                .filter(|_| heard.tokens.iter().any(|token| token.word.verb.is_some()));
            seen.map_or_else(|| Step::Ask(say::not_understood(offers)), Step::Say)
        }
        known @ (Plan::Act(_) | Plan::Ask { .. } | Plan::Either(..)) => step_of(known, offers),
    }
}

/// What to do if this answers a question of the butler's.
fn after_question(heard: &Heard<'_>, offers: &Offers<'_>, past: &Past) -> Option<Step> {
    let (said, before) = (past.said.as_deref()?, past.heard.as_deref()?);
    if !said.trim_end().ends_with('?') || heard.is(0, STOP) {
        return None;
    }
    // Somebody may have changed their mind instead, and asks for something with a verb.
    let verb = heard.tokens.first().is_some_and(|token| token.word.verb.is_some());
    if is_question(heard) || verb && matches!(plan(heard, offers), Plan::Act(_)) {
        return None;
    }
    // Of several requests, the one that is not clear.
    parts(before, offers).iter().find_map(|before| {
        let before = Heard::new(before);
        let before = Heard::new(without_courtesy(&before));
        let open = plan(&before, offers);
        settle(open, heard, offers, &before).map(|plan| step_of(plan, offers))
    })
}

fn step_of(plan: Plan, offers: &Offers<'_>) -> Step {
    let offer = |index: usize| offers.offers.get(index);
    let step = match plan {
        Plan::Act(deed) => offer(deed.offer).map(|offer| {
            let done = say::done(offer, &deed);
            let Deed { args, .. } = deed;
            Step::Use { tool: offer.tool.name.clone(), args: Value::Object(args), done }
        }),
        Plan::Ask { deed, param, gap } => offer(deed.offer)
            .and_then(|offer| Some(Step::Ask(say::ask(offer.params.get(param)?, offer, &gap)))),
        Plan::Either(first, second) => {
            let both = offer(first).zip(offer(second));
            both.map(|(first, second)| Step::Ask(say::either(&first.label(), &second.label())))
        }
        Plan::Nothing => None,
    };
    step.unwrap_or_else(|| Step::Ask(say::not_understood(offers)))
}

fn is_question(heard: &Heard<'_>) -> bool {
    let word = |place: usize| heard.tokens.get(place).map(|token| token.word.text.as_str());
    match word(0) {
        // "do the checkout" is none.
        Some("do" | "does" | "did" | "have" | "has") => {
            matches!(word(1), Some("i" | "we" | "you" | "they" | "it" | "the" | "my"))
        }
        Some(first) => QUESTIONS.contains(&first),
        None => false,
    }
}

fn answer(heard: &Heard<'_>, offers: &Offers<'_>, scene: &str) -> String {
    let label = |offer: usize| offers.offers.get(offer).map(Offer::label);
    let possible = match plan(heard, offers) {
        Plan::Act(Deed { offer, .. }) | Plan::Ask { deed: Deed { offer, .. }, .. } => label(offer),
        Plan::Either(first, second) => {
            label(first).zip(label(second)).map(|(first, second)| format!("{first}, or {second}"))
        }
        Plan::Nothing => None,
    };
    let how = [&["how", "do", "i"], &["how", "can", "i"], &["how", "do", "we"]];
    let how = how.iter().any(|phrase| heard.has(0, *phrase));
    let way = possible.map(|label| format!("You can ask me to {label}."));
    if let Some(way) = way.clone().filter(|_| how) {
        return way;
    }
    let seen = scene::about(heard, scene);
    seen.unwrap_or_else(|| match way {
        Some(way) => format!("{} {way}", say::NOTHING_ABOUT),
        None => say::NOTHING_ABOUT.to_owned(),
    })
}

/// What is left of a polite request.
fn without_courtesy<'t>(heard: &Heard<'t>) -> &'t str {
    let mut place = 0;
    while let Some(phrase) = POLITE.iter().find(|phrase| heard.has(place, phrase)) {
        place += phrase.len();
    }
    match heard.tokens.get(place) {
        Some(token) => &heard.text[token.span.start..],
        None => heard.text,
    }
}

/// Things that are done for one request.
const MAX_PARTS: usize = 8;
