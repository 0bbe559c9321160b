//! The tools that a function is told of, and has executed for it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::answers::call;
use crate::setup::{PATIENCE, Relayed, end};
use crate::support::ANN;
use crate::support::function::{Asked, Exchange};
use crate::support::wire::{INVOKE, Peer};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// A server with an MCP server that the function reaches.
async fn with_tools() -> Relayed {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "the packages of tests/peers/python are missing: run script/setup");
    let tools = root().join("tests/peers/python/mcp_tools.py");
    let settings = [
        format!("mcp.kit.command={}", python.display()),
        format!("mcp.kit.args=[{:?}]", tools.display().to_string()),
        "agents.fn.mcp=[\"kit\"]".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Relayed::start(&settings).await
}

fn told<'a>(asked: &'a Asked, name: &str) -> Option<&'a Value> {
    asked.body["tools"].as_array()?.iter().find(|tool| tool["name"] == name)
}

/// A request whose function is told of this tool; the server that has it may still be starting.
async fn told_of(relayed: &mut Relayed, peer: &mut Peer, name: &str) -> (u16, Exchange) {
    let until = Instant::now() + PATIENCE;
    for id in 1.. {
        peer.invoke(id, "hi").await;
        let exchange = relayed.function.next().await;
        if told(&exchange.asked, name).is_some() {
            return (id, exchange);
        }
        assert!(Instant::now() < until, "{:?}", exchange.asked.body["tools"]);
        exchange.ndjson(&[end()]).await;
        peer.finish(id).await;
    }
    unreachable!("there are more numbers than time")
}

/// The answer to the call of this name.
async fn answer(relayed: &Relayed, asked: &Asked, name: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let url = format!("{}/answers?after=0", asked.body["cancel"]["url"].as_str().unwrap());
        let (status, said) = relayed.get(asked, &url).await;
        assert_eq!(status, 200, "{said}");
        if let Some(answer) =
            said["answers"].as_array().unwrap().iter().find(|known| known["call_id"] == name)
        {
            return answer.clone();
        }
        assert!(Instant::now() < until, "{said}");
    }
}

#[tokio::test]
async fn a_function_is_told_the_tools_of_its_client() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.able_client().await;
    peer.invoke(1, "hi").await;
    let exchange = relayed.function.next().await;
    let weather = json!({
        "name": "weather", "input_schema": { "type": "object" }, "executor": "client", "confirm": false,
    });
    assert_eq!(exchange.asked.body["tools"], json!([weather]));
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
    // Nobody else's.
    let mut other = relayed.client().await;
    other.invoke(1, "hi").await;
    assert_eq!(relayed.function.next().await.asked.body.get("tools"), None);
}

#[tokio::test]
async fn a_function_uses_tools_of_an_mcp_server_and_a_person_is_asked_before_what_is_destructive() {
    let mut relayed = with_tools().await;
    let mut peer = relayed.able_client().await;
    let (id, mut exchange) = told_of(&mut relayed, &mut peer, "kit.wipe").await;
    let asked = exchange.asked.clone();
    let add = told(&asked, "kit.add").unwrap();
    assert_eq!((&add["executor"], &add["confirm"]), (&json!("server"), &json!(false)));
    assert_eq!(told(&asked, "kit.wipe").unwrap()["confirm"], true);
    exchange.begin_records().await;
    let mut sum = call("kit.add", "c1", 20_000);
    sum["args"] = json!({ "a": 2, "b": 3 });
    exchange.record(sum).await;
    let done = answer(&relayed, &asked, "c1").await;
    assert_eq!((&done["ok"], &done["output"]), (&json!(true), &json!({ "result": 5 })));
    for (number, approve, ok) in [(2, false, false), (3, true, true)] {
        let name = format!("c{number}");
        let mut wipe = call("kit.wipe", &name, 20_000);
        wipe["args"] = json!({});
        exchange.record(wipe).await;
        let asks = peer.wait(|frame| frame.id == id && frame.value["t"] == "ask").await.value;
        let text = asks["text"].as_str().unwrap();
        assert!(
            text.contains("\"fn\"") && text.contains("\"ann\"") && text.contains("\"kit.wipe\""),
            "{text}"
        );
        let data = json!({ "approve": approve });
        let reply = json!({ "kind": "reply", "parent": id, "ask_id": asks["ask_id"], "data": data });
        peer.send(INVOKE, 1000 + number, &reply).await;
        let done = answer(&relayed, &asked, &name).await;
        assert_eq!(done["ok"], ok, "{done}");
        if !ok {
            assert_eq!(done["error"]["name"], "denied", "{done}");
        }
    }
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    assert_eq!(peer.finish(id).await.1.outcome(), "complete");
}

#[tokio::test]
async fn asp_095_a_call_goes_to_a_client_that_executes_tools_and_has_declared_none() {
    let mut relayed = Relayed::start(&[]).await;
    let hello = json!({ "features": ["flags", "events", "push", "resume", "client_tools"] });
    let mut peer = Peer::with(relayed.address(), ANN, hello).await;
    peer.invoke(1, "hi").await;
    let mut exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    exchange.begin_records().await;
    exchange.record(call("anything", "c1", 20_000)).await;
    let called = peer.wait(|frame| frame.value["t"] == "call").await;
    assert_eq!((called.id, &called.value["name"]), (1, &json!("anything")));
    let call_id = &called.value["call_id"];
    let result =
        json!({ "kind": "result", "parent": 1, "call_id": call_id, "ok": true, "output": { "x": 1 } });
    peer.send(INVOKE, 2, &result).await;
    assert_eq!(answer(&relayed, &asked, "c1").await["output"], json!({ "x": 1 }));
    drop(exchange);
    // A list that is declared says what there is.
    let mut peer = relayed.able_client().await;
    peer.invoke(1, "hi").await;
    let mut exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    exchange.begin_records().await;
    exchange.record(call("anything", "c1", 20_000)).await;
    let refused = answer(&relayed, &asked, "c1").await;
    assert_eq!((&refused["ok"], &refused["error"]["name"]), (&json!(false), &json!("TOOL_NOT_FOUND")));
}
