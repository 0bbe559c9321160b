//! Acolyte beside ASP: one session, two protocols, and what each sees of the other.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::net::SocketAddr;

use serde_json::{Value, json};

use support::rpc::{Rpc, delta, is_terminal};
use support::wire::{INTERRUPT, INVOKE, Over, Peer};
use support::{ANN, BOB, InProcess, token};

const SHARED: &str = "sess_shared";

/// A request over ASP in the shared session that is at work.
async fn at_work(address: SocketAddr, input: &str) -> Peer {
    let mut peer = Peer::standard(address, ANN).await;
    peer.send(INVOKE, 1, &json!({ "input": input, "session": SHARED })).await;
    peer.wait(|frame| frame.value["t"] == "start").await;
    peer
}

/// Follows what runs in the shared session; the id of that chat, and its task.
async fn follow(rpc: &mut Rpc) -> (String, Value) {
    let id = rpc.send("chat.attach", json!({ "sessionId": SHARED })).await;
    let accepted = rpc.wait(|message| message["id"] == id).await;
    assert_eq!(accepted["type"], "chat.accepted", "{accepted}");
    (id, accepted["taskId"].clone())
}

fn counted(count: usize) -> String {
    (1..=count).map(|number| format!("{number} ")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_protocols_see_the_same_turn() {
    let server = InProcess::start(&[]).await;
    let mut peer = at_work(server.address, "count 100 every 10").await;
    let mut rpc = Rpc::resumable(server.address, ANN).await;
    let (id, _) = follow(&mut rpc).await;
    let ((over_asp, end), (over_acolyte, done)) = tokio::join!(peer.finish(1), rpc.finish(&id));
    assert_eq!((over_asp, end.outcome().as_str()), (counted(100), "complete"));
    assert_eq!(over_acolyte, counted(100), "from the beginning, and in the same order");
    assert_eq!(done["reply"]["output"], over_acolyte);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_038_chats_that_have_waited_are_answered() {
    let server = InProcess::start(&[]).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    // In one session, and in one of its own.
    let sessions = [json!({ "sessionId": SHARED }), json!({ "sessionId": SHARED }), json!({})];
    let first = rpc.start("count 20 every 10", json!({ "sessionId": SHARED })).await;
    let mut waiting = Vec::new();
    for (number, session) in sessions.into_iter().enumerate() {
        waiting
            .push((format!("answer {number}"), rpc.start(&format!("echo answer {number}"), session).await));
    }
    assert_eq!(rpc.finish(&first).await.1["type"], "chat.done");
    for (expected, id) in waiting {
        let (text, end) = rpc.finish(&id).await;
        assert_eq!((text, &end["type"]), (expected, &json!("chat.done")), "{end}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_over_acolyte_ends_a_request_of_asp() {
    let server = InProcess::start(&[]).await;
    let mut peer = at_work(server.address, "hang after 3").await;
    let mut rpc = Rpc::resumable(server.address, ANN).await;
    let (id, _) = follow(&mut rpc).await;
    rpc.wait(|message| message["id"] == id && delta(message) == Some("3 ")).await;
    assert!(rpc.abort(&id).await);
    let terminal = rpc.wait(is_terminal).await;
    assert_eq!((&terminal["id"], &terminal["errorCode"]), (&json!(id), &json!("E_ABORTED")));
    let (text, end) = peer.finish(1).await;
    assert_eq!((text.as_str(), end.outcome().as_str()), ("1 2 3 ", "interrupted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_over_asp_ends_a_chat_of_acolyte() {
    let server = InProcess::start(&[]).await;
    let mut peer = at_work(server.address, "hang after 3").await;
    let mut rpc = Rpc::resumable(server.address, ANN).await;
    let (id, task) = follow(&mut rpc).await;
    rpc.wait(|message| message["id"] == id && delta(message) == Some("3 ")).await;
    peer.raw(support::wire::frame(INTERRUPT, 1, b"")).await;
    let (_, end) = peer.finish(1).await;
    assert_eq!(end.outcome(), "interrupted");
    let (_, terminal) = rpc.finish(&id).await;
    assert_eq!((&terminal["type"], &terminal["errorCode"]), (&json!("chat.error"), &json!("E_ABORTED")));
    assert_eq!(rpc.task(&task, Some(SHARED)).await, "cancelled");
    assert!(!rpc.abort(&id).await, "it is over");
}

/// A connection over ASP that watches what runs in the shared session, as request 7.
async fn watching(address: SocketAddr) -> Peer {
    let mut peer = Peer::with(address, ANN, json!({ "features": ["flags", "events", "watch"] })).await;
    peer.send(INVOKE, 7, &json!({ "kind": "watch", "session": SHARED })).await;
    peer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_of_acolyte_is_seen_and_stopped_over_asp() {
    let server = InProcess::start(&[]).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let chat = rpc.start("count 60 every 20", json!({ "sessionId": SHARED })).await;
    rpc.wait(|message| delta(message).is_some()).await;
    let mut peer = watching(server.address).await;
    let ((over_asp, end), (_, done)) = tokio::join!(peer.finish(7), rpc.finish(&chat));
    assert_eq!((over_asp, end.outcome().as_str()), (counted(60), "complete"));
    assert_eq!(done["reply"]["output"], counted(60));

    let chat = rpc.start("hang after 3", json!({ "sessionId": SHARED })).await;
    rpc.wait(|message| message["id"] == chat && delta(message) == Some("3 ")).await;
    let mut peer = watching(server.address).await;
    peer.wait(|frame| frame.value["d"] == "3 ").await;
    peer.raw(support::wire::frame(INTERRUPT, 7, b"")).await;
    assert_eq!(peer.finish(7).await.1.outcome(), "interrupted");
    let (_, terminal) = rpc.finish(&chat).await;
    assert_eq!((&terminal["type"], &terminal["errorCode"]), (&json!("chat.error"), &json!("E_ABORTED")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_only_watches_stops_nothing_by_leaving() {
    let server = InProcess::start(&[]).await;
    let mut peer = at_work(server.address, "count 60 every 20").await;
    for _ in 0..3 {
        let mut rpc = Rpc::resumable(server.address, ANN).await;
        let (id, _) = follow(&mut rpc).await;
        rpc.wait(|message| message["id"] == id && delta(message).is_some()).await;
        rpc.close().await;
    }
    let (text, end) = peer.finish(1).await;
    assert_eq!((text, end.outcome().as_str()), (counted(60), "complete"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_both_protocols_run_beside_each_other() {
    let server = InProcess::start(&[]).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let chat = rpc.start("hang after 1", json!({ "sessionId": SHARED })).await;
    rpc.wait(|message| delta(message).is_some()).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.send(INVOKE, 1, &json!({ "input": "count 5", "session": SHARED, "serial": false })).await;
    assert_eq!(peer.finish(1).await.0, counted(5));
    // What ASP said there is no part of the chat.
    assert!(rpc.abort(&chat).await);
    assert_eq!(rpc.finish(&chat).await.0, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_can_be_watched_and_stopped_by_its_principal_alone() {
    let server = InProcess::start(&[]).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let chat = rpc.start("hang after 2", json!({ "sessionId": SHARED })).await;
    rpc.wait(|message| delta(message) == Some("2 ")).await;
    let mut stranger = Rpc::resumable(server.address, BOB).await;
    let id = stranger.send("chat.attach", json!({ "sessionId": SHARED })).await;
    let refused = stranger.wait(|message| message["id"] == id).await;
    assert_eq!(refused["error"], "No such task to attach to");
    let mut other = Rpc::resumable(server.address, ANN).await;
    let (id, task) = follow(&mut other).await;
    other.wait(|message| message["id"] == id && delta(message) == Some("2 ")).await;
    assert_eq!(other.task(&task, None).await, "running");
    assert!(other.abort(&id).await);
    let (_, terminal) = rpc.finish(&chat).await;
    assert_eq!(terminal["errorCode"], "E_ABORTED");
    assert_eq!(rpc.task(&task, None).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_leaves_lets_chats_finish() {
    let server = InProcess::start(&["drain.retry_ms=0", "drain.spread_ms=0"]).await;
    let address = server.address;
    // Keeps the server from leaving before everything was tried.
    let mut last_guest = Rpc::open(address, BOB).await.unwrap();
    let kept = last_guest.start("hang after 1", json!({})).await;
    last_guest.wait(|message| delta(message).is_some()).await;
    let mut rpc = Rpc::open(address, ANN).await.unwrap();
    let chat = rpc.start("count 100 every 20", json!({})).await;
    rpc.wait(|message| delta(message).is_some()).await;
    let mut idle = Rpc::open(address, ANN).await.unwrap();
    let stopping = tokio::spawn(server.stop());
    assert_eq!(idle.closed().await, Over::Closed(1001));
    assert_eq!(Rpc::open(address, ANN).await.err(), Some(503));
    let late = last_guest.start("echo late", json!({})).await;
    let refused = last_guest.wait(|message| message["id"] == late).await;
    assert_eq!(refused["error"], "The server is leaving. Try again shortly.");
    let (text, done) = rpc.finish(&chat).await;
    assert_eq!((text, &done["type"]), (counted(100).split_off(2), &json!("chat.done")));
    assert_eq!(rpc.closed().await, Over::Closed(1001));
    assert!(last_guest.abort(&kept).await);
    assert_eq!(last_guest.closed().await, Over::Closed(1001));
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_does_not_outlive_its_token() {
    let server = InProcess::start(&[]).await;
    let short = token("carol", 5);
    let mut rpc = Rpc::open(server.address, Some(&short)).await.unwrap();
    let chat = rpc.start("hang after 1", json!({})).await;
    let (_, terminal) = rpc.finish(&chat).await;
    assert_eq!(terminal["errorCode"], "E_ABORTED");
    assert_eq!(rpc.closed().await, Over::Closed(1008));
    assert_eq!(Rpc::open(server.address, Some(&short)).await.err(), Some(401));
}
