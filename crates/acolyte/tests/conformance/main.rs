//! The conformance checklist (§14) as far as it concerns a server behind its transport. Each test is
//! named after its statement. What only a real server can show is in `crates/cli/tests`, what
//! concerns clients in `tests/client`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and looks at what it needs only"
)]

mod abort;
mod attach;
mod chats;
mod driven;
mod history;
mod messages;
mod queue;
mod resume;
mod shared;
mod status;
mod stream;
mod support;
mod tasks;
mod time;
mod tools;
mod upgrade;
