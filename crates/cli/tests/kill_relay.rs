//! The binary is killed while functions work for it: what they have said is neither lost nor said twice,
//! what they have not begun is asked for again, and what they wait for goes on.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

#[path = "../../server/tests/support/function.rs"]
mod function;
mod support;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use function::{Asked, Exchange, Function};
use support::rpc::http;
use support::wire::{Frame, INVOKE, Peer};
use support::{ANN, BASIC, GENEROUS, Served};

/// The binary with this function as its agent.
fn serve(data: &Path, function: &Function) -> Served {
    let url = format!("agents.fn.url={}", function.url());
    let settings = [
        "agent=fn",
        "agents.fn.kind=function",
        "agents.fn.jwt=true",
        "agents.fn.allow_private=true",
        "agents.fn.backoff_ms=20",
        &url,
    ];
    Served::start(data, &[BASIC, GENEROUS, &settings])
}

fn text(d: &str) -> Value {
    json!({ "t": "text", "d": d })
}

fn end() -> Value {
    json!({ "t": "end", "finish": "complete" })
}

fn able() -> Value {
    json!({
        "features": ["flags", "events", "push", "resume", "client_tools"],
        "tools": [{ "name": "weather", "input_schema": { "type": "object" } }],
    })
}

/// Comes back to request 1, from this record on.
async fn come_back(address: SocketAddr, accept: &Value, next: u64) -> Peer {
    let mut hello = able();
    let next = json!({ "1": next });
    hello["resume"] = json!({ "cid": accept["cid"], "token": accept["resume"]["token"], "next": next });
    let peer = Peer::with(address, ANN, hello).await;
    assert_eq!((&peer.accept["resumed"], &peer.accept["lost"]), (&json!(true), &json!([])));
    peer
}

/// Every frame of request 1, up to its end.
async fn rest(peer: &mut Peer) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !frames.last().is_some_and(Frame::is_terminal) {
        frames.push(peer.wait(|frame| frame.id == 1).await);
    }
    frames
}

/// That every record is there once, in order, and what they say.
fn whole(frames: &[Frame]) -> String {
    let numbers: Vec<u64> = frames.iter().filter_map(Frame::number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(frames.iter().filter(|frame| frame.is_terminal()).count(), 1, "exactly one end");
    frames.iter().filter_map(Frame::text).collect()
}

/// A request that the function has been asked for.
async fn asked(server: &Served, function: &mut Function) -> (Peer, Exchange) {
    let mut peer = Peer::with(server.address, ANN, able()).await;
    peer.invoke(1, "hi").await;
    (peer, function.next().await)
}

#[tokio::test]
async fn asp_074_a_silent_function_is_asked_again_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let server = serve(data.path(), &function);
    let (peer, mut exchange) = asked(&server, &mut function).await;
    let first = exchange.asked.clone();
    server.kill();
    exchange.hung_up().await;
    let server = serve(data.path(), &function);
    let again = function.next().await;
    assert_eq!((again.asked.inv(), again.asked.cid()), (first.inv(), first.cid()));
    assert!(again.asked.attempt() > first.attempt(), "{}", again.asked.attempt());
    assert_eq!(again.asked.body["payload"], first.body["payload"]);
    let mut peer = come_back(server.address, &peer.accept, 0).await;
    again.ndjson(&[text("here "), text("now"), end()]).await;
    let frames = rest(&mut peer).await;
    assert_eq!(
        (whole(&frames).as_str(), frames.last().unwrap().outcome().as_str()),
        ("here now", "complete")
    );
    assert_eq!(function.all_of("invoke").len(), 2);
    assert!(function.all_of("interrupt").is_empty());
}

#[tokio::test]
async fn asp_074_a_function_is_not_asked_for_ever() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let mut server = serve(data.path(), &function);
    let (peer, exchange) = asked(&server, &mut function).await;
    let mut held = vec![exchange];
    // Offered three times in all.
    for _ in 0..2 {
        server.kill();
        server = serve(data.path(), &function);
        held.push(function.next().await);
    }
    let attempts: Vec<u64> = held.iter().map(|exchange| exchange.asked.attempt()).collect();
    assert!(attempts.windows(2).all(|pair| pair[0] < pair[1]), "{attempts:?}");
    server.kill();
    let server = serve(data.path(), &function);
    let mut peer = come_back(server.address, &peer.accept, 0).await;
    let frames = rest(&mut peer).await;
    assert_eq!((whole(&frames).as_str(), frames.last().unwrap().outcome().as_str()), ("", "2500"));
    assert_eq!(function.all_of("invoke").len(), 3);
}

