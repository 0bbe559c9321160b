//! An async client of the Agent Socket Protocol.
//!
//! A [`Client`] is a cheap handle. One task behind it owns the connection: it dials, negotiates, comes back after
//! a loss and resumes, so that a request usually does not notice. A [`Request`] is a stream of typed events; one
//! that is read slowly holds up nothing but itself, because its credit stays with it.
//!
//! ```no_run
//! use switchboard_client::asp::{Client, Invoke, Connect, ToolFailure, tool};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let connect = Connect::new("wss://agents.example.com")
//!     .token("secret")
//!     .tool(tool("add", "Adds two numbers", serde_json::json!({"type": "object"}))?)
//!     .on_call(|call| async move {
//!         let (a, b) = (call.args["a"].as_i64(), call.args["b"].as_i64());
//!         match a.zip(b) {
//!             Some((a, b)) => Ok(serde_json::json!(a + b)),
//!             None => Err(ToolFailure::new("INVALID_ARGS", "a and b must be integers")),
//!         }
//!     });
//! let client = Client::connect(connect).await?;
//! let answer = client.invoke(Invoke::chat("What is 2 + 3?")).await?.collect_text().await?;
//! # drop(answer);
//! # Ok(())
//! # }
//! ```

mod client;
mod error;
mod event;
mod options;
mod request;
mod shell;
mod tool;

pub use switchboard_asp::client::{Answer, CommandError, Fault, Loss, Violation};
pub use switchboard_asp::error::Code;
pub use switchboard_asp::message::{
    Annotations, Ask, Call, ClientInfo, Enc, End, ErrorBody, Feature, Features, Finish, Input, Invoke,
    InvokeBody, Level, Metrics, Notice, Part, Phase, State, Status, Step, ToolActivity, ToolDef, Usage,
};
pub use switchboard_asp::{Map, Value};

pub use crate::connect::Bearer;
pub use crate::endpoint::{FirstAttempt, OptionsError};
pub use client::Client;
pub use error::{Cause, ClientError, ConnectError, RequestError};
pub use event::{ConnectionEvent, Events, Renewed, RequestEvent, Snapshot};
pub use options::{Connect, Settings};
pub use request::{Collected, Interrupter, Request};
pub use tool::{ToolCall, ToolFailure, tool};
