//! The client half: what each call sends, validation, middleware and handlers, time, files, and
//! devices and constellations against a scripted server.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod backoff;
mod binary;
mod channel;
mod constellation;
mod device;
mod heartbeat;
mod payload;
mod protocols;
mod support;
mod validate;