#[tokio::test]
async fn asp_073_a_function_that_has_spoken_is_not_asked_again_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let server = serve(data.path(), &function);
    let (mut peer, mut exchange) = asked(&server, &mut function).await;
    exchange.begin_records().await;
    let mut frames = Vec::new();
    for word in ["one ", "two ", "three "] {
        exchange.record(text(word)).await;
        loop {
            let frame = peer.wait(|frame| frame.id == 1).await;
            let found = frame.text() == Some(word);
            frames.push(frame);
            if found {
                break;
            }
        }
    }
    server.kill();
    // Whatever it says now, nobody hears it.
    exchange.record(text("late")).await;
    let server = serve(data.path(), &function);
    let next = frames.iter().filter_map(Frame::number).max().unwrap() + 1;
    let mut peer = come_back(server.address, &peer.accept, next).await;
    frames.extend(rest(&mut peer).await);
    let last = frames.last().unwrap();
    assert_eq!((whole(&frames).as_str(), last.outcome().as_str()), ("one two three ", "2504"));
    assert_eq!((&last.value["name"], &last.value["retry"]), (&json!("WORKER_LOST"), &json!(false)));
    peer.invoke(2, "another").await;
    let exchange = function.next().await;
    assert_eq!(exchange.asked.input(), "another", "it is not asked again");
    exchange.ndjson(&[end()]).await;
    peer.finish(2).await;
    assert_eq!(function.all_of("invoke").len(), 2);
}

#[tokio::test]
async fn asp_077_stored_output_is_replayed_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let server = serve(data.path(), &function);
    let (mut peer, mut exchange) = asked(&server, &mut function).await;
    exchange.begin_records().await;
    let mut expected = String::new();
    for word in 0..50 {
        exchange.record(text(&format!("w{word} "))).await;
        expected.push_str(&format!("w{word} "));
    }
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), (expected.as_str(), "complete"));
    server.kill();
    let server = serve(data.path(), &function);
    let mut peer = come_back(server.address, &peer.accept, 0).await;
    let frames = rest(&mut peer).await;
    assert_eq!((whole(&frames), frames.last().unwrap().outcome().as_str()), (expected, "complete"));
    assert_eq!(function.all_of("invoke").len(), 1);
}

/// That a function goes on with what it had left.
fn assert_continues(first: &Asked, next: &Asked) {
    assert_eq!((next.event(), next.inv(), next.cid()), ("continue", first.inv(), first.cid()));
    assert_eq!((&next.body["leg"], &next.body["state"]), (&json!(1), &json!({ "step": 1 })));
    assert_eq!(next.body["next_n"], 2);
    let given = json!({ "k": 1, "call_id": "c1", "ok": true, "output": { "degrees": 21 } });
    assert_eq!(next.body["answers"], json!([given]));
}

/// A request whose function has suspended itself, and the call that it waits for.
async fn suspended(server: &Served, function: &mut Function) -> (Peer, Asked, Vec<Frame>) {
    let (mut peer, exchange) = asked(server, function).await;
    let first = exchange.asked.clone();
    let call = json!({ "t": "call", "call_id": "c1", "name": "weather", "args": {}, "timeout_ms": 120_000 });
    exchange.ndjson(&[text("let me see "), call, json!({ "t": "suspend", "state": { "step": 1 } })]).await;
    let mut frames = Vec::new();
    while !frames.last().is_some_and(|frame: &Frame| frame.value["t"] == "call") {
        frames.push(peer.wait(|frame| frame.id == 1).await);
    }
    wait_until_suspended(server, &first).await;
    (peer, first, frames)
}

