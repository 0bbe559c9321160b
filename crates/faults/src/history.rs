//! Histories of clients, and the checker that holds them against the log. Pure: it knows neither clock nor socket.
//!
//! * **lost**: what was acknowledged or told is not in the log; what is in the log never reached a client that
//!   waited for it; a turn that never ended.
//! * **doubled**: the same word, request or end twice.
//! * **reordered**: a word that was told before one that the log has first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Everything that one client saw, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Who.
    pub(crate) client: String,
    /// The session that it followed from its first event on: it has to see all requests of it.
    pub(crate) follows: Option<String>,
    /// What it saw.
    pub(crate) sights: Vec<Sight>,
}

/// Something that a client saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// When, since the scenario began.
    pub(crate) at: Duration,
    /// The request that it is about.
    pub(crate) request: u64,
    /// What.
    pub(crate) what: What,
}

/// What a client can see of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The server has taken it.
    Accepted,
    /// The server has not taken it, and said so.
    Refused,
    /// The word at this place of the answer.
    Word(u32),
    /// Something that is no word of this answer.
    Garbled,
    /// What was told so far is void; it is told anew.
    Restarted,
    /// It is over.
    Ended(Ending),
}

/// How a request is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The answer is complete.
    Complete,
    /// The server says that it failed.
    Failed,
    /// The answer is over, and the protocol does not say how.
    Over,
    /// The client was told that nobody knows.
    Lost,
}

/// What the server has on record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// The turns that clients of a scenario have asked for.
    pub(crate) turns: Vec<Turn>,
    /// Places where positions are not dense.
    pub(crate) holes: Vec<String>,
}

/// A turn on record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    /// Where.
    pub(crate) session: String,
    /// The request that it is.
    pub(crate) request: u64,
    /// How many words were asked for.
    pub(crate) asked: u32,
    /// The words of its output, in order.
    pub(crate) words: Vec<u32>,
    /// For each end that it has, whether it was a complete answer.
    pub(crate) ends: Vec<bool>,
}

/// What is wrong, and how much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Turns in the log.
    pub(crate) requests: u64,
    /// Words that clients saw.
    pub(crate) words: u64,
    /// What is missing.
    pub(crate) lost: u64,
    /// What is there twice.
    pub(crate) doubled: u64,
    /// What came too early.
    pub(crate) reordered: u64,
    /// The first few, in words.
    pub(crate) examples: Vec<String>,
}

impl Findings {
    /// Whether nothing is wrong.
    pub(crate) const fn is_clean(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.reordered == 0
    }

    fn note(&mut self, difference: Difference, say: impl FnOnce() -> String) {
        let Difference { lost, doubled, reordered } = difference;
        if lost + doubled + reordered == 0 {
            return;
        }
        self.lost += lost;
        self.doubled += doubled;
        self.reordered += reordered;
        if self.examples.len() < EXAMPLES {
            self.examples.push(say());
        }
    }
}

/// Holds what clients saw against the log, and the log against what was asked for.
pub(crate) fn check(histories: &[History], log: &Log) -> Findings {
    let mut findings = Findings::default();
    for hole in &log.holes {
        findings.note(LOST, || format!("the log has a hole: {hole}"));
    }
    let turns = check_log(log, &mut findings);
    for history in histories {
        check_history(history, &turns, &mut findings);
    }
    findings
}

/// The log by itself: each request once, with one end, and a complete answer has every word once and in order.
fn check_log<'a>(log: &'a Log, findings: &mut Findings) -> BTreeMap<u64, &'a Turn> {
    let mut turns: BTreeMap<u64, &Turn> = BTreeMap::new();
    for turn in &log.turns {
        let request = turn.request;
        findings.requests += 1;
        if turns.insert(request, turn).is_some() {
            findings.note(DOUBLED, || format!("request {request} is in the log twice"));
        }
        match turn.ends.len() {
            0 => findings.note(LOST, || format!("request {request} has no end in the log")),
            1 => {}
            ends => findings.note(DOUBLED, || format!("request {request} has {ends} ends in the log")),
        }
        let expected: Vec<u32> = (0..turn.asked).collect();
        let complete = turn.ends.contains(&true);
        let difference = compare(&expected, &turn.words, complete);
        findings.note(difference, || format!("request {request} in the log: {difference:?}"));
    }
    turns
}

