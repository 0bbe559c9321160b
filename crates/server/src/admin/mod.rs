//! Health, metrics and the admin API.
//!
//! | Path | Needs |
//! |---|---|
//! | `/healthz`, `/readyz` | nothing |
//! | `/metrics` | the scope `admin`, unless `telemetry.metrics_public` |
//! | `/admin/v1/connections`, `/admin/v1/keys`, `/admin/v1/revocations`, `POST /admin/v1/devices/{device}/release` | the scope `admin` |
//! | `/admin/v1/sessions…`, `/admin/v1/devices…` | the scope `read` |
//! | `/admin/v1/agents`, `/admin/v1/openapi.json` | the scope `connect` or `read` |
//!
//! A principal without the scope `admin` sees its own sessions and devices only; those of others
//! look exactly as if they did not exist. Host and Origin are checked on every path.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use serde_json::json;
use switchboard_core::{Principal, PrincipalId, Right, SessionId, Timestamp};
use switchboard_store::Log;

use crate::audit;
use crate::auth::{AuthError, Authenticator, bearer};
use crate::clock::Clock;
use crate::config::Config;
use crate::courtesy::{is_preflight, let_read, may_ask};
use crate::origin::OriginPolicy;
use crate::sessions::Sessions;
use crate::telemetry::{self, names};

mod agents;
mod credentials;
mod descriptors;
mod devices;
mod error;
mod sessions;
#[cfg(test)]
mod tests;

pub(crate) use agents::Agents;
use error::ApiError;

/// The routes.
pub fn router(state: AdminState) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(async || Json(json!({"ok": true}))).fallback(not_found))
        .route("/readyz", get(readyz));
    if state.metrics.is_some() {
        router = router.route("/metrics", get(metrics));
    }
    if state.admin {
        let api = Router::new()
            .route("/openapi.json", needs(Right::Discover, get(openapi)))
            .route("/agents", needs(Right::Discover, get(agents::list)))
            .route("/connections", needs(Right::Administer, get(connections)))
            .route("/keys", needs(Right::Administer, get(credentials::keys)))
            .route(
                "/revocations",
                needs(Right::Administer, post(credentials::revoke).delete(credentials::restore)),
            )
            .route("/devices", needs(Right::Inspect, get(devices::list)))
            .route("/devices/{device}", needs(Right::Inspect, get(devices::one)))
            .route(
                "/devices/{device}/release",
                needs(Right::Administer, post(devices::release).fallback(async || ApiError::post_only())),
            )
            .route("/sessions", needs(Right::Inspect, get(sessions::list)))
            .route("/sessions/{session}", needs(Right::Inspect, get(sessions::one)))
            .route("/sessions/{session}/events", needs(Right::Inspect, get(sessions::events)))
            .route("/sessions/{session}/turns", needs(Right::Inspect, get(sessions::turns)))
            .route("/sessions/{session}/messages", needs(Right::Inspect, get(sessions::messages)))
            .fallback(async || ApiError::no_route())
            .method_not_allowed_fallback(async || ApiError::read_only())
            .layer(middleware::from_fn_with_state(state.clone(), authenticate));
        router = router.nest("/admin/v1", api);
    }
    router.layer(middleware::from_fn_with_state(state.clone(), check_origin)).with_state(state)
}

/// A route for credentials that allow this.
fn needs(right: Right, route: MethodRouter<AdminState>) -> MethodRouter<AdminState> {
    route.layer(middleware::from_fn_with_state(right, check_right))
}

async fn check_right(
    State(right): State<Right>,
    Extension(principal): Extension<Principal>,
    request: Request,
    next: Next,
) -> Response {
    if principal.scopes.permit(right, None) {
        next.run(request).await
    } else {
        audit::refused(&principal.id, right);
        ApiError::forbidden(right.refusal()).into_response()
    }
}

/// What the routes stand on.
#[derive(Clone, Debug)]
pub struct AdminState {
    log: Arc<dyn Log>,
    sessions: Arc<Sessions>,
    authenticator: Arc<Authenticator>,
    connections: Arc<dyn Connections>,
    agents: Agents,
    origins: Arc<OriginPolicy>,
    clock: Clock,
    readiness: Readiness,
    metrics: Option<PrometheusHandle>,
    metrics_public: bool,
    admin: bool,
    page: usize,
}

impl AdminState {
    /// As configured. Metrics are collected from now on, if they are switched on.
    pub(crate) fn new(
        config: &Config,
        sessions: Arc<Sessions>,
        authenticator: Arc<Authenticator>,
        connections: Arc<dyn Connections>,
        agents: Agents,
    ) -> Self {
        let metrics = if config.telemetry.metrics {
            telemetry::metrics()
                .inspect_err(|error| tracing::error!(%error, "metrics are not available"))
                .ok()
        } else {
            None
        };
        Self {
            log: sessions.environment.log.clone(),
            clock: sessions.environment.clock,
            sessions,
            authenticator,
            connections,
            agents,
            origins: Arc::new(OriginPolicy::new(config)),
            readiness: Readiness::default(),
            metrics,
            metrics_public: config.telemetry.metrics_public,
            admin: config.telemetry.admin,
            page: config.limits.admin_page,
        }
    }

    /// What `/readyz` says; to be changed when the server begins to leave.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
}

/// Whether the server takes connections. Ready, until it is told otherwise.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

impl Readiness {
    /// Changes it, for every clone.
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    /// How it is now.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::Ready,
            1 => Phase::Starting,
            _ => Phase::Draining,
        }
    }
}

