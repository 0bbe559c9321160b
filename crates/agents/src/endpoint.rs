//! An endpoint that gives one whole answer to one request, asked again while that may help.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::time::sleep;

use crate::http;
use crate::openai::Secret;

/// Where an endpoint is, and how it is asked.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// What it is called in errors: `the … endpoint`.
    name: &'static str,
    url: Url,
    client: Client,
    api_key: Option<Secret>,
    patience: Patience,
    max_answer_bytes: usize,
}

/// What an endpoint is made from.
pub(crate) struct Address<'a> {
    pub(crate) name: &'static str,
    pub(crate) base_url: &'a str,
    /// Follows the base, without a slash in front.
    pub(crate) path: &'static str,
    pub(crate) api_key: Option<Secret>,
    pub(crate) patience: Patience,
    pub(crate) max_answer_bytes: usize,
}

/// How long an answer is waited for, and how often it is asked for.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) connect_timeout_ms: u64,
    pub(crate) timeout_ms: u64,
    pub(crate) attempts: u32,
    pub(crate) backoff_ms: u64,
    pub(crate) max_backoff_ms: u64,
}

/// Why there is no answer. No message says anything of the request, nor what the endpoint said, which may quote it.
pub(crate) enum Unanswered {
    /// The endpoint cannot be reached, is overloaded, or fails: later it may work.
    Unavailable(String),
    /// The endpoint has been asked too often, or is not paid for more.
    Exhausted(String),
    /// The endpoint does not take such a request. `param` is what it says that is about: to compare, not to show.
    Refused { message: String, param: Option<String> },
    /// The answer is longer than an answer may be.
    TooLong,
}

/// Why an attempt brought nothing.
struct Trouble {
    error: Unanswered,
    /// Whether another attempt may help.
    again: bool,
    /// What the endpoint asks for before that.
    after: Option<Duration>,
}

impl From<Unanswered> for Trouble {
    fn from(error: Unanswered) -> Self {
        Self { error, again: false, after: None }
    }
}

impl Endpoint {
    /// An endpoint at this address. Does not connect yet.
    ///
    /// # Errors
    /// The address makes no sense, or the system has no usable TLS; says which.
    pub(crate) fn new(address: Address<'_>) -> Result<Self, String> {
        let Address { name, base_url, path, api_key, patience, max_answer_bytes } = address;
        if patience.attempts == 0 {
            return Err("`attempts` has to be at least 1".to_owned());
        }
        if api_key.as_ref().is_some_and(|key| !key.reveal().bytes().all(|b| b.is_ascii_graphic())) {
            return Err("the API key holds characters that no key can have".to_owned());
        }
        let url = Url::parse(&format!("{}/{path}", base_url.trim_end_matches('/')))
            .map_err(|error| format!("`base_url`: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("`base_url` has to begin with http:// or https://".to_owned());
        }
        let client = http::client(url.scheme(), Duration::from_millis(patience.connect_timeout_ms))
            .map_err(|error| error.to_string())?
            .build()
            .map_err(|_| "cannot set up HTTP".to_owned())?;
        Ok(Self { name, url, client, api_key, patience, max_answer_bytes })
    }

    /// The answer to a POST of what `fill` makes of a request. `spread` differs from request to request, so that
    /// many who ask at once do not come back at once.
    pub(crate) async fn ask(
        &self,
        spread: &[u8],
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Vec<u8>, Unanswered> {
        let Patience { attempts, backoff_ms, max_backoff_ms, .. } = self.patience;
        let longest = Duration::from_millis(max_backoff_ms);
        let mut attempt = 1;
        loop {
            let trouble = match self.attempt(&fill).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            attempt += 1;
            let patient = trouble.after.is_none_or(|after| after <= longest);
            if !trouble.again || !patient || attempt > attempts {
                return Err(trouble.error);
            }
            let spread = spread.get(attempt as usize % spread.len().max(1)).copied().unwrap_or_default();
            let usual = http::backoff(backoff_ms, max_backoff_ms, attempt, spread);
            let delay = trouble.after.unwrap_or(usual);
            tracing::warn!(attempt, delay_ms = delay.as_millis(), "asking the {} endpoint again", self.name);
            sleep(delay).await;
        }
    }

    async fn attempt(&self, fill: &impl Fn(RequestBuilder) -> RequestBuilder) -> Result<Vec<u8>, Trouble> {
        let timeout = Duration::from_millis(self.patience.timeout_ms);
        let mut request = fill(self.client.post(self.url.clone()).timeout(timeout));
        if let Some(key) = &self.api_key {
            request = request.bearer_auth(key.reveal());
        }
        let mut response = request.send().await.map_err(|error| self.lost(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut answer = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|error| self.lost(&error))? {
            if answer.len() + bytes.len() > self.max_answer_bytes {
                return Err(Unanswered::TooLong.into());
            }
            answer.extend_from_slice(&bytes);
        }
        Ok(answer)
    }

    fn lost(&self, error: &reqwest::Error) -> Trouble {
        let name = self.name;
        let message = if error.is_connect() {
            format!("the {name} endpoint cannot be reached")
        } else if error.is_timeout() {
            format!("the {name} endpoint took longer than {} ms", self.patience.timeout_ms)
        } else {
            format!("the connection to the {name} endpoint was lost")
        };
        // Whoever was patient once need not be so again.
        let again = error.is_connect() || !error.is_timeout();
        Trouble { error: Unanswered::Unavailable(message), again, after: None }
    }

    /// Makes sense of a refusal.
    async fn refused(&self, response: Response) -> Trouble {
        let (name, status) = (self.name, response.status().as_u16());
        let message = match status {
            401 | 403 => format!("the {name} endpoint refused the API key (HTTP {status})"),
            404 => format!("the {name} endpoint knows no such model or path (HTTP 404)"),
            429 => format!("the {name} endpoint is overloaded or out of quota (HTTP 429)"),
            500.. => format!("the {name} endpoint failed (HTTP {status})"),
            _ => format!("the {name} endpoint refused the request (HTTP {status})"),
        };
        match status {
            408 | 409 | 425 | 429 | 500.. => {
                let after = http::retry_after(response.headers());
                let error = match status {
                    429 => Unanswered::Exhausted(message),
                    _ => Unanswered::Unavailable(message),
                };
                Trouble { error, again: true, after }
            }
            402 => Unanswered::Exhausted(message).into(),
            _ => Unanswered::Refused { message, param: disliked(response).await }.into(),
        }
    }
}

/// The parameter that a refusal is about, where it names one.
async fn disliked(mut response: Response) -> Option<String> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.ok()? {
        if body.len() + bytes.len() > MAX_REFUSAL_BYTES {
            return None;
        }
        body.extend_from_slice(&bytes);
    }
    let refusal: Value = serde_json::from_slice(&body).ok()?;
    refusal.pointer("/error/param")?.as_str().map(str::to_owned)
}

/// Bytes of a refusal that are read.
const MAX_REFUSAL_BYTES: usize = 16 << 10;
