//! What the admin API says instead of an answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use switchboard_store::StoreError;

use crate::auth::AuthError;

/// An error, with what to do about it.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub(super) fn unauthenticated(error: AuthError) -> Self {
        let (code, advice) = match error {
            AuthError::Missing => ("credential_missing", "send Authorization: Bearer <API key or token>"),
            AuthError::Invalid => ("credential_invalid", "check the API key or token"),
            AuthError::Expired => ("credential_expired", "get a new token"),
        };
        Self::new(StatusCode::UNAUTHORIZED, code, format!("{error}: {advice}"))
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// Also said of sessions that belong to somebody else.
    pub(super) fn no_session() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unknown_session",
            "no such session: list yours at /admin/v1/sessions",
        )
    }

    /// Also said of devices that belong to somebody else.
    pub(super) fn no_device() -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_device", "no such device: list yours at /admin/v1/devices")
    }

    pub(super) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "nothing can be stored now: try again")
    }

    pub(super) fn no_message() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unknown_message",
            "no such message: leave tip out to begin at the newest",
        )
    }

    pub(super) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_path", "no such path: see /admin/v1/openapi.json")
    }

    pub(super) fn read_only() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "read_only", "this path only reads: use GET")
    }

    pub(super) fn post_only() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, POST_ONLY, "this path changes something: use POST")
    }

    pub(super) fn unwritable() -> Self {
        let message = "it could not be written down, and nothing has changed: see the server's log";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
    }

    pub(super) fn history_replaced() -> Self {
        let message = "the position belongs to a history that was replaced: read again from the start";
        Self::new(StatusCode::GONE, "history_replaced", message)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the log could not be read");
        let message = "the log could not be read: try again, or see the server's log";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code, "message": self.message}});
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            let allowed = if self.code == POST_ONLY { "POST" } else { "GET, HEAD" };
            headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }
}

const POST_ONLY: &str = "post_only";
