//! The function side of Relay Mode: an agent as an HTTP function behind an ASP relay.
//!
//! [`serve()`] is a whole server for it:
//!
//! ```no_run
//! use switchboard_client::function::{Finish, Options, serve};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8787").await?;
//! let options = Options::new("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
//! serve(listener, options, |invocation, reply| async move {
//!     let mut answer = reply.records();
//!     answer.start(invocation.inv()).await?;
//!     answer.text(format!("You said {}", invocation.text().unwrap_or_default())).await?;
//!     answer.end(Finish::Complete).await
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! In another framework, [`Verifier`] checks and reads a request, [`Seen`] tells duplicates, [`Records::respond`]
//! gives the body of the response, and [`Relays`] calls the relay back:
//!
//! ```text
//! headers, body ─ Verifier::verify ─▶ Invocation ─ Seen::begin ─▶ Ticket ─ Records::respond ─▶ Output
//!                      └ 401, 400, 422                 └ 409                   Relays::of ─▶ Relay
//! ```

mod invocation;
mod options;
mod output;
mod records;
mod relay;
mod reply;
mod run;
mod seen;
mod serve;
mod verify;

pub use hyper::{HeaderMap, StatusCode};
pub use switchboard_asp::error::Code;
pub use switchboard_asp::message::{
    Annotations, Ask, Call, Enc, End, Finish, Input, Invoke, InvokeBody, Kind, Metrics, Part, Phase,
    RecordBody, State, ToolActivity, ToolDef, Usage,
};
pub use switchboard_asp::relay::sign::KeyError;
pub use switchboard_asp::relay::{
    Answer, Answered, Answers, Cancellation, Event, Format, Piece, Principal, PushedFrame,
};
pub use switchboard_asp::{Map, Value};

pub use crate::asp::tool;
pub use invocation::Invocation;
pub use options::Options;
pub use output::{BrokeOff, Output};
pub use records::{RecordError, Records};
pub use relay::{Connection, ConnectionState, Delivered, Plaintext, Receipt, Relay, RelayError, Relays};
pub use reply::Reply;
pub use run::Cause;
pub use seen::{Duplicate, MEMORY, Seen, Ticket};
pub use serve::serve;
pub use verify::{Refused, Verifier};
