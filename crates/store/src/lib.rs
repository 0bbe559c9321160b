//! The durable log of sessions and its projections: memory and SQLite.
//!
//! A [`Log`] keeps one dense sequence of events per session. Appending compares the head first, so
//! two writers can never both succeed; rows for lists and look-ups are written together with the
//! events and can be rebuilt from them.
//!
//! * [`MemoryLog`] forgets everything with the process.
//! * [`SqliteLog`] is one file, one writer thread and a few readers; what it acknowledged survives
//!   a killed process, and with [`Synchronous::Full`] a power cut.

mod encoding;
mod log;
mod memory;
mod sqlite;
mod tables;

#[cfg(test)]
mod encoding_tests;
#[cfg(test)]
mod golden_tests;

pub use log::{DeviceFilter, Log, SessionFilter, StoreError, StoreStats, Usage};
pub use memory::MemoryLog;
pub use sqlite::{SqliteLog, SqliteOptions, Synchronous};
pub use switchboard_core::{Append, Batch, Loaded};
