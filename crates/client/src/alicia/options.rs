//! How to connect.

use std::fmt;
use std::time::Duration;

use tokio_tungstenite::tungstenite::http::Uri;

use crate::endpoint::Endpoint;
pub use crate::endpoint::{FirstAttempt, OptionsError};
use crate::tls::Trust;
use switchboard_alicia::client::ClientConfig;

/// How to connect.
#[derive(Clone)]
pub struct Options {
    pub(super) url: String,
    pub(super) token: Option<String>,
    pub(super) trust: Trust,
    pub(super) plaintext: bool,
    pub(super) dial_timeout: Duration,
    pub(super) first: FirstAttempt,
    pub(super) config: ClientConfig,
}

impl Options {
    /// Connects to `ws:`, `wss:`, `http:` or `https:`, with a path before `/api/v1/…` if there is one.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            trust: Trust::System,
            plaintext: false,
            dial_timeout: Duration::from_secs(10),
            first: FirstAttempt::FailFast,
            config: ClientConfig::default(),
        }
    }

    /// The bearer token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Certificate authorities to trust.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Permits a token to travel unencrypted beyond this machine.
    #[must_use]
    pub fn allow_plaintext(mut self) -> Self {
        self.plaintext = true;
        self
    }

    /// How long one attempt to connect may take.
    #[must_use]
    pub fn dial_timeout(mut self, timeout: Duration) -> Self {
        self.dial_timeout = timeout;
        self
    }

    /// What [`super::Client::connect`] does if the server cannot be reached.
    #[must_use]
    pub fn first_attempt(mut self, first: FirstAttempt) -> Self {
        self.first = first;
        self
    }

    /// What to offer, and how long to wait for what.
    #[must_use]
    pub fn config(mut self, config: ClientConfig) -> Self {
        self.config = config;
        self
    }

    pub(super) fn endpoint(&self) -> Result<Endpoint, OptionsError> {
        let endpoint = Endpoint::parse(&self.url)?;
        endpoint.check_token(self.token.as_deref(), self.plaintext)?;
        Ok(endpoint)
    }

    /// The address of the socket (§8.1); query and fragment are dropped.
    pub(super) fn socket(&self) -> Result<(Endpoint, Uri), OptionsError> {
        let endpoint = self.endpoint()?;
        let uri = endpoint.websocket(&format!("{}{SOCKET}", endpoint.base(SOCKET)), "")?;
        Ok((endpoint, uri))
    }

    /// The address of something that is served over HTTP.
    pub(super) fn http(&self, path: &str) -> Result<String, OptionsError> {
        let endpoint = self.endpoint()?;
        Ok(endpoint.http(endpoint.base(SOCKET), path))
    }
}

/// Does not show the token.
impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Options").field("url", &self.url).finish_non_exhaustive()
    }
}

const SOCKET: &str = "/api/v1/ws";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_the_socket_and_to_what_is_served_over_http() {
        for (url, socket, config) in [
            ("http://h:1", "ws://h:1/api/v1/ws", "http://h:1/api/v1/config"),
            ("wss://h/", "wss://h/api/v1/ws", "https://h/api/v1/config"),
            ("ws://h/base/?q=1#f", "ws://h/base/api/v1/ws", "http://h/base/api/v1/config"),
            ("https://h/base/api/v1/ws", "wss://h/base/api/v1/ws", "https://h/base/api/v1/config"),
        ] {
            let options = Options::new(url);
            assert_eq!(options.socket().unwrap().1.to_string(), socket);
            assert_eq!(options.http("/api/v1/config").unwrap(), config);
        }
        assert_eq!(Options::new("ws://h").token("t").endpoint().unwrap_err(), OptionsError::Plaintext);
        assert_eq!(Options::new("wss://h").token("t t").endpoint().unwrap_err(), OptionsError::Token);
        assert!(!format!("{:?}", Options::new("ws://h").token("hunter2")).contains("hunter2"));
    }
}
