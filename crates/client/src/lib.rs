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
//! ```no_run
//! use switchboard_client::asp::{Client, Invoke, Options, RequestEvent};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Options::new("ws://127.0.0.1:4600")).await?;
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

pub mod acolyte;
pub mod admin;
pub mod aip;
pub mod alicia;
pub mod asp;
mod backoff;
mod clock;
mod endpoint;
mod events;
pub mod function;
mod http;
mod refused;
mod socket;
mod tls;
pub mod vip;

pub use events::Events;
pub use tls::{TlsError, Trust};
