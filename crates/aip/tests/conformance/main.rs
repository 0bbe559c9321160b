//! The conformance checklist (§17) as far as it concerns a server behind its transport. Each test is
//! named after its statement. What only a real server can show is in `crates/cli/tests`, what
//! concerns clients in `tests/client`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and looks at what it needs only"
)]

mod accept;
mod cancel;
mod commands;
mod drain;
mod driven;
mod encoding;
mod ends;
mod facts;
mod heartbeat;
mod identity;
mod loss;
mod malformed;
mod memory;
mod names;
mod order;
mod register;
mod rest;
mod results;
mod shared;
mod support;
mod takeover;
mod upgrade;
