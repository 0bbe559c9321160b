//! The program itself, on the real server: the quick scenarios find nothing wrong, and what cannot work says why.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

use std::path::PathBuf;
use std::process::{Command, Output};

fn faults(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_switchboard-faults")).args(arguments).output().unwrap()
}

/// The server that was built beside the program; `cargo test --workspace` builds it.
fn server() -> PathBuf {
    let server = PathBuf::from(env!("CARGO_BIN_EXE_switchboard-faults")).with_file_name("switchboard");
    assert!(server.is_file(), "there is no server: run cargo build -p switchboard-cli first");
    server
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs one scenario in its quick form. Each is a test of its own, so that they run beside each other.
fn holds(scenario: &str) {
    let server = server();
    let output = faults(&["--quick", scenario, "--binary", server.to_str().unwrap()]);
    let table = text(&output.stdout);
    assert!(output.status.success(), "{table}{}", text(&output.stderr));
    assert!(table.ends_with("faults: 1 passed, 0 failed, 0 skipped\n"), "{table}");
}

#[test]
fn a_killed_server_loses_and_doubles_nothing() {
    holds("kill");
}

#[test]
fn a_halted_server_goes_on() {
    holds("stop");
}

#[test]
fn slow_readers_hold_up_nobody_and_miss_nothing() {
    holds("slow-reader");
}

#[test]
fn every_scenario_is_listed() {
    let list = text(&faults(&["--list"]).stdout);
    for name in ["kill", "stop", "disk", "descriptors", "idle", "storm", "slow-reader", "soak"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name} is not in:\n{list}");
    }
}

#[test]
fn what_cannot_work_says_why() {
    let unknown = faults(&["earthquake", "--binary", "/bin/true"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("there is no scenario earthquake"), "{}", text(&unknown.stderr));
    let missing = faults(&["kill", "--binary", "/nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("--binary"), "{}", text(&missing.stderr));
    // A server that ends at once is a failed scenario, not a crash.
    let broken = faults(&["kill", "--quick", "--binary", "/bin/true"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stdout).contains("kill: the server does not start"), "{}", text(&broken.stdout));
}
