//! API keys, and what is revoked.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use switchboard_core::{Principal, PrincipalId};

use super::AdminState;
use super::error::ApiError;
use crate::auth::{Revocation, RevokeError};

/// The API keys that are configured; never the keys themselves.
pub(super) async fn keys(State(state): State<AdminState>) -> Response {
    Json(json!({ "keys": state.authenticator.api_keys() })).into_response()
}

/// What is to be revoked, or restored: exactly one of the three.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subject {
    key: Option<String>,
    token: Option<String>,
    principal: Option<PrincipalId>,
}

impl Subject {
    fn revocation(self) -> Result<Revocation, ApiError> {
        match (self.key, self.token, self.principal) {
            (Some(id), None, None) => Ok(Revocation::ApiKey(id)),
            (None, Some(jti), None) => Ok(Revocation::Token { jti, until: None }),
            (None, None, Some(principal)) => Ok(Revocation::Principal(principal)),
            _ => Err(ApiError::invalid("expected exactly one of key, token (its jti) and principal")),
        }
    }
}

/// Revokes; live connections end. Doing it again changes nothing.
pub(super) async fn revoke(
    State(state): State<AdminState>,
    Extension(asker): Extension<Principal>,
    subject: Result<Json<Subject>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(subject) = subject.map_err(|error| ApiError::invalid(error.body_text()))?;
    let revocation = subject.revocation()?;
    if let Revocation::ApiKey(id) = &revocation
        && !state.authenticator.api_keys().iter().any(|known| known.id == *id)
    {
        return Err(ApiError::invalid("no key of this id is configured: list them at /admin/v1/keys"));
    }
    if matches!(&revocation, Revocation::Principal(principal) if *principal == asker.id) {
        return Err(ApiError::invalid("that would lock yourself out: use a credential of another principal"));
    }
    state.authenticator.revoke(revocation, state.clock.now())?;
    Ok(Json(json!({ "revoked": true })).into_response())
}

/// Takes a revocation back. Doing it again changes nothing.
pub(super) async fn restore(
    State(state): State<AdminState>,
    subject: Result<Json<Subject>, axum::extract::rejection::JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(subject) = subject.map_err(|error| ApiError::invalid(error.body_text()))?;
    state.authenticator.restore(&subject.revocation()?, state.clock.now())?;
    Ok(Json(json!({ "revoked": false })).into_response())
}

impl From<RevokeError> for ApiError {
    fn from(error: RevokeError) -> Self {
        tracing::error!(%error, "a revocation could not be written down");
        match error {
            RevokeError::Full => Self::invalid(error.to_string()),
            RevokeError::Unwritable { .. } => Self::unwritable(),
        }
    }
}
