//! A model that turns texts into points, so that what means the same lies close together.

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::config::EmbedderConfig;
use crate::endpoint::{Address, Endpoint, Patience, Unanswered};

/// Asks an endpoint that is compatible with OpenAI's embeddings.
#[derive(Debug)]
pub struct Embedder {
    model: String,
    dimensions: Option<u32>,
    endpoint: Endpoint,
}

/// Why there are no embeddings. Says nothing of the texts, nor what the endpoint said, which may quote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedderError {
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// The endpoint cannot be reached, is overloaded, or fails: later it may work.
    #[error("{0}")]
    Unavailable(String),
    /// The endpoint does not take such a request.
    #[error("{0}")]
    Refused(String),
    /// What the endpoint answered makes no sense.
    #[error("the answer of the embedding endpoint cannot be used: {0}")]
    BadResponse(&'static str),
}

impl From<Unanswered> for EmbedderError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Unavailable(message) | Unanswered::Exhausted(message) => Self::Unavailable(message),
            Unanswered::Refused { message, param: _ } => Self::Refused(message),
            Unanswered::TooLong => Self::BadResponse("it is too long"),
        }
    }
}

impl Embedder {
    /// An embedder that asks the configured model. Does not connect yet.
    ///
    /// # Errors
    /// The configuration makes no sense, or the system has no usable TLS.
    pub fn new(config: EmbedderConfig) -> Result<Self, EmbedderError> {
        let invalid = |problem: &str| EmbedderError::Config(problem.to_owned());
        if config.model.is_empty() {
            return Err(invalid("`model` is missing"));
        }
        if config.dimensions.is_some_and(|count| count == 0 || count as usize > MAX_DIMENSIONS) {
            return Err(invalid(&format!("`dimensions` has to be from 1 to {MAX_DIMENSIONS}")));
        }
        let address = Address {
            name: "embedding",
            base_url: &config.base_url,
            path: "embeddings",
            api_key: config.api_key,
            patience: Patience {
                connect_timeout_ms: config.connect_timeout_ms,
                timeout_ms: config.timeout_ms,
                attempts: config.attempts,
                backoff_ms: config.backoff_ms,
                max_backoff_ms: config.max_backoff_ms,
            },
            max_answer_bytes: MAX_ANSWER_BYTES,
        };
        let endpoint = Endpoint::new(address).map_err(EmbedderError::Config)?;
        Ok(Self { model: config.model, dimensions: config.dimensions, endpoint })
    }

    /// The embedding of each text, in their order. More than [`MAX_BATCH`] texts are sent in several requests, one
    /// after another; of a text that is too long for any model, only the beginning counts.
    ///
    /// # Errors
    /// There is no embedding for at least one of them, also after several attempts.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedderError> {
        let mut embeddings = Vec::with_capacity(texts.len());
        for batch in texts.chunks(MAX_BATCH) {
            embeddings.extend(self.batch(batch).await?);
        }
        Ok(embeddings)
    }

    async fn batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedderError> {
        let texts: Vec<&str> =
            texts.iter().map(|text| &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]).collect();
        let mut body = json!({ "model": self.model, "input": texts });
        if let Some(dimensions) = self.dimensions {
            body["dimensions"] = json!(dimensions);
        }
        let spread = Sha256::digest(texts.concat().as_bytes());
        let answer = self.endpoint.ask(&spread, |request| request.json(&body)).await?;
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|_| EmbedderError::BadResponse("it is not what was expected"))?;
        in_order(answer, texts.len())
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Every embedding in the place of its text. Some endpoints count, some only keep the order.
fn in_order(answer: Answer, wanted: usize) -> Result<Vec<Vec<f32>>, EmbedderError> {
    let problem = |problem| Err(EmbedderError::BadResponse(problem));
    let dimensions = answer.data.first().map_or(0, |item| item.embedding.len());
    let mut places: Vec<Option<Vec<f32>>> = vec![None; wanted];
    for (position, Item { index, embedding }) in answer.data.into_iter().enumerate() {
        if embedding.is_empty() || embedding.len() > MAX_DIMENSIONS {
            return problem("an embedding is empty or too large");
        }
        if embedding.len() != dimensions {
            return problem("its embeddings differ in size");
        }
        if !embedding.iter().all(|number| number.is_finite()) {
            return problem("an embedding holds what is no number");
        }
        match places.get_mut(index.unwrap_or(position)) {
            Some(place @ None) => *place = Some(embedding),
            Some(Some(_)) => return problem("it holds an embedding twice"),
            None => return problem("it holds more embeddings than were asked for"),
        }
    }
    match places.into_iter().collect() {
        Some(embeddings) => Ok(embeddings),
        None => problem("it holds fewer embeddings than were asked for"),
    }
}

/// Texts of one request.
pub const MAX_BATCH: usize = 64;
/// Bytes of one text that count.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// Numbers of one embedding.
const MAX_DIMENSIONS: usize = 8192;
/// Bytes of one answer: as many numbers as may be, as long as they usually are.
const MAX_ANSWER_BYTES: usize = 16 << 20;
