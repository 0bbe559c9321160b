//! How to connect.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use switchboard_asp::client::{ClientConfig, CreditMode};
use switchboard_asp::message::{ClientInfo, Enc, Features, Secret, ToolDef};
use switchboard_asp::upgrade::PATH;
use tokio_tungstenite::tungstenite::http::Uri;

use super::tool::{Handler, ToolCall, ToolFailure};
use crate::endpoint::Endpoint;
pub use crate::endpoint::{FirstAttempt, OptionsError};
use crate::tls::Trust;

/// How to connect.
#[derive(Clone)]
pub struct Options {
    pub(super) url: String,
    pub(super) token: Option<Secret>,
    pub(super) bearer: Bearer,
    pub(super) agent: Option<String>,
    pub(super) trust: Trust,
    pub(super) plaintext: bool,
    pub(super) dial_timeout: Duration,
    pub(super) first: FirstAttempt,
    pub(super) max_buffered: u64,
    pub(super) handler: Option<Handler>,
    pub(super) config: ClientConfig,
}

impl Options {
    /// Connects to `ws:`, `wss:`, `http:` or `https:` with the standard profile. A URL without path leads to
    /// `/v1/agent-socket`.
    pub fn new(url: impl Into<String>) -> Self {
        let client = ClientInfo {
            name: "switchboard-client".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: Some(std::env::consts::OS.to_owned()),
        };
        let config =
            ClientConfig { client: Some(client), credit: CreditMode::Manual, ..ClientConfig::default() };
        Self {
            url: url.into(),
            token: None,
            bearer: Bearer::Header,
            agent: None,
            trust: Trust::System,
            plaintext: false,
            dial_timeout: Duration::from_secs(10),
            first: FirstAttempt::FailFast,
            max_buffered: 4 << 20,
            handler: None,
            config,
        }
    }

    /// The bearer token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Secret::new(token));
        self
    }

    /// Where the token travels.
    #[must_use]
    pub fn bearer(mut self, bearer: Bearer) -> Self {
        self.bearer = bearer;
        self
    }

    /// The agent to talk to; the server's default otherwise.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Features to offer; [`Features::STANDARD`] otherwise, none for a bare connection.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.config.features = features;
        self
    }

    /// Encodings in order of preference.
    #[must_use]
    pub fn encodings(mut self, enc: impl Into<Vec<Enc>>) -> Self {
        self.config.enc = enc.into();
        self
    }

    /// Offers one more tool that this client executes; see [`Self::on_call`].
    #[must_use]
    pub fn tool(mut self, tool: ToolDef) -> Self {
        self.config.tools.push(tool);
        self
    }

    /// Executes this client's tools. The result is sent when the future is done, also when it fails, panics or
    /// takes too long.
    #[must_use]
    pub fn on_call<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<serde_json::Value, ToolFailure>> + Send + 'static,
    {
        self.handler = Some(Handler::new(handler));
        self
    }

    /// The program that connects.
    #[must_use]
    pub fn client(mut self, client: ClientInfo) -> Self {
        self.config.client = Some(client);
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

    /// Largest payload to receive, in bytes.
    #[must_use]
    pub fn max_payload(mut self, bytes: u32) -> Self {
        self.config.max_payload = bytes;
        self
    }

    /// Output of one request that may wait to be read, in bytes.
    #[must_use]
    pub fn window(mut self, bytes: u32) -> Self {
        self.config.window = bytes;
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

    /// Where to connect, and the address of the socket there.
    pub(super) fn endpoint(&self) -> Result<(Endpoint, Uri), OptionsError> {
        let endpoint = Endpoint::parse(&self.url)?;
        endpoint.check_token(self.token.as_ref().map(Secret::expose), self.plaintext)?;
        let path = if matches!(endpoint.path.as_str(), "" | "/") { PATH } else { &endpoint.path };
        let mut query = endpoint.query.clone().unwrap_or_default();
        if let Some(agent) = &self.agent {
            let named = (1..=64).contains(&agent.len())
                && agent.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
            if !named {
                return Err(OptionsError::Agent(agent.clone()));
            }
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str("agent=");
            query.push_str(agent);
        }
        let uri = endpoint.websocket(path, &query)?;
        Ok((endpoint, uri))
    }
}

/// Shows neither token nor handler.
impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("url", &self.url)
            .field("agent", &self.agent)
            .field("features", &self.config.features)
            .finish_non_exhaustive()
    }
}

/// Where a token travels (§2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearer {
    /// In the header `Authorization`.
    Header,
    /// In the list of subprotocols, as browsers do it.
    Subprotocol,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(options: &Options) -> String {
        options.endpoint().unwrap().1.to_string()
    }

    #[test]
    fn urls_lead_to_the_socket() {
        let new = |url: &str| Options::new(url);
        assert_eq!(uri(&new("ws://localhost:4600")), "ws://localhost:4600/v1/agent-socket");
        assert_eq!(uri(&new("https://example.com/")), "wss://example.com/v1/agent-socket");
        assert_eq!(uri(&new("ws://h/ws?end=complete06").agent("a-1")), "ws://h/ws?end=complete06&agent=a-1");
        assert_eq!(uri(&new("ws://h").agent("x")), "ws://h/v1/agent-socket?agent=x");
        let (endpoint, _) = new("wss://[::1]:9/").endpoint().unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port, endpoint.secure), ("::1", 9, true));
        assert_eq!(new("http://h").endpoint().unwrap().0.port, 80);
        assert_eq!(new("wss://h").endpoint().unwrap().0.port, 443);
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let error = |options: Options| options.endpoint().unwrap_err();
        for url in ["", "host", "ftp://host", "//host", "ws://"] {
            assert_eq!(error(Options::new(url)), OptionsError::Url(url.to_owned()));
        }
        assert_eq!(error(Options::new("ws://u:p@host")), OptionsError::UserInfo);
        assert_eq!(error(Options::new("ws://h").agent("a b")), OptionsError::Agent("a b".to_owned()));
        assert_eq!(error(Options::new("ws://h").token("t")), OptionsError::Plaintext);
        assert!(Options::new("ws://h").token("t").allow_plaintext().endpoint().is_ok());
        for local in ["ws://localhost", "ws://127.0.0.1:1", "ws://[::1]", "wss://h"] {
            assert!(Options::new(local).token("t").endpoint().is_ok());
        }
    }

    #[test]
    fn tokens_are_not_printed() {
        assert!(!format!("{:?}", Options::new("ws://h").token("hunter2")).contains("hunter2"));
    }
}