/// A phase of the server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes connections.
    Ready = 0,
    /// It does not take connections yet.
    Starting = 1,
    /// It does not take connections any more.
    Draining = 2,
}

/// The connections that are open, as the admin API shows them.
pub trait Connections: std::fmt::Debug + Send + Sync {
    /// All of them.
    fn list(&self) -> Vec<ConnectionInfo>;
}

/// One open connection.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionInfo {
    /// Its number, unique within the process.
    pub connection: u64,
    /// What it speaks.
    pub protocol: String,
    /// Whose it is.
    pub principal: PrincipalId,
    /// Where it comes from.
    pub address: IpAddr,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When its credential ends, if it does.
    pub expires_at: Option<Timestamp>,
    /// The sessions that it follows.
    pub sessions: Vec<SessionId>,
}

async fn not_found() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "Not Found")
}

async fn readyz(State(state): State<AdminState>) -> Response {
    let reason = match state.readiness.phase() {
        Phase::Starting => "starting",
        Phase::Draining => "draining",
        Phase::Ready => {
            // Any question will do: the answer matters less than that there is one.
            let probe = SessionId::from("ses_readyz");
            match tokio::time::timeout(PROBE_TIMEOUT, state.log.session(&probe)).await {
                Ok(Ok(_)) => return Json(json!({"ready": true})).into_response(),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the log does not answer");
                    "store"
                }
                Err(_) => "store",
            }
        }
    };
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"ready": false, "reason": reason}))).into_response()
}

async fn metrics(State(state): State<AdminState>, request: Request) -> Result<Response, ApiError> {
    let Some(handle) = &state.metrics else { return Err(ApiError::no_route()) };
    if !state.metrics_public && !state.principal(&request)?.scopes.permit(Right::Administer, None) {
        return Err(ApiError::forbidden(Right::Administer.refusal()));
    }
    let stats = state.log.stats();
    let descriptors =
        [(names::DESCRIPTORS_OPEN, descriptors::open()), (names::DESCRIPTORS_LIMIT, descriptors::limit())];
    let descriptors = descriptors.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in descriptors.chain([
        (names::STORE_COMMITS, stats.commits),
        (names::STORE_APPENDS, stats.appends),
        (names::STORE_EVENTS, stats.events),
        (names::STORE_FAILURES, stats.failures),
        (names::READY, u64::from(state.readiness.phase() == Phase::Ready)),
    ]) {
        #[expect(clippy::cast_precision_loss, reason = "metrics are floating point")]
        metrics::gauge!(name).set(value as f64);
    }
    metrics::gauge!(names::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    handle.run_upkeep();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render())
        .into_response())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn connections(
    State(state): State<AdminState>,
    query: sessions::Checked<ConnectionsQuery>,
) -> Result<Response, ApiError> {
    let limit = state.limit(query.limit)?;
    let mut connections = state.connections.list();
    connections.retain(|connection| query.after.is_none_or(|after| connection.connection > after));
    connections.sort_by_key(|connection| connection.connection);
    let more = connections.len() > limit;
    connections.truncate(limit);
    let next = connections.last().filter(|_| more).map(|last| last.connection);
    Ok(Json(json!({"connections": connections, "next": next})).into_response())
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ConnectionsQuery {
    after: Option<u64>,
    limit: Option<usize>,
}

impl AdminState {
    /// Who asks.
    fn principal(&self, request: &Request) -> Result<Principal, ApiError> {
        let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
        let credential = match (values.next(), values.next()) {
            (None, _) => None,
            (Some(value), None) => {
                let token = value.to_str().ok().and_then(bearer);
                Some(token.ok_or_else(|| ApiError::unauthenticated(AuthError::Invalid))?)
            }
            (Some(_), Some(_)) => return Err(ApiError::unauthenticated(AuthError::Invalid)),
        };
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        self.authenticator.admit(credential.into_iter(), peer).map_err(ApiError::unauthenticated)?;
        self.authenticator.authenticate(credential, self.clock.now()).map_err(ApiError::unauthenticated)
    }

    fn check_origin(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
        let header = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        // A request may also carry the name in its address.
        let host = header(header::HOST).or_else(|| uri.authority().map(Authority::as_str));
        self.origins
            .check(host, header(header::ORIGIN))
            .map_err(|error| ApiError::forbidden(error.to_string()))
    }

    /// How many entries to return.
    fn limit(&self, asked: Option<usize>) -> Result<usize, ApiError> {
        match asked {
            Some(0) => Err(ApiError::invalid("limit must be at least 1")),
            Some(limit) => Ok(limit.min(self.page)),
            None => Ok(DEFAULT_PAGE.min(self.page)),
        }
    }
}

async fn authenticate(State(state): State<AdminState>, mut request: Request, next: Next) -> Response {
    match state.principal(&request) {
        Ok(principal) => {
            // What is nested sees the rest of its path only.
            let path = format!("/admin/v1{}", request.uri().path());
            audit::administration(&principal, request.method(), &path);
            request.extensions_mut().insert(principal);
            let mut response = next.run(request).await;
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => error.into_response(),
    }
}

async fn check_origin(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if let Err(error) = state.check_origin(headers, request.uri()) {
        return error.into_response();
    }
    let Some(origin) = headers.get(header::ORIGIN).cloned() else { return next.run(request).await };
    let mut response = if request.method() == Method::OPTIONS && is_preflight(headers) {
        may_ask(Some(HeaderValue::from_static("GET, POST, DELETE")))
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let_read(headers, &origin);
    response
}

const OPENAPI: &str = include_str!("openapi.json");
const DEFAULT_PAGE: usize = 100;
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
