//! When a function is asked again, and when not.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::setup::{Relayed, end, frames_of, serve, text, text_of};
use crate::support::ANN;
use crate::support::function::{Asked, Function};
use crate::support::wire::{INTERRUPT, INVOKE, Over, Peer};

/// That these are attempts of one invocation, in order.
fn assert_one_invocation(asked: &[Asked]) {
    for (attempt, asked_again) in (1..).zip(asked) {
        assert_eq!(asked_again.attempt(), attempt);
        assert_eq!(asked_again.header("x-asp-attempt"), Some(attempt.to_string().as_str()));
        assert_eq!(asked_again.inv(), asked[0].inv());
        assert_eq!(asked_again.header("idempotency-key"), Some(asked[0].inv()));
        assert_eq!(asked_again.header("webhook-id"), Some(asked[0].inv()));
        assert_eq!(asked_again.body["payload"], asked[0].body["payload"]);
        assert_eq!(asked_again.body["rid"], asked[0].body["rid"]);
    }
}

#[tokio::test]
async fn asp_065_the_invocation_is_the_same_over_all_attempts() {
    let mut relayed = Relayed::start(&[]).await;
    for status in [408, 429, 502, 503, 504, 500, 599] {
        let before = relayed.function.all().len();
        let (mut peer, exchange) = relayed.asked("hi").await;
        exchange.reply(status, &[], "").await;
        relayed.function.next().await.reply(status, &[], "").await;
        relayed.function.next().await.ndjson(&[text("third time"), end()]).await;
        let frames = frames_of(&mut peer, 1).await;
        assert_eq!(text_of(&frames), "third time", "{status}");
        assert_eq!(frames.last().unwrap().outcome(), "complete", "{status}");
        let asked = relayed.function.all().split_off(before);
        assert_eq!(asked.len(), 3, "{status}");
        assert_one_invocation(&asked);
        let retrying = frames.iter().filter(|frame| frame.value["state"] == "retrying").count();
        assert_eq!(retrying, 2, "{status}: clients see that it takes longer");
    }
}

#[tokio::test]
async fn asp_065_other_requests_are_other_invocations() {
    let mut relayed = Relayed::start(&[]).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut peer = relayed.client().await;
        for id in 1..=2 {
            peer.send(INVOKE, id, &json!({ "input": "the same", "session": "the same" })).await;
            let exchange = relayed.function.next().await;
            seen.push(exchange.asked.inv().to_owned());
            exchange.ndjson(&[end()]).await;
            peer.finish(id).await;
        }
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
}

#[tokio::test]
async fn asp_064_attempts_come_to_an_end() {
    let mut relayed = Relayed::start(&["agents.fn.breaker_failures=0"]).await;
    for (status, outcome, name) in [
        (408, "2500", "FUNCTION_UNREACHABLE"),
        (429, "2500", "FUNCTION_UNREACHABLE"),
        (502, "2500", "FUNCTION_UNREACHABLE"),
        (503, "2500", "FUNCTION_UNREACHABLE"),
        (504, "2500", "FUNCTION_UNREACHABLE"),
        (500, "2400", "EXECUTION_FAILED"),
        (501, "2400", "EXECUTION_FAILED"),
    ] {
        let before = relayed.function.all_of("invoke").len();
        let (mut peer, exchange) = relayed.asked("hi").await;
        exchange.reply(status, &[], "").await;
        for _ in 0..2 {
            relayed.function.next().await.reply(status, &[], "").await;
        }
        let (_, last) = peer.finish(1).await;
        assert_eq!((last.outcome().as_str(), &last.value["name"]), (outcome, &json!(name)), "{status}");
        assert_eq!(relayed.function.all_of("invoke").len() - before, 3, "{status}");
    }
}

