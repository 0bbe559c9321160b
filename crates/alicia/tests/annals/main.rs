//! What the events of real sessions become in the annals.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, on whatever it does not expect"
)]

mod answers;
mod deeds;
mod lite;
mod messages;
mod properties;
mod support;
mod tools;
