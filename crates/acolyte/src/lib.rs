//! Acolyte: chat RPC over WebSocket and HTTP+SSE, server and client halves, sans-IO.
//!
//! Section numbers (§) are those of the wire reference. One chat is served the same way whichever
//! transport carries it:
//!
//! ```text
//! /v1/rpc          ─ ClientMessage ─▶ ┐                ┌ ─▶ {"id", "type": "chat.event", "event"}
//! /v1/chat/stream  ─ ChatRequest ───▶ ┤ Chat ◀─ events ├ ─▶ data: {"type": "text-delta", …}
//!                                     └───── Ledger ───┘
//! ```

pub mod client;
pub mod codec;
mod conn;
pub mod error;
mod ledger;
mod lenient;
mod limits;
pub mod map;
pub mod message;
mod protocol;
pub mod state;

pub use conn::AcolyteConnection;
pub use error::{Code, ErrorBody, ErrorDetail, Source};
pub use ledger::{Ledger, Task};
pub use limits::AcolyteLimits;
pub use message::{ChatRequest, ClientMessage, Reply, RpcId, ServerMessage, StreamEvent, TaskId};
pub use protocol::{Acolyte, Service};
pub use state::TaskState;
