//! A model that turns texts into points, so that what means the same lies close together.

use std::time::Duration;

use reqwest::{Client, Response, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use super::config::EmbedderConfig;
use crate::http;

/// Asks an endpoint that is compatible with OpenAI's embeddings.
#[derive(Debug)]
pub struct Embedder {
    config: EmbedderConfig,
    client: Client,
    url: Url,
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

/// Why an attempt brought nothing.
struct Trouble {
    error: EmbedderError,
    /// Whether another attempt may help.
    again: bool,
    /// What the endpoint asks for before that.
    after: Option<Duration>,
}

impl From<EmbedderError> for Trouble {
    fn from(error: EmbedderError) -> Self {
        Self { error, again: false, after: None }
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
        if config.attempts == 0 {
            return Err(invalid("`attempts` has to be at least 1"));
        }
        if config.dimensions.is_some_and(|count| count == 0 || count as usize > MAX_DIMENSIONS) {
            return Err(invalid(&format!("`dimensions` has to be from 1 to {MAX_DIMENSIONS}")));
        }
        if config.api_key.as_ref().is_some_and(|key| !key.reveal().bytes().all(|b| b.is_ascii_graphic())) {
            return Err(invalid("the API key holds characters that no key can have"));
        }
        let url = Url::parse(&format!("{}/embeddings", config.base_url.trim_end_matches('/')))
            .map_err(|error| invalid(&format!("`base_url`: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("`base_url` has to begin with http:// or https://"));
        }
        let client = http::client(url.scheme(), Duration::from_millis(config.connect_timeout_ms))
            .map_err(|error| invalid(&error.to_string()))?
            .build()
            .map_err(|_| invalid("cannot set up HTTP"))?;
        Ok(Self { config, client, url })
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
        let mut body = json!({ "model": self.config.model, "input": texts });
        if let Some(dimensions) = self.config.dimensions {
            body["dimensions"] = json!(dimensions);
        }
        // So that many who ask at once do not come back at once.
        let spread = Sha256::digest(texts.concat().as_bytes());
        let longest = Duration::from_millis(self.config.max_backoff_ms);
        let mut attempt = 1;
        loop {
            let trouble = match self.attempt(&body, texts.len()).await {
                Ok(embeddings) => return Ok(embeddings),
                Err(trouble) => trouble,
            };
            attempt += 1;
            let patient = trouble.after.is_none_or(|after| after <= longest);
            if !trouble.again || !patient || attempt > self.config.attempts {
                return Err(trouble.error);
            }
            let spread = spread.get(attempt as usize % 32).copied().unwrap_or_default();
            let usual = http::backoff(self.config.backoff_ms, self.config.max_backoff_ms, attempt, spread);
            let delay = trouble.after.unwrap_or(usual);
            tracing::warn!(attempt, delay_ms = delay.as_millis(), "asking for embeddings again");
            sleep(delay).await;
        }
    }

    async fn attempt(&self, body: &Value, wanted: usize) -> Result<Vec<Vec<f32>>, Trouble> {
        let timeout = Duration::from_millis(self.config.timeout_ms);
        let mut request = self.client.post(self.url.clone()).timeout(timeout).json(body);
        if let Some(key) = &self.config.api_key {
            request = request.bearer_auth(key.reveal());
        }
        let response = request.send().await.map_err(|error| self.lost(&error))?;
        if !response.status().is_success() {
            return Err(refused(&response));
        }
        let answer = self.read(response).await?;
        let answer: Answer = serde_json::from_slice(&answer)
            .map_err(|_| EmbedderError::BadResponse("it is not what was expected"))?;
        Ok(in_order(answer, wanted)?)
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, Trouble> {
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|error| self.lost(&error))? {
            if body.len() + bytes.len() > MAX_ANSWER_BYTES {
                return Err(EmbedderError::BadResponse("it is too long").into());
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    fn lost(&self, error: &reqwest::Error) -> Trouble {
        let message = if error.is_connect() {
            "the embedding endpoint cannot be reached".to_owned()
        } else if error.is_timeout() {
            format!("the embedding endpoint took longer than {} ms", self.config.timeout_ms)
        } else {
            "the connection to the embedding endpoint was lost".to_owned()
        };
        // Whoever was patient once need not be so again.
        let again = error.is_connect() || !error.is_timeout();
        Trouble { error: EmbedderError::Unavailable(message), again, after: None }
    }
}

/// Makes sense of a refusal.
fn refused(response: &Response) -> Trouble {
    let status = response.status().as_u16();
    let message = match status {
        401 | 403 => format!("the embedding endpoint refused the API key (HTTP {status})"),
        404 => "the embedding endpoint knows no such model or path (HTTP 404)".to_owned(),
        429 => "the embedding endpoint is overloaded or out of quota (HTTP 429)".to_owned(),
        500.. => format!("the embedding endpoint failed (HTTP {status})"),
        _ => format!("the embedding endpoint refused the request (HTTP {status})"),
    };
    match status {
        408 | 409 | 425 | 429 | 500.. => {
            let after = http::retry_after(response.headers());
            Trouble { error: EmbedderError::Unavailable(message), again: true, after }
        }
        _ => EmbedderError::Refused(message).into(),
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
