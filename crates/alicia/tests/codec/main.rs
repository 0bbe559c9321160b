//! What the codec takes, what it refuses, and with which code: rule by rule and bound by bound.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod bodies;
mod bounds;
mod faults;
mod liberal;
mod lite;
mod support;
