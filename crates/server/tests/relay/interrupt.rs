//! What a running function notices when its client does not want to go on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::setup::{PATIENCE, Relayed, end, frames_of, stream, text};
use crate::signature::assert_signed;
use crate::support::ANN;
use crate::support::function::{Asked, Exchange};
use crate::support::wire::{ERROR, HELLO, INTERRUPT, INVOKE, Over, Peer, frame};

/// A request whose function has said something and goes on.
async fn under_way(relayed: &mut Relayed) -> (Peer, Exchange) {
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    exchange.record(text("half")).await;
    peer.wait(|frame| frame.text() == Some("half")).await;
    (peer, exchange)
}

/// What the function learns at `cancel.url`.
async fn cancellation(relayed: &Relayed, asked: &Asked) -> (u16, Value) {
    relayed.get(asked, asked.body["cancel"]["url"].as_str().unwrap()).await
}

/// Waits until the function can learn that it was cancelled.
async fn cancelled(relayed: &Relayed, asked: &Asked) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let (status, said) = cancellation(relayed, asked).await;
        assert_eq!(status, 200);
        if said["cancelled"] == true {
            return said;
        }
        assert!(Instant::now() < until, "never cancelled");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn asp_066_an_interrupt_reaches_the_function_in_three_ways() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = under_way(&mut relayed).await;
    let asked = exchange.asked.clone();
    assert_eq!(cancellation(&relayed, &asked).await, (200, json!({ "cancelled": false })));
    peer.send(INTERRUPT, 1, &json!({ "mode": "cancel", "reason": "changed my mind" })).await;
    // The client is answered at once, whatever the function does.
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("", "interrupted"));
    // (a) The exchange is over.
    exchange.hung_up().await;
    // (b) The function is told, wherever that arrives.
    let told = relayed.function.told("interrupt", None).await;
    assert_eq!((told.method.as_str(), told.path.as_str()), ("POST", "/interrupt"));
    assert_eq!(
        (told.inv(), &told.body["cid"], &told.body["rid"]),
        (asked.inv(), &asked.body["cid"], &json!(1))
    );
    assert_signed(&told);
    // (c) It can ask.
    let said = cancelled(&relayed, &asked).await;
    assert_eq!(said, json!({ "cancelled": true, "reason": "changed my mind" }));
    assert_eq!(relayed.function.all_of("interrupt").len(), 1);
}

#[tokio::test]
async fn asp_066_what_a_function_says_after_an_interrupt_is_dropped() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = under_way(&mut relayed).await;
    let asked = exchange.asked.clone();
    peer.raw(frame(INTERRUPT, 1, b"")).await;
    let frames = frames_of(&mut peer, 1).await;
    assert_eq!(frames.last().unwrap().outcome(), "interrupted");
    for _ in 0..3 {
        exchange.record(text("late")).await;
    }
    exchange.record(end()).await;
    let (status, _) = relayed.push(&asked, &json!({ "frames": [stream(1, text("late"))] })).await;
    assert_eq!(status, 403);
    // The same id can be used at once, and nothing of before is in it.
    peer.invoke(1, "again").await;
    relayed.function.next().await.ndjson(&[text("new"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "new");
    let accept = peer.accept.clone();
    drop(peer);
    let mut again = Peer::resume(relayed.address(), ANN, &accept, &[(1, 0)].into()).await;
    assert_eq!(again.finish(1).await.0, "new");
}

#[tokio::test]
async fn asp_066_an_interrupt_before_the_response_aborts_the_request() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    let began = Instant::now();
    peer.send(INTERRUPT, 1, &json!({})).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "interrupted");
    assert!(began.elapsed() < Duration::from_secs(10), "it does not wait for the response");
    exchange.hung_up().await;
    relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
    assert_eq!(cancelled(&relayed, &exchange.asked).await["cancelled"], true);
    assert_eq!(relayed.function.all_of("invoke").len(), 1, "it is not taken for a failure");
}

#[tokio::test]
async fn asp_066_an_interrupt_ends_what_is_asynchronous() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    exchange.reply(202, &[], "").await;
    assert_eq!(relayed.push(&asked, &json!({ "frames": [stream(1, text("one"))] })).await.0, 202);
    peer.wait(|frame| frame.text() == Some("one")).await;
    peer.send(INTERRUPT, 1, &json!({})).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "interrupted");
    relayed.function.told("interrupt", Some(asked.inv())).await;
    cancelled(&relayed, &asked).await;
    assert_eq!(relayed.push(&asked, &json!({ "frames": [stream(1, text("two"))] })).await.0, 403);
    assert_eq!(peer.over(Duration::from_millis(200)).await, Over::Late);
}

