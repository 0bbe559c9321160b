//! Linewise: a small line protocol over WebSocket, server and client half, without I/O.
//!
//! It exists to show what a protocol of one's own takes; `docs/adding-a-protocol.md` tells how it was
//! written. One text message of the WebSocket is one line:
//!
//! ```text
//! ─▶ join notes since 7-12         ◀─ hello linewise/1
//! ─▶ @k1 say What time is it?      ◀─ @k1 ok 7-14
//! ─▶ stop                          ◀─ 7-16 text inv_… It is
//! ```

pub mod client;
pub mod codec;
mod conn;
pub mod error;
mod limits;
pub mod map;
pub mod message;
mod protocol;
pub mod state;

pub use conn::LinewiseConnection;
pub use error::Code;
pub use limits::LinewiseLimits;
pub use message::{ClientLine, ClientMessage, Ending, News, ServerLine, Tag};
pub use protocol::{Linewise, PATH};
