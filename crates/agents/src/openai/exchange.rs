//! One question to the endpoint and its streamed answer, tried again while nothing has come of it.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value;
use sha2::{Digest, Sha256};
use switchboard_core::model::{Failure, FailureKind};
use tokio::time::{sleep, timeout};

use super::OpenAi;
use super::answer::{Answer, Progress};
use super::source::{Broken, More, Source};
use super::wire::Chunk;
use crate::agent::AgentError;
use crate::http;
use crate::turn::Turn;

/// Why an attempt brought no answer.
enum Trouble {
    /// Nothing has come of it yet, so that another attempt does no harm.
    Again { failure: Failure, after: Option<Duration> },
    /// It is over.
    Final(AgentError),
}

impl Trouble {
    /// Something that may pass, unless a part of the answer was passed on already.
    fn new(problem: String, begun: bool) -> Self {
        if begun {
            unavailable(problem).into()
        } else {
            Self::Again { failure: failure(problem), after: None }
        }
    }
}

impl From<AgentError> for Trouble {
    fn from(error: AgentError) -> Self {
        Self::Final(error)
    }
}

impl OpenAi {
    /// Asks until there is an answer, or no hope of one.
    pub(super) async fn ask(&self, turn: &mut Turn, body: &Value) -> Result<Answer, AgentError> {
        let mut attempt = 1;
        loop {
            let (failure, after) = match self.attempt(turn, body).await {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Again { failure, after }) => (failure, after),
            };
            attempt += 1;
            let longest = Duration::from_millis(self.config.max_backoff_ms);
            if attempt > self.config.attempts || after.is_some_and(|after| after > longest) {
                return Err(AgentError::Failed(failure));
            }
            let spread = Sha256::digest(turn.brief().turn.as_str().as_bytes());
            let spread = spread.get(attempt as usize % 32).copied().unwrap_or_default();
            let usual = http::backoff(self.config.backoff_ms, self.config.max_backoff_ms, attempt, spread);
            let delay = after.unwrap_or(usual);
            tracing::warn!(attempt, delay_ms = delay.as_millis(), "asking the model again");
            turn.pause(delay).await?;
        }
    }

    async fn attempt(&self, turn: &mut Turn, body: &Value) -> Result<Answer, Trouble> {
        let first_token = sleep(Duration::from_millis(self.config.first_token_timeout_ms));
        tokio::pin!(first_token);
        let mut request = self
            .client
            .post(self.url.clone())
            .timeout(Duration::from_millis(self.config.request_timeout_ms))
            .json(body);
        if let Some(key) = &self.config.api_key {
            request = request.bearer_auth(key.reveal());
        }
        let response = tokio::select! {
            response = request.send() => response.map_err(|error| self.not_sent(&error))?,
            () = &mut first_token => return Err(self.late()),
            () = turn.interrupted() => return Err(AgentError::Over.into()),
        };
        if !response.status().is_success() {
            return Err(self.refused(turn, response).await);
        }
        let mut source = Source::new(response);
        let mut progress = Progress::new(self.config.think_tags);
        let mut events = Vec::new();
        let idle = Duration::from_millis(self.config.idle_timeout_ms);
        loop {
            let more = tokio::select! {
                more = source.read(&mut events) => more,
                () = &mut first_token, if !progress.begun() => return Err(self.late()),
                () = sleep(idle), if progress.begun() => Err(Broken::Silent),
                () = turn.interrupted() => return Err(AgentError::Over.into()),
            };
            for data in events.drain(..) {
                if data.trim() == "[DONE]" {
                    source.drain().await;
                    return Ok(progress.finish(turn).await?);
                }
                let mut chunk: Chunk = serde_json::from_str(&data).map_err(|error| malformed(&error))?;
                if let Some(error) = chunk.error.take().filter(|error| !error.is_null()) {
                    return Err(self.reported(&error, progress.begun()));
                }
                progress.take(turn, chunk).await?;
            }
            let problem = match more {
                Ok(More::Yes) => continue,
                // Only what follows the answer is missing.
                _ if progress.is_whole() => return Ok(progress.finish(turn).await?),
                Ok(More::No) => "the model's answer was cut off".to_owned(),
                Err(Broken::Silent) => format!("the model fell silent for {} ms", idle.as_millis()),
                Err(Broken::Transport(error)) if error.is_timeout() => {
                    let limit = self.config.request_timeout_ms;
                    return Err(unavailable(format!("the model took longer than {limit} ms")).into());
                }
                Err(Broken::Transport(_)) => "the connection to the model was lost".to_owned(),
                Err(Broken::Format(problem)) => {
                    let message = format!("the model's answer cannot be read: {problem}");
                    return Err(AgentError::failed(FailureKind::Execution, message).into());
                }
            };
            return Err(Trouble::new(problem, progress.begun()));
        }
    }

    fn late(&self) -> Trouble {
        let limit = self.config.first_token_timeout_ms;
        unavailable(format!("the model did not begin to answer within {limit} ms")).into()
    }

    fn not_sent(&self, error: &reqwest::Error) -> Trouble {
        if error.is_timeout() && !error.is_connect() {
            let limit = self.config.request_timeout_ms;
            return unavailable(format!("the model took longer than {limit} ms")).into();
        }
        let message = if error.is_connect() {
            "the model endpoint cannot be reached"
        } else {
            "the connection to the model was lost"
        };
        Trouble::Again { failure: failure(message), after: None }
    }

    /// Makes sense of a refusal.
    async fn refused(&self, turn: &Turn, response: Response) -> Trouble {
        let status = response.status().as_u16();
        let after = http::retry_after(response.headers());
        tracing::warn!(status, "the model endpoint refused a request");
        let body = tokio::select! {
            body = read_some(response) => body,
            () = turn.interrupted() => return AgentError::Over.into(),
        };
        let detail = self.detail(&body);
        let message = match status {
            // What it says about the key is not repeated: it may quote it.
            401 | 403 => format!("the model endpoint refused the API key (HTTP {status})"),
            404 => format!("the model endpoint knows no such model or path (HTTP 404){detail}"),
            429 => format!("the model is overloaded or out of quota (HTTP 429){detail}"),
            500.. => format!("the model endpoint failed (HTTP {status}){detail}"),
            _ => format!("the model endpoint refused the request (HTTP {status}){detail}"),
        };
        let hopeless = body.contains("insufficient_quota");
        let kind = match status {
            401..=404 | 408 | 409 | 425 | 429 | 500.. => FailureKind::ModelUnavailable,
            _ => FailureKind::Execution,
        };
        let failure = Failure::new(kind, message).with_http_status(status);
        match status {
            408 | 409 | 425 | 429 | 500.. if !hopeless => Trouble::Again { failure, after },
            _ => AgentError::Failed(failure).into(),
        }
    }

    /// Makes sense of an error in the middle of an answer.
    fn reported(&self, error: &Value, begun: bool) -> Trouble {
        let said = error.get("message").and_then(Value::as_str).or(error.as_str());
        let message =
            format!("the model reported an error: {}", self.short(said.unwrap_or("no reason given")));
        match error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64) {
            Some(408 | 429 | 500..=599) => Trouble::new(message, begun),
            _ => unavailable(message).into(),
        }
    }

    /// What the endpoint says about a refusal.
    fn detail(&self, body: &str) -> String {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let said =
            value.pointer("/error/message").or_else(|| value.get("message")).or_else(|| value.get("error"));
        said.and_then(Value::as_str).map(|said| format!(": {}", self.short(said))).unwrap_or_default()
    }

    /// The endpoint's words, few and without the key.
    fn short(&self, said: &str) -> String {
        let said = match &self.config.api_key {
            Some(key) if !key.reveal().is_empty() => said.replace(key.reveal(), "[redacted]"),
            _ => said.to_owned(),
        };
        said.chars().take(MAX_DETAIL_CHARS).collect()
    }
}

/// The beginning of a body, for a message.
async fn read_some(mut response: Response) -> String {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_ERROR_BYTES {
                break;
            }
        }
    };
    let _ = timeout(ERROR_TIME, reading).await;
    String::from_utf8_lossy(&body).into_owned()
}

fn failure(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::ModelUnavailable, message)
}

fn unavailable(message: impl Into<String>) -> AgentError {
    AgentError::Failed(failure(message))
}

/// Says where a chunk is broken, but not what it says.
fn malformed(error: &serde_json::Error) -> AgentError {
    let problem = match error.classify() {
        serde_json::error::Category::Data => "not the expected fields",
        serde_json::error::Category::Eof => "cut off",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "not JSON",
    };
    let message = format!("the model sent a malformed chunk: {problem}, at column {}", error.column());
    AgentError::failed(FailureKind::Execution, message)
}

/// Bytes of an error that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Letters of an error that are repeated.
const MAX_DETAIL_CHARS: usize = 300;
/// How long an error may take.
const ERROR_TIME: Duration = Duration::from_secs(5);
