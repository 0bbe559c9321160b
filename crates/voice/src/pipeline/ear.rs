//! Who speaks, since when, and until when: a pure machine from samples to signs.

use std::collections::VecDeque;
use std::fmt;

use earshot::Detector;

use crate::audio::{EAR_RATE, level_db};

#[cfg(test)]
mod tests;
mod turn;

use turn::Turn;

/// Listens to one side of a conversation. Knows no time but that of the samples it hears.
pub(crate) struct Ear {
    detector: Box<Detector>,
    /// How loud it was lately, as the mean of squares under its root.
    loudness: f32,
    /// Samples that do not fill a frame yet.
    rest: Vec<f32>,
    /// Of the last frames, how likely each is speech.
    scores: VecDeque<f32>,
    /// How many frames ago the last one with a voice was.
    quiet: usize,
    /// What was heard last, whether or not it belongs to a turn.
    recent: VecDeque<f32>,
    attention: Attention,
}

enum Attention {
    Away,
    Overhearing(Suspicion),
    Listening(Box<Turn>),
}

/// What is thought of what is overheard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspicion {
    None,
    /// For so many frames.
    Suspected(usize),
    /// So many frames ago.
    Told(usize),
}

/// What an ear has noticed.
#[derive(Clone, PartialEq)]
pub(crate) enum Sign {
    /// That may be speech beside the answer, or noise.
    Suspected,
    /// It was noise, or has ended.
    Relieved,
    /// Somebody speaks who did not before.
    Speech { confidence: f32, level_db: f32 },
    /// The silence that ends the turn.
    Silence,
    /// A piece of speech between two pauses, to be understood by itself.
    Piece(Piece),
    /// It is worth while to ask what was said so far.
    Interim,
}

/// Some speech, as long as a recogniser can take at once.
#[derive(Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) samples: Vec<f32>,
    pub(crate) mark: Mark,
}

/// Which speech a piece holds: one with the same mark holds the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    cuts: u32,
    voiced: usize,
}

/// What is left when a turn ends.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Whether anybody spoke.
    pub(crate) spoke: bool,
    /// The speech that was not given as a piece before.
    pub(crate) tail: Option<Piece>,
}

impl Ear {
    pub(crate) fn new() -> Self {
        Self {
            detector: Detector::default_boxed(),
            loudness: 0.0,
            rest: Vec::with_capacity(FRAME),
            scores: VecDeque::with_capacity(WINDOW),
            quiet: 0,
            recent: VecDeque::new(),
            attention: Attention::Away,
        }
    }

    /// A turn begins. What was overheard may be its head, and then needs no sign that somebody speaks.
    pub(crate) fn listen(&mut self, silence_ms: Option<u32>, overheard: bool, signs: &mut Vec<Sign>) {
        let told = overheard && matches!(self.attention, Attention::Overhearing(Suspicion::Told(_)));
        let head: Vec<f32> = if overheard { self.recent.drain(..).collect() } else { Vec::new() };
        self.restart();
        let patience = silence_ms.map(|ms| (ms as usize).div_ceil(FRAME_MS));
        self.attention = Attention::Listening(Box::new(Turn::new(patience, told)));
        self.hear(&head, signs);
    }

    /// Whether to notice speech outside of turns. A turn that is under way is not disturbed.
    pub(crate) fn overhear(&mut self, whether: bool) {
        match (&self.attention, whether) {
            (Attention::Away, true) => {
                self.restart();
                self.attention = Attention::Overhearing(Suspicion::None);
            }
            (Attention::Overhearing(_), false) => {
                self.restart();
                self.attention = Attention::Away;
            }
            (Attention::Listening(_), _) | (Attention::Away, false) | (Attention::Overhearing(_), true) => {}
        }
    }

