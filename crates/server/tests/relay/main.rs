//! Relay Mode on the real server: a function on this machine that does what the test says, clients over
//! WebSocket, and in between nothing but the server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod answers;
mod connection;
mod content;
mod endings;
mod guard;
mod interrupt;
mod lease;
mod leave;
mod patience;
mod push;
mod request;
mod resume;
mod retries;
mod setup;
mod signature;
mod status;
#[path = "../support/mod.rs"]
mod support;
mod suspend;
mod toolbox;
mod tools;
