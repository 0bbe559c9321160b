//! What functions reach of this server (ASP's reference, 14.4, 14.5 and 14.8).
//!
//! | Path | With the leave to push of an invocation |
//! |---|---|
//! | `POST /v1/relay/connections/{cid}/frames` | output, errors and tools |
//! | `GET` and `DELETE /v1/relay/connections/{cid}` | how the connection is; ends it |
//! | `GET /v1/relay/connections/{cid}/requests/{inv}` | whether the invocation was cancelled |
//! | `GET /v1/relay/connections/{cid}/requests/{inv}/answers` | what clients have answered |
//! | `GET /.well-known/jwks.json` | the keys of requests, for everybody |

mod push;
mod visits;

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Path as UrlPath, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use switchboard_agents::{Grant, Relay, RelayKey};
use switchboard_core::{Actor, AttachmentId, CloseReason, Op, SessionId, Timestamp};

use crate::auth::bearer;
use crate::config::{Config, StoreKind};
use crate::gateway::Gateway;
use crate::sessions::AttachmentStatus;
use switchboard_engine::Delivery;

pub(crate) use visits::{Here, Visits};

/// What the routes stand on.
#[derive(Clone, Debug)]
pub(crate) struct RelayState {
    pub(crate) relay: Arc<Relay>,
    pub(crate) gateway: Arc<Gateway>,
}

/// The routes. Keys are shown only where nobody else shows them together with others.
pub(crate) fn router(state: RelayState, shows_keys: bool) -> Router {
    let keys =
        if shows_keys { Router::new().route("/.well-known/jwks.json", get(jwks)) } else { Router::new() };
    keys.route("/v1/relay/connections/{cid}", get(connection).delete(dismiss))
        .route("/v1/relay/connections/{cid}/frames", post(push::frames))
        .route("/v1/relay/connections/{cid}/requests/{inv}", get(request))
        .route("/v1/relay/connections/{cid}/requests/{inv}/answers", get(answers))
        .with_state(state)
}

/// The relay of this server. Its key is kept with everything else that must survive, so that what was
/// signed before a restart is still good.
pub(crate) fn open(config: &Config) -> Result<Arc<Relay>, String> {
    let seed = match config.store.kind {
        StoreKind::Memory => crate::entropy::bytes(),
        StoreKind::Sqlite => seed(&config.data_dir.join("relay.key"))?,
    };
    let relay = Relay::new(RelayKey::from_seed(seed));
    if let Some(url) = &config.relay.public_url {
        relay.set_public_url(url);
    }
    Ok(Arc::new(relay))
}

fn seed(path: &Path) -> Result<[u8; 32], String> {
    let unusable = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    match std::fs::read(path) {
        Ok(bytes) => bytes.try_into().map_err(|_| unusable(&"expected 32 bytes; remove it to get a new key")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let seed = crate::entropy::bytes();
            write_secret(path, &seed).map_err(|error| unusable(&error))?;
            Ok(seed)
        }
        Err(error) => Err(unusable(&error)),
    }
}

fn write_secret(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    if let Some(folder) = path.parent() {
        crate::folder::create_private(folder)?;
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Why a function is not served.
#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    name: &'static str,
    message: String,
}

impl Refused {
    fn new(status: StatusCode, name: &'static str, message: impl Into<String>) -> Self {
        Self { status, name, message: message.into() }
    }

    fn unknown() -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown", "no such connection or request")
    }

    fn gone() -> Self {
        Self::new(StatusCode::GONE, "gone", "the connection is gone for good")
    }

    fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    fn busy() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "busy",
            "the session cannot take more at the moment; try again",
        )
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "name": self.name, "msg": self.message } });
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

impl RelayState {
    fn now(&self) -> Timestamp {
        self.gateway.sessions.environment.clock.now()
    }

    /// What the bearer of a request may do with this connection.
    fn authorize(&self, headers: &HeaderMap, cid: &str) -> Result<Grant, Refused> {
        let denied = |message: &str| Refused::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
        let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token =
            header.and_then(bearer).ok_or_else(|| denied("send Authorization: Bearer <push token>"))?;
        let grant = self
            .relay
            .authorize(token, self.now())
            .ok_or_else(|| denied("the push token is not valid, or has ended"))?;
        if grant.cid != cid {
            return Err(Refused::forbidden("the push token is for another connection"));
        }
        Ok(grant)
    }

