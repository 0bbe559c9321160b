//! What all voices share: who understands, who speaks, and how much of that at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::{Heard, VoiceEvent};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::audio::Sound;
use crate::config::{ConfigError, RecogniserChoice, SynthesiserChoice, VoicesConfig};
use crate::hear::{HearError, Moonshine, OpenAiRecogniser, Recogniser, Speech};
use crate::models;
use crate::pipeline::Voice;
use crate::speak::{Cache, OpenAiSpeech, Program, SpeakError, Speaker, Synthesiser};

/// Everything that voices are made from; one for a whole server.
#[derive(Debug)]
pub struct Voices {
    hearing: Arc<Hearing>,
    speaking: Result<Arc<Speaking>, String>,
}

/// Whether something can be done here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// It cannot; says what is missing, and what to do about that.
    Missing(String),
}

impl Voices {
    /// Looks for what is configured and loads it. What is not there is no error: everything else works without,
    /// and [`Voices::hears`] and [`Voices::speaks`] say what is missing.
    ///
    /// # Errors
    /// The configuration makes no sense.
    pub fn new(config: VoicesConfig) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let recogniser = recogniser(&config)?;
        let synthesisers = synthesisers(&config)?;
        Ok(Self::with(&config, recogniser, synthesisers))
    }

    /// Voices of a recogniser and synthesisers that are there already, or the reasons why they are not. Of the
    /// synthesisers the first one speaks that knows the language.
    #[must_use]
    pub fn with(
        config: &VoicesConfig,
        recogniser: Result<Arc<dyn Recogniser>, String>,
        synthesisers: Result<Vec<Arc<dyn Synthesiser>>, String>,
    ) -> Arc<Self> {
        let hearing = Hearing {
            recogniser,
            seats: Semaphore::new(config.recognitions_at_once),
            limit: Duration::from_millis(config.hear_timeout_ms),
        };
        let speaking = synthesisers.map(|synthesisers| {
            Arc::new(Speaking {
                synthesisers,
                seats: Semaphore::new(config.syntheses_at_once),
                limit: Duration::from_millis(config.speak_timeout_ms),
                voice: config.voice.clone(),
                cache: Cache::new(MOST_CACHED),
            })
        });
        Arc::new(Self { hearing: Arc::new(hearing), speaking })
    }

    /// Whether speech is understood.
    #[must_use]
    pub fn hears(&self) -> Readiness {
        readiness(self.hearing.recogniser.as_ref().err())
    }

    /// Whether answers are spoken.
    #[must_use]
    pub fn speaks(&self) -> Readiness {
        readiness(self.speaking.as_ref().err())
    }

    /// A voice for one connection, which tells it what comes of what it asks. `deliver` has to hand on at once
    /// what it is given, and must not ask the voice anything. To be called inside of a runtime.
    #[must_use]
    pub fn open(self: &Arc<Self>, deliver: impl Fn(VoiceEvent) + Send + Sync + 'static) -> Voice {
        Voice::open(Arc::clone(self), deliver)
    }

    pub(crate) fn hearing(&self) -> Arc<Hearing> {
        Arc::clone(&self.hearing)
    }

    pub(crate) fn speaking(&self) -> Result<Arc<Speaking>, String> {
        self.speaking.clone()
    }
}

fn readiness(missing: Option<&String>) -> Readiness {
    missing.map_or(Readiness::Ready, |missing| Readiness::Missing(missing.clone()))
}

/// Who understands.
#[derive(Debug)]
pub(crate) struct Hearing {
    recogniser: Result<Arc<dyn Recogniser>, String>,
    seats: Semaphore,
    limit: Duration,
}

impl Hearing {
    /// How long a turn may take after its end.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Whether one may ask before a turn has ended.
    pub(crate) fn interim(&self) -> bool {
        self.recogniser.as_ref().is_ok_and(|recogniser| recogniser.interim())
    }

    /// Whether nobody would have to wait.
    pub(crate) fn is_free(&self) -> bool {
        self.seats.available_permits() > 0
    }

    pub(crate) async fn hear(&self, speech: &Speech) -> Result<Heard, HearError> {
        let recogniser =
            self.recogniser.as_ref().map_err(|missing| HearError::Unavailable(missing.clone()))?;
        let heard = async {
            let _seat = self.seats.acquire().await;
            recogniser.hear(speech).await
        };
        timeout(self.limit, heard).await.unwrap_or(Err(HearError::Late))
    }
}

/// Who speaks.
pub(crate) struct Speaking {
    synthesisers: Vec<Arc<dyn Synthesiser>>,
    seats: Semaphore,
    limit: Duration,
    voice: Option<String>,
    cache: Cache,
}

