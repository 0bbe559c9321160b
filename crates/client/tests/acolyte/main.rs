//! The async Acolyte clients against a scripted server on real sockets.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod socket;
mod stream;
mod support;
