//! Relay Mode as far as it needs no network: what is asked, how it is signed, what answers and pushes mean.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, on whatever it does not expect"
)]

mod body;
mod bounds;
mod decode;
mod push;
mod response;
mod roundtrip;
mod sign;
mod splits;
mod support;
