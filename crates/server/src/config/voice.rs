//! Voices in the configuration: who listens and who speaks, for protocols that carry audio.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::check::Findings;
use super::describe::{Describe, Kind, sections};
use super::sections::{Config, choices};

sections! {
    /// Who listens and who speaks, for protocols that carry audio.
    pub struct VoiceConfig {
        /// Who turns speech into words: `local`, a model on this machine; `endpoint`, that of
        /// `speech.recognition`; `auto`, the endpoint where one is configured and the local model
        /// otherwise; or nobody (`none`).
        pub recogniser: RecogniserChoice = RecogniserChoice::Auto,
        /// Who speaks: a program of this machine (`flite`, `espeak` or `pico`); `endpoint`, that of
        /// `voice.synthesis`; `auto`, the endpoint where one is configured and otherwise the first
        /// program that is installed; or nobody (`none`).
        pub synthesiser: SynthesiserChoice = SynthesiserChoice::Auto,
        /// The voice to speak with, as the synthesiser names it; unset, its own choice.
        pub voice: Option<String> = None,
        /// The folder of local models; unset, `models` in the data folder. `switchboard models fetch`
        /// fills it.
        pub models_dir: Option<PathBuf> = None,
        /// How long it may take to turn a turn of speech into words, in milliseconds.
        pub hear_timeout_ms: u64 = 10_000,
        /// How long it may take to turn a sentence into speech, in milliseconds.
        pub speak_timeout_ms: u64 = 10_000,
        /// Turns of speech that are turned into words at the same time. Each takes a core of this machine
        /// and about 100 MiB where the model is local.
        pub recognitions: usize = 2,
        /// Sentences that are turned into speech at the same time.
        pub syntheses: usize = 4,
        /// The endpoint that speaks.
        pub synthesis: SynthesisConfig = SynthesisConfig::default(),
    }

    /// The endpoint that speaks.
    pub struct SynthesisConfig {
        /// Where the API is; `/audio/speech` is added.
        pub base_url: String = "https://api.openai.com/v1".into(),
        /// The model to ask; unset, no endpoint speaks.
        pub model: Option<String> = None,
        /// The environment variable that holds the key.
        pub api_key_env: Option<String> = None,
    }
}

choices! {
    /// Who turns speech into words.
    pub enum RecogniserChoice {
        /// An endpoint if there is one, the local model otherwise.
        Auto = "auto",
        /// A model on this machine.
        Local = "local",
        /// An endpoint.
        Endpoint = "endpoint",
        /// Nobody.
        None = "none",
    }

    /// Who speaks.
    pub enum SynthesiserChoice {
        /// An endpoint if there is one, otherwise a program.
        Auto = "auto",
        /// The program Flite.
        Flite = "flite",
        /// The program eSpeak NG.
        Espeak = "espeak",
        /// The program Pico.
        Pico = "pico",
        /// An endpoint.
        Endpoint = "endpoint",
        /// Nobody.
        None = "none",
    }
}

impl Config {
    /// The folder of local models.
    pub fn models_dir(&self) -> PathBuf {
        self.voice.models_dir.clone().unwrap_or_else(|| self.data_dir.join("models"))
    }

    pub(super) fn check_voice(&self, findings: &mut Findings) {
        let voice = &self.voice;
        findings.range("voice.hear_timeout_ms", voice.hear_timeout_ms, 100..=120_000);
        findings.range("voice.speak_timeout_ms", voice.speak_timeout_ms, 100..=120_000);
        findings.range("voice.recognitions", voice.recognitions, 1..=64);
        findings.range("voice.syntheses", voice.syntheses, 1..=64);
        if let Some(variable) = &voice.synthesis.api_key_env {
            self.check_secret("voice.synthesis.api_key_env".into(), variable, 1, findings);
        }
        if voice.recogniser == RecogniserChoice::Endpoint && self.speech.recognition.model.is_none() {
            findings
                .add("voice.recogniser", "needs speech.recognition.model, which the endpoint is asked for");
        }
        if voice.synthesiser == SynthesiserChoice::Endpoint && voice.synthesis.model.is_none() {
            findings.add("voice.synthesiser", "needs voice.synthesis.model, which the endpoint is asked for");
        }
    }
}
