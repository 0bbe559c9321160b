//! How voices are configured.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use switchboard_agents::speech::RecogniserConfig;

use crate::pipeline::USUAL_LIMIT;
use crate::speak::SpeechConfig;

/// Who understands, who speaks, and how long that may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VoicesConfig {
    /// Who makes words of speech.
    pub recogniser: RecogniserChoice,
    /// Who makes speech of words.
    pub synthesiser: SynthesiserChoice,
    /// The voice of those who do not choose one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<String>,
    /// The folder that `models fetch` puts models into.
    pub models_dir: PathBuf,
    /// The folders in which programs that speak are looked for.
    pub program_dirs: Vec<PathBuf>,
    /// How long a turn may take to be understood after its end, in milliseconds.
    pub hear_timeout_ms: u64,
    /// How long a sentence may take to be spoken, in milliseconds.
    pub speak_timeout_ms: u64,
    /// How many turns are listened into at once. Each takes a core and about 100 MiB when that is done here.
    pub recognitions_at_once: usize,
    /// How many sentences are made at once.
    pub syntheses_at_once: usize,
}

/// Who makes words of speech.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RecogniserChoice {
    /// Nobody.
    None,
    /// A model on this machine, out of a folder of its own if one is named.
    Local {
        /// Holds `encoder_model.onnx`, `decoder_model_merged.onnx` and `tokenizer.json`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_dir: Option<PathBuf>,
    },
    /// An endpoint that is compatible with OpenAI's transcriptions.
    OpenAi(RecogniserConfig),
}

/// Who makes speech of words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum SynthesiserChoice {
    /// Nobody.
    None,
    /// Whatever is installed that knows the language.
    Auto,
    /// The program `flite`.
    Flite,
    /// The program `espeak-ng`.
    Espeak,
    /// The program `pico2wave`.
    Pico,
    /// An endpoint that is compatible with OpenAI's speech.
    OpenAi(SpeechConfig),
}

/// A configuration that makes no sense; says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// In what is said of the recogniser.
    #[error("recogniser: {0}")]
    Recogniser(String),
    /// In what is said of the synthesiser.
    #[error("synthesiser: {0}")]
    Synthesiser(String),
    /// A number is too small or too large.
    #[error("`{0}` has to be from {1} to {2}")]
    Range(&'static str, u64, u64),
}

impl VoicesConfig {
    /// Whether all numbers make sense.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let within = |name, value: u64, least, most| {
            if (least..=most).contains(&value) { Ok(()) } else { Err(ConfigError::Range(name, least, most)) }
        };
        within("hear_timeout_ms", self.hear_timeout_ms, 100, 120_000)?;
        within("speak_timeout_ms", self.speak_timeout_ms, 100, 120_000)?;
        within("recognitions_at_once", self.recognitions_at_once as u64, 1, 64)?;
        within("syntheses_at_once", self.syntheses_at_once as u64, 1, 64)
    }
}

impl Default for VoicesConfig {
    fn default() -> Self {
        Self {
            recogniser: RecogniserChoice::Local { model_dir: None },
            synthesiser: SynthesiserChoice::Auto,
            voice: None,
            models_dir: "models".into(),
            program_dirs: ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin"]
                .map(PathBuf::from)
                .into(),
            hear_timeout_ms: u64::try_from(USUAL_LIMIT.as_millis()).unwrap_or(u64::MAX),
            speak_timeout_ms: 10_000,
            recognitions_at_once: 2,
            syntheses_at_once: 4,
        }
    }
}
