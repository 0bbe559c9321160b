//! An async client of VIP: an app that can be talked to.
//!
//! A [`Session`] says what is on the screen, has the app do what the agent asks for, and comes back by itself
//! after a loss. What happens is told as [`Event`]s. Microphone and loudspeaker are the app's own: packets go in
//! through [`Session::hear`] and come out as [`Event::Play`]; an app without them types and reads
//! ([`Connect::silent`]).
//!
//! ```no_run
//! use serde_json::json;
//! use switchboard_client::vip::{Answer, Connect, Event, Session};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let screen = json!({
//!     "route": {"id": "lamp"}, "narration": "A lamp, which is off.",
//!     "actions": {"switch": {"type": "button", "description": "Switches the lamp.", "element_id": "lamp"}},
//!     "visibility": ["switch"],
//! });
//! let connect = Connect::new("http://127.0.0.1:4600")
//!     .app("lamp")
//!     .development()
//!     .silent()
//!     .screen(screen)
//!     .action("switch", |_call| async { Answer::done() });
//! let (session, mut events) = Session::connect(connect).await?;
//! session.say("switch the lamp on").await?;
//! while let Some(event) = events.next().await {
//!     if let Event::Words(words) = event {
//!         // Show them.
//!         # drop(words);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod action;
mod create;
mod error;
mod options;
mod session;
mod shell;

pub use switchboard_vip::client::{
    Changed, CommandError, Event, Execution, LinkFault, Outcome, Question, Sound,
};
pub use switchboard_vip::matrix::State;
pub use switchboard_vip::message::{
    DetectionType, Environment, InputCancelReason, InputEndReason, InputStartTrigger, PlaybackStatus,
    ResponseStatus,
};

pub use crate::endpoint::{FirstAttempt, OptionsError};
pub use action::Answer;
pub use error::{Cause, ClientError, ConnectError};
pub use options::{Connect, Settings};
pub use session::{Events, Session};
