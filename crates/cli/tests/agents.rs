//! Agents side by side: listed, tried, routed to and exchanged while connections stay; and the tools
//! of a real MCP server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use support::wire::{ERROR, Frame, INVOKE, Peer, TOOL_DEF};
use support::{ANN, GENEROUS, Served, now, root};

const BASE: &str = "\
    agent = \"one\"\n\
    listen = \"127.0.0.1:0\"\n\
    [auth]\n\
    api_keys = [{ id = \"ann\", key_env = \"PEER_KEY_ANN\", principal = \"ann\" }]\n\
    [agents.one]\n\
    kind = \"echo\"\n\
    prefix = \"one: \"\n";

fn serve(data: &Path, file: &Path, text: &str) -> Served {
    std::fs::write(file, text).unwrap();
    Served::start_with(Some(file), data, &[GENEROUS])
}

fn switchboard(server: &Served, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_switchboard"))
        .args(arguments)
        .args(["--url", &format!("ws://{}", server.address)])
        .env("SWITCHBOARD_TOKEN", ANN.unwrap())
        .output()
        .unwrap()
}

fn agents(server: &Served) -> Value {
    let output = switchboard(server, &["agents", "list", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits until the list of agents is as wanted.
fn until(server: &Served, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = now();
    loop {
        let listed = agents(server);
        if wanted(&listed) {
            return listed;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{listed:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A client that takes note of the tools that it is told of.
struct Client {
    peer: Peer,
    tools: BTreeSet<String>,
    next: u16,
}

impl Client {
    async fn connect(server: &Served) -> Self {
        Self { peer: Peer::standard(server.address, ANN).await, tools: BTreeSet::new(), next: 0 }
    }

    fn note(&mut self, frame: &Frame) {
        if frame.opcode != TOOL_DEF {
            return;
        }
        for tool in frame.value["tools"].as_array().into_iter().flatten() {
            self.tools.insert(tool["name"].as_str().unwrap().to_owned());
        }
        for name in frame.value["names"].as_array().into_iter().flatten() {
            self.tools.remove(name.as_str().unwrap());
        }
    }

    /// The terminal frame of a request, and the text before it.
    async fn ask(&mut self, invoke: Value) -> (String, Frame) {
        self.next += 1;
        let id = self.next;
        self.peer.send(INVOKE, id, &invoke).await;
        let mut text = String::new();
        loop {
            let frame = self.peer.next().await.unwrap();
            self.note(&frame);
            text.push_str(frame.text().filter(|_| frame.id == id).unwrap_or_default());
            if frame.id == id && frame.is_terminal() {
                return (text, frame);
            }
        }
    }

    async fn said(&mut self, invoke: Value) -> String {
        self.ask(invoke).await.0
    }

    /// How a use of a tool ends: its output, or the code of the error.
    async fn uses(&mut self, tool: &str, args: Value) -> Value {
        let end = self.ask(json!({ "kind": "tool", "tool": tool, "args": args })).await.1;
        if end.opcode == ERROR { end.value["code"].clone() } else { end.value["output"].clone() }
    }

    /// Waits until it was told that a tool is there, or gone.
    async fn knows(&mut self, tool: &str, wanted: bool) {
        while self.tools.contains(tool) != wanted {
            let frame = self.peer.next().await.unwrap();
            self.note(&frame);
        }
    }
}

#[test]
fn agents_are_listed_and_tried() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), &folder.path().join("s.toml"), BASE);
    let listed = agents(&server);
    let one = listed["agents"].as_array().unwrap().iter().find(|agent| agent["agent"] == "one").unwrap();
    assert_eq!(
        (&one["kind"], &one["default"], &one["state"]),
        (&json!("echo"), &json!(true), &json!("ready"))
    );
    let table = String::from_utf8(switchboard(&server, &["agents", "list"]).stdout).unwrap();
    assert!(table.contains("one") && table.contains("default"), "{table}");

    let tried = switchboard(&server, &["agents", "test", "one", "hello"]);
    assert_eq!(String::from_utf8_lossy(&tried.stdout).trim(), "one: hello");
    assert!(String::from_utf8_lossy(&tried.stderr).contains("done after"));
    let unknown = switchboard(&server, &["agents", "test", "nobody"]);
    assert_ne!(unknown.status.code(), Some(0));
}

#[tokio::test]
async fn agents_and_routes_change_while_a_connection_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    let server = serve(folder.path(), &file, BASE);
    let mut ann = Client::connect(&server).await;
    assert_eq!(ann.said(json!({"input": "hello"})).await, "one: hello");

    let two = "[agents.two]\nkind = \"echo\"\nprefix = \"two: \"\n\
               [[routes]]\nmeta = { team = \"blue\" }\nagent = \"two\"\n";
    let changed = BASE.replace("one: ", "changed: ");
    std::fs::write(&file, format!("{changed}{two}")).unwrap();
    server.reload();
    until(&server, |listed| listed["agents"].as_array().unwrap().iter().any(|agent| agent["agent"] == "two"));
    assert_eq!(ann.said(json!({"input": "hello"})).await, "changed: hello");
    assert_eq!(ann.said(json!({"input": "hi", "agent": "two"})).await, "two: hi");
    assert_eq!(ann.said(json!({"input": "hi", "meta": {"team": "blue"}})).await, "two: hi");
    assert_eq!(ann.said(json!({"input": "hi", "meta": {"team": "red"}})).await, "changed: hi");

    // What cannot be used changes nothing.
    std::fs::write(&file, format!("{BASE}[agents.three]\nkind = \"nonsense\"\n")).unwrap();
    server.reload();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ann.said(json!({"input": "hello"})).await, "changed: hello");

    // An agent that is gone takes no new turns.
    std::fs::write(&file, BASE).unwrap();
    server.reload();
    until(&server, |listed| listed["agents"].as_array().unwrap().iter().all(|agent| agent["agent"] != "two"));
    assert_eq!(ann.ask(json!({"input": "hi", "agent": "two"})).await.1.value["code"], 2304);
    assert_eq!(ann.said(json!({"input": "hello"})).await, "one: hello");
}

#[tokio::test]
async fn tools_of_an_mcp_server_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let python = root().join(".venv/bin/python");
    assert!(
        python.exists(),
        "the packages of tests/peers/python/requirements.txt are missing: run script/setup"
    );
    let tools = root().join("tests/peers/python/mcp_tools.py");
    let mcp = format!(
        "[mcp.kit]\ncommand = {:?}\nargs = [{:?}]\nbackoff_ms = 100\n",
        python.display().to_string(),
        tools.display().to_string()
    );
    let server = serve(folder.path(), &folder.path().join("s.toml"), &format!("{BASE}{mcp}"));
    let ready = |listed: &Value| listed["mcp"][0]["state"] == "ready";
    until(&server, ready);
    let mut ann = Client::connect(&server).await;
    let sum = json!({ "a": 2, "b": 3 });
    assert_eq!(ann.uses("kit.add", sum.clone()).await, json!({ "result": 5 }));
    assert_eq!(ann.uses("kit.add", json!({ "a": "x" })).await, 2302);
    assert_eq!(ann.uses("kit.fail", json!({ "message": "no" })).await, 2401);

    // What it finds while it runs is told at once.
    ann.uses("kit.grow", json!({ "name": "fresh" })).await;
    ann.knows("kit.fresh", true).await;
    assert_eq!(ann.uses("kit.fresh", json!({})).await, json!({ "result": "fresh" }));

    // A crash takes its tools away, and a new start brings them back.
    assert_eq!(ann.uses("kit.crash", json!({})).await, 2401);
    ann.knows("kit.add", false).await;
    ann.knows("kit.add", true).await;
    assert_eq!(ann.uses("kit.add", sum).await, json!({ "result": 5 }));
    assert_eq!(until(&server, ready)["mcp"][0]["restarts"], 1);
}
