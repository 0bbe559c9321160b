//! Recognition on this machine: Moonshine tiny, run by ONNX Runtime.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor};
use parking_lot::Mutex;
use switchboard_core::{Heard, Pii};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::vocabulary::Vocabulary;
use super::{HearError, Hints, Recogniser, Speech, primary};
use crate::audio::EAR_RATE;

/// Understands English. Loaded once, and asked by a bounded number at a time.
pub struct Moonshine {
    works: Arc<Works>,
    seats: Arc<Semaphore>,
}

struct Works {
    vocabulary: Vocabulary,
    environment: Environment,
    folder: PathBuf,
    /// Those that nobody asks just now.
    idle: Mutex<Vec<Engine>>,
}

impl Works {
    /// An engine that nobody asks, or one more: there are as many as were ever asked at once.
    fn engine(&self) -> ort::Result<Engine> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| Engine::load(&self.environment, &self.folder), Ok)
    }
}

impl Moonshine {
    /// Loads the library of the runtime, and the model out of a folder. So many may ask it at once.
    ///
    /// # Errors
    /// Something is missing, or cannot be used; says what.
    pub fn load(library: &Path, folder: &Path, at_once: usize) -> Result<Self, String> {
        let environment = environment(library)?;
        let vocabulary = fs::read(folder.join("tokenizer.json"))
            .ok()
            .and_then(|file| Vocabulary::read(&file))
            .ok_or("the vocabulary of the speech model cannot be read")?;
        let engine = Engine::load(&environment, folder).map_err(|error| {
            tracing::warn!(%error, "the speech model cannot be loaded");
            "the speech model cannot be loaded"
        })?;
        let (folder, idle) = (folder.to_owned(), Mutex::new(vec![engine]));
        let works = Arc::new(Works { vocabulary, environment, folder, idle });
        Ok(Self { works, seats: Arc::new(Semaphore::new(at_once.max(1))) })
    }
}

#[async_trait]
impl Recogniser for Moonshine {
    async fn hear(&self, speech: &Speech) -> Result<Heard, HearError> {
        if !speech.language.is_empty() && !primary(&speech.language).eq_ignore_ascii_case("en") {
            return Err(HearError::Language);
        }
        if speech.samples.len() < SHORTEST {
            return Ok(nothing());
        }
        let gone = || HearError::Unavailable("the speech model has stopped".into());
        let seat = Arc::clone(&self.seats).acquire_owned().await.map_err(|_| gone())?;
        let works = Arc::clone(&self.works);
        let samples = speech.samples[..speech.samples.len().min(LONGEST)].to_vec();
        let hints = Arc::clone(&speech.hints);
        let given_up = GivenUp(Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&given_up.0);
        let heard = spawn_blocking(move || {
            // Nobody else sits down before the engine is back, whether or not it is waited for.
            let _seat = seat;
            let mut engine = works.engine()?;
            let heard = engine.hear_twice(&samples, &seen).and_then(|take| {
                let text = works.vocabulary.words(&take.numbers);
                if hints.is_empty() || text.is_empty() {
                    return Ok((text, take.likelihood));
                }
                engine.reconsider(text, &take, &hints, &works.vocabulary, &seen)
            });
            works.idle.lock().push(engine);
            heard
        });
        match heard.await.map_err(|_| gone())? {
            Ok((text, likelihood)) if text.is_empty() || likelihood < GUESSED => Ok(nothing()),
            Ok((text, likelihood)) => Ok(Heard {
                text: Pii(text),
                confidence: Some(f64::from(likelihood)),
                language: Some("en".into()),
            }),
            Err(error) => {
                tracing::warn!(%error, "the speech model failed");
                Err(HearError::Unavailable("the speech model failed".into()))
            }
        }
    }

    fn interim(&self) -> bool {
        true
    }
}

fn nothing() -> Heard {
    Heard { text: Pii(String::new()), confidence: None, language: None }
}

