//! The words of one turn.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::{Heard, Pii, Unheard, VoiceEvent};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::ear::{Ending, Mark, Piece};
use super::outlet::Outlet;
use crate::hear::{HearError, Hints, Speech};
use crate::house::Hearing;

/// What there is to be understood.
#[derive(Debug)]
pub(crate) enum Work {
    /// A piece that is complete.
    Piece(Piece),
    /// What was said since the last piece, so far. Worth nothing when it comes late.
    Interim(Piece),
    /// The turn is over, since then.
    Conclude(Ending, Instant),
    /// The turn is over, and what came of it cannot be used.
    Spoil(Unheard),
}

/// Understands one turn, piece by piece while it lasts, so that little is left to do at its end.
pub(crate) struct Transcriber {
    pub(crate) turn: u64,
    pub(crate) language: String,
    pub(crate) hints: Arc<Hints>,
    pub(crate) hearing: Arc<Hearing>,
    pub(crate) outlet: Arc<Outlet>,
}

type Job = Pin<Box<dyn Future<Output = Result<Heard, HearError>> + Send>>;

/// What is known of a turn.
#[derive(Default)]
struct Draft {
    waiting: VecDeque<Piece>,
    interim: Option<Piece>,
    job: Option<(Mark, bool, Job)>,
    /// What was last made of an unfinished piece.
    guess: Option<(Mark, Heard)>,
    /// When what was last told of it, and what.
    told: Option<(Instant, String)>,
    words: Vec<Heard>,
    trouble: Option<HearError>,
    concluded: Option<Instant>,
}

