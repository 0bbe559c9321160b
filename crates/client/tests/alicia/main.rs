//! The async Alicia client against the real server, over a cable that can be cut.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod beside;
mod connection;
mod library;
mod support;
mod tools;
mod turns;
