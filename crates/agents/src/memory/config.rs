//! How an endpoint for embeddings is reached and used.

use serde::{Deserialize, Serialize};

use crate::openai::Secret;

/// How an [`Embedder`](super::Embedder) reaches its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderConfig {
    /// Where the API is; `/embeddings` is added.
    pub base_url: String,
    /// The model to ask.
    pub model: String,
    /// How many numbers an embedding is to have; what the model likes best unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<u32>,
    /// The environment variable that holds the key; read by the program, not by this crate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The key itself; never read from a file, and never written to one.
    #[serde(skip)]
    pub api_key: Option<Secret>,
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

impl Default for EmbedderConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.openai.com/v1".into(),
            model: String::new(),
            dimensions: None,
            api_key_env: None,
            api_key: None,
            connect_timeout_ms: 5_000,
            timeout_ms: 10_000,
            attempts: 3,
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
        let config = EmbedderConfig { api_key: Some(Secret::new("sk-1")), ..EmbedderConfig::default() };
        assert!(!format!("{config:?}").contains("sk-1"));
        assert!(!serde_json::to_string(&config).unwrap().contains("sk-1"));
        assert!(serde_json::from_str::<EmbedderConfig>(r#"{"api_key":"sk-1"}"#).is_err());
    }
}
