//! How an endpoint for speech recognition is reached and used.

use serde::{Deserialize, Serialize};

use crate::openai::Secret;

/// How a [`Recogniser`](super::Recogniser) reaches its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecogniserConfig {
    /// Where the API is; `/audio/transcriptions` is added.
    pub base_url: String,
    /// The model to ask.
    pub model: String,
    /// The environment variable that holds the key; read by the program, not by this crate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The key itself; never read from a file, and never written to one.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// The language of those who do not say which one they speak, as a BCP-47 tag; otherwise it is guessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// How long a connection may take, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long one request may take, in milliseconds.
    pub timeout_ms: u64,
    /// How often a request is sent.
    pub attempts: u32,
    /// The first pause between two attempts, in milliseconds; it doubles each time.
    pub backoff_ms: u64,
    /// The longest pause between two attempts, in milliseconds; an endpoint that asks for more is not asked again.
    pub max_backoff_ms: u64,
}

impl Default for RecogniserConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.openai.com/v1".into(),
            model: String::new(),
            api_key_env: None,
            api_key: None,
            language: None,
            connect_timeout_ms: 5_000,
            timeout_ms: 30_000,
            attempts: 2,
            backoff_ms: 250,
            max_backoff_ms: 5_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_neither_shown_nor_stored() {
        let config = RecogniserConfig { api_key: Some(Secret::new("sk-1")), ..RecogniserConfig::default() };
        assert!(!format!("{config:?}").contains("sk-1"));
        assert!(!serde_json::to_string(&config).unwrap().contains("sk-1"));
        assert!(serde_json::from_str::<RecogniserConfig>(r#"{"api_key":"sk-1"}"#).is_err());
    }
}
