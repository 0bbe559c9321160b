//! Devices: what they say of themselves, and whether they are connected.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::{Actor, Callsign, DeviceRow, Op, Principal, PrincipalId, Scope};
use switchboard_store::DeviceFilter;

use super::AdminState;
use super::error::ApiError;
use super::sessions::Checked;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    online: Option<bool>,
    principal: Option<PrincipalId>,
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(state): State<AdminState>,
    Extension(asker): Extension<Principal>,
    query: Checked<ListQuery>,
) -> Result<Response, ApiError> {
    let principal = within_reach(&asker, query.principal.as_ref())?;
    let limit = state.limit(query.limit)?;
    let after = match &query.cursor {
        Some(cursor) => Some(read_cursor(cursor).ok_or_else(|| {
            ApiError::invalid("cursor must be the next of an earlier answer: leave it out to begin anew")
        })?),
        None => None,
    };
    let filter = DeviceFilter { principal, online: query.online, after, limit: limit + 1 };
    let mut rows = state.log.devices(&filter).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(write_cursor);
    let devices: Vec<DeviceInfo> = rows.into_iter().map(DeviceInfo::new).collect();
    Ok(Json(json!({"devices": devices, "next": next})).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneQuery {
    principal: Option<PrincipalId>,
}

/// Where several principals have a device of this name, the one that is connected, or else the one
/// that enrolled last.
pub(super) async fn one(
    State(state): State<AdminState>,
    Extension(asker): Extension<Principal>,
    path: Result<Path<Callsign>, PathRejection>,
    query: Checked<OneQuery>,
) -> Result<Response, ApiError> {
    let Path(device) = path.map_err(|_| ApiError::no_device())?;
    let principal = within_reach(&asker, query.principal.as_ref())?;
    let mut rows = state.log.device(&device).await?;
    rows.retain(|row| principal.as_ref().is_none_or(|principal| row.principal == *principal));
    let row = rows.into_iter().max_by_key(|row| (row.left_at.is_none(), row.joined_at));
    Ok(Json(DeviceInfo::new(row.ok_or_else(ApiError::no_device)?)).into_response())
}

/// Frees a name: whoever enrols under it next has it. Names that the device scopes of keys cover stay reserved for the
/// principals of these keys.
pub(super) async fn release(
    State(state): State<AdminState>,
    Extension(asker): Extension<Principal>,
    path: Result<Path<Callsign>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(device) = path.map_err(|_| ApiError::no_device())?;
    let mut released = Vec::new();
    for row in state.log.device(&device).await? {
        if row.is_released() {
            continue;
        }
        let op = Op::ReleaseDevice { device: device.clone(), by: asker.id.clone() };
        state.sessions.ask(&row.session, Actor::server(), op).await.map_err(|_| ApiError::busy())?;
        released.push(row.principal);
    }
    if !released.is_empty() {
        tracing::info!(by = %asker.id, %device, "the name of a device was released");
    }
    Ok(Json(json!({"device": device, "released": released})).into_response())
}

/// Whose devices the asker is shown; none for everybody's.
fn within_reach(asker: &Principal, asked: Option<&PrincipalId>) -> Result<Option<PrincipalId>, ApiError> {
    if asker.scopes.allows(Scope::Admin) {
        return Ok(asked.cloned());
    }
    if asked.is_some_and(|asked| *asked != asker.id) {
        return Err(ApiError::forbidden("principal needs a credential with the scope admin: leave it out"));
    }
    Ok(Some(asker.id.clone()))
}

/// A device as the admin API shows it.
#[derive(Debug, Serialize)]
struct DeviceInfo {
    #[serde(flatten)]
    row: DeviceRow,
    online: bool,
    capabilities: Vec<String>,
    tags: Vec<String>,
}

impl DeviceInfo {
    fn new(row: DeviceRow) -> Self {
        let online = row.left_at.is_none();
        let capabilities = words(&row.facts, "supported_features");
        let tags = words(&row.facts, "tags");
        Self { row, online, capabilities, tags }
    }
}

/// The texts in a list of the facts. These are the device's own words, so they may be anything.
fn words(facts: &Value, name: &str) -> Vec<String> {
    let list = facts.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn write_cursor(row: &DeviceRow) -> String {
    URL_SAFE_NO_PAD.encode(json!([row.device, row.principal]).to_string())
}

fn read_cursor(text: &str) -> Option<(Callsign, PrincipalId)> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}
