//! Sessions over HTTP: creating one, and renewing its token.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::client::Refusal;
use switchboard_core::{Pii, Timestamp};
use switchboard_vip::client::LinkFault;

use super::error::{Cause, ConnectError};
use super::options::{Connect, Settings};
use crate::connect::Socket;
use crate::endpoint::Endpoint;
use crate::http;
use crate::socket::Target;

/// A session that was created, and how it is reached.
pub(super) struct Created {
    pub(super) id: String,
    pub(super) target: Target,
    pub(super) renewal: Renewal,
}

/// How the token of a session is renewed.
pub(super) struct Renewal {
    http: reqwest::Client,
    url: String,
    /// After which time it should be.
    pub(super) after: Duration,
}

impl Created {
    /// Creates a session.
    pub(super) async fn new(connect: &Connect, now: Timestamp) -> Result<Self, ConnectError> {
        let sessions = connect.http_url("", "/v1/vip/sessions")?;
        let http = connect.http_client()?.timeout(connect.dial_limit()).build().map_err(unreachable)?;
        let mut request = http.post(&sessions).json(&body(&connect.config));
        if let Some(token) = connect.exposed_token() {
            request = request.bearer_auth(token);
        }
        let session = answer(request).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(nonsense);
        let id = text(&session["session_id"])?;
        let token = text(&session["session_token"])?;
        // Wherever the server sends its clients, the token travels as safely.
        let there = Endpoint::parse(&text(&session["transport"]["websocket"]["url"])?)?;
        connect.check_token(&there, Some(&token))?;
        let path = there.path.clone();
        let mut target = connect.target_at(&SOCKET, there, &path, "")?;
        target.token = Some(Pii(token));
        let ends_at = session["session_token_expires_at"].as_u64().ok_or_else(nonsense)?;
        let after = Timestamp::from_secs(ends_at).since(now) / 2;
        let renewal = Renewal { http, url: format!("{sessions}/{id}/token"), after };
        Ok(Self { id, target, renewal })
    }
}

impl Renewal {
    /// Asks for a fresh token, while this one counts.
    pub(super) fn renew(&self, token: String) -> impl Future<Output = Option<String>> + Send + use<> {
        let request = self.http.post(&self.url).bearer_auth(token);
        async move {
            let renewed = answer(request).await.ok()?;
            Some(renewed["session_token"].as_str()?.to_owned())
        }
    }
}

fn body(settings: &Settings) -> Value {
    let channels = if settings.silent { json!(["ui"]) } else { json!(["ui", "voice"]) };
    json!({
        "protocol_versions": [switchboard_vip::VERSION],
        "environment": settings.environment,
        "mode": "external",
        "app_id": settings.app,
        "client": {"name": "switchboard-client", "version": env!("CARGO_PKG_VERSION"), "platform": "other"},
        "locale": settings.locale,
        "capabilities": {"confirmation_channels": channels},
        "audio": {"input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"]},
        "turn_detection": {"type": settings.detection, "follow_up_listen": !settings.silent},
    })
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Value, ConnectError> {
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let body = response.bytes().await.map_err(unreachable)?;
    if !status.is_success() {
        return Err(Cause::Refused(Refusal::read::<LinkFault>(status.as_u16(), None, &body)).into());
    }
    serde_json::from_slice(&body).map_err(|_| nonsense())
}

fn unreachable(error: reqwest::Error) -> ConnectError {
    Cause::Unreachable(http::chain(&error.without_url())).into()
}

fn nonsense() -> ConnectError {
    Cause::Unreachable("its answer makes no sense".to_owned()).into()
}

/// The stream of a session; where it is, the server says.
const SOCKET: Socket =
    Socket { path: "", subprotocol: Some(switchboard_vip::SUBPROTOCOL), bearer: None, max_message: 1 << 20 };
