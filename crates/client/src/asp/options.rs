//! How to connect over ASP.

use std::future::Future;

use switchboard_asp::client::{ClientConfig, CreditMode};
use switchboard_asp::message::{ClientInfo, Enc, Features, ToolDef};
use switchboard_asp::upgrade::{PATH, SUBPROTOCOL, bearer_entry};

use super::tool::{Handler, ToolCall, ToolFailure};
use crate::connect::Socket;
use crate::endpoint::OptionsError;
use crate::socket::Target;

/// How to connect. A URL without path leads to `/v1/agent-socket`.
pub type Connect = crate::Connect<Settings>;

/// What only ASP knows; see the methods of [`Connect`].
#[derive(Debug, Clone)]
pub struct Settings {
    agent: Option<String>,
    pub(super) handler: Option<Handler>,
    pub(super) client: ClientConfig,
}

impl Default for Settings {
    fn default() -> Self {
        let info = ClientInfo {
            name: "switchboard-client".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: Some(std::env::consts::OS.to_owned()),
        };
        let client =
            ClientConfig { client: Some(info), credit: CreditMode::Manual, ..ClientConfig::default() };
        Self { agent: None, handler: None, client }
    }
}

impl Connect {
    /// The agent to talk to; the server's default otherwise.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.config.agent = Some(agent.into());
        self
    }

    /// Features to offer; [`Features::STANDARD`] otherwise, none for a bare connection.
    #[must_use]
    pub fn features(mut self, features: Features) -> Self {
        self.config.client.features = features;
        self
    }

    /// Encodings in order of preference.
    #[must_use]
    pub fn encodings(mut self, enc: impl Into<Vec<Enc>>) -> Self {
        self.config.client.enc = enc.into();
        self
    }

    /// Offers one more tool that this client executes; see [`Self::on_call`].
    #[must_use]
    pub fn tool(mut self, tool: ToolDef) -> Self {
        self.config.client.tools.push(tool);
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
        self.config.handler = Some(Handler::new(handler));
        self
    }

    /// The program that connects.
    #[must_use]
    pub fn client(mut self, client: ClientInfo) -> Self {
        self.config.client.client = Some(client);
        self
    }

    /// Largest payload to receive, in bytes.
    #[must_use]
    pub fn max_payload(mut self, bytes: u32) -> Self {
        self.config.client.max_payload = bytes;
        self
    }

    /// Output of one request that may wait to be read, in bytes.
    #[must_use]
    pub fn window(mut self, bytes: u32) -> Self {
        self.config.client.window = bytes;
        self
    }

    /// What to dial: the path of the URL is the whole path, if there is one, and its query is kept.
    pub(super) fn socket(&self) -> Result<Target, OptionsError> {
        let endpoint = self.endpoint()?;
        let path = if matches!(endpoint.path.as_str(), "" | "/") { PATH } else { &endpoint.path }.to_owned();
        let mut query = endpoint.query.clone().unwrap_or_default();
        if let Some(agent) = &self.config.agent {
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
        // Whatever one frame may carry, several of them fit one message.
        let max_message = (self.config.client.max_payload as usize).saturating_mul(2).max(4 << 20);
        let socket =
            Socket { path: PATH, subprotocol: Some(SUBPROTOCOL), bearer: Some(bearer_entry), max_message };
        self.target_at(&socket, endpoint, &path, &query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(connect: &Connect) -> String {
        connect.socket().unwrap().uri.to_string()
    }

    #[test]
    fn urls_lead_to_the_socket() {
        let new = |url: &str| Connect::new(url);
        assert_eq!(uri(&new("ws://localhost:4600")), "ws://localhost:4600/v1/agent-socket");
        assert_eq!(uri(&new("https://example.com/")), "wss://example.com/v1/agent-socket");
        assert_eq!(uri(&new("ws://h/ws?end=complete06").agent("a-1")), "ws://h/ws?end=complete06&agent=a-1");
        assert_eq!(uri(&new("ws://h").agent("x")), "ws://h/v1/agent-socket?agent=x");
        let endpoint = new("wss://[::1]:9/").endpoint().unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port, endpoint.secure), ("::1", 9, true));
        assert_eq!(new("http://h").endpoint().unwrap().port, 80);
        assert_eq!(new("wss://h").endpoint().unwrap().port, 443);
        let error = new("ws://h").agent("a b").socket().err();
        assert_eq!(error, Some(OptionsError::Agent("a b".to_owned())));
    }
}
