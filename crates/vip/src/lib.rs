//! VIP: talking to an app. The app says what is on the screen and what may be done; nothing else can be.
//!
//! Section numbers (§) and statements (VIP-nnn) are those of the wire reference. From a frame to meaning:
//!
//! ```text
//! text frame ─ codec ─▶ Head + ClientEvent ─▶ conn: the state machine (matrix), the floor, the answer, actions
//! binary frame ─ audio ─▶ AudioFrame ─▶ the voice beside the connection
//! HTTP ─▶ http: sessions, tokens, credentials, history
//! ```
//!
//! What has to survive a transport, or the server, is in the [`minutes`] of the session.

pub mod action;
pub mod audio;
pub mod client;
pub mod codec;
mod conn;
pub mod context;
pub mod errand;
pub mod error;
mod function;
mod http;
mod limits;
pub mod matrix;
pub mod message;
pub mod minutes;
mod named;
mod protocol;
mod record;
#[cfg(test)]
mod samples;
mod schema;
mod size;
pub mod token;

pub use conn::VipConnection;
pub use limits::VipLimits;
pub use protocol::{
    DATA_CHANNEL, IceServer, NAME, PATHS, Provider, STREAM, SUBPROTOCOL, Service, Speech, VERSION, Vip,
};
