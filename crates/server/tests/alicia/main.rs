//! Alicia on the real server, statement by statement: clients that speak the wire by hand, an agent that
//! does what the test says, and in between nothing but the server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod absence;
mod both;
mod branches;
mod control;
mod device;
mod devices;
mod ear;
mod elites;
mod endings;
mod envelope;
mod examples;
mod feedback;
mod handshake;
mod hear;
mod liberal;
mod limits;
mod lite;
mod pack;
mod puppet;
mod races;
mod sizes;
mod stage;
mod stanzas;
mod strangers;
mod subscribe;
#[path = "../support/mod.rs"]
mod support;
mod sync;
mod tools;
mod turns;
mod vary;
mod web;
