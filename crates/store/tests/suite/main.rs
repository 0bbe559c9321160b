//! One suite for every store, and what only SQLite has to prove.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod alike;
mod cases;
mod chronicled;
mod chronicled_sqlite;
mod concurrency;
mod crash;
mod full;
mod refused;
mod scribe;
mod sqlite;
mod tally;
mod upgrade;
