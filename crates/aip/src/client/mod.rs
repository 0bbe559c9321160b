//! The client half, sans-IO (§5, §8): messages, middleware and handlers for those who build their
//! own client, and two that are complete, [`Device`] and [`Constellation`].
//!
//! ```text
//! transport ─ Input ─▶ handle ─┐                 ┌─▶ Output::Connect, Send, Close ─▶ transport
//!                              ├─▶ Device, or ───┤
//! user ──── calls ─────────────┘   Constellation └─▶ Output::Event ─▶ user
//! ```
//!
//! After every input and every call, call `poll` until it answers [`Output::Idle`]. The time goes
//! into messages, so it is that of a calendar; it must not go back.

mod backoff;
mod channel;
mod constellation;
mod device;
mod event;
mod handlers;
mod heartbeat;
mod ids;
mod link;
mod middleware;
mod protocols;

pub use backoff::{Backoff, Policy, Strategy};
pub use channel::{Channel, Message, ReceiveError};
pub use constellation::{Constellation, ConstellationConfig, NewTask};
pub use device::{Device, DeviceConfig};
pub use event::{
    Cause, CommandError, ConstellationEvent, DeviceEvent, DeviceState, Ending, FailureKind, Input, NoInfo,
    Output, Run, RunId, Trouble,
};
pub use handlers::{Dispatched, HandlerError, Handlers};
pub use heartbeat::{DEFAULT_INTERVAL, HeartbeatManager, Pulse};
pub use ids::Ids;
pub use link::Times;
pub use middleware::{Auth, Direction, LogLine, Logging, Metrics, Middleware, Pipeline, Refused};
pub use protocols::{
    CommandBatch, CommandResults, Commands, DeviceInfo, Heartbeat, Registration, TaskAssignment, TaskEnd,
    TaskExecution, TaskRequest, ack, error_message,
};
