//! What a function pushes: checked as a whole, then handed on in order.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use http_body_util::Limited;
use serde_json::json;
use switchboard_agents::{Grant, PushRefused};
use switchboard_asp::message::RecordBody;
use switchboard_asp::relay::{Piece, PushForm, PushLimits, Pushed, PushedFrame, map};
use switchboard_core::model::ToolChange;
use switchboard_core::{Actor, Op, Signal};

use super::{Connection, Refused, RelayState};
use switchboard_engine::Delivery;

pub(super) async fn frames(
    State(state): State<RelayState>,
    Path(cid): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let grant = state.authorize(&headers, &cid)?;
    let pushed = read(&headers, body).await?;
    let connection = state.connection(&grant).await?;
    let answer = json!({ "accepted": pushed.count, "delivered": connection.delivered() });
    // What was taken may have ended its request, and is still taken when it comes again.
    if let Some(idem) = &pushed.idem
        && !state.relay.is_new_push(&grant, idem, state.now())
    {
        return Ok((StatusCode::ACCEPTED, Json(answer)).into_response());
    }
    let delivered = match check(&state, &grant, &connection, &pushed.frames) {
        Ok(()) => deliver(&state, &grant, &connection, pushed.frames).await,
        Err(refused) => Err(refused),
    };
    if let (Err(_), Some(idem)) = (&delivered, &pushed.idem) {
        state.relay.forget_push(&grant, idem);
    }
    delivered?;
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Pushed, Refused> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let form = kind.map_or(Some(PushForm::Json), PushForm::from_content_type);
    let unusable = |message: &str| Refused::new(StatusCode::BAD_REQUEST, "bad_frame", message);
    let form = form.ok_or_else(|| unusable("send application/json or application/vnd.asp.frames"))?;
    let limits = PushLimits::default();
    let body = Limited::new(body, limits.max_bytes).collect();
    let body = match tokio::time::timeout(BODY_PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("a push may have {} bytes; send several", limits.max_bytes);
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
        }
        Ok(Err(_)) => return Err(unusable("the body broke off")),
        Err(_) => return Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long")),
    };
    Pushed::read(form, body, limits).map_err(|error| {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
        Refused::new(status, "bad_frame", error.to_string())
    })
}

/// Refuses the whole if any frame is not allowed.
fn check(
    state: &RelayState,
    grant: &Grant,
    connection: &Connection,
    frames: &[PushedFrame],
) -> Result<(), Refused> {
    for PushedFrame { rid, piece } in frames {
        match piece {
            Piece::ToolDef(_) => {}
            Piece::Record(_) | Piece::Raw(_) | Piece::Ping if *rid == 0 => {
                if !grant.push || connection.visit.is_none() {
                    return Err(Refused::forbidden("the client takes nothing that belongs to no request"));
                }
            }
            Piece::Record(_) | Piece::Raw(_) | Piece::Ping | Piece::Error(_) | Piece::Suspend(_) => {
                if !state.relay.is_open(grant, *rid) {
                    return Err(Refused::forbidden(PushRefused::NotOpen.to_string()));
                }
            }
        }
    }
    Ok(())
}

/// Hands frames on in their order; neighbours of one request go together.
async fn deliver(
    state: &RelayState,
    grant: &Grant,
    connection: &Connection,
    frames: Vec<PushedFrame>,
) -> Result<(), Refused> {
    let mut waiting: Vec<Piece> = Vec::new();
    let mut of = 0;
    for PushedFrame { rid, piece } in frames {
        if rid != of && !waiting.is_empty() {
            hand_over(state, grant, of, std::mem::take(&mut waiting)).await?;
        }
        of = rid;
        match piece {
            // While the request is open its tools come in order with its output.
            Piece::ToolDef(change) if rid == 0 || !state.relay.is_open(grant, rid) => {
                let known = &connection.status.tools;
                let (add, remove) = map::tool_change(change, &grant.agent, known);
                let op = Op::ChangeTools(ToolChange { add, remove, turn: None });
                state.submit(&grant.session, Actor::server(), op).await?;
            }
            Piece::Record(record) if rid == 0 => {
                // What belongs to no request has no number among its records.
                let record = switchboard_asp::message::Record { n: None, ..record };
                notify(grant, connection, &record.body, &record);
            }
            piece @ (Piece::Record(_)
            | Piece::Error(_)
            | Piece::ToolDef(_)
            | Piece::Suspend(_)
            | Piece::Raw(_)
            | Piece::Ping) => waiting.push(piece),
        }
    }
    if waiting.is_empty() { Ok(()) } else { hand_over(state, grant, of, waiting).await }
}

async fn hand_over(state: &RelayState, grant: &Grant, rid: u16, pieces: Vec<Piece>) -> Result<(), Refused> {
    if rid == 0 {
        return Ok(());
    }
    state.relay.deliver(grant, rid, pieces).await.map_err(|refused| match refused {
        PushRefused::NotOpen => Refused::forbidden(refused.to_string()),
        PushRefused::Busy => Refused::busy(),
    })
}

/// Shows something to the client that belongs to no request; never stored.
fn notify(
    grant: &Grant,
    connection: &Connection,
    body: &RecordBody,
    record: &switchboard_asp::message::Record,
) {
    // Only what asks for nothing and ends nothing.
    let shown = matches!(
        body,
        RecordBody::Text(_) | RecordBody::Notice(_) | RecordBody::Data { .. } | RecordBody::Status(_)
    );
    if let (true, Some(visit)) = (shown, &connection.visit) {
        let body = serde_json::Value::from(switchboard_asp::Value::Map(record.to_map()));
        visit.inbox.deliver(Delivery::Signal(Signal::Note { from: grant.principal.clone(), body }));
    }
}

/// How long a push may take to arrive.
const BODY_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