#[tokio::test]
async fn asp_066_one_interrupt_for_all() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let mut open = Vec::new();
    for id in 1..=3 {
        peer.invoke(id, "hi").await;
        open.push(relayed.function.next().await);
    }
    peer.send(INTERRUPT, 0, &json!({ "reason": "enough" })).await;
    let mut ended = Vec::new();
    while ended.len() < 3 {
        let frame = peer.wait(|frame| frame.is_terminal()).await;
        assert_eq!(frame.outcome(), "interrupted");
        ended.push(frame.id);
    }
    ended.sort_unstable();
    assert_eq!(ended, [1, 2, 3]);
    for exchange in &mut open {
        exchange.hung_up().await;
        relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
        assert_eq!(cancelled(&relayed, &exchange.asked).await["reason"], "enough");
    }
}

#[tokio::test]
async fn asp_066_the_deadline_is_an_interrupt_too() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    peer.send(INVOKE, 1, &json!({ "input": "hi", "deadline_ms": 1_000 })).await;
    let mut exchange = relayed.function.next().await;
    exchange.begin_records().await;
    exchange.record(text("half")).await;
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("half", "2405"));
    exchange.hung_up().await;
    assert_signed(&relayed.function.told("interrupt", Some(exchange.asked.inv())).await);
    assert!(cancelled(&relayed, &exchange.asked).await["reason"].is_string());
}

#[tokio::test]
async fn asp_066_a_client_that_cannot_go_on_interrupts() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = under_way(&mut relayed).await;
    peer.send(ERROR, 1, &json!({ "code": 2400, "name": "EXECUTION_FAILED", "msg": "my screen broke" })).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "interrupted");
    exchange.hung_up().await;
    assert_eq!(cancelled(&relayed, &exchange.asked).await["reason"], "client_error");
}

#[tokio::test]
async fn asp_056_a_lost_bare_client_is_an_interrupt() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    peer.raw(frame(INVOKE, 1, b"hi")).await;
    let mut exchange = relayed.function.next().await;
    exchange.begin_records().await;
    drop(peer);
    exchange.hung_up().await;
    relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
}

#[tokio::test]
async fn asp_066_a_client_that_says_goodbye_interrupts() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = under_way(&mut relayed).await;
    peer.send(HELLO, 0, &json!({ "op": "bye" })).await;
    exchange.hung_up().await;
    relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
    cancelled(&relayed, &exchange.asked).await;
}

#[tokio::test]
async fn asp_066_a_client_that_does_not_come_back_in_time_interrupts() {
    let mut relayed = Relayed::start(&["asp.limits.resume_s=1"]).await;
    let (peer, mut exchange) = under_way(&mut relayed).await;
    drop(peer);
    exchange.hung_up().await;
    relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
    relayed.wait_for_state(&exchange.asked, "gone").await;
}

#[tokio::test]
async fn asp_066_a_function_that_ended_by_itself_was_not_cancelled() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = under_way(&mut relayed).await;
    let asked = exchange.asked.clone();
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    peer.finish(1).await;
    peer.send(INTERRUPT, 1, &json!({})).await;
    assert_eq!(cancellation(&relayed, &asked).await, (200, json!({ "cancelled": false })));
    let (mut peer, exchange) = relayed.asked("another").await;
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
    assert!(relayed.function.all_of("interrupt").is_empty());
}

#[tokio::test]
async fn asp_066_only_whoever_holds_the_leave_learns_of_a_cancellation() {
    let mut relayed = Relayed::start(&[]).await;
    let (_one, first) = under_way(&mut relayed).await;
    let (_two, second) = under_way(&mut relayed).await;
    let url = first.asked.body["cancel"]["url"].as_str().unwrap();
    assert_eq!(relayed.call("GET", "nonsense", url, &[], "").await.status, 401);
    assert_eq!(relayed.call("GET", ANN.unwrap(), url, &[], "").await.status, 401);
    assert_eq!(relayed.call("GET", second.asked.push_token(), url, &[], "").await.status, 403);
    let unknown = url.replace(first.asked.inv(), "inv_unknown");
    let status = relayed.call("GET", first.asked.push_token(), &unknown, &[], "").await.status;
    assert!(matches!(status, 403 | 404), "{status}");
}
