//! Tools of a real MCP server that is reached over streamable HTTP.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod mcp_support;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcp_support::{
    Notes, PATIENCE, error, eventually, one, pid, python, ready, result, script, start, status, why,
};
use serde_json::json;
use switchboard_agents::{McpConfig, McpServers};
use switchboard_core::ToolName;
use switchboard_core::model::CallEnd;

#[tokio::test]
async fn tools_are_listed_and_called() {
    for arguments in [[].as_slice(), &["--json"]] {
        let served = Served::start(arguments, None);
        let servers = start(served.config()).await;
        let restarts = status(&servers).restarts;
        assert_eq!(result(&servers, "py.add", json!({ "a": 1, "b": 2 })).await, json!({ "result": 3 }));
        assert_eq!(result(&servers, "py.greet", json!({ "name": "you" })).await, json!("hello you"));
        assert_eq!(error(&servers, "py.fail", json!({ "message": "no" })).await.name, "execution_error");
        // The second of these does not even fit a message.
        for size in [5 << 20, 12 << 20] {
            assert_eq!(error(&servers, "py.large", json!({ "size": size })).await.name, "too_large");
        }
        let adding = (0..40).map(|n| result(&servers, "py.add", json!({ "a": n, "b": 1 })));
        let sums = futures_util::future::join_all(adding).await;
        assert_eq!(sums, (0..40).map(|n| json!({ "result": n + 1 })).collect::<Vec<_>>());
        assert_eq!(status(&servers).restarts, restarts, "{arguments:?}");
    }
}

#[tokio::test]
async fn progress_is_told_and_what_takes_too_long_is_cancelled() {
    let notes = Notes::new();
    let served = Served::start(&[], Some(&notes));
    let servers = start(served.config()).await;
    let restarts = status(&servers).restarts;
    let slow = ToolName::from("py.slow");
    let mut told = Vec::new();
    let args = json!({ "steps": 3, "seconds": 0.05 });
    let end = servers.call(&slow, args, PATIENCE, |words| told.push(words)).await;
    assert_eq!(end, CallEnd::done(json!({ "result": "done" })));
    assert_eq!(told, ["step 1", "step 2", "step 3"]);

    let args = json!({ "steps": 1, "seconds": 600 });
    assert_eq!(servers.call(&slow, args, Duration::from_secs(1), |_| ()).await, CallEnd::TimedOut);
    eventually("the server knows", &servers, || notes.count("cancelled") == 1).await;
    assert_eq!(result(&servers, "py.add", json!({ "a": 1, "b": 2 })).await, json!({ "result": 3 }));
    assert_eq!(status(&servers).restarts, restarts);
}

#[tokio::test]
async fn tools_that_come_later_are_offered() {
    let served = Served::start(&[], None);
    let servers = start(served.config()).await;
    let restarts = status(&servers).restarts;
    result(&servers, "py.grow", json!({ "name": "later" })).await;
    eventually("a new tool", &servers, || servers.knows(&ToolName::from("py.later"))).await;
    assert_eq!(result(&servers, "py.later", json!({})).await, json!({ "result": "later" }));
    assert_eq!(status(&servers).restarts, restarts);
}

#[tokio::test]
async fn a_server_that_goes_takes_its_tools_along_and_brings_them_back() {
    let mut served = Served::start(&[], None);
    let servers = start(served.config()).await;
    let offered = servers.tools();
    let first = pid(&servers, "py.pid").await;
    let slow = ToolName::from("py.slow");
    let args = json!({ "steps": 1, "seconds": 600 });
    let CallEnd::Failed(error) = servers.call(&slow, args, PATIENCE * 10, |_| served.kill()).await else {
        panic!("the server is dead")
    };
    assert_eq!(error.name, "unavailable");
    eventually("no tools", &servers, || servers.tools().is_empty()).await;
    eventually("a reason", &servers, || why(&servers).is_some_and(|why| why.starts_with("cannot connect")))
        .await;
    served.restart();
    eventually("all tools", &servers, || servers.tools() == offered).await;
    assert_ne!(pid(&servers, "py.pid").await, first);
    assert!(status(&servers).restarts > 0);
}

#[tokio::test]
async fn a_server_that_was_exchanged_meanwhile_is_found_out() {
    let mut served = Served::start(&[], None);
    let servers = start(served.config()).await;
    result(&servers, "py.grow", json!({ "name": "later" })).await;
    eventually("a new tool", &servers, || servers.knows(&ToolName::from("py.later"))).await;
    served.kill();
    served.restart();
    // Without any call: the new one knows nothing of our session, nor of the tool.
    eventually("the tools of the new one", &servers, || {
        servers.knows(&ToolName::from("py.add")) && !servers.knows(&ToolName::from("py.later"))
    })
    .await;
    assert_eq!(result(&servers, "py.add", json!({ "a": 1, "b": 2 })).await, json!({ "result": 3 }));
}

#[tokio::test]
async fn a_token_is_shown_and_never_told() {
    let served = Served::start(&["--bearer", "right token"], None);
    let config = McpConfig { bearer_env: Some("TOKEN".into()), ..served.config() };
    let servers =
        McpServers::start(one(config.clone()), |name| (name == "TOKEN").then(|| "right token".into()));
    ready(&servers).await;
    assert_eq!(result(&servers, "py.greet", json!({ "name": "you" })).await, json!("hello you"));
    assert!(!format!("{servers:?}").contains("right token"));

    let servers = McpServers::start(one(config.clone()), |_| Some("wrong token".into()));
    eventually("a refusal", &servers, || why(&servers).is_some_and(|why| why.contains("401"))).await;
    assert!(!format!("{servers:?}").contains("wrong token"));

    let servers = McpServers::start(one(config), |_| None);
    let missing = "the environment variable TOKEN is not set";
    eventually("a reason", &servers, || why(&servers).is_some_and(|why| why == missing)).await;
}

/// A server of its own port, which outlives a restart.
#[derive(Debug)]
struct Served {
    port: u16,
    arguments: Vec<String>,
    child: Child,
}

impl Served {
    fn start(arguments: &[&str], notes: Option<&Notes>) -> Self {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let child = spawn(port, &arguments, notes);
        Self { port, arguments, child }
    }

    fn config(&self) -> McpConfig {
        McpConfig {
            url: Some(format!("http://127.0.0.1:{}/mcp", self.port)),
            backoff_ms: 50,
            max_backoff_ms: 500,
            ..McpConfig::default()
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    fn restart(&mut self) {
        self.child = spawn(self.port, &self.arguments, None);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, arguments: &[String], notes: Option<&Notes>) -> Child {
    let mut command = Command::new(python());
    command.arg(script("mcp_tools.py")).arg(port.to_string()).args(arguments);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("NOTES", notes.map(Notes::path).unwrap_or_default());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server")
}
