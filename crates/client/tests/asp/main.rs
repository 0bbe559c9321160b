//! The async ASP client against a scripted server on real sockets.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod calls;
mod connection;
mod requests;
mod support;
