//! Tools of a real MCP server that runs as a process of ours.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod mcp_support;

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_support::{
    Notes, PATIENCE, call, error, eventually, is_alive, kill, one, pid, ready, result, start, status, tools,
    why,
};
use serde_json::json;
use switchboard_agents::{McpConfig, McpServers, McpState};
use switchboard_core::ToolName;
use switchboard_core::model::{CallEnd, Executor, ToolAnnotations};

#[tokio::test]
async fn tools_are_offered_with_what_is_known_of_them() {
    let servers = start(tools()).await;
    let offered = servers.tools();
    let find = |name: &str| offered.iter().find(|tool| tool.name == ToolName::from(name)).expect("a tool");
    let add = find("py.add");
    assert_eq!(add.description, "Adds two numbers.");
    assert_eq!(add.input_schema["required"], json!(["a", "b"]));
    assert_eq!(add.output_schema.as_ref().unwrap()["required"], json!(["result"]));
    assert_eq!((&add.executor, &add.options), (&Executor::Agent, &json!({ "mcp": "py" })));
    let harmless = ToolAnnotations { read_only: Some(true), idempotent: Some(true), ..Default::default() };
    assert_eq!(add.annotations, harmless);
    let wipe = &find("py.wipe").annotations;
    assert_eq!((wipe.destructive, wipe.confirm), (Some(true), Some(true)));
    assert!(servers.knows(&ToolName::from("py.add")) && !servers.knows(&ToolName::from("add")));
    let status = status(&servers);
    assert_eq!((status.name.as_str(), status.state, status.restarts), ("py", McpState::Ready, 0));
    assert_eq!(status.tools, offered.len());
}

#[tokio::test]
async fn a_configuration_chooses_names_and_tools() {
    let config = McpConfig {
        prefix: Some("maths-".into()),
        tools: Some(vec!["add".into(), "greet".into(), "no such tool".into()]),
        confirm: vec!["greet".into()],
        ..tools()
    };
    let servers = start(config).await;
    let offered: Vec<_> =
        servers.tools().into_iter().map(|tool| (tool.name.to_string(), tool.annotations.confirm)).collect();
    assert_eq!(offered, [("maths-add".to_owned(), None), ("maths-greet".to_owned(), Some(true))]);
    assert_eq!(result(&servers, "maths-greet", json!({ "name": "you" })).await, json!("hello you"));
    assert_eq!(error(&servers, "maths-wipe", json!({})).await.name, "unavailable");
}

#[tokio::test]
async fn calls_return_what_the_server_says() {
    let servers = start(tools()).await;
    assert_eq!(result(&servers, "py.add", json!({ "a": 1, "b": 2 })).await, json!({ "result": 3 }));
    assert_eq!(result(&servers, "py.greet", json!({ "name": "you" })).await, json!("hello you"));
    let picture = result(&servers, "py.picture", json!(null)).await;
    let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
    assert_eq!(picture, json!([{ "type": "text", "text": "look" }, image]));
    let failure = error(&servers, "py.fail", json!({ "message": "it is broken" })).await;
    assert_eq!(failure.name, "execution_error");
    assert!(failure.message.ends_with("it is broken"), "{failure:?}");
    assert_eq!(error(&servers, "py.add", json!([1, 2])).await.name, "invalid_parameters");
    assert_eq!(error(&servers, "py.nothing", json!({})).await.name, "unavailable");
    // The second of these does not even fit a line.
    for size in [5 << 20, 12 << 20] {
        assert_eq!(error(&servers, "py.large", json!({ "size": size })).await.name, "too_large");
    }
    assert_eq!(
        result(&servers, "py.large", json!({ "size": 1 << 20 })).await.as_str().unwrap().len(),
        1 << 20
    );
    assert_eq!(status(&servers).restarts, 0);
}

#[tokio::test]
async fn calls_run_side_by_side() {
    let servers = start(tools()).await;
    let adding = (0..100).map(|n| result_of_adding(&servers, n));
    let sums = futures_util::future::join_all(adding).await;
    assert_eq!(sums, (0..100).map(|n| json!({ "result": n + 1 })).collect::<Vec<_>>());
}

async fn result_of_adding(servers: &McpServers, n: i32) -> serde_json::Value {
    result(servers, "py.add", json!({ "a": n, "b": 1 })).await
}

