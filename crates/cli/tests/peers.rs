//! The binary against software that nobody here wrote: raw ASP peers on Python `websockets` and on
//! npm `ws`. They do the checking (see `tests/peers`); here the servers are started for them.
//!
//! Upgrades: ASP-004 to ASP-008; frames, profiles, requests, resume and rates: as the peers say.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{BASIC, GENEROUS, Served};

/// A peer, by the language that it is written in.
enum Peer {
    Python,
    Node,
}

impl Peer {
    fn command(&self) -> Command {
        match self {
            Self::Python => support::python("asp_peer.py"),
            Self::Node => support::node("asp_peer.mjs"),
        }
    }

    /// Every check against two servers: one with high limits, one with the default ones.
    fn check(&self) {
        let data = tempfile::tempdir().unwrap();
        let generous = Served::start(&data.path().join("generous"), &[BASIC, GENEROUS]);
        let strict = Served::start(&data.path().join("strict"), &[BASIC]);
        let output = self.command().args([&generous.url(), "--strict", &strict.url()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let failed: Vec<_> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
        assert!(
            output.status.success() && said.lines().count() > 40,
            "{}\n{}",
            failed.join("\n"),
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// The server leaves while the peer is at work.
    fn drain(&self) {
        let data = tempfile::tempdir().unwrap();
        let server = Served::start(data.path(), &[BASIC, GENEROUS]);
        let mut peer =
            self.command().args([&server.url(), "--drain"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = Vec::new();
        for line in BufReader::new(peer.stdout.take().unwrap()).lines().map_while(Result::ok) {
            if line == "ready" {
                server.terminate();
            }
            said.push(line);
        }
        assert!(peer.wait().unwrap().success(), "{}", said.join("\n"));
        let (status, errors) = server.wait(Duration::from_secs(20));
        assert_eq!(status.code(), Some(0), "{errors}");
    }
}

#[test]
fn python_websockets() {
    Peer::Python.check();
}

#[test]
fn npm_ws() {
    Peer::Node.check();
}

#[test]
fn asp_078_python_is_told_to_come_back() {
    Peer::Python.drain();
}

#[test]
fn asp_078_node_is_told_to_come_back() {
    Peer::Node.drain();
}
