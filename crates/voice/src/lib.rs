//! Speech beside a connection: hearing, taking turns, speaking.
//!
//! [`Voices`] is what a server has of this: who understands speech and who speaks, on this machine or elsewhere.
//! Every connection that carries audio has a [`Voice`] from there, which it asks
//! ([`VoiceOp`](switchboard_core::VoiceOp)) and which tells it ([`VoiceEvent`](switchboard_core::VoiceEvent)) what
//! came of that.

pub mod audio;
mod config;
pub mod hear;
mod house;
pub mod models;
mod pipeline;
pub mod speak;
#[cfg(test)]
mod testing;

pub use config::{ConfigError, RecogniserChoice, SynthesiserChoice, VoicesConfig};
pub use house::{Readiness, Voices, local_recogniser};
pub use pipeline::Voice;
