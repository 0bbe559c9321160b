//! The conformance checklist (§22) as far as it concerns a server in direct mode. Each test is named
//! after its statement; what is easier to read as a transcript is in `vectors/asp/scenarios`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and looks at what it needs only"
)]

mod cancels;
mod collected;
mod coverage;
mod flow;
mod frames;
mod requests;
mod support;
mod upgrade;
