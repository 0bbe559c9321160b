//! VIP on the real server, statement by statement: clients that speak the wire by hand, an agent that does
//! what the test says, and in between nothing but the server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod acting;
mod asking;
mod client;
mod device;
mod ending;
mod keeping;
#[path = "../alicia/puppet.rs"]
#[allow(dead_code, reason = "Alicia asks more of it")]
mod puppet;
mod racing;
#[path = "../support/mod.rs"]
mod support;
mod thinking;
