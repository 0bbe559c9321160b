//! The Rust SDK of Switchboard: async clients with reconnect and resume built in.
//!
//! * [`asp`]: the Agent Socket Protocol.
//! * [`acolyte`]: Acolyte, over WebSocket and over HTTP.
//! * [`aip`]: AIP, for devices and for those who have them do tasks.
//! * [`alicia`]: Alicia, conversations with an assistant.
//! * [`vip`]: VIP, apps that can be talked to.
//! * [`function`]: agents as HTTP functions behind an ASP relay.
//! * [`admin`]: the read-only HTTP API for operators.
//!
//! Every protocol is a feature of this crate, on by default, and all of them work alike: a [`Connect`] says where the
//! server is, which credential and which certificates count, and how to come back, besides what only the protocol
//! knows. `connect` of a client dials and waits; if there is no connection, [`ConnectError::advice`] says what to do.
//! Behind a client, which is a cheap handle, one task owns the connection and looks for another one after a loss.
//! `events` tells what happens to it, `snapshot` how it is now, `online` waits for it, and `close` leaves.
//!
//! ```no_run
//! use switchboard_client::asp::{Client, Connect, Invoke, RequestEvent};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Connect::new("ws://127.0.0.1:4600")).await?;
//! let mut answer = client.invoke(Invoke::chat("Hello")).await?;
//! while let Some(event) = answer.next().await {
//!     if let RequestEvent::Text(text) = event? {
//!         // Show it.
//!         # drop(text);
//!     }
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```

// What the driver offers is needed by all protocols together, and not by each.
#![cfg_attr(
    not(all(feature = "acolyte", feature = "aip", feature = "alicia", feature = "asp", feature = "vip")),
    allow(dead_code, unused_imports, unused_macros)
)]

#[cfg(feature = "acolyte")]
pub mod acolyte;
pub mod admin;
#[cfg(feature = "aip")]
pub mod aip;
#[cfg(feature = "alicia")]
pub mod alicia;
#[cfg(feature = "asp")]
pub mod asp;
mod clock;
mod connect;
mod driver;
mod endpoint;
mod error;
mod events;
#[cfg(feature = "asp")]
pub mod function;
mod http;
mod socket;
mod tls;
mod tool;
#[cfg(feature = "vip")]
pub mod vip;

pub use connect::{Bearer, Connect};
pub use endpoint::{FirstAttempt, OptionsError};
pub use error::ConnectError;
pub use events::{ConnectionEvent, Events};
pub use switchboard_core::client::{Cause, Down, Fault, Refusal};
pub use switchboard_core::{Backoff, Jitter};
pub use tls::{TlsError, Trust};
