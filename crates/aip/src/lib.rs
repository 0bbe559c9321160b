//! AIP, the Agent Interaction Protocol: devices and orchestrators, tasks and commands, server and
//! client halves, sans-IO.

mod awaited;
pub mod binary;
pub mod client;
pub mod codec;
mod conn;
pub mod error;
mod fleet;
pub mod ledger;
mod limits;
pub mod map;
pub mod message;
mod protocol;
mod refusal;
pub mod state;
pub mod validate;

pub use conn::AipConnection;
pub use fleet::Fleet;
pub use limits::AipLimits;
pub use message::{
    ClientMessage, ClientMessageType, ClientType, Command, Outcome, ResultStatus, ServerMessage,
    ServerMessageType, TaskStatus, ToolType,
};
pub use protocol::{Aip, Service};
