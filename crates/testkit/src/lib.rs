//! What the tests of every crate stand on: a simulated world with faults and virtual time, agents
//! as data, transcripts, and the shared vectors.
//!
//! * [`World`] runs real sessions and real connections in one thread, with a clock of its own.
//! * [`script`] describes agents as data.
//! * [`Scenario`] plays transcripts of `vectors/<protocol>/scenarios`.
//! * [`vectors`] loads what is in `vectors/`.
//!
//! Nothing here needs a runtime, a socket or a real clock. Not published, and not for production:
//! a test kit reports by panicking.

#![expect(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test kit reports by panicking, and looks at what it needs only"
)]

mod accounts;
pub mod fuzzing;
mod scenario;
pub mod schema;
pub mod script;
mod seal;
mod simulation;
pub mod vectors;
mod world;

pub use scenario::Scenario;
pub use script::{BatchCommand, Recovery, Script, Step, Story, ToolSpec};
pub use simulation::{Failure, Invariant, Mutation, Report, SimulationOptions, Tongue, simulate};
pub use world::{CrashPoint, Order, PeerId, Received, Settings, World, opening};
