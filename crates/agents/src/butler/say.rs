//! What the butler says.

use serde_json::Value;
use switchboard_core::model::{CallEnd, Failure};

use super::fill::Gap;
use super::offer::{Offer, Offers, Param, Shape, first_sentence, shortened};
use super::plan::Deed;
use super::scene::ended;
use super::words::REFUSALS;

pub(super) const UNHEARD: &str = "Sorry, I did not catch that.";
pub(super) const STOPPED: &str = "Okay.";
pub(super) const LEFT: &str = "Okay, I will leave it.";
pub(super) const GOODBYE: &str = "Goodbye.";
pub(super) const WELCOME: &str = "You are welcome.";
pub(super) const NOTHING_SAID: &str = "I have not said anything yet.";
pub(super) const NOTHING_SEEN: &str = "I cannot see anything here.";
pub(super) const NOTHING_ABOUT: &str = "I do not see anything about that here.";
const REFUSED: &str = "Okay, I left it as it is.";
const FAILED: &str = "That did not work.";
const LATE: &str = "There was no answer in time, so I do not know whether it worked.";

/// What came of a use of a tool.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    pub(super) sentence: String,
    pub(super) worked: bool,
    /// What there is to see now, if the tool has said so.
    pub(super) scene: Option<String>,
}

impl Told {
    fn failed(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), worked: false, scene: None }
    }
}

/// What can be done now.
pub(super) fn abilities(offers: &Offers<'_>) -> String {
    let shown: Vec<String> = offers.offers.iter().take(MAX_SHOWN).map(ability).collect();
    if shown.is_empty() {
        return "There is nothing that I can do here.".to_owned();
    }
    format!("You can: {}.", shown.join("; "))
}

fn ability(offer: &Offer<'_>) -> String {
    match offer.places() {
        Some(places) if !places.is_empty() => {
            let labels: Vec<&str> = places.iter().take(MAX_SHOWN).map(|place| place.label.as_str()).collect();
            format!("go to {}", listed(&labels))
        }
        Some(_) | None => offer.label(),
    }
}

