//! The real binary, from the outside: arguments, streams, signals and exit codes.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "patience is measured by the real clock")]

mod chat;
mod chat_acolyte;
mod chat_alicia;
mod chat_vip;
mod config;
mod device;
mod devices;
mod inspect;
mod inspect_alicia;
mod models;
mod rebuild;
mod scripted;
mod serve;
mod sessions;
mod support;
mod terminal;
mod terminal_acolyte;
mod terminal_alicia;
mod vip_token;
