//! Who records what: one recorder per client, and one clock and one count of requests for all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::history::{Ending, History, Sight, What};
use crate::words::Word;

/// What all clients of a scenario share.
#[derive(Debug)]
pub(crate) struct Book {
    shared: Arc<Shared>,
    requests: AtomicU64,
    recorders: Mutex<Vec<Recorder>>,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    words: AtomicU64,
}

impl Book {
    pub(crate) fn new() -> Arc<Self> {
        let shared = Shared { began: Instant::now(), words: AtomicU64::new(0) };
        let (requests, recorders) = Default::default();
        Arc::new(Self { shared: Arc::new(shared), requests, recorders })
    }

    /// A client that is to be checked later. `follows` names the session of which it has to see everything.
    pub(crate) fn recorder(&self, client: String, follows: Option<String>) -> Recorder {
        let history = Mutex::new(History { client, follows, sights: Vec::new() });
        let recorder = Recorder { shared: self.shared.clone(), history: Arc::new(history) };
        self.recorders.lock().push(recorder.clone());
        recorder
    }

    /// The number of a new request.
    pub(crate) fn request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Words that were seen so far.
    pub(crate) fn words(&self) -> u64 {
        self.shared.words.load(Ordering::Relaxed)
    }

    /// The time since the scenario began.
    pub(crate) fn now(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// When that time is.
    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.shared.began + at
    }

    /// How many requests ended like this.
    pub(crate) fn endings(&self, ending: Ending) -> usize {
        let ended =
            |sights: &[Sight]| sights.iter().filter(|sight| sight.what == What::Ended(ending)).count();
        self.recorders.lock().iter().map(|recorder| ended(&recorder.history.lock().sights)).sum()
    }

    /// Everything that was seen so far.
    pub(crate) fn histories(&self) -> Vec<History> {
        self.recorders.lock().iter().map(Recorder::history).collect()
    }
}

/// Records what one client sees. Clones write into the same history.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    history: Arc<Mutex<History>>,
}

impl Recorder {
    /// Something was seen just now.
    pub(crate) fn saw(&self, request: u64, what: What) {
        if matches!(what, What::Word(_)) {
            self.shared.words.fetch_add(1, Ordering::Relaxed);
        }
        self.history.lock().sights.push(Sight { at: self.shared.began.elapsed(), request, what });
    }

    /// Words of the answer to a request were seen.
    pub(crate) fn saw_words(&self, request: u64, words: &[Option<Word>]) {
        for word in words {
            self.saw(
                request,
                match word {
                    Some(word) if word.request == request => What::Word(word.index),
                    Some(_) | None => What::Garbled,
                },
            );
        }
    }

    /// The requests whose end was seen.
    pub(crate) fn ended(&self) -> Vec<u64> {
        let history = self.history.lock();
        let ends = history.sights.iter().filter(|sight| matches!(sight.what, What::Ended(_)));
        ends.map(|sight| sight.request).collect()
    }

    fn history(&self) -> History {
        self.history.lock().clone()
    }
}
