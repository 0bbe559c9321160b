//! What functions see, show and do beside their requests.

use std::time::Duration;

use serde_json::json;

use crate::push::{finished, one};
use crate::setup::{Relayed, end, stream, text, tool};
use crate::support::ANN;
use crate::support::wire::{Over, Peer, STREAM};

#[tokio::test]
async fn notices_need_a_client_that_takes_them() {
    let mut relayed = Relayed::start(&[]).await;
    let notice = |words: &str| one(stream(0, json!({ "t": "notice", "level": "warn", "text": words })));
    let mut peer = relayed.client().await;
    let asked = finished(&mut relayed, &mut peer, 1).await;
    let (status, answer) = relayed.push(&asked, &notice("storm ahead")).await;
    assert_eq!((status, &answer["accepted"]), (202, &json!(1)));
    let shown = peer.wait(|frame| frame.opcode == STREAM && frame.id == 0).await;
    assert_eq!((&shown.value["t"], &shown.value["level"]), (&json!("notice"), &json!("warn")));
    assert_eq!((&shown.value["text"], shown.number()), (&json!("storm ahead"), None));
    // And one that has not agreed to them.
    let features = json!({ "features": ["flags", "events", "resume"] });
    let mut peer = Peer::with(relayed.address(), ANN, features).await;
    let asked = finished(&mut relayed, &mut peer, 1).await;
    assert_eq!(relayed.push(&asked, &notice("storm ahead")).await.0, 403);
    let body =
        json!({ "frames": [tool("no"), stream(0, json!({ "t": "notice", "level": "info", "text": "x" }))] });
    assert_eq!(relayed.push(&asked, &body).await.0, 403);
    assert_eq!(peer.next_within(Duration::from_millis(200)).await.err(), Some(Over::Late));
}

#[tokio::test]
async fn what_belongs_to_no_request_can_be_text_too() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let asked = finished(&mut relayed, &mut peer, 1).await;
    assert_eq!(relayed.push(&asked, &one(stream(0, text("by the way")))).await.0, 202);
    let shown = peer.wait(|frame| frame.opcode == STREAM && frame.id == 0).await;
    assert_eq!(shown.text(), Some("by the way"));
}

#[tokio::test]
async fn functions_can_look_at_their_connection() {
    let mut relayed = Relayed::start(&[]).await;
    let began = jsonwebtoken::get_current_timestamp();
    let (mut peer, exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    let url = format!("/v1/relay/connections/{}", asked.cid());
    let (status, seen) = relayed.get(&asked, &url).await;
    assert_eq!((status, &seen["state"], &seen["inflight"]), (200, &json!("live"), &json!(1)));
    let connected = seen["connected_at"].as_u64().expect("a time in milliseconds") / 1_000;
    assert!(connected.abs_diff(began) <= 30, "{connected} {began}");
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
    assert_eq!(relayed.get(&asked, &url).await.1["inflight"], 0);
    let unknown = format!("{url}x");
    assert!(matches!(relayed.get(&asked, &unknown).await.0, 403 | 404));
    let requests = format!("{url}/requests/inv_unknown");
    assert!(matches!(relayed.get(&asked, &requests).await.0, 403 | 404));
}

#[tokio::test]
async fn functions_can_end_their_connection() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    let url = format!("/v1/relay/connections/{}", asked.cid());
    assert_eq!(relayed.call("DELETE", "nonsense", &url, &[], "").await.status, 401);
    let answer = relayed.call("DELETE", asked.push_token(), &url, &[], "").await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert_eq!(peer.over(Duration::from_secs(20)).await, Over::Closed(1000));
    // As after a goodbye: nothing runs on, and nothing can be resumed.
    exchange.hung_up().await;
    relayed.wait_for_state(&asked, "gone").await;
    let again = Peer::resume(relayed.address(), ANN, &peer.accept, &[(1, 0)].into()).await;
    assert_ne!(again.accept["resumed"], true);
    assert_ne!(again.accept["cid"], peer.accept["cid"]);
}

#[tokio::test]
async fn functions_can_end_a_connection_whose_client_is_away() {
    let mut relayed = Relayed::start(&[]).await;
    let (peer, exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    let accept = peer.accept.clone();
    drop(peer);
    relayed.wait_for_state(&asked, "detached").await;
    let url = format!("/v1/relay/connections/{}", asked.cid());
    assert_eq!(relayed.call("DELETE", asked.push_token(), &url, &[], "").await.status, 204);
    relayed.wait_for_state(&asked, "gone").await;
    let again = Peer::resume(relayed.address(), ANN, &accept, &[(1, 0)].into()).await;
    assert_ne!(again.accept["resumed"], true);
}
