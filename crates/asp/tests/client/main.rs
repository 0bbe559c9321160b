//! The client half: §17.3, §17.4 and every C or B statement of §22 that concerns direct mode.

#![expect(clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm, reason = "helpers of tests")]

mod conformance;
mod connection;
mod flow;
mod requests;
mod resume;
mod support;
