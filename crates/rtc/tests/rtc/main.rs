//! Peers over loopback: one side is the endpoint, the other the same stack, or one that nobody here wrote.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod client;
#[path = "../../src/crypto.rs"]
mod crypto;
mod foreign;
mod fuzz;
mod offers;
mod peers;
mod sound;
