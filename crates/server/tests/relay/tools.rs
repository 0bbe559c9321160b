//! Tools that functions push.

use serde_json::json;

use crate::push::{finished, one};
use crate::setup::{Relayed, end, stream, tool};
use crate::support::ANN;
use crate::support::wire::{HELLO, INVOKE, Peer, STREAM, TOOL_DEF, frame};

#[tokio::test]
async fn asp_067_tools_are_pushed_to_a_live_client() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let asked = finished(&mut relayed, &mut peer, 1).await;
    // Long after its request, too.
    let (status, answer) = relayed.push(&asked, &one(tool("dig"))).await;
    assert_eq!((status, &answer), (202, &json!({ "accepted": 1, "delivered": "live" })));
    let defined = peer.wait(|frame| frame.opcode == TOOL_DEF).await;
    assert_eq!((defined.id, &defined.value["op"]), (0, &json!("add")));
    assert_eq!(defined.value["tools"][0]["name"], "dig");
    let first = defined.value["rev"].as_u64().unwrap();
    assert_eq!(relayed.push(&asked, &one(tool("fill"))).await.0, 202);
    let defined = peer.wait(|frame| frame.opcode == TOOL_DEF).await;
    assert_eq!(defined.value["tools"][0]["name"], "fill");
    assert!(defined.value["rev"].as_u64().unwrap() > first);
    let removal = json!({ "type": "TOOL_DEF", "rid": 0, "payload": { "op": "remove", "names": ["dig"] } });
    assert_eq!(relayed.push(&asked, &one(removal)).await.0, 202);
    let removed = peer.wait(|frame| frame.opcode == TOOL_DEF).await;
    assert_eq!((&removed.value["op"], &removed.value["names"]), (&json!("remove"), &json!(["dig"])));
    // Whoever uses the tool reaches the function.
    peer.send(INVOKE, 2, &json!({ "kind": "tool", "tool": "fill", "args": { "a": 1 } })).await;
    let exchange = relayed.function.next().await;
    let payload = json!({ "kind": "tool", "tool": "fill", "args": { "a": 1 } });
    assert_eq!(exchange.asked.body["payload"], payload);
    exchange.reply(200, &["Content-Type: application/json"], r#"{"filled":1}"#).await;
    let (_, last) = peer.finish(2).await;
    assert_eq!(last.value["output"], json!({ "filled": 1 }));
    peer.send(INVOKE, 3, &json!({ "kind": "tool", "tool": "dig", "args": {} })).await;
    assert_eq!(peer.finish(3).await.1.outcome(), "2301");
}

#[tokio::test]
async fn asp_067_tools_are_pushed_to_a_client_that_is_away() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let asked = finished(&mut relayed, &mut peer, 1).await;
    relayed.wait_for_state(&asked, "live").await;
    let accept = peer.accept.clone();
    drop(peer);
    relayed.wait_for_state(&asked, "detached").await;
    let (status, answer) = relayed.push(&asked, &one(tool("dig"))).await;
    assert_eq!((status, &answer), (202, &json!({ "accepted": 1, "delivered": "buffered" })));
    let mut peer = Peer::resume(relayed.address(), ANN, &accept, &[].into()).await;
    assert_eq!(peer.accept["resumed"], true);
    let defined = peer.wait(|frame| frame.opcode == TOOL_DEF).await;
    assert_eq!((&defined.value["op"], &defined.value["tools"][0]["name"]), (&json!("set"), &json!("dig")));
}

#[tokio::test]
async fn asp_067_a_client_that_came_back_is_live_again() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let asked = finished(&mut relayed, &mut peer, 1).await;
    let accept = peer.accept.clone();
    drop(peer);
    relayed.wait_for_state(&asked, "detached").await;
    let mut peer = Peer::resume(relayed.address(), ANN, &accept, &[].into()).await;
    assert_eq!(peer.accept["resumed"], true);
    // Whether it asks for something or not.
    relayed.wait_for_state(&asked, "live").await;
    let (status, answer) = relayed.push(&asked, &one(tool("fill"))).await;
    assert_eq!((status, &answer), (202, &json!({ "accepted": 1, "delivered": "live" })));
    let defined = peer.wait(|frame| frame.opcode == TOOL_DEF).await;
    assert_eq!(defined.value["tools"][0]["name"], "fill");
    let notice = stream(0, json!({ "t": "notice", "level": "info", "text": "welcome back" }));
    assert_eq!(relayed.push(&asked, &one(notice)).await.0, 202);
    assert_eq!(peer.wait(|frame| frame.opcode == STREAM).await.value["text"], "welcome back");
}

#[tokio::test]
async fn asp_067_nothing_is_pushed_to_a_client_that_is_gone() {
    let mut relayed = Relayed::start(&["asp.limits.resume_s=1"]).await;
    // One that says goodbye, one that cannot come back, and one that does not in time.
    for how in ["bye", "bare", "late"] {
        let (mut peer, exchange) = if how == "bare" {
            let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
            peer.raw(frame(INVOKE, 1, b"hi")).await;
            (peer, relayed.function.next().await)
        } else {
            relayed.asked("hi").await
        };
        let asked = exchange.asked.clone();
        assert_eq!(relayed.push(&asked, &one(tool("dig"))).await.0, 202, "{how}");
        exchange.ndjson(&[end()]).await;
        peer.wait(|frame| frame.id == 1 && (frame.payload.is_empty() || frame.is_terminal())).await;
        if how == "bye" {
            peer.send(HELLO, 0, &json!({ "op": "bye" })).await;
        }
        drop(peer);
        relayed.wait_for_state(&asked, "gone").await;
        assert_eq!(relayed.push(&asked, &one(tool("fill"))).await.0, 410, "{how}");
        let url = format!("/v1/relay/connections/{}", asked.cid());
        assert_eq!(relayed.call("DELETE", asked.push_token(), &url, &[], "").await.status, 410, "{how}");
    }
}

#[tokio::test]
async fn asp_067_bare_clients_get_one_tool_per_frame_and_no_removals() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    peer.raw(frame(INVOKE, 1, b"{\"input\":\"hi\"}")).await;
    let exchange = relayed.function.next().await;
    let schema = json!({ "type": "object" });
    let tools = json!([{ "name": "a", "input_schema": schema }, { "name": "b", "input_schema": schema }]);
    let add = json!({ "type": "TOOL_DEF", "rid": 0, "payload": { "op": "add", "tools": tools } });
    let remove = json!({ "type": "TOOL_DEF", "rid": 0, "payload": { "op": "remove", "names": ["a"] } });
    let body = json!({ "frames": [add, remove, tool("c")] });
    assert_eq!(relayed.push(&exchange.asked, &body).await.0, 202);
    for name in ["a", "b", "c"] {
        let defined = peer.wait(|frame| frame.opcode == TOOL_DEF).await;
        assert_eq!((defined.id, &defined.value["name"]), (0, &json!(name)), "{defined:?}");
    }
}
