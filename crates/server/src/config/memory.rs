//! Memory in the configuration: how much is found again, and how it is measured.

use super::check::Findings;
use super::describe::sections;
use super::sections::Config;

sections! {
    /// What people have asked to be remembered, laid before the agents that answer them.
    pub struct MemoryConfig {
        /// Whether memories are looked up for every turn.
        pub enabled: bool = true,
        /// How many memories an agent is shown at most.
        pub top: usize = 5,
        /// How close a memory has to be where meanings are compared, from 0 to 1.
        pub similarity: f64 = 0.7,
        /// How close a memory has to be where words are compared, from 0 to 1.
        pub overlap: f64 = 0.3,
        /// The model that says what texts mean.
        pub embeddings: EmbeddingsConfig = EmbeddingsConfig::default(),
    }

    /// The model that says what texts mean.
    pub struct EmbeddingsConfig {
        /// Where the API is; `/embeddings` is added.
        pub base_url: String = "https://api.openai.com/v1".into(),
        /// The model to ask; unset, memories are found by their words.
        pub model: Option<String> = None,
        /// How many numbers it is to answer with; unset, as many as it likes.
        pub dimensions: Option<u32> = None,
        /// The environment variable that holds the key.
        pub api_key_env: Option<String> = None,
        /// How long it may take, in milliseconds; then words have to do.
        pub timeout_ms: u64 = 5_000,
    }
}

impl Config {
    pub(super) fn check_memory(&self, findings: &mut Findings) {
        let memory = &self.memory;
        findings.range("memory.top", memory.top, 1..=100);
        findings.range("memory.similarity", memory.similarity, 0.0..=1.0);
        findings.range("memory.overlap", memory.overlap, 0.0..=1.0);
        findings.range("memory.embeddings.timeout_ms", memory.embeddings.timeout_ms, 10..=120_000);
        if let Some(dimensions) = memory.embeddings.dimensions {
            findings.range("memory.embeddings.dimensions", dimensions, 1..=8_192);
        }
        if let Some(variable) = &memory.embeddings.api_key_env {
            self.check_secret("memory.embeddings.api_key_env".into(), variable, 1, findings);
        }
    }
}
