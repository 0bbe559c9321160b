//! The client half of AIP, without sockets, clock or randomness: messages, middleware and handlers for those who build
//! their own client, and two [`ClientMachine`](switchboard_core::ClientMachine)s that are complete, [`Device`] and
//! [`Constellation`].
//!
//! The time goes into messages, so it is that of a calendar; it must not go back.

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
    CommandError, ConstellationEvent, DeviceEvent, DeviceState, Ending, FailureKind, Fault, NoInfo, Run,
    RunId, Trouble,
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

/// What can happen to a client.
pub type Input = switchboard_core::ClientInput;
/// What a client wants done.
pub type Output<E> = switchboard_core::ClientOutput<E>;
/// Why there is no connection.
pub type Cause = switchboard_core::client::Cause<Fault>;
