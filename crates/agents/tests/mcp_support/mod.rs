//! MCP servers for tests, and waiting for them.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use switchboard_agents::{McpConfig, McpServers, McpState, McpStatus};
use switchboard_core::ToolName;
use switchboard_core::model::{CallEnd, CallError};
use tokio::time::{Instant, sleep};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The server of tests/peers/python/mcp_tools.py, as a process.
pub(crate) fn tools() -> McpConfig {
    process([script("mcp_tools.py")])
}

/// A server that is written in the test itself.
pub(crate) fn inline(program: &str) -> McpConfig {
    process(["-c".to_owned(), format!("{PRELUDE}\n{program}")])
}

fn process(args: impl IntoIterator<Item = String>) -> McpConfig {
    McpConfig {
        command: Some(python().display().to_string()),
        args: args.into_iter().collect(),
        env: BTreeMap::from([("PYTHONDONTWRITEBYTECODE".into(), "1".into())]),
        backoff_ms: 50,
        max_backoff_ms: 500,
        ..McpConfig::default()
    }
}

/// Python with the packages that servers need; what is missing makes the test fail.
pub(crate) fn python() -> PathBuf {
    static CHECKED: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let own = root().join(".venv/bin/python");
        let python = if own.exists() { own } else { PathBuf::from("python3") };
        let works = Command::new(&python).args(["-c", "import mcp.server.mcpserver, uvicorn"]).output();
        assert!(
            works.is_ok_and(|output| output.status.success()),
            "{} with the packages of tests/peers/python/requirements.txt is missing: run script/setup",
            python.display()
        );
        python
    };
    CHECKED.get_or_init(find).clone()
}

pub(crate) fn script(name: &str) -> String {
    root().join("tests/peers/python").join(name).display().to_string()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// One server called `py`, ready to be used.
pub(crate) async fn start(config: McpConfig) -> McpServers {
    let servers = McpServers::start(one(config), |_| None);
    ready(&servers).await;
    servers
}

pub(crate) fn one(config: McpConfig) -> BTreeMap<String, McpConfig> {
    BTreeMap::from([("py".to_owned(), config)])
}

pub(crate) async fn ready(servers: &McpServers) {
    let all = || servers.status().iter().all(|status| status.state == McpState::Ready);
    eventually("every server is ready", servers, all).await;
}

pub(crate) async fn eventually(what: &str, servers: &McpServers, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}; {:?}", servers.status());
        sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn status(servers: &McpServers) -> McpStatus {
    servers.status().into_iter().next().expect("a server")
}

/// Why the one server is down, if it is.
pub(crate) fn why(servers: &McpServers) -> Option<String> {
    match status(servers).state {
        McpState::Down { why, .. } => Some(why),
        McpState::Starting | McpState::Ready => None,
    }
}

pub(crate) async fn call(servers: &McpServers, name: &str, args: Value) -> CallEnd {
    servers.call(&ToolName::from(name), args, PATIENCE, |_| ()).await
}

/// The result of a call that succeeds.
pub(crate) async fn result(servers: &McpServers, name: &str, args: Value) -> Value {
    match call(servers, name, args).await {
        CallEnd::Done { output, .. } => std::sync::Arc::unwrap_or_clone(output),
        end @ (CallEnd::Failed(_) | CallEnd::TimedOut | CallEnd::Cancelled) => panic!("{name}: {end:?}"),
    }
}

/// The error of a call that fails.
pub(crate) async fn error(servers: &McpServers, name: &str, args: Value) -> CallError {
    match call(servers, name, args).await {
        CallEnd::Failed(error) => error,
        end @ (CallEnd::Done { .. } | CallEnd::TimedOut | CallEnd::Cancelled) => panic!("{name}: {end:?}"),
    }
}

pub(crate) async fn pid(servers: &McpServers, name: &str) -> i32 {
    let output = result(servers, name, serde_json::json!({})).await;
    output["result"].as_i64().and_then(|pid| pid.try_into().ok()).expect("a number")
}

/// Whether there is such a process, and it is not merely waiting to be buried.
pub(crate) fn is_alive(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit_once(')').expect("a name").1.trim_start().starts_with('Z'),
        Err(_) if Path::new("/proc/self").exists() => false,
        Err(_) => nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok(),
    }
}

pub(crate) fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("kill");
}

/// A file that a server notes things in.
#[derive(Debug)]
pub(crate) struct Notes(tempfile::NamedTempFile);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(tempfile::NamedTempFile::new().expect("a file"))
    }

    pub(crate) fn path(&self) -> String {
        self.0.path().display().to_string()
    }

    pub(crate) fn count(&self, word: &str) -> usize {
        std::fs::read_to_string(self.0.path()).expect("notes").lines().filter(|line| *line == word).count()
    }
}

/// As little MCP as a server can do with.
const PRELUDE: &str = r#"
import json, os, signal, sys, threading, time

def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()

def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)

def initialize():
    request = receive()
    version = request["params"]["protocolVersion"]
    info = {"name": "inline", "version": "1"}
    send(id=request["id"], result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
    receive()

def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}

def text(words):
    return {"content": [{"type": "text", "text": words}]}

def serve(lists, calls):
    while True:
        request = receive()
        method, id = request["method"], request.get("id")
        if method == "tools/list":
            send(id=id, result=lists((request.get("params") or {}).get("cursor")))
        elif method == "tools/call":
            calls(id, request["params"])
        elif method == "ping":
            send(id=id, result={})
"#;