/// Names apart by commas, and by "or" at the end.
fn listed(labels: &[&str]) -> String {
    match labels {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

pub(super) fn not_understood(offers: &Offers<'_>) -> String {
    format!("I am not sure what you mean. {}", abilities(offers))
}

/// Says what was asked for besides, and is not done since something before it was not.
pub(super) fn left(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.trim_end_matches(['.', '!', '?'])).collect();
    format!("I have not done the rest: {}.", shortened(&parts.join(", "), MAX_LABEL))
}

/// Asks which of two is meant.
pub(super) fn either(first: &str, second: &str) -> String {
    format!("Do you mean {first}, or {second}?")
}

/// Asks for a value.
pub(super) fn ask(param: &Param, offer: &Offer<'_>, gap: &Gap) -> String {
    match (gap, &param.shape) {
        (Gap::Unspeakable, _) => "That needs more than can be said in a few words.".to_owned(),
        (Gap::Wrong(why), _) => format!("{why} What should it be?"),
        (Gap::Either(first, second), _) => either(first, second),
        (Gap::Missing, Shape::Flag) => format!("{}: on or off?", large(&offer.label())),
        (Gap::Missing, Shape::Choice(choices)) => {
            let labels: Vec<&str> =
                choices.iter().take(MAX_SHOWN).map(|choice| choice.label.as_str()).collect();
            format!("Which one: {}?", listed(&labels))
        }
        (Gap::Missing, Shape::Number { .. }) => format!("{}: which number?", large(&offer.label())),
        (Gap::Missing, Shape::Text { .. } | Shape::Fixed(_) | Shape::Other) => {
            format!("{}: what should I put in?", large(&offer.label()))
        }
    }
}

/// A text as it stands at the beginning of a sentence.
fn large(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// What to say when something was done, if the tool itself has nothing to say.
pub(super) fn done(offer: &Offer<'_>, deed: &Deed) -> String {
    let mut chosen = offer.params.iter().filter_map(|param| {
        let value = deed.args.get(&param.name)?;
        let Shape::Choice(choices) = &param.shape else { return None };
        choices.iter().find(|choice| choice.value == *value).map(|choice| choice.label.as_str())
    });
    let flag = offer.params.iter().find_map(|param| deed.args.get(&param.name)?.as_bool());
    match (chosen.next(), flag) {
        (Some(place), _) if offer.is_way() => format!("Here is {place}."),
        (Some(choice), _) => format!("Done: {choice}."),
        (None, Some(true)) => "Done. It is on now.".to_owned(),
        (None, Some(false)) => "Done. It is off now.".to_owned(),
        (None, None) => format!("Done: {}.", offer.label()),
    }
}

/// What to say about how the use of a tool has ended.
pub(super) fn told(end: &Result<CallEnd, Failure>, done: &str) -> Told {
    match end {
        Ok(CallEnd::Done { output, detail }) => result(output, detail, done),
        Ok(CallEnd::Failed(error)) if is_refusal(&error.name) || is_refusal(&error.message) => {
            Told::failed(REFUSED)
        }
        Ok(CallEnd::Failed(error)) => Told::failed(failure(&error.message)),
        Ok(CallEnd::TimedOut) => Told::failed(LATE),
        Ok(CallEnd::Cancelled) => Told::failed(REFUSED),
        Err(error) => Told::failed(failure(&error.message)),
    }
}

fn result(output: &Value, detail: &Value, done: &str) -> Told {
    let texts =
        |name: &'static str| [output, detail].into_iter().filter_map(move |value| value.get(name)?.as_str());
    let nested = || [output, detail].into_iter().flat_map(|value| [Some(value), value.get("data")]).flatten();
    if nested().filter_map(|value| value.get("status")?.as_str()).any(is_refusal) {
        return Told::failed(REFUSED);
    }
    let error =
        [output, detail].into_iter().find_map(|value| value.get("error").filter(|error| !error.is_null()));
    if error.is_some() || texts("status").any(|status| matches!(status, "error" | "failed" | "failure")) {
        let message = error.and_then(|error| error.as_str().or_else(|| error.get("message")?.as_str()));
        let code = error.and_then(|error| error.get("code")?.as_str()).unwrap_or_default();
        let message = message.or_else(|| texts("message").next()).unwrap_or_default();
        let refused = is_refusal(code) || is_refusal(message);
        return Told::failed(if refused { REFUSED.to_owned() } else { failure(message) });
    }
    let scene = nested().find_map(seen).map(str::to_owned);
    let spoken = scene.as_deref().or_else(|| output.as_str());
    let spoken = spoken
        .or_else(|| nested().find_map(|value| SPOKEN.iter().find_map(|name| value.get(*name)?.as_str())));
    let sentence = spoken.map(|text| first_sentence(text).0).filter(|text| !text.is_empty());
    let sentence = sentence.map_or_else(|| done.to_owned(), |text| ended(&shortened(text, MAX_SENTENCE)));
    Told { sentence, worked: true, scene }
}

/// What a result says is there to see now.
fn seen(value: &Value) -> Option<&str> {
    let whole = ["screen", "scene", "narration"].into_iter().filter_map(|name| value.get(name));
    let inside = ["screen", "context"].into_iter().filter_map(|name| value.get(name)?.get("narration"));
    whole.chain(inside).find_map(Value::as_str).filter(|text| !text.trim().is_empty())
}

fn failure(message: &str) -> String {
    let (first, _) = first_sentence(message);
    if first.is_empty() {
        FAILED.to_owned()
    } else {
        ended(&format!("That did not work: {}", shortened(first, MAX_SENTENCE)))
    }
}

fn is_refusal(text: &str) -> bool {
    let text = text.to_lowercase();
    REFUSALS.iter().any(|word| text.contains(word))
}

/// Members of a result that are meant to be read.
const SPOKEN: [&str; 4] = ["say", "message", "summary", "text"];
/// Letters of requests that are repeated.
const MAX_LABEL: usize = 120;
/// Things that are named at once.
const MAX_SHOWN: usize = 5;
/// Letters of a sentence that somebody else has written.
const MAX_SENTENCE: usize = 240;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard_core::model::{CallError, FailureKind};

    use super::*;

    fn said(output: Value) -> (String, bool) {
        let told = told(&Ok(CallEnd::done(output)), "Done: it.");
        (told.sentence, told.worked)
    }

    #[test]
    fn a_result_speaks_for_itself() {
        let ok = |text: &str| (text.to_owned(), true);
        let failed = |text: &str| (text.to_owned(), false);
        assert_eq!(said(json!(null)), ok("Done: it."));
        assert_eq!(said(json!({ "id": 7 })), ok("Done: it."));
        assert_eq!(said(json!("Added. Two in all.")), ok("Added."));
        assert_eq!(said(json!({ "message": "3.5 kg added" })), ok("3.5 kg added."));
        assert_eq!(said(json!({ "status": "success", "screen": "Orders page. Three." })), ok("Orders page."));
        assert_eq!(said(json!({ "screen": { "narration": "Help\nAsk us" } })), ok("Help."));
        assert_eq!(said(json!({ "context": { "narration": "Home. Hi" } })), ok("Home."));
        assert_eq!(said(json!({ "status": "error" })), failed(FAILED));
        assert_eq!(
            said(json!({ "status": "error", "error": { "code": "ACT_X", "message": "The shop is closed" } })),
            failed("That did not work: The shop is closed.")
        );
        assert_eq!(said(json!({ "data": { "status": "rejected" } })), failed(REFUSED));
        assert_eq!(said(json!({ "error": { "code": "ACT_REJECTED", "message": "no" } })), failed(REFUSED));
        assert_eq!(said(json!({ "error": null, "text": "ok" })), ok("ok."));
        assert!(said(json!("x ".repeat(1000))).0.len() < 300);
    }

    #[test]
    fn other_ends_are_told_too() {
        let sentence = |end| told(&end, "Done.").sentence;
        assert_eq!(sentence(Ok(CallEnd::TimedOut)), LATE);
        assert_eq!(sentence(Ok(CallEnd::Failed(CallError::new("denied", "no")))), REFUSED);
        let error = CallError::new("ACT_DISABLED", "It is switched off.");
        assert_eq!(sentence(Ok(CallEnd::Failed(error))), "That did not work: It is switched off.");
        assert_eq!(sentence(Err(Failure::new(FailureKind::InvalidArgs, ""))), FAILED);
    }

    #[test]
    fn a_scene_is_taken_along() {
        let end = Ok(CallEnd::done(json!({ "screen": "Cart. Two mugs." })));
        assert_eq!(told(&end, "Done.").scene.unwrap(), "Cart. Two mugs.");
    }
}
