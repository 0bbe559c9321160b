//! What is said with MCP servers stays out of the log.

mod mcp_support;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_support::{PATIENCE, eventually, one, ready, status, tools};
use parking_lot::Mutex;
use serde_json::json;
use switchboard_agents::McpServers;
use switchboard_core::ToolName;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn neither_content_nor_secrets_are_logged() {
    let log = Log::default();
    let writer = log.clone();
    // Everything of ours; of others, what an operator sees who changes nothing.
    let levels =
        Targets::new().with_default(LevelFilter::INFO).with_target("switchboard_agents", LevelFilter::TRACE);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
    tracing_subscriber::registry().with(lines).with(levels).init();

    let mut config = tools();
    config.env.insert("PLAIN".into(), "hidden".into());
    config.env_from = vec!["SECRET".into()];
    let servers = McpServers::start(one(config), |_| Some("hidden".into()));
    ready(&servers).await;
    let slow = json!({ "steps": 1, "seconds": 600, "hidden": "hidden" });
    for (tool, args, patience) in [
        ("greet", json!({ "name": "hidden" }), PATIENCE),
        ("fail", json!({ "message": "hidden" }), PATIENCE),
        ("environment", json!({}), PATIENCE),
        ("slow", json!({ "steps": 2, "seconds": 0 }), PATIENCE),
        ("slow", slow, Duration::from_secs(1)),
        ("crash", json!({}), PATIENCE),
    ] {
        servers.call(&ToolName::from(format!("py.{tool}").as_str()), args, patience, |_| ()).await;
    }
    eventually("a restart", &servers, || status(&servers).restarts == 1).await;
    ready(&servers).await;
    servers.stop().await;

    let log = String::from_utf8(log.0.lock().clone()).expect("text");
    assert!(log.contains("an MCP server is ready") && log.contains("an MCP server is down"), "{log}");
    assert!(log.contains("exit status: 3"), "{log}");
    for content in ["hidden", "step 1", "a line on standard error"] {
        assert!(!log.contains(content), "{log}");
    }
}