    /// The turn is over.
    pub(crate) fn conclude(&mut self) -> Ending {
        match std::mem::replace(&mut self.attention, Attention::Away) {
            Attention::Listening(turn) => {
                self.restart();
                let spoke = turn.spoke || turn.voiced >= FEWEST_VOICED;
                let tail = if spoke { turn.tail() } else { None };
                Ending { spoke, tail }
            }
            Attention::Away | Attention::Overhearing(_) => Ending { spoke: false, tail: None },
        }
    }

    /// What was said since the last piece; none if nothing was.
    pub(crate) fn tail(&self) -> Option<Piece> {
        match &self.attention {
            Attention::Listening(turn) => turn.tail(),
            Attention::Away | Attention::Overhearing(_) => None,
        }
    }

    /// Whether somebody has spoken in the turn that is listened to, and the turn has not ended.
    pub(crate) fn awaits_silence(&self) -> bool {
        match &self.attention {
            Attention::Listening(turn) => turn.spoke && !turn.ended && turn.patience.is_some(),
            Attention::Away | Attention::Overhearing(_) => false,
        }
    }

    /// Nothing comes any more, which is silence too.
    pub(crate) fn give_up(&mut self, signs: &mut Vec<Sign>) {
        if self.awaits_silence()
            && let Attention::Listening(turn) = &mut self.attention
        {
            turn.ended = true;
            signs.push(Sign::Silence);
        }
    }

    /// Hears some samples at [`EAR_RATE`].
    pub(crate) fn hear(&mut self, samples: &[f32], signs: &mut Vec<Sign>) {
        if matches!(self.attention, Attention::Away) {
            return;
        }
        let mut samples = samples;
        while !samples.is_empty() {
            let (now, later) = samples.split_at(samples.len().min(FRAME - self.rest.len()));
            self.rest.extend_from_slice(now);
            samples = later;
            if self.rest.len() == FRAME {
                let frame = std::mem::take(&mut self.rest);
                self.frame(&frame, signs);
                self.rest = frame;
                self.rest.clear();
            }
        }
    }

    fn frame(&mut self, frame: &[f32], signs: &mut Vec<Sign>) {
        let score = self.score(frame);
        let score = if score.is_finite() { score } else { 0.0 };
        if self.scores.len() == WINDOW {
            self.scores.pop_front();
        }
        self.scores.push_back(score);
        self.quiet = if score >= VOICE { 0 } else { self.quiet.saturating_add(1) };
        self.recent.extend(frame);
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
        match &mut self.attention {
            Attention::Away => {}
            Attention::Overhearing(suspicion) => {
                let voiced =
                    |frames: usize| self.scores.iter().rev().take(frames).filter(|s| **s >= VOICE).count();
                *suspicion = match *suspicion {
                    Suspicion::None | Suspicion::Suspected(_) if voiced(WINDOW) >= TELL => {
                        signs.extend([Sign::Suspected, speech(&self.scores, &self.recent)]);
                        Suspicion::Told(0)
                    }
                    Suspicion::None if voiced(SUSPECT_OF) >= SUSPECT => {
                        signs.push(Sign::Suspected);
                        Suspicion::Suspected(0)
                    }
                    Suspicion::None => Suspicion::None,
                    Suspicion::Suspected(frames) if self.quiet >= RELIEF || frames >= LONGEST_DOUBT => {
                        signs.push(Sign::Relieved);
                        Suspicion::None
                    }
                    Suspicion::Suspected(frames) => Suspicion::Suspected(frames + 1),
                    Suspicion::Told(_) if self.quiet >= GONE => {
                        signs.push(Sign::Relieved);
                        Suspicion::None
                    }
                    Suspicion::Told(frames) => {
                        // Whoever was told has had the time to interrupt the answer.
                        if frames == IGNORED {
                            signs.push(Sign::Relieved);
                        }
                        Suspicion::Told(frames.saturating_add(1))
                    }
                };
            }
            Attention::Listening(turn) => {
                let voiced = self.scores.iter().filter(|score| **score >= VOICE).count();
                if !turn.spoke && voiced >= BEGIN {
                    turn.spoke = true;
                    signs.push(speech(&self.scores, &self.recent));
                }
                turn.frame(frame, score, self.quiet, signs);
            }
        }
    }

