//! Agent Socket Protocol, server and client halves, sans-IO.
//!
//! Section numbers (§) are those of the wire reference. From bytes to meaning:
//!
//! ```text
//! WebSocket message ─ FrameReader ─▶ Frame ─ Flags::agreed ─ Assembler ─▶ Assembled
//!                   ─ open_payload ─▶ Payload ─ ClientMessage / ServerMessage::from_payload ─▶ message
//! ```

pub mod client;
pub mod codec;
mod conn;
pub mod error;
mod limits;
pub mod map;
pub mod message;
mod protocol;
pub mod relay;
pub mod state;
pub mod upgrade;
pub mod value;

pub use codec::{Frame, FrameReader};
pub use conn::AspConnection;
pub use error::{Close, Code, DecodeError};
pub use limits::AspLimits;
pub use message::{ClientMessage, Feature, Features, Flags, Opcode, ServerMessage};
pub use protocol::Asp;
pub use value::{Map, Value};
