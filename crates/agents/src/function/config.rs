//! How a function is reached, and how patient the relay is with it.

use reqwest::Url;
use serde::{Deserialize, Serialize};
use switchboard_asp::relay::SigningKey;

use super::guard;
use crate::openai::Secret;

/// How a [`Function`](crate::Function) agent reaches its function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FunctionConfig {
    /// Where the function is; `/invoke` and `/interrupt` are added.
    pub url: String,
    /// Everything goes to `url` itself.
    pub single_url: bool,
    /// The environment variable with the secret that requests are signed with: `whsec_` and a key in
    /// base64. Several, newest first and apart by spaces, while one takes the place of another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
    /// The secret itself; never read from a file, and never written to one.
    #[serde(skip)]
    pub secret: Option<Secret>,
    /// Requests carry a JSON Web Token, whose keys are at `/.well-known/jwks.json`.
    pub jwt: bool,
    /// The function may live on a private address, such as this machine.
    pub allow_private: bool,
    /// Turns that the function works on at the same time; others wait.
    pub concurrency: usize,
    /// How long a connection may take, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long the function may take to begin its response, in milliseconds.
    pub first_byte_timeout_ms: u64,
    /// How long the function may fall silent within its response, in milliseconds.
    pub gap_timeout_ms: u64,
    /// After how long without a response clients are told that the function is starting, in
    /// milliseconds.
    pub cold_start_ms: u64,
    /// How often a request is repeated that has led to no output.
    pub retries: u32,
    /// The first pause before a repetition, in milliseconds; it doubles each time.
    pub backoff_ms: u64,
    /// Failures in a row after which the function is left alone for a while; 0 for never.
    pub breaker_failures: u32,
    /// For how long, in milliseconds.
    pub breaker_ms: u64,
    /// The function is told when clients come and go.
    pub presence: bool,
    /// How many earlier messages of the session the function is told with each request.
    pub history: usize,
    /// The MCP servers whose tools the function is told of and may use; none, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
}

impl Default for FunctionConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            single_url: false,
            secret_env: None,
            secret: None,
            jwt: false,
            allow_private: false,
            concurrency: 1_000,
            connect_timeout_ms: 3_000,
            first_byte_timeout_ms: 15_000,
            gap_timeout_ms: 30_000,
            cold_start_ms: 1_000,
            retries: 2,
            backoff_ms: 200,
            breaker_failures: 10,
            breaker_ms: 10_000,
            presence: false,
            history: 0,
            mcp: None,
        }
    }
}

impl FunctionConfig {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// Says which key is wrong, and what is expected there.
    pub fn check(&self) -> Result<(), FunctionError> {
        self.endpoint().map(|_| ())?;
        if self.secret_env.is_none() && self.secret.is_none() && !self.jwt {
            let problem = "requests have to be signed: name the variable of a secret, or set `jwt`";
            return Err(FunctionError::new("secret_env", problem));
        }
        if self.concurrency == 0 {
            return Err(FunctionError::new("concurrency", "has to be at least 1"));
        }
        Ok(())
    }

    /// The address, without a slash at its end.
    pub(super) fn endpoint(&self) -> Result<Url, FunctionError> {
        let invalid = |problem: &str| FunctionError::new("url", problem);
        let url = Url::parse(self.url.trim_end_matches('/')).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("has to begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("must not carry a password: requests are signed"));
        }
        if !self.allow_private && guard::is_private_host(&url) {
            return Err(invalid(
                "is a private address: set `allow_private` if the function really lives there",
            ));
        }
        Ok(url)
    }

    pub(super) fn keys(&self) -> Result<Vec<SigningKey>, FunctionError> {
        let Some(secret) = &self.secret else { return Ok(Vec::new()) };
        let keys = secret.reveal().split_ascii_whitespace().map(SigningKey::from_text);
        keys.collect::<Result<_, _>>().map_err(|error| FunctionError::new("secret_env", error.to_string()))
    }
}

/// Why a [`Function`](crate::Function) agent cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {problem}")]
pub struct FunctionError {
    /// Which key of the configuration.
    pub key: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl FunctionError {
    pub(super) fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self { key, problem: problem.into() }
    }
}
