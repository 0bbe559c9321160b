//! The canonical model of Switchboard: what a session is, what may be asked of it, what then
//! happened, and the contract between protocols and the rest of the server.
//!
//! This crate is pure. It never reads a clock, a socket, the environment or a random source:
//! time enters as [`Timestamp`], randomness as [`Seed`], bytes as [`Frame`].
//!
//! ```text
//! transport bytes ─▶ Connection ──Op──▶ Session ──Event──▶ Log ──Committed──▶ Connection ─▶ bytes
//! ```
//!
//! * [`Connection`] and [`Protocol`] are what a protocol crate implements.
//! * [`ClientMachine`] is what its client half implements.
//! * [`Session`] decides what an [`Op`] leads to, and applies what was committed.
//! * [`Event`] is the only thing that is ever stored; everything else can be derived from it.

mod asked;
mod backlog;
mod backoff;
mod bucket;
mod chronicle;
pub mod client;
mod connection;
mod hex;
mod id;
mod journal;
pub mod json;
mod keys;
mod limits;
mod log;
pub mod model;
mod pii;
mod position;
mod principal;
mod projection;
mod protocol;
mod random;
mod reject;
mod rights;
mod roll;
mod scopes;
mod seed;
mod session;
mod time;
mod uuid;
mod voice;
pub mod wide;

pub use asked::Asked;
pub use backlog::Backlog;
pub use backoff::{Backoff, Jitter};
pub use bucket::{Bucket, Rate};
pub use chronicle::{
    Cell, Change, Chronicle, Chronicler, Column, ColumnKind, Comparison, Condition, Found, Lookup, Order,
    Question, Record, Table, Within,
};
pub use client::{ClientInput, ClientMachine, ClientOutput};
pub use connection::{
    Close, CloseReason, Connection, Errand, Frame, Head, Heard, Input, Output, Reply, RequestId, Utterance,
    Violation,
};
pub use hex::hex;
pub use id::{
    AgentId, AttachmentId, CallId, Callsign, MessageId, PrincipalId, SessionId, ToolName, TurnId, WorkerId,
};
pub use journal::{Attempt, Journal, Repeat};
pub use keys::{KeyIndex, OwnedKey};
pub use limits::SessionLimits;
pub use log::{Append, Batch, Loaded};
pub use model::{Actor, Committed, Event, Op};
pub use pii::Pii;
pub use position::{InvalidPosition, Position};
pub use principal::{Principal, Role};
pub use projection::{
    DeviceRow, EditedRow, MessageRow, MessageStatus, RequestRow, Row, SessionRow, TurnRow, rows,
};
pub use protocol::{
    Credential, Method, Opening, OpeningRequest, Protocol, Refusal, RefusalReply, Route, Transport, Upgrade,
};
pub use random::SplitMix;
pub use reject::Reject;
pub use rights::{Need, Right};
pub use roll::{Enrolled, Enrolment, Granted, Invitation, RefusedEnrolment, Reservation, Roll, Signal};
pub use scopes::{Scope, Scopes};
pub use seed::Seed;
pub use session::{
    AttachmentView, Decision, DeviceState, Session, SessionView, TurnState, TurnStatus, TurnView,
};
pub use time::{Calendar, Timestamp};
pub use uuid::uuid;
pub use voice::{AudioFormat, Dumb, Unheard, VoiceEvent, VoiceOp, VoiceSettings};
