//! Alicia: conversations with an assistant as small MessagePack maps. Wire types and codec, sans-IO.
//!
//! Section numbers (§), rulings (R-nn) and statements (AL-nnn) are those of the wire reference. From bytes
//! to meaning:
//!
//! ```text
//! data packet or binary frame ─ codec::decode ─▶ Value ─▶ Envelope ─▶ Body        the full profile
//!                                                     └─▶ LiteEnvelope ─▶ LiteBody  the lite profile
//! ```
//!
//! What is read is liberal, what is written is canonical: any width, order and unknown member is accepted,
//! and one envelope has exactly one form when it is sent. A fault is a [`DecodeError`]: it knows its code, what
//! can still be told of the envelope, and the [`message::ErrorMessage`] that answers it.

pub mod annals;
pub mod client;
pub mod codec;
mod conn;
pub mod deed;
pub mod error;
mod http;
pub mod id;
mod limits;
pub mod lite;
pub mod message;
pub mod moment;
mod protocol;
mod rows;
mod sync;
pub mod value;

pub use codec::{Decoded, Dialect, StanzaForm, decode, encode, encode_lite};
pub use conn::AliciaConnection;
pub use error::{Code, DecodeError, Fault, Severity};
pub use id::{Id, Prefix};
pub use limits::{AliciaLimits, LOSSY_PACKET, RELIABLE_PACKET};
pub use lite::{LiteBody, LiteEnvelope, LiteType};
pub use message::{Body, Class, Direction, Envelope, MessageType, Meta, Side, Word};
pub use protocol::{Alicia, Facts, NAME, Offer, PATHS, Service};
pub use value::{Map, Value};
