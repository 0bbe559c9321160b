//! Async clients of AIP: a [`Device`] that runs commands with its [`Tools`], and a [`Constellation`]
//! that has one device do tasks.
//!
//! Both come back after a loss by themselves. Nothing is taken up again: commands that were being run
//! are stopped, and tasks have failed before the next connection is looked for.
//!
//! ```no_run
//! use serde_json::json;
//! use switchboard_client::aip::{
//!     Connect, Constellation, ConstellationConfig, Device, DeviceConfig, NewTask, ToolCall,
//! };
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = |call: ToolCall| async move { Ok(json!({ "you_said": call.parameters })) };
//! let server = "ws://127.0.0.1:4600";
//! let device = Device::connect(Connect::new(server), DeviceConfig::new("lab-1", "linux"), tools).await?;
//!
//! let config = ConstellationConfig::new("me@lab-1", "lab-1");
//! let constellation = Constellation::connect(Connect::new(server), config).await?;
//! let result = constellation.run(NewTask::new("say hello")).await?.result().await?;
//! # drop(result);
//! constellation.close().await;
//! device.close().await;
//! # Ok(())
//! # }
//! ```

mod constellation;
mod device;
mod error;
mod event;
mod options;
mod task;
mod tools;

pub use switchboard_aip::client::{
    Auth, CommandError, ConstellationConfig, DeviceConfig, DeviceState, Direction, Ending, FailureKind,
    Fault, HandlerError, Handlers, LogLine, Logging, Message, Metrics, Middleware, NewTask, NoInfo, Policy,
    Refused, Strategy, Times, Trouble,
};
pub use switchboard_aip::message::{
    ClientMessage, ServerMessage, SystemInfo, TaskStatus, ToolInfo, ToolType,
};

pub use crate::endpoint::{FirstAttempt, OptionsError};
pub use constellation::Constellation;
pub use device::Device;
pub use error::{Cause, ClientError, ConnectError, TaskError};
pub use event::{Event, Events, Snapshot};
pub use options::{Connect, Settings};
pub use task::{Task, TaskUpdate};
pub use tools::{ToolCall, ToolFailure, Tools};