    /// How likely a frame is speech. The detector takes for speech whatever is loud enough, so that what is very
    /// loud is turned down for it.
    fn score(&mut self, frame: &[f32]) -> f32 {
        let energy: f32 = frame.iter().map(|sample| sample * sample).sum();
        let loudness = (energy / FRAME as f32).sqrt();
        self.loudness = if loudness.is_finite() { loudness.max(self.loudness * FADING) } else { 0.0 };
        let gain = (LOUD / self.loudness.max(LOUD)).min(1.0);
        let mut quieter = [0.0; FRAME];
        for (quiet, sample) in quieter.iter_mut().zip(frame) {
            *quiet = sample * gain;
        }
        self.detector.predict_f32(&quieter)
    }

    fn restart(&mut self) {
        self.loudness = 0.0;
        self.detector.reset();
        self.rest.clear();
        self.scores.clear();
        self.recent.clear();
        self.quiet = 0;
    }
}

/// The sign that somebody speaks, of the scores and samples that say so.
fn speech(scores: &VecDeque<f32>, recent: &VecDeque<f32>) -> Sign {
    let voiced = || scores.iter().filter(|score| **score >= VOICE);
    let confidence = voiced().sum::<f32>() / voiced().count().max(1) as f32;
    let window: Vec<f32> = recent.iter().rev().take(scores.len() * FRAME).copied().collect();
    Sign::Speech { confidence: confidence.clamp(0.0, 1.0), level_db: level_db(&window) }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.attention {
            Attention::Away => f.write_str("Ear(away)"),
            Attention::Overhearing(suspicion) => write!(f, "Ear(overhearing, {suspicion:?})"),
            Attention::Listening(turn) => write!(f, "Ear(listening, {} frames)", turn.frames),
        }
    }
}

// What people say is not for logs.
impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} ms)", self.samples.len() * 1000 / EAR_RATE as usize)
    }
}

impl fmt::Debug for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suspected => f.write_str("Suspected"),
            Self::Relieved => f.write_str("Relieved"),
            Self::Speech { .. } => f.write_str("Speech"),
            Self::Silence => f.write_str("Silence"),
            Self::Piece(piece) => write!(f, "{piece:?}"),
            Self::Interim => f.write_str("Interim"),
        }
    }
}

/// Samples that the detector looks at together, and the milliseconds they last.
const FRAME: usize = 256;
const FRAME_MS: usize = 16;
/// What is louder is turned down; and how much of a loudness is left after a frame.
const LOUD: f32 = 0.1;
const FADING: f32 = 0.98;
/// From this score on a frame is taken for speech; steady tones stay just below.
const VOICE: f32 = 0.6;
/// Frames that are looked at for the beginning of speech, 384 ms.
const WINDOW: usize = 24;
/// So many of them are speech: 192 ms in a turn, and 256 ms where an answer would be interrupted.
const BEGIN: usize = 12;
const TELL: usize = 16;
/// So many frames of so many make one hold one's breath.
const SUSPECT: usize = 4;
const SUSPECT_OF: usize = 6;
/// Frames of silence after which it was no speech, and after which whoever spoke has stopped.
const RELIEF: usize = 250 / FRAME_MS;
const GONE: usize = 1_000 / FRAME_MS;
/// Frames for which one waits for certainty, and for an interruption.
const LONGEST_DOUBT: usize = 1_500 / FRAME_MS;
const IGNORED: usize = 2_000 / FRAME_MS;
/// Frames of speech that make the shortest word, 128 ms.
const FEWEST_VOICED: usize = 8;
/// Samples that are kept of what is overheard, 1000 ms.
const RECENT: usize = EAR_RATE as usize;