/// Tells the engine when nobody waits any more.
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One copy of the model.
struct Engine {
    encoder: Session,
    decoder: Session,
}

impl Engine {
    fn load(environment: &Environment, folder: &Path) -> ort::Result<Self> {
        let load = |file: &str| {
            // One thread each: many talk at once, and each of them briefly.
            Session::builder(environment)?
                .with_intra_threads(1)?
                .with_inter_threads(1)?
                .with_intra_op_spinning(false)?
                .commit_from_file(folder.join(file))
        };
        Ok(Self { encoder: load("encoder_model.onnx")?, decoder: load("decoder_model_merged.onnx")? })
    }

    /// Hears with wide margins, which the model likes best; and if it is in doubt once more with narrow ones, for
    /// it is as fickle about these as it is quick. The surer answer counts.
    fn hear_twice(&mut self, samples: &[f32], given_up: &AtomicBool) -> ort::Result<Take> {
        let wide = [&MARGIN[..], samples, &MARGIN[..]].concat();
        let first = self.hear(&wide, given_up)?;
        if first.likelihood >= SURE || samples.len() > WORTH_ANOTHER || first.numbers.is_empty() {
            return Ok(first);
        }
        let second = self.hear(samples, given_up)?;
        Ok(if second.likelihood > first.likelihood { second } else { first })
    }

    /// Holds what was understood against what may well have been said: of those transcripts that fit the sound
    /// nearly as well, the one with the most hints counts. One replacement at a time, and a few of them at most.
    fn reconsider(
        &mut self,
        text: String,
        take: &Take,
        hints: &Hints,
        vocabulary: &Vocabulary,
        given_up: &AtomicBool,
    ) -> ort::Result<(String, f32)> {
        let (mut text, mut likelihood) = (text, take.likelihood);
        for _ in 0..MOST_REPLACED {
            let mut transcripts = hints.alternatives(&text, MOST_ALTERNATIVES);
            transcripts.insert(0, text.clone());
            let written: Vec<(String, Vec<usize>)> = transcripts
                .into_iter()
                .filter_map(|text| vocabulary.numbers(&text).map(|numbers| (text, numbers)))
                .collect();
            let longest = written.iter().map(|(_, numbers)| numbers.len() + 1).max().unwrap_or_default();
            let room = MOST_SCORED / longest.max(1);
            if written.len() < 2 || room < 2 || given_up.load(Ordering::Relaxed) {
                break;
            }
            let written = &written[..written.len().min(room)];
            let numbers: Vec<&[usize]> = written.iter().map(|(_, numbers)| numbers.as_slice()).collect();
            let fits = self.score(&take.states, &numbers)?;
            let rated = written.iter().zip(&fits).map(|((text, _), fit)| fit + HINT * hints.count(text));
            let best = rated.enumerate().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
            let Some((place, _)) = best.filter(|(place, _)| *place > 0) else { break };
            likelihood = (fits[place] / (numbers[place].len() + 1) as f32).exp();
            text.clone_from(&written[place].0);
        }
        Ok((text, likelihood))
    }

