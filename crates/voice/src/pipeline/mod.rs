//! What happens between packets and words, for one connection.
//!
//! A [`Voice`] is one task, its body, which does in order what it is asked. An [`ear`] tells it who speaks; each
//! turn has a [`transcriber`] and each response a [`speaker`] beside it, which wait for recognisers and
//! synthesisers so that the body never does.

mod ear;
mod inbox;
mod mouth;
mod outlet;
mod sentences;
mod speaker;
mod transcriber;
mod voice;

pub(crate) use transcriber::USUAL_LIMIT;
pub use voice::Voice;
