//! The HTTP endpoints, over real sessions and the store in memory.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, on whatever it does not expect"
)]

mod conversations;
mod messages;
mod syncing;
mod town;