impl Speaking {
    /// One sentence, in the voice that is asked for, or else in the configured one.
    pub(crate) async fn speak(
        &self,
        text: &str,
        language: &str,
        voice: Option<&str>,
    ) -> Result<Arc<Sound>, SpeakError> {
        let voice = voice.or(self.voice.as_deref());
        let key = crate::speak::Key::new(text, language, voice);
        if let Some(sound) = self.cache.get(&key) {
            return Ok(sound);
        }
        let knows = |synthesiser: &&Arc<dyn Synthesiser>| synthesiser.knows(language);
        let synthesiser = self.synthesisers.iter().find(knows).ok_or(SpeakError::Language)?;
        let spoken = async {
            let _seat = self.seats.acquire().await;
            synthesiser.speak(text, language, voice).await
        };
        let sound = Arc::new(timeout(self.limit, spoken).await.unwrap_or(Err(SpeakError::Late))?);
        self.cache.put(key, Arc::clone(&sound));
        Ok(sound)
    }
}

impl fmt::Debug for Speaking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Speaking").field("synthesisers", &self.synthesisers).finish_non_exhaustive()
    }
}

type Found<T> = Result<Result<T, String>, ConfigError>;

fn recogniser(config: &VoicesConfig) -> Found<Arc<dyn Recogniser>> {
    match &config.recogniser {
        RecogniserChoice::None => Ok(Err("no recogniser is configured".into())),
        RecogniserChoice::OpenAi(endpoint) => {
            let recogniser = OpenAiRecogniser::new(endpoint.clone()).map_err(ConfigError::Recogniser)?;
            Ok(Ok(Arc::new(recogniser)))
        }
        RecogniserChoice::Local { .. } => Ok(local_recogniser(config)),
    }
}

/// The recogniser of this machine, loaded.
///
/// # Errors
/// Something of it is missing, or cannot be used; says what.
pub fn local_recogniser(config: &VoicesConfig) -> Result<Arc<dyn Recogniser>, String> {
    let own = match &config.recogniser {
        RecogniserChoice::Local { model_dir } => model_dir.as_ref(),
        RecogniserChoice::None | RecogniserChoice::OpenAi(_) => None,
    };
    let statuses = models::status(&config.models_dir);
    let needed = |name: &str| name == models::RUNTIME || (name == models::MOONSHINE && own.is_none());
    for status in statuses.iter().filter(|status| needed(status.model.name)) {
        // Where nobody publishes it, whatever was put in place has to do.
        let by_hand = config.models_dir.join(models::RUNTIME).join(models::RUNTIME_LIBRARY);
        let there = if status.model.packages.is_empty() { by_hand.is_file() } else { status.is_complete() };
        if !there {
            let name = status.model.name;
            return Err(format!("the model {name} is missing: run `switchboard models fetch {name}`"));
        }
        // What is loaded into this process has to be what was published.
        if status.model.name == models::RUNTIME
            && let Err(path) = models::verify(status.model, &config.models_dir)
        {
            let path = path.display();
            return Err(format!(
                "{path} is not what was fetched: delete it, and run `switchboard models fetch {}`",
                models::RUNTIME
            ));
        }
    }
    let library = config.models_dir.join(models::RUNTIME).join(models::RUNTIME_LIBRARY);
    let folder = own.cloned().unwrap_or_else(|| config.models_dir.join(models::MOONSHINE));
    let recogniser = Moonshine::load(&library, &folder, config.recognitions_at_once)?;
    Ok(Arc::new(recogniser))
}

fn synthesisers(config: &VoicesConfig) -> Found<Vec<Arc<dyn Synthesiser>>> {
    let limit = Duration::from_millis(config.speak_timeout_ms);
    let find = |speaker: Speaker| {
        let program = Program::find(speaker, &config.program_dirs, limit)?;
        Some(Arc::new(program) as Arc<dyn Synthesiser>)
    };
    let one = |speaker: Speaker| {
        let missing =
            || format!("{} is missing: install the package {}", speaker.command(), speaker.package());
        find(speaker).map(|program| vec![program]).ok_or_else(missing)
    };
    Ok(match &config.synthesiser {
        SynthesiserChoice::None => Err("no synthesiser is configured".into()),
        SynthesiserChoice::OpenAi(endpoint) => {
            let speech = OpenAiSpeech::new(endpoint.clone()).map_err(ConfigError::Synthesiser)?;
            Ok(vec![Arc::new(speech)])
        }
        SynthesiserChoice::Flite => one(Speaker::Flite),
        SynthesiserChoice::Espeak => one(Speaker::Espeak),
        SynthesiserChoice::Pico => one(Speaker::Pico),
        SynthesiserChoice::Auto => {
            let found: Vec<_> = Speaker::ALL.into_iter().filter_map(find).collect();
            if found.is_empty() {
                Err("no program that speaks is installed: install the package flite or espeak-ng".into())
            } else {
                Ok(found)
            }
        }
    })
}

/// Samples that are kept of what was said before: some minutes, in about 16 MiB.
const MOST_CACHED: usize = 4 << 20;
