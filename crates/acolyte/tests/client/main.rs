//! The client half against a scripted server: AC-083 to AC-088, resume, and what time does.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod calls;
mod conformance;
mod resume;
mod support;
