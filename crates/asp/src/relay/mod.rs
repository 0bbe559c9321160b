//! Relay Mode over HTTP (§14), the part that needs no network: what a relay asks a function, what the function
//! answers and pushes, and how both know that a message is genuine.
//!
//! ```text
//! relay      Invocation::to_json ─ sign ──────────▶ POST ─▶ verify ─ Invocation::from_json      function
//!            Verdict, Decoder ◀─ NDJSON, SSE, frames, text, bytes or JSON ◀─ Writer
//!            Pushed::read     ◀───────── POST /v1/relay/connections/{cid}/frames ◀─ Pushed::to_json
//! ```
//! Invariant: nothing here shows content, keys or tokens in its `Debug` or in the words of an error.

mod answer;
pub mod body;
pub mod decode;
mod document;
pub mod map;
mod piece;
pub mod push;
pub mod response;
pub mod sign;
pub mod write;

pub use answer::{Answer, Answered, Answers, Cancellation};
pub use body::{CancelGrant, Event, Invocation, Original, Payload, Principal, PushGrant, Role, Said};
pub use decode::{BadBody, Decoder, Ended, Finished, Limits};
pub use document::{BodyError, MAX_BODY};
pub use piece::{Piece, PieceError};
pub use push::{PushError, PushForm, PushLimits, Pushed, PushedFrame};
pub use response::{ContentKind, Verdict, cpu_time};
pub use sign::{SignatureError, SignedHeaders, SigningKey, Verified, body_hash, sign, verify, webhook_id};
pub use write::{Format, WriteError, Writer};

/// `Accept` of every invocation.
pub const ACCEPT: &str =
    "application/x-ndjson, text/event-stream, application/vnd.asp.frames, application/json, text/plain";
/// Header with the `inv` under which a function tells attempts of one invocation from new ones.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Header with the `cid`.
pub const X_ASP_CID: &str = "x-asp-cid";
/// Header with the `rid`.
pub const X_ASP_REQUEST_ID: &str = "x-asp-request-id";
/// Header with the `attempt`.
pub const X_ASP_ATTEMPT: &str = "x-asp-attempt";
/// Header with the `deadline_ms`.
pub const X_ASP_DEADLINE_MS: &str = "x-asp-deadline-ms";
/// Header or trailer with the function's processor time, see [`cpu_time`].
pub const X_CPU_TIME: &str = "x-cpu-time";
/// Largest JSON form of a suspended function's state.
pub const MAX_STATE: usize = 64 * 1024;
