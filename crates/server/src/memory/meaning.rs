//! A model that says what texts mean; whoever cannot reach it does without it for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_agents::Secret;
use switchboard_agents::memory::{Embedder, EmbedderConfig, EmbedderError};
use tokio::time::{Instant, timeout};

use crate::config::Config;

#[derive(Debug)]
pub(super) struct Meaning {
    embedder: Embedder,
    /// How long somebody who waits for an answer may be kept waiting.
    patience: Duration,
    /// Until when it is left alone.
    resting: Mutex<Option<Instant>>,
    warned: AtomicBool,
}

impl Meaning {
    /// None if no model is configured.
    pub(super) fn new(config: &Config) -> Result<Option<Self>, String> {
        let embeddings = &config.memory.embeddings;
        let Some(model) = &embeddings.model else { return Ok(None) };
        let key = embeddings.api_key_env.as_deref().and_then(|name| config.secrets.find(name));
        let embedder = Embedder::new(EmbedderConfig {
            base_url: embeddings.base_url.clone(),
            model: model.clone(),
            dimensions: embeddings.dimensions,
            api_key: key.map(Secret::new),
            timeout_ms: embeddings.timeout_ms,
            ..EmbedderConfig::default()
        });
        Ok(Some(Self {
            embedder: embedder.map_err(|error| format!("memory.embeddings: {error}"))?,
            patience: Duration::from_millis(embeddings.timeout_ms),
            resting: Mutex::new(None),
            warned: AtomicBool::new(false),
        }))
    }

    /// What a text means, for somebody who waits; none if that cannot be found out now.
    pub(super) async fn of(&self, text: &str) -> Option<Vec<f32>> {
        let slow = || EmbedderError::Unavailable("the embedding endpoint is too slow".into());
        let texts = [text];
        let asked = timeout(self.patience, self.ask(&texts)).await;
        let answered = asked.unwrap_or_else(|_| Some(Err(slow())));
        self.judge(answered)?.pop()
    }

    /// What texts mean, in their order; none if that cannot be found out now.
    pub(super) async fn of_all(&self, texts: &[&str]) -> Option<Vec<Vec<f32>>> {
        let answered = self.ask(texts).await;
        self.judge(answered)
    }

    /// None while it is left alone.
    async fn ask(&self, texts: &[&str]) -> Option<Result<Vec<Vec<f32>>, EmbedderError>> {
        let resting = self.resting.lock().is_some_and(|until| Instant::now() < until);
        if resting {
            return None;
        }
        Some(self.embedder.embed(texts).await)
    }

    fn judge(&self, answered: Option<Result<Vec<Vec<f32>>, EmbedderError>>) -> Option<Vec<Vec<f32>>> {
        match answered? {
            Ok(vectors) => {
                self.warned.store(false, Ordering::Relaxed);
                Some(vectors)
            }
            Err(error) => {
                *self.resting.lock() = Some(Instant::now() + REST);
                // Once, until it has worked again.
                if !self.warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "memories are found by their words until embeddings work again");
                }
                None
            }
        }
    }
}

/// For how long an endpoint is left alone that has failed.
const REST: Duration = Duration::from_secs(30);