#[tokio::test]
async fn progress_is_told_on_the_way() {
    let servers = start(tools()).await;
    let mut told = Vec::new();
    let args = json!({ "steps": 3, "seconds": 0.05 });
    let end = servers.call(&ToolName::from("py.slow"), args, PATIENCE, |words| told.push(words)).await;
    assert_eq!(end, CallEnd::done(json!({ "result": "done" })));
    assert_eq!(told, ["step 1", "step 2", "step 3"]);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled() {
    let notes = Notes::new();
    let mut config = tools();
    config.env.insert("NOTES".into(), notes.path());
    let servers = start(config.clone()).await;
    let slow = ToolName::from("py.slow");
    let args = json!({ "steps": 1, "seconds": 600 });
    let end = servers.call(&slow, args.clone(), Duration::from_secs(1), |_| ()).await;
    assert_eq!(end, CallEnd::TimedOut);
    eventually("the server knows", &servers, || notes.count("cancelled") == 1).await;
    assert_eq!(result(&servers, "py.add", json!({ "a": 1, "b": 2 })).await, json!({ "result": 3 }));
    assert_eq!(status(&servers).restarts, 0);

    config.call_timeout_ms = 1000;
    servers.reconfigure(one(config));
    ready(&servers).await;
    assert_eq!(servers.call(&slow, args, PATIENCE, |_| ()).await, CallEnd::TimedOut);
    eventually("the server knows", &servers, || notes.count("cancelled") == 2).await;
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let notes = Notes::new();
    let mut config = tools();
    config.env.insert("NOTES".into(), notes.path());
    let servers = start(config).await;
    let (begun, mut beginning) = tokio::sync::mpsc::unbounded_channel();
    let slow = ToolName::from("py.slow");
    let args = json!({ "steps": 1, "seconds": 600 });
    tokio::select! {
        end = servers.call(&slow, args, PATIENCE, |words| begun.send(words).unwrap()) => panic!("{end:?}"),
        words = beginning.recv() => assert_eq!(words.unwrap(), "step 1"),
    }
    eventually("the server knows", &servers, || notes.count("cancelled") == 1).await;
}

#[tokio::test]
async fn a_server_that_crashes_takes_its_tools_along_and_brings_them_back() {
    let servers = start(tools()).await;
    let offered = servers.tools();
    let first = pid(&servers, "py.pid").await;
    let revision = *servers.changes().borrow();
    assert_eq!(error(&servers, "py.crash", json!({})).await.name, "unavailable");
    eventually("a restart", &servers, || status(&servers).restarts == 1).await;
    ready(&servers).await;
    // Gone, and back.
    assert_eq!(*servers.changes().borrow(), revision + 2);
    assert_eq!(servers.tools(), offered);
    assert_ne!(pid(&servers, "py.pid").await, first);
    assert_eq!(result(&servers, "py.add", json!({ "a": 1, "b": 2 })).await, json!({ "result": 3 }));
}

#[tokio::test]
async fn a_server_that_is_killed_is_started_again() {
    let servers = start(tools()).await;
    let first = pid(&servers, "py.pid").await;
    let grandchild = pid(&servers, "py.child").await;
    let mut changes = servers.changes();
    changes.mark_unchanged();
    // Calls that are under way end at once, long before their time is up.
    let slow = ToolName::from("py.slow");
    let waiting = servers.call(&slow, json!({ "steps": 1, "seconds": 600 }), PATIENCE * 10, |_| kill(first));
    let CallEnd::Failed(error) = waiting.await else { panic!("the server is dead") };
    assert_eq!(error.name, "unavailable");
    changes.changed().await.unwrap();
    eventually("a restart", &servers, || status(&servers).restarts == 1).await;
    ready(&servers).await;
    assert_ne!(pid(&servers, "py.pid").await, first);
    eventually("nothing is left of the first one", &servers, || !is_alive(first) && !is_alive(grandchild))
        .await;
}

#[tokio::test]
async fn tools_that_come_later_are_offered() {
    let servers = start(tools()).await;
    let later = ToolName::from("py.later");
    let mut changes = servers.changes();
    changes.mark_unchanged();
    assert!(!servers.knows(&later));
    result(&servers, "py.grow", json!({ "name": "later" })).await;
    changes.changed().await.unwrap();
    assert!(servers.knows(&later));
    assert_eq!(result(&servers, "py.later", json!({})).await, json!({ "result": "later" }));
    assert_eq!(status(&servers).restarts, 0);
}

#[tokio::test]
async fn nothing_is_left_of_servers_that_are_dropped() {
    let servers = start(tools()).await;
    let both = [pid(&servers, "py.pid").await, pid(&servers, "py.child").await];
    assert!(both.iter().all(|pid| is_alive(*pid)));
    let changes = servers.changes();
    let revision = *changes.borrow();
    drop(servers);
    assert!(*changes.borrow() > revision, "the tools are withdrawn");
    let nobody = McpServers::start(BTreeMap::new(), |_| None);
    eventually("both are gone", &nobody, || !both.iter().any(|pid| is_alive(*pid))).await;
}

#[tokio::test]
async fn servers_are_gone_when_they_have_been_stopped() {
    let servers = start(tools()).await;
    let both = [pid(&servers, "py.pid").await, pid(&servers, "py.child").await];
    servers.stop().await;
    assert!(!is_alive(both[0]));
    eventually("both are gone", &servers, || !both.iter().any(|pid| is_alive(*pid))).await;
    assert!(servers.tools().is_empty() && servers.status().is_empty());
    assert_eq!(error(&servers, "py.add", json!({})).await.name, "unavailable");
}

#[test]
fn nothing_is_left_when_the_runtime_goes_first() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (servers, both) = runtime.block_on(async {
        let servers = start(tools()).await;
        let both = [pid(&servers, "py.pid").await, pid(&servers, "py.child").await];
        (servers, both)
    });
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(eventually("both are gone", &servers, || !both.iter().any(|pid| is_alive(*pid))));
}