impl Transcriber {
    /// Works until the turn is concluded and told of, or forgotten.
    pub(crate) async fn run(self, mut work: mpsc::Receiver<Work>) {
        let mut draft = Draft::default();
        loop {
            self.begin(&mut draft);
            let deadline = draft.concluded.map(|at| at + self.hearing.limit());
            if let Some(at) = draft.concluded
                && draft.job.is_none()
            {
                return self.finish(draft, at);
            }
            let job = draft.job.as_mut();
            let done = async {
                match (job, deadline) {
                    (Some((_, _, job)), Some(deadline)) => {
                        timeout_at(deadline, job).await.unwrap_or(Err(HearError::Late))
                    }
                    (Some((_, _, job)), None) => job.await,
                    (None, _) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                order = work.recv(), if draft.concluded.is_none() => match order {
                    None => return,
                    Some(Work::Spoil(why)) => return self.unheard(why),
                    Some(Work::Interim(piece)) => draft.interim = Some(piece),
                    Some(Work::Piece(piece)) => draft.add(piece),
                    Some(Work::Conclude(ending, at)) => {
                        if !ending.spoke {
                            return self.unheard(Unheard::NoSpeech);
                        }
                        if let Some(tail) = ending.tail {
                            draft.add(tail);
                        }
                        draft.interim = None;
                        draft.drop_guesses();
                        draft.concluded = Some(at);
                    }
                },
                result = done => {
                    if let Some((mark, whole, _)) = draft.job.take() {
                        self.understood(&mut draft, mark, whole, result);
                    }
                }
            }
        }
    }

    /// Begins with what comes next, if nothing is under way.
    fn begin(&self, draft: &mut Draft) {
        if draft.trouble.is_some() {
            draft.waiting.clear();
        }
        if draft.job.is_some() {
            return;
        }
        if let Some(piece) = draft.waiting.pop_front() {
            draft.job = Some((piece.mark, true, self.job(piece)));
        } else if let Some(piece) = draft.interim.take()
            && self.hearing.interim()
            && self.hearing.is_free()
        {
            draft.job = Some((piece.mark, false, self.job(piece)));
        }
    }

    fn job(&self, piece: Piece) -> Job {
        let hearing = Arc::clone(&self.hearing);
        let (language, hints) = (self.language.clone(), Arc::clone(&self.hints));
        let speech = Speech { samples: piece.samples, language, hints };
        Box::pin(async move { hearing.hear(&speech).await })
    }

    fn understood(&self, draft: &mut Draft, mark: Mark, whole: bool, result: Result<Heard, HearError>) {
        match (result, whole) {
            (Ok(heard), true) => draft.words.push(heard),
            (Ok(heard), false) => {
                let (text, stable) = draft.so_far(Some(&heard));
                draft.guess = Some((mark, heard));
                if !text.is_empty() && draft.is_news(&text) {
                    draft.told = Some((Instant::now(), text.clone()));
                    self.outlet.tell(VoiceEvent::Partial { turn: self.turn, text: Pii(text), stable });
                }
            }
            // Whoever cannot be understood so far may be understood in the end.
            (Err(error), false) => tracing::debug!(%error, "an unfinished turn was not understood"),
            (Err(error), true) => draft.trouble = Some(error),
        }
    }

    fn finish(&self, draft: Draft, concluded: Instant) {
        if let Some(trouble) = draft.trouble {
            // Whoever has spoken is told that it was in vain, and whoever runs the server why.
            tracing::warn!(error = %trouble, "a turn was not understood");
            return self.unheard(trouble.into());
        }
        let (text, _) = draft.so_far(None);
        if text.is_empty() {
            return self.unheard(Unheard::NoWords);
        }
        let heard = Heard {
            text: Pii(text),
            confidence: mean_confidence(&draft.words),
            language: draft.words.into_iter().find_map(|heard| heard.language),
        };
        let took_ms = u64::try_from(concluded.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.outlet.tell(VoiceEvent::Heard { turn: self.turn, heard, took_ms });
    }

    fn unheard(&self, why: Unheard) {
        self.outlet.tell(VoiceEvent::Unheard { turn: self.turn, why });
    }
}

impl Draft {
    /// A piece that is complete: if that is all that the last guess was about, the guess was right.
    fn add(&mut self, piece: Piece) {
        self.interim = None;
        if let Some((_, heard)) = self.guess.take_if(|(mark, _)| *mark == piece.mark) {
            self.words.push(heard);
            return;
        }
        match &mut self.job {
            Some((mark, whole, _)) if *mark == piece.mark => *whole = true,
            Some((_, false, _)) => {
                self.job = None;
                self.waiting.push_back(piece);
            }
            Some(_) | None => self.waiting.push_back(piece),
        }
    }

    /// Whether it is time to tell again what was understood so far.
    fn is_news(&self, text: &str) -> bool {
        self.told.as_ref().is_none_or(|(at, told)| at.elapsed() >= BETWEEN_PARTIALS && told != text)
    }

    /// Gives up a guess that nobody needs any more.
    fn drop_guesses(&mut self) {
        self.job.take_if(|(_, whole, _)| !*whole);
    }

    /// All words so far, and how many characters of them will not change.
    fn so_far(&self, guess: Option<&Heard>) -> (String, usize) {
        let mut text = String::new();
        let mut stable = 0;
        for (settled, heard) in
            self.words.iter().map(|heard| (true, heard)).chain(guess.map(|heard| (false, heard)))
        {
            let words = heard.text.0.trim();
            if words.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(words);
            if settled {
                stable = text.chars().count();
            }
        }
        (text, stable)
    }
}

/// How sure all pieces are together, the longer ones weighing more.
fn mean_confidence(words: &[Heard]) -> Option<f64> {
    let weighed = || {
        let sure = |heard: &Heard| Some((heard.text.0.len() as f64, heard.confidence?));
        words.iter().filter_map(sure)
    };
    let weight: f64 = weighed().map(|(weight, _)| weight).sum();
    (weight > 0.0).then(|| weighed().map(|(weight, sure)| weight * sure).sum::<f64>() / weight)
}

/// How much may wait to be understood: a whole turn has no more pieces and guesses.
pub(crate) const MOST_WORK: usize = 128;

/// How long what was understood so far is not told again.
const BETWEEN_PARTIALS: Duration = Duration::from_secs(1);

/// How long a turn may take to be understood after its end, if nobody says otherwise.
pub(crate) const USUAL_LIMIT: Duration = Duration::from_secs(15);
