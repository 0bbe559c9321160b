//! Sessions, their events, turns and messages.

use std::ops::Deref;

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use switchboard_core::{
    Committed, Event, MessageId, MessageRow, Position, Principal, PrincipalId, Scope, Session, SessionId,
    SessionLimits, SessionRow,
};
use switchboard_store::SessionFilter;

use super::AdminState;
use super::error::ApiError;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    #[serde(default)]
    live: bool,
    #[serde(default)]
    used: bool,
    #[serde(default)]
    homes: bool,
    owner: Option<PrincipalId>,
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(state): State<AdminState>,
    Extension(principal): Extension<Principal>,
    query: Checked<ListQuery>,
) -> Result<Response, ApiError> {
    let owner = if principal.scopes.allows(Scope::Admin) {
        query.owner.clone()
    } else {
        if query.owner.as_ref().is_some_and(|owner| *owner != principal.id) {
            return Err(ApiError::forbidden("owner needs a credential with the scope admin: leave it out"));
        }
        Some(principal.id)
    };
    let limit = state.limit(query.limit)?;
    let before = match &query.cursor {
        Some(cursor) => Some(read_cursor(cursor).ok_or_else(|| {
            ApiError::invalid("cursor must be the next of an earlier answer: leave it out to begin anew")
        })?),
        None => None,
    };
    let filter = SessionFilter {
        owner,
        live: query.live,
        used: query.used,
        without_homes: !query.homes,
        before,
        limit: limit + 1,
    };
    let mut rows = state.log.sessions(&filter).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(write_cursor);
    Ok(Json(json!({"sessions": rows, "next": next})).into_response())
}

pub(super) async fn one(Visible(row): Visible) -> Response {
    Json(row).into_response()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    after: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn events(
    State(state): State<AdminState>,
    Visible(row): Visible,
    query: Checked<PageQuery>,
) -> Result<Response, ApiError> {
    let after = after(query.after.as_deref(), &row)?;
    let limit = state.limit(query.limit)?;
    let batches = state.log.read(&row.session, after, limit).await?;
    let events: Vec<Committed> = batches
        .iter()
        .flat_map(|batch| &batch.events)
        .filter(|event| event.position.seq > after)
        .take(limit)
        .map(without_secrets)
        .collect();
    let next = events
        .last()
        .map(|last| last.position)
        .filter(|last| last.seq < row.head)
        .map(|last| last.to_string());
    let head = Position { epoch: row.epoch, seq: row.head }.to_string();
    Ok(Json(json!({"events": events, "head": head, "next": next})).into_response())
}

pub(super) async fn turns(
    State(state): State<AdminState>,
    Visible(row): Visible,
    query: Checked<PageQuery>,
) -> Result<Response, ApiError> {
    let after = after(query.after.as_deref(), &row)?;
    let limit = state.limit(query.limit)?;
    let mut turns = state.log.turns(&row.session, after, limit + 1).await?;
    let more = turns.len() > limit;
    turns.truncate(limit);
    let next = turns
        .last()
        .filter(|_| more)
        .map(|last| Position { epoch: row.epoch, seq: last.accepted }.to_string());
    Ok(Json(json!({"turns": turns, "next": next})).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesQuery {
    tip: Option<MessageId>,
    limit: Option<usize>,
}

pub(super) async fn messages(
    State(state): State<AdminState>,
    Visible(row): Visible,
    query: Checked<MessagesQuery>,
) -> Result<Response, ApiError> {
    let limit = state.limit(query.limit)?;
    let messages = match &query.tip {
        Some(tip) => {
            let messages = state.log.history(&row.session, tip, limit).await?;
            if messages.is_empty() {
                return Err(ApiError::no_message());
            }
            messages
        }
        None => newest(&state, &row, limit).await?,
    };
    let next = messages.last().and_then(|last| last.parent.clone());
    Ok(Json(json!({"messages": messages, "next": next})).into_response())
}

/// The path that ends where the session goes on from, whatever its protocol calls its messages.
async fn newest(state: &AdminState, row: &SessionRow, limit: usize) -> Result<Vec<MessageRow>, ApiError> {
    let Some(loaded) = state.log.load(&row.session).await? else { return Ok(Vec::new()) };
    let unborn = || Session::new(row.session.clone(), SessionLimits::default());
    let mut session = loaded.snapshot.unwrap_or_else(unborn);
    for committed in loaded.batches.iter().flat_map(|batch| &batch.events) {
        session.apply(committed);
    }
    let Some(tip) = session.tip() else { return Ok(Vec::new()) };
    Ok(state.log.history(&row.session, tip, limit).await?)
}

/// The session in the path, by its id or by the name that the asker has given it, if the asker may see it. What
/// it may not see does not exist.
#[derive(Debug)]
pub(super) struct Visible(SessionRow);

impl FromRequestParts<AdminState> for Visible {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        let Path(session) =
            Path::<SessionId>::from_request_parts(parts, state).await.map_err(|_| ApiError::no_session())?;
        let principal = parts
            .extensions
            .get::<Principal>()
            .cloned()
            .ok_or_else(|| ApiError::unauthenticated(crate::auth::AuthError::Missing))?;
        let row = match state.log.session(&session).await? {
            Some(row) => Some(row),
            // Clients may call their sessions by names of their own, each principal in a space of its own.
            None => state.log.session(&SessionId::named(&principal, session.as_str())).await?,
        };
        let row = row.ok_or_else(ApiError::no_session)?;
        if row.owner != principal.id && !principal.scopes.allows(Scope::Admin) {
            return Err(ApiError::no_session());
        }
        Ok(Self(row))
    }
}

/// A query string that was read, or an error that says what is wrong with it.
#[derive(Debug)]
pub(super) struct Checked<T>(T);

impl<T> Deref for Checked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Checked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Query::from_request_parts(parts, state)
            .await
            .map(|Query(query)| Self(query))
            .map_err(|rejection| ApiError::invalid(rejection.body_text()))
    }
}

/// Reads `<epoch>-<seq>` or `<seq>`.
fn after(text: Option<&str>, row: &SessionRow) -> Result<u64, ApiError> {
    let Some(text) = text else { return Ok(0) };
    if let Ok(seq) = text.parse() {
        return Ok(seq);
    }
    let position: Position =
        text.parse().map_err(|_| ApiError::invalid("after must be a position <epoch>-<seq>, or a number"))?;
    if position.epoch != row.epoch {
        return Err(ApiError::history_replaced());
    }
    Ok(position.seq)
}

/// The event without what is of use to nobody but the server.
fn without_secrets(committed: &Committed) -> Committed {
    let mut committed = committed.clone();
    if let Event::AttachmentOpened { secret, .. } = &mut committed.event {
        *secret = None;
    }
    committed
}

fn write_cursor(row: &SessionRow) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}.{}", row.updated_at.as_micros(), row.session))
}

fn read_cursor(text: &str) -> Option<(u64, SessionId)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    let (updated_at, session) = text.split_once('.')?;
    Some((updated_at.parse().ok()?, SessionId::from(session)))
}
