//! One question to the endpoint and its streamed answer, tried again while nothing has come of it.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::Value;
use sha2::{Digest, Sha256};
use switchboard_core::model::{Failure, FailureKind, Finish, Output};
use tokio::time::{sleep, timeout};

use super::OpenAi;
use super::sse::{MAX_EVENT_BYTES, SseParser};
use super::wire::{self, Calls, Choice, Chunk, Counts, Delta};
use crate::agent::AgentError;
use crate::chunk;
use crate::turn::Turn;

/// What the model said to one question.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) calls: Vec<wire::Call>,
    pub(super) finish: Finish,
    pub(super) counts: Option<Counts>,
}

/// Why an attempt brought no answer.
enum Trouble {
    /// Nothing has come of it yet, so that another attempt does no harm.
    Again { failure: Failure, after: Option<Duration> },
    /// It is over.
    Final(AgentError),
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
            let delay = after.unwrap_or_else(|| self.config.backoff(attempt, spread));
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
        let mut state = State::default();
        let mut events = Vec::new();
        let idle = Duration::from_millis(self.config.idle_timeout_ms);
        loop {
            let more = tokio::select! {
                more = source.read(&mut events) => more,
                () = &mut first_token, if !state.begun => return Err(self.late()),
                () = sleep(idle), if state.begun => Err(Broken::Silent),
                () = turn.interrupted() => return Err(AgentError::Over.into()),
            };
            for data in events.drain(..) {
                if data.trim() == "[DONE]" {
                    source.drain().await;
                    return Ok(state.finish());
                }
                let chunk = serde_json::from_str(&data).map_err(|error| malformed(&error))?;
                state.take(turn, chunk).await?;
            }
            match more {
                Ok(More::Yes) => {}
                // Only what follows the answer is missing.
                _ if state.reason.is_some() => return Ok(state.finish()),
                Ok(More::No) => return Err(state.cut("the model's answer was cut off")),
                Err(Broken::Silent) => {
                    return Err(state.cut(&format!("the model fell silent for {} ms", idle.as_millis())));
                }
                Err(Broken::Transport(error)) if error.is_timeout() => {
                    let limit = self.config.request_timeout_ms;
                    return Err(unavailable(format!("the model took longer than {limit} ms")).into());
                }
                Err(Broken::Transport(_)) => return Err(state.cut("the connection to the model was lost")),
                Err(Broken::Format(problem)) => {
                    let message = format!("the model's answer cannot be read: {problem}");
                    return Err(AgentError::failed(FailureKind::Execution, message).into());
                }
            }
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
        let after = retry_after(response.headers());
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
        match status {
            408 | 409 | 425 | 429 | 500.. if !hopeless => Trouble::Again { failure: failure(message), after },
            401..=404 | 429 | 500.. => unavailable(message).into(),
            _ => AgentError::failed(FailureKind::Execution, message).into(),
        }
    }

    /// What the endpoint says about an error, short and without the key.
    fn detail(&self, body: &str) -> String {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let said =
            value.pointer("/error/message").or_else(|| value.get("message")).or_else(|| value.get("error"));
        let Some(said) = said.and_then(Value::as_str) else { return String::new() };
        let said = match &self.config.api_key {
            Some(key) if !key.reveal().is_empty() => said.replace(key.reveal(), "[redacted]"),
            _ => said.to_owned(),
        };
        format!(": {}", said.chars().take(MAX_DETAIL_CHARS).collect::<String>())
    }
}

/// The answer as far as it has come.
#[derive(Default)]
struct State {
    /// Something of it was passed on, so that there is no second attempt.
    begun: bool,
    text: String,
    refused: bool,
    calls: Calls,
    reason: Option<String>,
    counts: Option<Counts>,
}

