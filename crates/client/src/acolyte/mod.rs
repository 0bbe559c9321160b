//! Async clients of the Acolyte protocol: over WebSocket ([`Client`]) and over HTTP
//! ([`StreamClient`]). Both give a [`Chat`], a stream of what happens in it.
//!
//! A [`Client`] comes back after a loss by itself. Where the server agreed on `task.resume`, its chats
//! go on as if nothing had happened; otherwise they end as lost, with the task to ask for. Over HTTP
//! there is nothing to come back to: a stream that is cut is lost.
//!
//! ```no_run
//! use switchboard_client::acolyte::{ChatRequest, Client, Connect};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Connect::new("ws://127.0.0.1:4600").token("secret")).await?;
//! let (answer, ending) = client.chat(ChatRequest::new("Hello", "demo")).await?.collect().await;
//! # drop((answer, ending));
//! client.close().await;
//! # Ok(())
//! # }
//! ```

mod chat;
mod client;
mod error;
mod event;
mod options;
mod shell;
mod stream;

pub use switchboard_acolyte::client::{
    Answer, CallError, ChatEvent, ClientConfig, CommandError, Ending, Fault, Loss,
};
pub use switchboard_acolyte::message::{
    Attach, Capabilities, ChatRequest, HistoryEntry, HistoryKind, HistoryRole, Item, ItemStatus, Level,
    ListSnapshot, Marker, OutputPart, PendingState, Reply, ReplyUsage, Skill, Stream as ShellStream,
    StreamEvent, TaskId, is_id,
};
pub use switchboard_acolyte::{ErrorBody, ErrorDetail, Task, TaskState};

pub use crate::endpoint::{FirstAttempt, OptionsError};
pub use chat::{Chat, Stopper, Update};
pub use client::Client;
pub use error::{Cause, ClientError, ConnectError};
pub use event::{ConnectionEvent, Events, Snapshot};
pub use options::Connect;
pub use stream::StreamClient;
