//! Sessions over HTTP: creating one, and renewing its token.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::Timestamp;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::http::Uri;

use super::error::ConnectError;
use super::options::{Options, OptionsError};
use crate::endpoint::Endpoint;
use crate::http;
use crate::socket::{Dialer, Upgrade};

/// A session that was created, and how it is reached.
#[derive(Clone)]
pub(super) struct Created {
    pub(super) id: String,
    pub(super) dialer: Dialer,
    token: String,
    /// When the token should be renewed.
    pub(super) renew_at: Instant,
    renew_after: Duration,
    stream: Uri,
    renewal: String,
    http: reqwest::Client,
}

impl Created {
    /// Creates a session.
    pub(super) async fn new(options: &Options, now: Timestamp) -> Result<Self, ConnectError> {
        let endpoint = options.endpoint()?;
        let base = endpoint.base("").to_owned();
        let sessions = endpoint.http(&base, "/v1/vip/sessions");
        let http = http::client(endpoint.secure, &options.trust)
            .map_err(OptionsError::from)?
            .timeout(options.dial_timeout)
            .build()
            .map_err(unreachable)?;
        let mut request = http.post(&sessions).json(&body(options));
        if let Some(token) = &options.token {
            request = request.bearer_auth(token);
        }
        let session = answer(request).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(nonsense);
        let id = text(&session["session_id"])?;
        let token = text(&session["session_token"])?;
        let url = text(&session["transport"]["websocket"]["url"])?;
        // Wherever the server sends its clients, the token travels as safely.
        let there = Endpoint::parse(&url)?;
        there.check_token(Some(&token), options.plaintext)?;
        let stream = there.websocket(&there.path, "")?;
        let dialer = Dialer::new(there, &options.trust, options.dial_timeout, MAX_MESSAGE)?;
        let renewal = format!("{sessions}/{id}/token");
        let ends_at = session["session_token_expires_at"].as_u64().ok_or_else(nonsense)?;
        let renew_after = Timestamp::from_secs(ends_at).since(now) / 2;
        let renew_at = Instant::now() + renew_after;
        Ok(Self { id, dialer, token, renew_at, renew_after, stream, renewal, http })
    }

    /// What to ask for in order to open its transport.
    pub(super) fn upgrade(&self) -> Upgrade {
        Upgrade {
            uri: self.stream.clone(),
            headers: vec![("authorization", format!("Bearer {}", self.token))],
            subprotocols: vec![switchboard_vip::SUBPROTOCOL.to_owned()],
            expected: Some(switchboard_vip::SUBPROTOCOL),
        }
    }

    /// Asks for a fresh token, while the one there is counts.
    pub(super) fn renew(&self) -> impl Future<Output = Option<String>> + Send + 'static {
        let request = self.http.post(&self.renewal).bearer_auth(&self.token);
        async move {
            let renewed = answer(request).await.ok()?;
            Some(renewed["session_token"].as_str()?.to_owned())
        }
    }

    /// A fresh token has come, or not.
    pub(super) fn renewed(&mut self, token: Option<String>) {
        self.renew_at = Instant::now() + if token.is_some() { self.renew_after } else { RENEW_AGAIN };
        self.token = token.unwrap_or_else(|| std::mem::take(&mut self.token));
    }
}

fn body(options: &Options) -> Value {
    let channels = if options.silent { json!(["ui"]) } else { json!(["ui", "voice"]) };
    json!({
        "protocol_versions": [switchboard_vip::VERSION],
        "environment": options.environment,
        "mode": "external",
        "app_id": options.app,
        "client": {"name": "switchboard-client", "version": env!("CARGO_PKG_VERSION"), "platform": "other"},
        "locale": options.locale,
        "capabilities": {"confirmation_channels": channels},
        "audio": {"input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"]},
        "turn_detection": {"type": options.detection, "follow_up_listen": !options.silent},
    })
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Value, ConnectError> {
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let body = response.bytes().await.map_err(unreachable)?;
    if !status.is_success() {
        return Err(ConnectError::refused(status.as_u16(), &body));
    }
    serde_json::from_slice(&body).map_err(|_| nonsense())
}

fn unreachable(error: reqwest::Error) -> ConnectError {
    ConnectError::Unreachable(http::chain(&error.without_url()))
}

fn nonsense() -> ConnectError {
    ConnectError::Unreachable("its answer makes no sense".to_owned())
}

/// Bytes of the longest message.
const MAX_MESSAGE: usize = 1 << 20;
/// After an attempt to renew a token that failed.
const RENEW_AGAIN: Duration = Duration::from_secs(5);