impl State {
    async fn take(&mut self, turn: &mut Turn, chunk: Chunk) -> Result<(), Trouble> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let said =
                error.get("message").and_then(Value::as_str).or(error.as_str()).unwrap_or("no reason given");
            let said: String = said.chars().take(MAX_DETAIL_CHARS).collect();
            return Err(unavailable(format!("the model reported an error: {said}")).into());
        }
        if chunk.usage.is_some() {
            self.counts = chunk.usage;
        }
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.take_choice(turn, choice).await?;
        }
        Ok(())
    }

    async fn take_choice(&mut self, turn: &mut Turn, choice: Choice) -> Result<(), Trouble> {
        let Delta { content, reasoning_content, reasoning, refusal, tool_calls } =
            choice.delta.or(choice.message).unwrap_or_default();
        if let Some(reasoning) = reasoning_content.or(reasoning) {
            self.say(turn, &reasoning, Output::Reasoning).await?;
        }
        if let Some(text) = content {
            self.say(turn, &text, Output::Text).await?;
            self.text.push_str(&text);
        }
        if let Some(text) = refusal.filter(|text| !text.is_empty()) {
            self.say(turn, &text, Output::Text).await?;
            self.text.push_str(&text);
            self.refused = true;
        }
        for fragment in tool_calls.unwrap_or_default() {
            self.begun = true;
            if !self.calls.take(fragment) {
                let message = "the model asked for more or larger tool calls than are taken";
                return Err(AgentError::failed(FailureKind::Execution, message).into());
            }
        }
        if choice.finish_reason.is_some() {
            self.reason = choice.finish_reason;
        }
        Ok(())
    }

    async fn say(
        &mut self,
        turn: &mut Turn,
        text: &str,
        output: fn(String) -> Output,
    ) -> Result<(), AgentError> {
        for piece in chunk::Chunk::Whole.split(text) {
            self.begun = true;
            turn.emit(output(piece.to_owned())).await?;
        }
        Ok(())
    }

    fn finish(self) -> Answer {
        let finish = if self.refused { Finish::Filtered } else { wire::finish(self.reason.as_deref()) };
        Answer { text: self.text, calls: self.calls.finish(), finish, counts: self.counts }
    }

    /// The stream is over, and the answer is not.
    fn cut(&self, message: &str) -> Trouble {
        if self.begun {
            unavailable(message).into()
        } else {
            Trouble::Again { failure: failure(message), after: None }
        }
    }
}

/// The body of a response: a stream of events, or one whole answer from an endpoint that does not
/// stream.
struct Source {
    response: Response,
    events: Option<SseParser>,
    whole: Vec<u8>,
}

enum More {
    Yes,
    No,
}

enum Broken {
    Silent,
    Transport(reqwest::Error),
    Format(String),
}

impl Source {
    fn new(response: Response) -> Self {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let whole = kind.is_some_and(|kind| kind.starts_with("application/json"));
        Self { response, events: (!whole).then(SseParser::default), whole: Vec::new() }
    }

    /// Waits for more, and adds the events that it completes. Nothing is lost when it is dropped.
    async fn read(&mut self, events: &mut Vec<String>) -> Result<More, Broken> {
        let bytes = self.response.chunk().await.map_err(Broken::Transport)?;
        let broken = |problem: &dyn ToString| Broken::Format(problem.to_string());
        match (&mut self.events, bytes) {
            (Some(parser), Some(bytes)) => {
                parser.feed(&bytes, events).map_err(|error| broken(&error))?;
                Ok(More::Yes)
            }
            (Some(parser), None) => {
                parser.finish(events).map_err(|error| broken(&error))?;
                Ok(More::No)
            }
            (None, Some(bytes)) if self.whole.len() + bytes.len() > MAX_EVENT_BYTES => {
                Err(broken(&"it is too long"))
            }
            (None, Some(bytes)) => {
                self.whole.extend_from_slice(&bytes);
                Ok(More::Yes)
            }
            (None, None) => {
                let whole = String::from_utf8(std::mem::take(&mut self.whole));
                events.push(whole.map_err(|_| broken(&"it is not UTF-8"))?);
                Ok(More::No)
            }
        }
    }

    /// Reads the little that follows the answer, so that the connection can be used again.
    async fn drain(mut self) {
        let _ = timeout(DRAIN_TIME, async { while let Ok(Some(_)) = self.response.chunk().await {} }).await;
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

/// What the endpoint asks for before another attempt. Dates are not understood, and left to the
/// usual pauses.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds =
        number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
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
/// How long the end of a stream may take.
const DRAIN_TIME: Duration = Duration::from_millis(100);
