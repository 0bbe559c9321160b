//! Speech in the configuration: who turns it into words.

use super::check::Findings;
use super::describe::sections;
use super::sections::Config;

sections! {
    /// What people say aloud, and who understands it.
    pub struct SpeechConfig {
        /// The model that turns speech into words.
        pub recognition: RecognitionConfig = RecognitionConfig::default(),
    }

    /// The model that turns speech into words.
    pub struct RecognitionConfig {
        /// Where the API is; `/audio/transcriptions` is added.
        pub base_url: String = "https://api.openai.com/v1".into(),
        /// The model to ask; unset, no endpoint is asked, and speech is understood by the local model of
        /// `voice` if it is there.
        pub model: Option<String> = None,
        /// The environment variable that holds the key.
        pub api_key_env: Option<String> = None,
        /// The language of those who do not say which one they speak, as a BCP-47 tag.
        pub language: Option<String> = None,
        /// How long one request may take, in milliseconds.
        pub timeout_ms: u64 = 30_000,
    }
}

impl Config {
    pub(super) fn check_speech(&self, findings: &mut Findings) {
        let recognition = &self.speech.recognition;
        findings.range("speech.recognition.timeout_ms", recognition.timeout_ms, 100..=300_000);
        if let Some(variable) = &recognition.api_key_env {
            self.check_secret("speech.recognition.api_key_env".into(), variable, 1, findings);
        }
    }
}
