//! Plays one side of a recording: says what it said, when it did, and hears what the other side says now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::compare::{Difference, Odd, Place};
use super::expect::Track;
use super::hear::Ear;
use super::link::Live;
use super::say::said;
use super::stage::NOBODY;
use super::variables::Variables;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::recording::message::Dialect;
use crate::recording::{Entry, Request, Side, What};

/// How a recording is played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How much faster than it was; none waits for nothing but answers.
    pub(super) speed: Option<f64>,
    /// How long something may take to come.
    pub(super) patience: Duration,
}

/// Plays one side.
#[derive(Debug)]
pub(super) struct Player {
    role: Side,
    steps: Vec<(usize, Entry)>,
    dialects: BTreeMap<u32, Dialect>,
    tracks: BTreeMap<u32, Track>,
    ears: BTreeMap<u32, Ear>,
    links: BTreeMap<u32, mpsc::Sender<What>>,
    /// Connections on which this side has said goodbye: the answer to that was not recorded.
    left: BTreeSet<u32>,
    events: mpsc::Receiver<(u32, Live)>,
    variables: Variables,
    differences: Vec<Difference>,
    said: u64,
    heard: u64,
    /// Why the first connection was not made.
    failed: Option<String>,
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Played {
    /// Everything that was not as recorded.
    pub(super) differences: Vec<Difference>,
    /// How much was said.
    pub(super) said: u64,
    /// How much was heard.
    pub(super) heard: u64,
    /// How much of what was recorded came.
    pub(super) met: usize,
    /// How many ids stand for others now.
    pub(super) bound: usize,
}

impl Player {
    /// For a recording of which `role` is played; `events` are from the connections.
    pub(super) fn new(
        role: Side,
        steps: Vec<(usize, Entry)>,
        variables: Variables,
        events: mpsc::Receiver<(u32, Live)>,
    ) -> Self {
        let mut dialects = BTreeMap::new();
        let mut tracks: BTreeMap<u32, Track> = BTreeMap::new();
        let mut ears: BTreeMap<u32, Ear> = BTreeMap::new();
        for (index, (line, entry)) in steps.iter().enumerate() {
            if let What::Request(request) = &entry.what {
                dialects.insert(entry.on, Dialect::of(request));
            }
            if entry.from == role {
                continue;
            }
            let dialect = dialects.get(&entry.on).copied().unwrap_or(Dialect::Other);
            let ear = ears.entry(entry.on).or_insert_with(|| Ear::new(dialect, entry.from));
            let track = tracks.entry(entry.on).or_default();
            for unit in ear.hear(&entry.what) {
                track.expect(index, *line, unit);
            }
        }
        let (links, differences) = (BTreeMap::new(), Vec::new());
        // Those have heard the recording; now it is the turn of the real thing.
        let ears = BTreeMap::new();
        Self {
            role,
            steps,
            dialects,
            tracks,
            ears,
            links,
            left: BTreeSet::new(),
            events,
            variables,
            differences,
            said: 0,
            heard: 0,
            failed: None,
        }
    }

    /// Plays to the end. `open` makes a connection, for whoever plays the client.
    pub(super) async fn play(
        mut self,
        pace: Pace,
        bar: &mut Bar,
        open: impl Fn(u32, Request) -> mpsc::Sender<What>,
    ) -> Result<Played, Failure> {
        let began = Instant::now();
        let steps = std::mem::take(&mut self.steps);
        let total = steps.len() as u64;
        for (index, (_, entry)) in steps.iter().enumerate() {
            bar.show(index as u64, total, || progress(index, total, began.elapsed(), entry.at));
            if entry.from != self.role {
                continue;
            }
            let due =
                pace.speed.map(|speed| began + Duration::from_millis(entry.at).div_f64(speed).min(LONGEST));
            self.wait(index, due, pace.patience).await;
            if let Some(why) = self.failed.take() {
                bar.clear();
                return Err(Failure::unreachable(why));
            }
            self.perform(entry, &open).await;
        }
        self.wait(steps.len(), None, pace.patience).await;
        self.settle().await;
        bar.show(total, total, String::new);
        if let Some(why) = self.failed.take() {
            return Err(Failure::unreachable(why));
        }
        let met = self.tracks.values().map(Track::met).sum();
        let bound = self.variables.count();
        Ok(Played { differences: self.differences, said: self.said, heard: self.heard, met, bound })
    }