    /// The logarithm of how likely each of these transcripts is for a sound, with its end.
    fn score(&mut self, states: &DynValue, transcripts: &[&[usize]]) -> ort::Result<Vec<f32>> {
        let (shape, values) = states.try_extract_tensor::<f32>()?;
        let side = |place: usize| usize::try_from(shape[place]).unwrap_or_default();
        let count = transcripts.len();
        let repeated = Tensor::from_array(([count, side(1), side(2)], values.repeat(count)))?;
        let length = transcripts.iter().map(|transcript| transcript.len() + 1).max().unwrap_or_default();
        // What stands behind a shorter transcript does not reach back to it.
        let mut inputs_ids = vec![i64::try_from(END).unwrap_or_default(); count * length];
        for (transcript, row) in transcripts.iter().zip(inputs_ids.chunks_mut(length)) {
            row[0] = START;
            for (number, cell) in transcript.iter().zip(&mut row[1..]) {
                *cell = i64::try_from(*number).unwrap_or(START);
            }
        }
        let past = Past::new(count)?;
        let ids = Tensor::from_array(([count, length], inputs_ids))?;
        let cached = Tensor::from_array(([1], vec![false]))?;
        let mut inputs: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(3 + past.0.len());
        inputs.push(("input_ids", ids.into()));
        inputs.push(("encoder_hidden_states", repeated.into()));
        inputs.push(("use_cache_branch", cached.into()));
        inputs.extend(past.0.iter().map(|memory| (memory.input.as_str(), (&memory.value).into())));
        let outputs = self.decoder.run(inputs)?;
        let (shape, scores) = outputs["logits"].try_extract_tensor::<f32>()?;
        let size = usize::try_from(shape[2]).unwrap_or_default().max(1);
        let fits = transcripts.iter().zip(scores.chunks(size * length)).map(|(transcript, rows)| {
            let wanted = transcript.iter().copied().chain([END]);
            let steps = rows.chunks(size).zip(wanted);
            steps.map(|(row, number)| log_likelihood(row, number)).sum()
        });
        Ok(fits.collect())
    }

    /// The numbers of what was said, and how likely they are.
    fn hear(&mut self, samples: &[f32], given_up: &AtomicBool) -> ort::Result<Take> {
        let most = (samples.len() as f32 / EAR_RATE as f32 * PIECES_PER_SECOND) as usize + 2;
        let sound = Tensor::from_array(([1, samples.len()], samples.to_vec()))?;
        let mut encoded = self.encoder.run(ort::inputs!["input_values" => sound])?;
        let Some(states) = encoded.remove("last_hidden_state") else {
            return Err(ort::Error::new("the encoder has no output"));
        };
        let mut past = Past::new(1)?;
        let mut numbers: Vec<usize> = Vec::new();
        let mut doubt = 0.0;
        let mut next = START;
        while numbers.len() < most && !given_up.load(Ordering::Relaxed) {
            let first = numbers.is_empty();
            let number = Tensor::from_array(([1, 1], vec![next]))?;
            let cached = Tensor::from_array(([1], vec![!first]))?;
            let mut inputs: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(3 + past.0.len());
            inputs.push(("input_ids", number.into()));
            inputs.push(("encoder_hidden_states", (&states).into()));
            inputs.push(("use_cache_branch", cached.into()));
            inputs.extend(past.0.iter().map(|memory| (memory.input.as_str(), (&memory.value).into())));
            let mut outputs = self.decoder.run(inputs)?;
            let (best, likelihood) = {
                let (_, scores) = outputs["logits"].try_extract_tensor::<f32>()?;
                choose(scores, first)
            };
            past.keep(&mut outputs, first);
            if best == END {
                break;
            }
            doubt += likelihood.max(1e-6).ln();
            next = i64::try_from(best).unwrap_or(START);
            numbers.push(best);
        }
        let likelihood = (doubt / numbers.len().max(1) as f32).exp();
        Ok(Take { numbers, likelihood, states })
    }
}

/// What was made of a sound.
struct Take {
    numbers: Vec<usize>,
    likelihood: f32,
    /// The sound, as the decoder is given it.
    states: DynValue,
}

/// The logarithm of how likely a number is.
fn log_likelihood(scores: &[f32], number: usize) -> f32 {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - highest).exp()).sum();
    scores.get(number).map_or(f32::NEG_INFINITY, |score| score - highest - sum.ln())
}

/// The best number, and how likely it is. An empty answer is only believed if it is beyond doubt: this model
/// sometimes ends before it has begun.
fn choose(scores: &[f32], first: bool) -> (usize, f32) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - highest).exp()).sum();
    let likelihood = |index: usize| scores.get(index).map_or(0.0, |score| (score - highest).exp() / sum);
    let no_end = first && likelihood(END) < SURELY_EMPTY;
    let allowed = scores.iter().enumerate().filter(|(index, _)| !(no_end && *index == END));
    let best = allowed.max_by(|a, b| a.1.total_cmp(b.1)).map_or(END, |(index, _)| index);
    (best, likelihood(best))
}