#[tokio::test]
async fn only_what_has_changed_is_started_anew() {
    let servers = McpServers::start(BTreeMap::from([("a".into(), tools()), ("b".into(), tools())]), |_| None);
    ready(&servers).await;
    let (a, b) = (pid(&servers, "a.pid").await, pid(&servers, "b.pid").await);
    let mut changed = tools();
    changed.env.insert("COLOUR".into(), "red".into());
    servers.reconfigure(BTreeMap::from([
        ("a".into(), tools()),
        ("b".into(), changed),
        ("c".into(), tools()),
    ]));
    ready(&servers).await;
    assert_eq!(servers.status().len(), 3);
    assert_eq!(pid(&servers, "a.pid").await, a);
    assert_ne!(pid(&servers, "b.pid").await, b);
    assert!(!is_alive(b), "the new one waits for the old one");
    let environment = result(&servers, "b.environment", json!({})).await;
    assert!(environment.as_str().unwrap().lines().any(|line| line == "COLOUR=red"));
    let c = pid(&servers, "c.pid").await;

    servers.reconfigure(BTreeMap::from([("c".into(), tools())]));
    assert!(servers.tools().iter().all(|tool| tool.name.as_str().starts_with("c.")), "withdrawn at once");
    assert_eq!(call(&servers, "a.pid", json!({})).await, call(&servers, "b.pid", json!({})).await);
    eventually("the first is gone", &servers, || !is_alive(a)).await;
    assert_eq!(pid(&servers, "c.pid").await, c);
}

#[tokio::test]
async fn a_server_sees_only_the_variables_that_it_is_given() {
    let mut config = tools();
    config.env.insert("PLAIN".into(), "plain".into());
    config.env_from = vec!["SECRET".into(), "UNSET".into()];
    let lookup = |name: &str| (name != "UNSET").then(|| format!("value of {name}"));
    let servers = McpServers::start(one(config), lookup);
    ready(&servers).await;
    let environment = result(&servers, "py.environment", json!({})).await;
    let mut lines: Vec<_> = environment.as_str().unwrap().lines().collect();
    // Python adds this one by itself.
    lines.retain(|line| !line.starts_with("LC_CTYPE="));
    let expected = [
        "HOME=value of HOME",
        "LANG=value of LANG",
        "PATH=value of PATH",
        "PLAIN=plain",
        "PYTHONDONTWRITEBYTECODE=1",
        "SECRET=value of SECRET",
        "TMPDIR=value of TMPDIR",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn servers_that_share_a_prefix_keep_their_tools_apart() {
    let shared = || McpConfig {
        prefix: Some("x.".into()),
        tools: Some(vec!["pid".into(), "crash".into()]),
        ..tools()
    };
    let servers =
        McpServers::start(BTreeMap::from([("a".into(), shared()), ("b".into(), shared())]), |_| None);
    ready(&servers).await;
    let names = || servers.tools().into_iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
    let all = names();
    assert_eq!(all.len(), 4);
    let second = all.iter().find(|name| name.starts_with("x.pid_")).unwrap();
    let (first_pid, second_pid) = (pid(&servers, "x.pid").await, pid(&servers, second).await);
    assert_ne!(first_pid, second_pid);
    // While the first one is gone, its name is nobody else's.
    let broken = McpConfig { command: Some("/no/such/program".into()), ..shared() };
    servers.reconfigure(BTreeMap::from([("a".into(), broken), ("b".into(), shared())]));
    assert!(!servers.knows(&ToolName::from("x.pid")));
    assert_eq!(pid(&servers, second).await, second_pid);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_tried_again() {
    let missing = McpConfig { command: Some("/no/such/program".into()), args: Vec::new(), ..tools() };
    let servers = McpServers::start(one(missing), |_| None);
    eventually("some attempts", &servers, || status(&servers).restarts >= 3).await;
    eventually("a reason", &servers, || why(&servers).is_some_and(|why| why.starts_with("cannot start")))
        .await;
    servers.reconfigure(one(tools()));
    ready(&servers).await;

    let senseless = McpConfig { url: Some("http://localhost".into()), ..tools() };
    servers.reconfigure(one(senseless));
    eventually("a reason", &servers, || why(&servers).is_some_and(|why| why.starts_with("either"))).await;
    assert_eq!(status(&servers).restarts, 0);
}
