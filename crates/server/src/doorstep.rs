//! Limits in front of what is served beside the protocols: the admin API and the metrics.
//!
//! Connections of an address, wrong credentials and the rate of a principal are counted exactly as for connections of
//! protocols, in the same books. Who may do what is decided behind this.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use crate::auth::{AuthError, bearer};
use crate::upgrade::Door;

/// Lets a request through if its address and its principal have not used up their share.
pub(crate) async fn keep_limits(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let Some(peer) = peer.filter(|_| path == METRICS || path.starts_with(ADMIN)) else {
        return next.run(request).await;
    };
    let now = door.gateway.sessions.environment.clock.now();
    let address = door.origins.client(peer, request.headers());
    let mut guard = match door.limits.open(address, "admin", None, now) {
        Ok(guard) => guard,
        Err(too_many) => return too_fast(Duration::from_millis(too_many.retry_ms())),
    };
    let credential = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // What is no credential at all is a wrong one.
    let identified =
        credential.map(|value| door.authenticator.identify(Some(bearer(value).unwrap_or("")), now));
    match identified {
        Some(Ok(identity)) => {
            let principal = &identity.principal.id;
            if guard.identify(principal).is_err() {
                return too_fast(RETRY);
            }
            if let Err(delay) = door.gateway.buckets.of(principal, None, now).take_inbound(1, 0, now) {
                return too_fast(delay);
            }
        }
        Some(Err(AuthError::Invalid)) => guard.count_bad_credential(now),
        Some(Err(AuthError::Missing | AuthError::Expired)) | None => {}
    }
    next.run(request).await
}

fn too_fast(delay: Duration) -> Response {
    let seconds = delay.as_secs_f64().ceil().max(1.0);
    let body =
        json!({ "error": { "code": "too_many_requests", "message": "too many requests: try again later" } });
    (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, format!("{seconds:.0}"))], Json(body))
        .into_response()
}

const ADMIN: &str = "/admin/";
const METRICS: &str = "/metrics";
const RETRY: Duration = Duration::from_secs(1);