/// What the decoder remembers of the steps before.
struct Past(Vec<Memory>);

struct Memory {
    input: String,
    output: String,
    /// Made in the first step and never again.
    fixed: bool,
    value: DynValue,
}

impl Past {
    /// For so many transcripts at once.
    fn new(count: usize) -> ort::Result<Self> {
        let mut memories = Vec::with_capacity(LAYERS * 4);
        for layer in 0..LAYERS {
            for (side, fixed) in [("decoder", false), ("encoder", true)] {
                for part in ["key", "value"] {
                    let values = vec![0.0_f32; count * HEADS * WIDTH];
                    let empty = Tensor::from_array(([count, HEADS, 1, WIDTH], values))?;
                    memories.push(Memory {
                        input: format!("past_key_values.{layer}.{side}.{part}"),
                        output: format!("present.{layer}.{side}.{part}"),
                        fixed,
                        value: empty.into_dyn(),
                    });
                }
            }
        }
        Ok(Self(memories))
    }

    fn keep(&mut self, outputs: &mut ort::session::SessionOutputs<'_>, first: bool) {
        for memory in self.0.iter_mut().filter(|memory| first || !memory.fixed) {
            if let Some(value) = outputs.remove(&memory.output) {
                memory.value = value;
            }
        }
    }
}

/// The runtime, of which a process has one.
fn environment(library: &Path) -> Result<Environment, String> {
    static LOADED: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);
    let mut loaded = LOADED.lock();
    if let Some((path, environment)) = &*loaded {
        if path != library {
            tracing::warn!("the runtime of speech models is loaded already, from another place");
        }
        return Ok(environment.clone());
    }
    let failed = |error: &dyn fmt::Display| {
        tracing::warn!(%error, "the runtime of speech models cannot be loaded");
        "the runtime of speech models cannot be loaded".to_owned()
    };
    let builder = ort::init_from(library).map_err(|error| failed(&error))?;
    let environment = builder.with_telemetry(false).build().map_err(|error| failed(&error))?;
    // It warns of much that nobody can do anything about.
    environment.set_log_level(LogLevel::Error);
    *loaded = Some((library.to_owned(), environment.clone()));
    Ok(environment)
}

impl fmt::Debug for Moonshine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moonshine({} free)", self.seats.available_permits())
    }
}

const START: i64 = 1;
const END: usize = 2;
/// The shape of the tiny model.
const LAYERS: usize = 6;
const HEADS: usize = 8;
const WIDTH: usize = 36;
/// Nobody speaks faster; the model does, when it has lost the thread.
const PIECES_PER_SECOND: f32 = 6.5;
/// How likely it has to be that there are no words at all.
const SURELY_EMPTY: f32 = 0.9;
/// From here on the model is sure of itself, and up to here it only guesses what noise might say.
const SURE: f32 = 0.8;
const GUESSED: f32 = 0.25;
/// What each hint in a transcript is worth, as the logarithm of a likelihood. Measured: with more, ordinary
/// sentences begin to change.
const HINT: f32 = 2.0;
/// Replacements in one transcript, alternatives that are compared each time, and pieces of all of them together.
const MOST_REPLACED: usize = 3;
const MOST_ALTERNATIVES: usize = 12;
const MOST_SCORED: usize = 256;
/// Silence around speech.
const MARGIN: [f32; EAR_RATE as usize / 5] = [0.0; EAR_RATE as usize / 5];
/// Samples of which a second hearing does not keep anybody waiting.
const WORTH_ANOTHER: usize = EAR_RATE as usize * 4;
/// Samples that are too few for a word.
const SHORTEST: usize = EAR_RATE as usize / 10;
/// Samples beyond which the model gets lost; speech is cut into pieces before.
const LONGEST: usize = EAR_RATE as usize * 12;
