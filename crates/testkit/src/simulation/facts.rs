//! What a turn shows, whichever protocol shows it: the log in words that all of them have.

use switchboard_core::Event;
use switchboard_core::model::{CallEnd, Output};

use super::ledger::TurnLog;

/// Something that a turn shows. Blanks do not count: protocols put some in, and cut some off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// A piece of the answer.
    Text(String),
    /// A piece of reasoning.
    Thought(String),
    /// A call is asked for.
    Call(String),
    /// A call is over, well or not.
    Called(String, bool),
    /// A list is told.
    List(String),
}

/// What a protocol shows of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lens {
    pub(super) thoughts: bool,
    pub(super) calls: bool,
    pub(super) lists: bool,
    /// Structured output is shown among the text.
    pub(super) data: bool,
}

/// What somebody has been shown of a turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Vec<Fact>);

impl Seen {
    pub(super) fn push(&mut self, fact: Fact) {
        push(&mut self.0, fact);
    }

    /// How much was seen.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing else was seen.
    pub(super) fn is(&self, fact: &Fact) -> bool {
        matches!(self.0.as_slice(), [only] if only == fact)
    }

    /// All words of the answer.
    pub(super) fn text(&self) -> String {
        self.0
            .iter()
            .filter_map(|fact| if let Fact::Text(text) = fact { Some(text.as_str()) } else { None })
            .collect()
    }

    /// Whether it is how the turn begins; if `whole`, also how it ends.
    pub(super) fn check(&self, turn: &TurnLog, lens: Lens, whole: bool) -> Result<(), String> {
        let told = facts(turn, lens);
        let Some((last, before)) = self.0.split_last() else {
            let missed = told.first().filter(|_| whole);
            return missed
                .map_or(Ok(()), |fact| Err(format!("nothing of {} was seen, not even {fact:?}", turn.tag)));
        };
        let place = before.len();
        if told.get(..place) != Some(before) {
            let differs =
                before.iter().zip(&told).position(|(seen, told)| seen != told).unwrap_or(told.len());
            let (seen, told) = (before.get(differs), told.get(differs));
            return Err(format!("{} shows {seen:?} where the log has {told:?}", turn.tag));
        }
        let fits = match (last, told.get(place)) {
            (Fact::Text(seen), Some(Fact::Text(told))) | (Fact::Thought(seen), Some(Fact::Thought(told))) => {
                told == seen || (!whole && told.starts_with(seen.as_str()))
            }
            (seen, told) => Some(seen) == told,
        };
        if !fits {
            return Err(format!("{} shows {last:?} where the log has {:?}", turn.tag, told.get(place)));
        }
        match told.get(place + 1).filter(|_| whole) {
            Some(missed) => Err(format!("{} is over, and {missed:?} was not seen", turn.tag)),
            None => Ok(()),
        }
    }
}

/// What a turn shows so far. Nothing follows an interrupt.
pub(super) fn facts(turn: &TurnLog, lens: Lens) -> Vec<Fact> {
    let mut facts = Vec::new();
    for committed in &turn.events {
        match &committed.event {
            Event::TurnOutput { output: Output::Text(text), .. } => {
                push(&mut facts, Fact::Text(text.clone()))
            }
            Event::TurnOutput { output: Output::Data { value, .. }, .. } if lens.data => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                push(&mut facts, Fact::Text(text));
            }
            Event::TurnOutput { output: Output::Reasoning(text), .. } if lens.thoughts => {
                push(&mut facts, Fact::Thought(text.clone()));
            }
            Event::TurnOutput { output: Output::Checklist(list), .. } if lens.lists => {
                push(&mut facts, Fact::List(list.group.clone()));
            }
            Event::CallRequested { call, .. } if lens.calls => {
                push(&mut facts, Fact::Call(call.id.to_string()))
            }
            Event::CallEnded { call, end, .. } if lens.calls => {
                push(&mut facts, Fact::Called(call.to_string(), matches!(end, CallEnd::Done { .. })));
            }
            Event::TurnInterrupted { .. } | Event::TurnEnded { .. } => break,
            _ => {}
        }
    }
    facts
}

/// How pieces of one kind are cut is up to the protocol.
fn push(facts: &mut Vec<Fact>, fact: Fact) {
    let solid = |text: &str| text.split_whitespace().collect::<String>();
    match (facts.last_mut(), fact) {
        (Some(Fact::Text(last)), Fact::Text(text)) | (Some(Fact::Thought(last)), Fact::Thought(text)) => {
            last.push_str(&solid(&text));
        }
        (_, Fact::Text(text)) => {
            let text = solid(&text);
            if !text.is_empty() {
                facts.push(Fact::Text(text));
            }
        }
        (_, Fact::Thought(text)) => facts.push(Fact::Thought(solid(&text))),
        (_, fact) => facts.push(fact),
    }
}