fn check_history(history: &History, turns: &BTreeMap<u64, &Turn>, findings: &mut Findings) {
    let client = &history.client;
    let views = views(history);
    for (request, view) in &views {
        findings.words += view.words.len() as u64;
        let Some(turn) = turns.get(request) else {
            if view.was_taken() {
                findings.note(LOST, || format!("{client} was told of request {request}, the log was not"));
            }
            continue;
        };
        if view.refused && !view.was_taken() {
            findings.note(DOUBLED, || format!("{client} was refused request {request}, and yet it ran"));
            continue;
        }
        // It was sent, and nobody knows whether it arrived: it may run, and has no reader.
        if !view.was_taken() && view.ends.iter().all(|ending| *ending == Ending::Lost) {
            continue;
        }
        if view.garbled > 0 {
            let garbled = Difference { lost: view.garbled, ..Difference::default() };
            findings.note(garbled, || format!("{client} cannot read a part of request {request}"));
        }
        let difference = compare(&turn.words, &view.words, !view.ends.is_empty());
        findings.note(difference, || format!("{client}, request {request}: {difference:?}"));
        match view.ends.as_slice() {
            [] => findings.note(LOST, || format!("{client} never heard the end of request {request}")),
            [Ending::Lost] => {
                findings.note(LOST, || format!("{client} lost request {request} for good"));
            }
            [Ending::Complete] if !turn.ends.contains(&true) => {
                findings.note(LOST, || {
                    format!("{client} heard a complete end of request {request}, the log did not")
                });
            }
            [Ending::Failed] if turn.ends.contains(&true) => {
                findings.note(LOST, || format!("{client} heard that request {request} failed; it did not"));
            }
            [_] => {}
            ends => {
                let times = ends.len();
                findings.note(DOUBLED, || format!("{client} heard {times} ends of request {request}"));
            }
        }
    }
    let missed = turns
        .values()
        .filter(|turn| history.follows.as_ref() == Some(&turn.session) && !views.contains_key(&turn.request));
    for turn in missed {
        findings.note(LOST, || format!("{client} never saw request {}", turn.request));
    }
}

/// What a client has of a request after everything that it saw of it.
#[derive(Debug, Default)]
struct View {
    accepted: bool,
    refused: bool,
    words: Vec<u32>,
    garbled: u64,
    ends: Vec<Ending>,
}

impl View {
    const fn was_taken(&self) -> bool {
        self.accepted || !self.words.is_empty()
    }
}

fn views(history: &History) -> BTreeMap<u64, View> {
    let mut views: BTreeMap<u64, View> = BTreeMap::new();
    for sight in &history.sights {
        let view = views.entry(sight.request).or_default();
        match sight.what {
            What::Accepted => view.accepted = true,
            What::Refused => view.refused = true,
            What::Word(index) => view.words.push(index),
            What::Garbled => view.garbled += 1,
            What::Restarted => {
                view.words.clear();
                view.ends.clear();
            }
            What::Ended(ending) => view.ends.push(ending),
        }
    }
    views
}

/// How a sequence differs from what it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Difference {
    lost: u64,
    doubled: u64,
    reordered: u64,
}

const LOST: Difference = Difference { lost: 1, doubled: 0, reordered: 0 };
const DOUBLED: Difference = Difference { lost: 0, doubled: 1, reordered: 0 };

/// `whole`: nothing more is to come. Otherwise only what lies before the last word can be missing.
fn compare(expected: &[u32], seen: &[u32], whole: bool) -> Difference {
    let places: BTreeMap<u32, usize> = expected.iter().copied().zip(0..).collect();
    let mut known = BTreeSet::new();
    let mut difference = Difference::default();
    let mut furthest = None;
    for word in seen {
        let Some(place) = places.get(word).copied() else {
            // Told, and not on record.
            difference.lost += 1;
            continue;
        };
        if !known.insert(place) {
            difference.doubled += 1;
        } else if furthest.is_some_and(|furthest| place < furthest) {
            difference.reordered += 1;
        } else {
            furthest = Some(place);
        }
    }
    let due = if whole { expected.len() } else { furthest.map_or(0, |furthest| furthest + 1) };
    difference.lost += (0..due).filter(|place| !known.contains(place)).count() as u64;
    difference
}

/// How long after a moment each client had seen something again; none if one of them never did.
pub(crate) fn recovery(histories: &[History], after: Duration) -> Option<Duration> {
    let first = |history: &History| history.sights.iter().map(|sight| sight.at).find(|at| *at >= after);
    let mut slowest = Duration::ZERO;
    for history in histories.iter().filter(|history| !history.sights.is_empty()) {
        slowest = slowest.max(first(history)?.saturating_sub(after));
    }
    Some(slowest)
}

/// The longest time within a span in which some client saw nothing.
pub(crate) fn longest_pause(histories: &[History], from: Duration, to: Duration) -> Duration {
    let pause = |history: &History| {
        let within = history.sights.iter().map(|sight| sight.at).filter(|at| (from..=to).contains(at));
        let (mut before, mut longest) = (from, Duration::ZERO);
        for at in within.chain([to]) {
            longest = longest.max(at.saturating_sub(before));
            before = at;
        }
        longest
    };
    histories.iter().map(pause).max().unwrap_or_default()
}

/// Findings that are told in words.
const EXAMPLES: usize = 5;

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