    /// Waits until it is time for a step: what was recorded before it has come, or will not any more.
    async fn wait(&mut self, step: usize, due: Option<Instant>, patience: Duration) {
        let last = Instant::now() + patience.saturating_mul(MANY);
        let mut end = Instant::now() + patience;
        while self.failed.is_none() && !self.tracks.values().all(|track| track.is_met_before(step)) {
            match timeout_at(end, self.events.recv()).await {
                Ok(Some((on, live))) => {
                    self.hear(on, live);
                    end = (Instant::now() + patience).min(last);
                }
                Ok(None) | Err(_) => break,
            }
        }
        let late: Vec<Difference> =
            self.tracks.iter_mut().flat_map(|(on, track)| track.give_up_before(*on, step)).collect();
        self.note(late);
        let Some(due) = due else { return };
        loop {
            tokio::select! {
                () = sleep_until(due) => return,
                event = self.events.recv() => match event {
                    Some((on, live)) => self.hear(on, live),
                    None => return sleep_until(due).await,
                },
            }
        }
    }

    /// Hears for a moment what nobody expects.
    async fn settle(&mut self) {
        let end = Instant::now() + SETTLE;
        while let Ok(Some((on, live))) = timeout_at(end, self.events.recv()).await {
            self.hear(on, live);
        }
    }

    async fn perform(&mut self, entry: &Entry, open: &impl Fn(u32, Request) -> mpsc::Sender<What>) {
        let dialect = self.dialect(entry.on);
        let what = said(&self.variables, dialect, &entry.what);
        self.said += 1;
        if let What::Request(request) = what {
            self.links.insert(entry.on, open(entry.on, request));
            return;
        }
        let Some(link) = self.links.get(&entry.on).cloned() else { return };
        if matches!(what, What::Close(_) | What::Lost(_)) {
            self.left.insert(entry.on);
        }
        // While a slow peer makes us wait, it is listened to.
        loop {
            tokio::select! {
                place = link.reserve() => {
                    if let Ok(place) = place {
                        place.send(what);
                    }
                    return;
                }
                Some((on, live)) = self.events.recv() => self.hear(on, live),
            }
        }
    }

    fn hear(&mut self, on: u32, live: Live) {
        match live {
            Live::Come(link) => {
                self.links.insert(on, link);
            }
            Live::Failed(why) if self.heard == 0 => self.failed = Some(why),
            Live::Failed(_) => self.heard(on, &What::Lost(true)),
            Live::Heard(what) => self.heard(on, &what),
        }
    }

    fn heard(&mut self, on: u32, what: &What) {
        self.heard += 1;
        let over = matches!(what, What::Close(_) | What::Lost(_) | What::End(_));
        if over && self.left.contains(&on) {
            return;
        }
        let dialect = self.dialect(on);
        let speaker = match self.role {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        let ear = self.ears.entry(on).or_insert_with(|| Ear::new(dialect, speaker));
        for unit in ear.hear(what) {
            let found = match self.tracks.get_mut(&on) {
                Some(track) => track.meet(on, &unit, &mut self.variables),
                None => vec![Difference {
                    place: Place { on, line: None, label: unit.label },
                    kind: Odd::New(unit.value),
                }],
            };
            self.note(found);
        }
        if over && let Some(track) = self.tracks.get_mut(&on) {
            track.end();
        }
        if on == NOBODY {
            self.ears.remove(&NOBODY);
        }
    }

    fn note(&mut self, found: Vec<Difference>) {
        let room = MAX_DIFFERENCES.saturating_sub(self.differences.len());
        self.differences.extend(found.into_iter().take(room));
    }

    fn dialect(&self, on: u32) -> Dialect {
        self.dialects.get(&on).copied().unwrap_or(Dialect::Other)
    }
}

fn progress(step: usize, total: u64, elapsed: Duration, at: u64) -> String {
    let (elapsed, at) = (elapsed.as_secs_f64(), Duration::from_millis(at).as_secs_f64());
    format!("{step} of {total} entries, {elapsed:.1} s; recorded at {at:.1} s")
}

/// How long what nobody expects may take to come after the end.
const SETTLE: Duration = Duration::from_millis(300);
/// So many times the patience is waited while other things come.
const MANY: u32 = 10;
/// Nothing is waited for longer, whatever time a recording tells.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);
const MAX_DIFFERENCES: usize = 1_000;
