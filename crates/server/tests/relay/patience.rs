//! How long a function is waited for, by whom, and who hears of it.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::setup::{PATIENCE, Relayed, end, frames_of, text, text_of};
use crate::support::ANN;
use crate::support::wire::{INTERRUPT, INVOKE, Peer};

#[tokio::test]
async fn asp_070_clients_are_told_that_a_function_starts() {
    let mut relayed = Relayed::start(&["agents.fn.cold_start_ms=200"]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let starting = peer.wait(|frame| frame.id == 1 && frame.value["t"] == "status").await;
    assert_eq!(starting.value["state"], "starting");
    assert_eq!(starting.number(), None, "what the relay says itself has no number");
    exchange.ndjson(&[text("awake"), end()]).await;
    let frames = frames_of(&mut peer, 1).await;
    assert_eq!(text_of(&frames), "awake");
    assert!(frames.iter().all(|frame| frame.value["state"] != "starting"), "once");
    // Whoever comes back is not told again.
    let accept = peer.accept.clone();
    drop(peer);
    let mut again = Peer::resume(relayed.address(), ANN, &accept, &[(1, 0)].into()).await;
    let frames = frames_of(&mut again, 1).await;
    assert_eq!(text_of(&frames), "awake");
    assert!(frames.iter().all(|frame| frame.value["t"] != "status"), "{frames:?}");
}

#[tokio::test]
async fn asp_070_the_default_is_a_second() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let began = exchange.asked.at;
    let starting = peer.wait(|frame| frame.value["t"] == "status").await;
    assert_eq!(starting.value["state"], "starting");
    assert!(began.elapsed() >= Duration::from_millis(900));
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
    // A function that answers in time is not waited for.
    let (mut peer, exchange) = relayed.asked("quick").await;
    exchange.ndjson(&[end()]).await;
    let frames = frames_of(&mut peer, 1).await;
    assert!(frames.iter().all(|frame| frame.value["t"] != "status"), "{frames:?}");
}

#[tokio::test]
async fn a_function_that_keeps_talking_is_not_silent() {
    let mut relayed = Relayed::start(&["agents.fn.gap_timeout_ms=3000"]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    for _ in 0..8 {
        sleep(Duration::from_millis(500)).await;
        exchange.record(json!({ "t": "ping" })).await;
    }
    exchange.record(text("at last")).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("at last", "complete"));
}

#[tokio::test]
async fn silence_within_a_response_is_a_timeout() {
    let mut relayed = Relayed::start(&["agents.fn.gap_timeout_ms=300", "agents.fn.retries=0"]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    let (_, last) = peer.finish(1).await;
    assert_eq!(last.outcome(), "2505");
    exchange.hung_up().await;
    relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
}

#[tokio::test]
async fn requests_wait_for_a_place_at_the_function() {
    let mut relayed = Relayed::start(&["agents.fn.concurrency=1"]).await;
    let (mut first, exchange) = relayed.asked("first").await;
    let mut second = relayed.client().await;
    second.invoke(1, "second").await;
    let queued = second.wait(|frame| frame.id == 1 && frame.value["t"] == "status").await;
    assert_eq!((&queued.value["state"], queued.number()), (&json!("queued"), None));
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
    exchange.ndjson(&[end()]).await;
    first.finish(1).await;
    let exchange = relayed.function.next().await;
    assert_eq!(exchange.asked.input(), "second");
    exchange.ndjson(&[text("its turn"), end()]).await;
    assert_eq!(second.finish(1).await.0, "its turn");
}

#[tokio::test]
async fn asp_075_what_is_cancelled_while_it_waits_for_a_place_is_not_begun() {
    let mut relayed = Relayed::start(&["agents.fn.concurrency=1"]).await;
    let (mut first, exchange) = relayed.asked("first").await;
    let mut second = relayed.client().await;
    second.invoke(1, "cancelled").await;
    second.invoke(2, "overdue").await;
    second.send(INVOKE, 3, &json!({ "input": "overdue", "deadline_ms": 4_000 })).await;
    second.wait(|frame| frame.id == 1 && frame.value["state"] == "queued").await;
    second.send(INTERRUPT, 1, &json!({})).await;
    assert_eq!(second.finish(1).await.1.outcome(), "interrupted");
    assert_eq!(second.finish(3).await.1.outcome(), "2405");
    second.send(INTERRUPT, 2, &json!({})).await;
    assert_eq!(second.finish(2).await.1.outcome(), "interrupted");
    exchange.ndjson(&[end()]).await;
    first.finish(1).await;
    let (mut last, exchange) = relayed.asked("last").await;
    assert_eq!(exchange.asked.input(), "last");
    exchange.ndjson(&[end()]).await;
    last.finish(1).await;
    assert_eq!(relayed.function.all_of("invoke").len(), 2);
}

#[tokio::test]
async fn a_function_that_keeps_failing_is_left_alone_for_a_while() {
    let settings = ["agents.fn.retries=0", "agents.fn.breaker_failures=2", "agents.fn.breaker_ms=1500"];
    let mut relayed = Relayed::start(&settings).await;
    for _ in 0..2 {
        let (mut peer, exchange) = relayed.asked("hi").await;
        exchange.reply(503, &[], "").await;
        assert_eq!(peer.finish(1).await.1.outcome(), "2500");
    }
    let opened = Instant::now();
    let mut peer = relayed.client().await;
    let (_, outcome) = peer.turn(1, "too early").await;
    assert_eq!(outcome, "2500");
    assert!(opened.elapsed() > Duration::from_millis(1_500) || relayed.function.all_of("invoke").len() == 2);
    // After a while one may try, and if that goes well, everybody.
    let until = Instant::now() + PATIENCE;
    let mut id = 1;
    let exchange = loop {
        id += 1;
        peer.invoke(id, "later").await;
        tokio::select! {
            exchange = relayed.function.next() => break exchange,
            (_, end) = peer.finish(id) => assert_eq!(end.outcome(), "2500"),
        }
        assert!(Instant::now() < until, "it is never asked again");
        sleep(Duration::from_millis(100)).await;
    };
    exchange.ndjson(&[text("well again"), end()]).await;
    assert_eq!(peer.finish(id).await.0, "well again");
    for id in 100..103 {
        peer.invoke(id, "all").await;
        relayed.function.next().await.ndjson(&[end()]).await;
        assert_eq!(peer.finish(id).await.1.outcome(), "complete");
    }
}