    /// How the connection is; refused when it is gone for good.
    async fn connection(&self, grant: &Grant) -> Result<Connection, Refused> {
        let attachment = AttachmentId::from(grant.cid.as_str());
        let visit = self.gateway.visits.find(&grant.principal, &attachment);
        let status =
            self.gateway.sessions.status(&grant.session, &attachment).await.ok_or_else(Refused::busy)?;
        let since = match (&visit, status.detached) {
            (Some(visit), _) => Some(visit.since),
            // What hangs on no attachment hangs on the session itself.
            (None, _) if grant.cid == grant.session.as_str() => status.opened_at,
            (None, Some(_)) => None,
            (None, None) => return Err(Refused::gone()),
        };
        Ok(Connection { live_since: since, visit, status })
    }
}

/// A connection as far as functions may know it.
struct Connection {
    /// None while it waits for its client.
    live_since: Option<Timestamp>,
    visit: Option<Here>,
    status: AttachmentStatus,
}

impl Connection {
    const fn state(&self) -> &'static str {
        if self.live_since.is_some() { "live" } else { "detached" }
    }

    const fn delivered(&self) -> &'static str {
        if self.live_since.is_some() { "live" } else { "buffered" }
    }
}

async fn jwks(State(state): State<RelayState>) -> Response {
    ([(header::CACHE_CONTROL, "max-age=300")], Json(state.relay.jwks())).into_response()
}

async fn connection(
    State(state): State<RelayState>,
    UrlPath(cid): UrlPath<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let grant = state.authorize(&headers, &cid)?;
    let connection = state.connection(&grant).await?;
    let connected_at = connection.live_since.map(|since| since.as_micros() / 1_000);
    let body = json!({
        "state": connection.state(), "connected_at": connected_at, "inflight": connection.status.turns,
    });
    Ok(Json(body).into_response())
}

async fn dismiss(
    State(state): State<RelayState>,
    UrlPath(cid): UrlPath<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let grant = state.authorize(&headers, &cid)?;
    let connection = state.connection(&grant).await?;
    if let Some(visit) = &connection.visit {
        visit.inbox.deliver(Delivery::Close(CloseReason::Dismissed));
    } else if let Some(generation) = connection.status.generation {
        let attachment = AttachmentId::from(grant.cid.as_str());
        let op = Op::CloseAttachment { attachment, generation };
        let actor = Actor::client(grant.principal.clone());
        state.submit(&grant.session, actor, op).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn request(
    State(state): State<RelayState>,
    UrlPath((cid, inv)): UrlPath<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    state.authorize_invocation(&headers, &cid, &inv)?;
    let cancellation = state.relay.cancellation(&cid, &inv, state.now()).ok_or_else(Refused::unknown)?;
    Ok(document(cancellation.to_json()))
}

#[derive(Debug, Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
}

async fn answers(
    State(state): State<RelayState>,
    UrlPath((cid, inv)): UrlPath<(String, String)>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    state.authorize_invocation(&headers, &cid, &inv)?;
    let answers = state.relay.answers(&cid, &inv, after, state.now()).await.ok_or_else(Refused::unknown)?;
    Ok(document(answers.to_json()))
}

fn document(json: bytes::Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

impl RelayState {
    fn authorize_invocation(&self, headers: &HeaderMap, cid: &str, inv: &str) -> Result<Grant, Refused> {
        let grant = self.authorize(headers, cid)?;
        if grant.inv.as_deref().is_some_and(|own| own != inv) {
            return Err(Refused::forbidden("the push token is for another invocation"));
        }
        Ok(grant)
    }

    async fn submit(&self, session: &SessionId, actor: Actor, op: Op) -> Result<(), Refused> {
        let refused = |reject: switchboard_core::Reject| {
            Refused::new(StatusCode::BAD_REQUEST, reject.name(), reject.to_string())
        };
        self.gateway.sessions.ask(session, actor, op).await.map(|_| ()).map_err(refused)
    }
}
