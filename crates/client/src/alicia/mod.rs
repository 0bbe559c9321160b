//! Async client of Alicia: conversations with an assistant, many on one WebSocket ([`Client`]), and what is
//! served over HTTP besides ([`Library`]).
//!
//! A [`Client`] comes back after a loss by itself. Its conversations go on where they were: what was missed
//! is told in its order, nothing is told twice, and what was asked meanwhile is asked then.
//!
//! ```no_run
//! use switchboard_client::alicia::{Client, Connect, ConversationEvent, Join};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Connect::new("ws://127.0.0.1:4600").token("secret")).await?;
//! let clock = |_call| async { Ok(serde_json::json!({ "time": "12:00" })) };
//! let (conversation, mut updates) = client.conversation(Join::create().tool("clock", clock)).await?;
//! let question = conversation.say("What time is it?").await?;
//! while let Some(event) = updates.next().await {
//!     match event {
//!         ConversationEvent::Piece { text, .. } => drop(text.0), // Show it.
//!         ConversationEvent::Answered(answer) if answer.question.as_ref() == Some(&question) => break,
//!         _ => {}
//!     }
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```

mod client;
mod conversation;
mod error;
mod event;
mod library;
mod options;
mod rows;
mod shell;
mod tool;
mod updates;

pub use switchboard_alicia::message::{
    Aggregates, AudioChunk, Commentary, CommentaryType, ConversationStatus, ConversationUpdate, Elite,
    EliteOptions, ErrorMessage, Execution, FeedbackConfirmation, MemoryActionKind, MemoryCategory,
    MemoryContent, MemoryTrace, MessageResponse, Mode, NoteAction, NoteCategory, Preset, QuickFeedback,
    ReasoningStep, Role, ServerInfo, SessionStats, StopType, SyncConflict, SyncMessage, SyncResponse,
    SyncStatus, SyncedMessage, TargetType, ToolError, ToolUseRequest, ToolUseResult, Transcription,
    UserMessage, Vote, Weights, Word,
};
pub use switchboard_alicia::{AliciaLimits, Code, Id};

pub use crate::endpoint::{FirstAttempt, OptionsError};
pub use client::Client;
pub use conversation::{Conversation, Join, Sent};
pub use error::{Cause, ClientError, ConnectError, LibraryError};
pub use event::{ConnectionEvent, Events, Snapshot};
pub use library::Library;
pub use options::Connect;
pub use rows::{ConversationRow, MemoryRow, MessageRow, Page, SyncCounts};
pub use switchboard_alicia::client::{
    Answer, Ballot, ClientConfig, CommandError, ConversationEvent, Ended, Fault, Joined, Outcome,
    RequestError, Since,
};
pub use tool::{ToolCall, ToolFailure};
pub use updates::{TurnError, Updates};