#[tokio::test]
async fn asp_064_a_failure_with_a_body_is_not_asked_for_again() {
    let mut relayed = Relayed::start(&["agents.fn.breaker_failures=0"]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(500, &[], "it has done something").await;
    assert_eq!(peer.finish(1).await.1.outcome(), "2400");
    // What says by its status that nothing was done may say so with words.
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(503, &[], "try again").await;
    relayed.function.next().await.ndjson(&[end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
    assert_eq!(relayed.function.all_of("invoke").len(), 3);
}

#[tokio::test]
async fn asp_064_nothing_is_asked_for_again_after_output() {
    let mut talkative = Relayed::start(&["agents.fn.breaker_failures=0"]).await;
    let mut silent = Relayed::start(&["agents.fn.breaker_failures=0", "agents.fn.gap_timeout_ms=1000"]).await;
    let outputs = [
        text("out"),
        json!({ "t": "reason", "d": "hm" }),
        json!({ "t": "data", "value": 1 }),
        json!({ "t": "tool", "call_id": "x", "name": "look", "phase": "start" }),
        json!({ "t": "tool_def", "op": "add", "tools": [{ "name": "a", "input_schema": { "type": "object" } }] }),
    ];
    for (number, output) in outputs.into_iter().enumerate() {
        for how in ["broken off", "ended", "silent"] {
            let relayed = if how == "silent" { &mut silent } else { &mut talkative };
            let before = relayed.function.all_of("invoke").len();
            let at = format!("{output} {how}");
            let (mut peer, mut exchange) = relayed.asked("hi").await;
            exchange.begin_records().await;
            exchange.record(output.clone()).await;
            if number == 0 {
                peer.wait(|frame| frame.text().is_some()).await;
            } else {
                sleep(Duration::from_millis(100)).await;
            }
            let outcome = match how {
                "broken off" => {
                    drop(exchange);
                    peer.finish(1).await.1.outcome()
                }
                "ended" => {
                    exchange.finish(&[]).await;
                    peer.finish(1).await.1.outcome()
                }
                _ => {
                    let outcome = peer.finish(1).await.1.outcome();
                    exchange.hung_up().await;
                    outcome
                }
            };
            assert_eq!(outcome, if how == "silent" { "2505" } else { "2503" }, "{at}");
            assert_eq!(relayed.function.all_of("invoke").len(), before + 1, "{at}");
        }
    }
    // Nothing comes later either: the next one that is asked for is another.
    for relayed in [&mut talkative, &mut silent] {
        let (mut peer, exchange) = relayed.asked("the last").await;
        assert_eq!((exchange.asked.input(), exchange.asked.attempt()), ("the last", 1));
        exchange.ndjson(&[end()]).await;
        peer.finish(1).await;
    }
}

#[tokio::test]
async fn asp_064_output_by_push_counts_as_output() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let frames = json!({ "frames": [crate::setup::stream(1, text("pushed"))] });
    assert_eq!(relayed.push(&exchange.asked, &frames).await.0, 202);
    exchange.reply(503, &[], "").await;
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("pushed", "2500"));
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
}

#[tokio::test]
async fn asp_064_a_function_may_say_when_to_come_back() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(503, &["Retry-After: 1"], "").await;
    let second = relayed.function.next().await;
    let asked = relayed.function.all();
    let pause = asked[1].at - asked[0].at;
    assert!(pause >= Duration::from_millis(950), "{pause:?}");
    // A date is no number of seconds, and is not waited for.
    second.reply(429, &["Retry-After: Fri, 01 Jan 2100 00:00:00 GMT"], "").await;
    relayed.function.next().await.ndjson(&[end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
}

#[tokio::test]
async fn asp_064_nobody_waits_longer_than_five_seconds_to_come_back() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(503, &["Retry-After: 3600"], "").await;
    relayed.function.next().await.ndjson(&[end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
    let asked = relayed.function.all();
    assert!(asked[1].at - asked[0].at < Duration::from_secs(20));
}

#[tokio::test]
async fn asp_064_silence_before_the_first_byte_is_asked_again() {
    let mut relayed = Relayed::start(&["agents.fn.first_byte_timeout_ms=2000"]).await;
    let (mut peer, mut first) = relayed.asked("hi").await;
    let second = relayed.function.next().await;
    first.hung_up().await;
    assert_eq!((second.asked.attempt(), second.asked.inv()), (2, first.asked.inv()));
    second.ndjson(&[text("awake"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "awake");
}

#[tokio::test]
async fn asp_064_silence_comes_to_an_end() {
    let mut relayed = Relayed::start(&["agents.fn.first_byte_timeout_ms=300"]).await;
    let (mut peer, first) = relayed.asked("hi").await;
    let mut held = vec![first];
    for _ in 0..2 {
        held.push(relayed.function.next().await);
    }
    let (_, last) = peer.finish(1).await;
    assert_eq!((last.outcome().as_str(), &last.value["name"]), ("2505", &json!("FUNCTION_TIMEOUT")));
    assert_one_invocation(&relayed.function.all_of("invoke"));
    // Whoever still works on it is told that nobody waits.
    let inv = held[0].asked.inv().to_owned();
    relayed.function.told("interrupt", Some(&inv)).await;
    let url = held[0].asked.body["cancel"]["url"].as_str().unwrap();
    assert_eq!(relayed.get(&held[0].asked, url).await.1["cancelled"], true);
    for exchange in &mut held {
        exchange.hung_up().await;
    }
}

#[tokio::test]
async fn asp_064_a_connection_that_breaks_before_the_response_is_asked_again() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    drop(exchange);
    let second = relayed.function.next().await;
    assert_eq!(second.asked.attempt(), 2);
    second.ndjson(&[end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
}

#[tokio::test]
async fn asp_064_a_refused_connection_is_tried_again() {
    // An address on which nobody listens at first.
    let address = Function::start().await.address;
    let settings = ["agents.fn.retries=8", "agents.fn.backoff_ms=100", "agents.fn.breaker_failures=0"];
    let server = serve(&format!("http://{address}"), &settings).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.invoke(1, "hi").await;
    let status = peer.wait(|frame| frame.id == 1 && frame.value["t"] == "status").await;
    assert_eq!(status.value["state"], "retrying");
    let mut function = Function::start_on(address).await;
    let exchange = function.next().await;
    assert!(exchange.asked.attempt() > 1);
    exchange.ndjson(&[text("here now"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "here now");
}

#[tokio::test]
async fn asp_064_a_refused_connection_is_unreachable_in_the_end() {
    let address = Function::start().await.address;
    let server = serve(&format!("http://{address}"), &[]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.invoke(1, "hi").await;
    let frames = frames_of(&mut peer, 1).await;
    let last = frames.last().unwrap();
    assert_eq!((last.outcome().as_str(), &last.value["retry"]), ("2500", &json!(true)));
    assert_eq!(frames.iter().filter(|frame| frame.value["state"] == "retrying").count(), 2);
    assert!(
        !last.value["msg"].as_str().unwrap().contains(&address.to_string()),
        "addresses are not for clients"
    );
}

#[tokio::test]
async fn asp_064_an_interrupt_ends_the_pause_before_a_repetition() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(503, &["Retry-After: 5"], "").await;
    peer.wait(|frame| frame.value["state"] == "retrying").await;
    let began = Instant::now();
    peer.send(INTERRUPT, 1, &json!({})).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "interrupted");
    assert!(began.elapsed() < Duration::from_millis(4_900), "{:?}", began.elapsed());
    assert_eq!(peer.over(Duration::from_millis(100)).await, Over::Late);
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
}
