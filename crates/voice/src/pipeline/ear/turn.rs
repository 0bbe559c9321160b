//! What somebody says in one turn, cut where it can be understood piece by piece.

use super::{FEWEST_VOICED, FRAME, FRAME_MS, Mark, Piece, Sign, VOICE};

/// What a turn has brought.
pub(super) struct Turn {
    /// Frames of silence that end it.
    pub(super) patience: Option<usize>,
    pub(super) spoke: bool,
    pub(super) ended: bool,
    /// Frames in all, those with a voice, and those of these that were told of.
    pub(super) frames: usize,
    pub(super) voiced: usize,
    told: usize,
    /// What is not cut off yet: samples, and the score of each frame of them.
    samples: Vec<f32>,
    scores: Vec<f32>,
    cuts: u32,
}

impl Turn {
    pub(super) fn new(patience: Option<usize>, spoke: bool) -> Self {
        Self {
            patience,
            spoke,
            ended: false,
            frames: 0,
            voiced: 0,
            told: 0,
            samples: Vec::new(),
            scores: Vec::new(),
            cuts: 0,
        }
    }

    pub(super) fn frame(&mut self, frame: &[f32], score: f32, quiet: usize, signs: &mut Vec<Sign>) {
        let silence = self.patience.is_some_and(|patience| quiet >= patience);
        let full = self.frames >= LONGEST_TURN;
        if self.spoke && !self.ended && (silence || (full && self.patience.is_some())) {
            self.ended = true;
            signs.push(Sign::Silence);
        }
        if full {
            return;
        }
        self.samples.extend_from_slice(frame);
        self.scores.push(score);
        if score >= VOICE {
            self.voiced += 1;
        }
        if !self.holds_speech() {
            // Only the silence right before the first word belongs to it.
            self.drop_front(self.scores.len().saturating_sub(PAD));
            return;
        }
        self.frames += 1;
        let paused = quiet >= PAUSE && self.scores.len() >= SHORTEST_PIECE || quiet >= LONG_PAUSE;
        if paused {
            self.cut(self.scores.len() - quiet + PAD.min(quiet), signs);
        } else if self.scores.len() >= LONGEST_PIECE {
            self.cut(self.weakest(), signs);
        } else if self.spoke && self.voiced > self.told {
            // Once for every second of speech, and when somebody pauses: these may be the last words.
            if self.voiced - self.told >= SECOND || quiet == BREATH {
                self.told = self.voiced;
                signs.push(Sign::Interim);
            }
        }
    }

    fn holds_speech(&self) -> bool {
        self.scores.iter().any(|score| *score >= VOICE)
    }

    /// Gives away the first frames as a piece.
    fn cut(&mut self, frames: usize, signs: &mut Vec<Sign>) {
        let frames = frames.clamp(1, self.scores.len());
        let voiced = self.scores[..frames].iter().filter(|score| **score >= VOICE).count();
        if voiced >= FEWEST_VOICED {
            let samples = self.samples[..frames * FRAME].to_vec();
            signs.push(Sign::Piece(Piece { samples, mark: self.mark() }));
        } else {
            self.voiced -= voiced;
        }
        self.drop_front(frames);
        self.cuts += 1;
        self.told = self.voiced;
    }

    fn drop_front(&mut self, frames: usize) {
        self.samples.drain(..frames * FRAME);
        self.scores.drain(..frames);
    }

    /// The place near the end where it is the least likely that a word is cut.
    fn weakest(&self) -> usize {
        let from = self.scores.len() / 2;
        let around = |at: usize| self.scores[at - 2..=at + 2].iter().sum::<f32>();
        (from + 2..self.scores.len() - 2)
            .min_by(|a, b| around(*a).total_cmp(&around(*b)))
            .unwrap_or(self.scores.len())
    }

    fn mark(&self) -> Mark {
        Mark { cuts: self.cuts, voiced: self.voiced }
    }

    /// What was not cut off yet, without the silence after it.
    pub(super) fn tail(&self) -> Option<Piece> {
        let last = self.scores.iter().rposition(|score| *score >= VOICE)?;
        let frames = (last + 1 + PAD).min(self.scores.len());
        Some(Piece { samples: self.samples[..frames * FRAME].to_vec(), mark: self.mark() })
    }
}

/// Frames of silence that stay around speech, 320 ms.
const PAD: usize = 20;
/// Frames of silence at which speech is cut, if the piece is long enough, and if it is not.
const PAUSE: usize = 500 / FRAME_MS;
const LONG_PAUSE: usize = 1_500 / FRAME_MS;
const SHORTEST_PIECE: usize = 4_000 / FRAME_MS;
/// Frames that a recogniser takes at once.
const LONGEST_PIECE: usize = 10_000 / FRAME_MS;
/// Frames of a turn, 60 s.
const LONGEST_TURN: usize = 60_000 / FRAME_MS;
/// Frames of a second of speech, and of a pause that may be the end.
const SECOND: usize = 1_000 / FRAME_MS;
const BREATH: usize = 240 / FRAME_MS;
