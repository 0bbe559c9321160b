//! A model that turns speech into words.

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::header::CONTENT_TYPE;
use sha2::{Digest, Sha256};
use switchboard_core::{Heard, Pii, Utterance};

use super::answer;
use super::config::RecogniserConfig;
use super::form::Form;
use super::language::primary;
use super::recording::Recording;
use crate::endpoint::{Address, Endpoint, Patience, Unanswered};

/// Asks an endpoint that is compatible with OpenAI's transcriptions.
#[derive(Debug)]
pub struct Recogniser {
    model: String,
    /// Of those who do not say which one they speak.
    language: Option<String>,
    endpoint: Endpoint,
    /// Set once the model has turned out to know no details, so that it is not asked for them in vain every time.
    plain: AtomicBool,
}

/// Why there are no words. Says nothing of the speech, nor what the endpoint said, which may quote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecogniserError {
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// The audio is nothing that a model could read.
    #[error("the audio cannot be used: {0}")]
    Format(&'static str),
    /// The endpoint cannot be reached, or fails: later it may work.
    #[error("{0}")]
    Unavailable(String),
    /// The endpoint has been asked too often, or is not paid for more: later it may work.
    #[error("{0}")]
    Exhausted(String),
    /// The endpoint does not take such a request.
    #[error("{0}")]
    Refused(String),
    /// What the endpoint answered makes no sense.
    #[error("the answer of the speech endpoint cannot be used: {0}")]
    BadResponse(&'static str),
}

impl From<Unanswered> for RecogniserError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Unavailable(message) => Self::Unavailable(message),
            Unanswered::Exhausted(message) => Self::Exhausted(message),
            Unanswered::Refused { message, param: _ } => Self::Refused(message),
            Unanswered::TooLong => Self::BadResponse("it is too long"),
        }
    }
}

impl Recogniser {
    /// A recogniser that asks the configured model. Does not connect yet.
    ///
    /// # Errors
    /// The configuration makes no sense, or the system has no usable TLS.
    pub fn new(config: RecogniserConfig) -> Result<Self, RecogniserError> {
        let invalid = |problem: &str| RecogniserError::Config(problem.to_owned());
        if config.model.is_empty() {
            return Err(invalid("`model` is missing"));
        }
        if config.model.chars().any(char::is_control) {
            return Err(invalid("`model` holds characters that no name can have"));
        }
        let language = match &config.language {
            Some(tag) => {
                Some(primary(tag).ok_or_else(|| invalid("`language` has to be a tag such as `en`"))?)
            }
            None => None,
        };
        let address = Address {
            name: "speech",
            base_url: &config.base_url,
            path: "audio/transcriptions",
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
        let endpoint = Endpoint::new(address).map_err(RecogniserError::Config)?;
        Ok(Self { model: config.model, language, endpoint, plain: AtomicBool::new(false) })
    }

    /// What was said. The language that the utterance expects goes before the configured one.
    ///
    /// # Errors
    /// The audio cannot be used, or it was not understood, also after several attempts.
    pub async fn hear(&self, utterance: &Utterance) -> Result<Heard, RecogniserError> {
        let recording = Recording::new(&utterance.format, &utterance.audio.0)?;
        if recording.audio.is_empty() {
            return Ok(Heard { text: Pii(String::new()), confidence: None, language: None });
        }
        let language = utterance.language.as_deref().and_then(primary).or_else(|| self.language.clone());
        let plain = self.plain.load(Ordering::Relaxed);
        let answer = match self.ask(&recording, language.as_deref(), plain).await {
            Err(Unanswered::Refused { param: Some(param), .. }) if !plain && param == "response_format" => {
                self.plain.store(true, Ordering::Relaxed);
                self.ask(&recording, language.as_deref(), true).await
            }
            answer => answer,
        };
        answer::read(&answer?)
    }

    async fn ask(
        &self,
        recording: &Recording<'_>,
        language: Option<&str>,
        plain: bool,
    ) -> Result<Vec<u8>, Unanswered> {
        let detail = if plain { "json" } else { "verbose_json" };
        let mut fields = vec![("model", self.model.as_str()), ("response_format", detail)];
        fields.extend(language.map(|language| ("language", language)));
        let digest = Sha256::digest(recording.audio);
        let Form { content_type, body } = Form::new(&fields, recording, &digest);
        let fill = |request: reqwest::RequestBuilder| {
            request.header(CONTENT_TYPE, content_type.as_str()).body(body.clone())
        };
        self.endpoint.ask(&digest, fill).await
    }
}

/// Bytes of one answer: much more than anybody says in half a minute, with all that is known about every word.
const MAX_ANSWER_BYTES: usize = 1 << 20;