/// The call is shown a moment before the function is known to have suspended itself.
async fn wait_until_suspended(server: &Served, asked: &Asked) {
    let session = asked.body["session"].as_str().unwrap();
    let request = format!("GET /admin/v1/sessions/{session}/events?limit=1000");
    for _ in 0..500 {
        let events = http(server.address, &request, ANN, &[], "").await;
        assert_eq!(events.status, 200, "{}", events.body);
        if events.body.to_lowercase().contains("suspend") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("never suspended");
}

async fn answer(peer: &mut Peer, call: &Frame) {
    let call_id = &call.value["call_id"];
    let output = json!({ "degrees": 21 });
    let result = json!({ "kind": "result", "parent": 1, "call_id": call_id, "ok": true, "output": output });
    peer.send(INVOKE, 2, &result).await;
    assert_eq!(peer.wait(|frame| frame.id == 2).await.outcome(), "accepted");
}

#[tokio::test]
async fn asp_084_a_suspended_function_goes_on_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let server = serve(data.path(), &function);
    let (peer, first, mut frames) = suspended(&server, &mut function).await;
    server.kill();
    let server = serve(data.path(), &function);
    let next = frames.iter().filter_map(Frame::number).max().unwrap() + 1;
    let mut peer = come_back(server.address, &peer.accept, next).await;
    answer(&mut peer, frames.last().unwrap()).await;
    let exchange = function.next().await;
    assert_continues(&first, &exchange.asked);
    exchange.ndjson(&[text("21 degrees"), end()]).await;
    frames.extend(rest(&mut peer).await);
    assert_eq!(whole(&frames), "let me see 21 degrees");
    assert_eq!(frames.last().unwrap().outcome(), "complete");
    assert_eq!(function.all_of("invoke").len(), 1, "the first leg is not repeated");
}

#[tokio::test]
async fn asp_084_a_silent_leg_is_asked_for_again_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let server = serve(data.path(), &function);
    let (mut peer, first, mut frames) = suspended(&server, &mut function).await;
    answer(&mut peer, frames.last().unwrap()).await;
    let held = function.next().await;
    assert_continues(&first, &held.asked);
    server.kill();
    let server = serve(data.path(), &function);
    let again = function.next().await;
    assert_continues(&first, &again.asked);
    let next = frames.iter().filter_map(Frame::number).max().unwrap() + 1;
    let mut peer = come_back(server.address, &peer.accept, next).await;
    again.ndjson(&[text("21 degrees"), end()]).await;
    frames.extend(rest(&mut peer).await);
    assert_eq!(whole(&frames), "let me see 21 degrees");
    assert_eq!(function.all_of("invoke").len(), 1);
}

#[tokio::test]
async fn asp_065_a_function_that_still_works_after_kill_9_can_push() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let server = serve(data.path(), &function);
    let (peer, exchange) = asked(&server, &mut function).await;
    let first = exchange.asked.clone();
    exchange.reply(202, &[], "").await;
    server.kill();
    let server = serve(data.path(), &function);
    // The function knows the invocation again, and goes on with what it has.
    let again = function.next().await;
    assert_eq!(again.asked.inv(), first.inv());
    again.reply(409, &[], "").await;
    let mut peer = come_back(server.address, &peer.accept, 0).await;
    let frame = |payload: Value| json!({ "type": "STREAM", "rid": 1, "payload": payload });
    let body = json!({ "frames": [frame(text("still here")), frame(end())] });
    let request = format!("POST /v1/relay/connections/{}/frames", first.cid());
    // With the leave that the killed one has given.
    let pushed = http(server.address, &request, Some(first.push_token()), &[], body.to_string()).await;
    assert_eq!(pushed.status, 202, "{}", pushed.body);
    let frames = rest(&mut peer).await;
    assert_eq!(
        (whole(&frames).as_str(), frames.last().unwrap().outcome().as_str()),
        ("still here", "complete")
    );
}

#[tokio::test]
async fn asp_071_a_repeated_request_is_one_invocation_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let mut function = Function::start().await;
    let server = serve(data.path(), &function);
    let invoke = json!({ "input": "hi", "idem": "only once" });
    let mut peer = Peer::with(server.address, ANN, able()).await;
    peer.send(INVOKE, 1, &invoke).await;
    let exchange = function.next().await;
    let inv = exchange.asked.inv().to_owned();
    exchange.ndjson(&[text("one answer"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "one answer");
    server.kill();
    let server = serve(data.path(), &function);
    let mut peer = Peer::with(server.address, ANN, able()).await;
    peer.send(INVOKE, 1, &invoke).await;
    assert_eq!(peer.finish(1).await.0, "one answer");
    let asked: Vec<String> = function.all_of("invoke").iter().map(|asked| asked.inv().to_owned()).collect();
    assert_eq!(asked, [inv]);
}
