//! How answers end, in order and otherwise, and what they say about it.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::content::{FRAMES, NDJSON, SSE, answered};
use crate::setup::{Relayed, asp_frame, end, text, text_of};
use crate::support::function::lines;
use crate::support::wire::STREAM;

#[tokio::test]
async fn asp_063_an_end_without_a_terminal_record_is_an_abort() {
    let mut relayed = Relayed::start(&[]).await;
    let record = text("so far");
    for (kind, body) in [
        (NDJSON, lines(std::slice::from_ref(&record))),
        (NDJSON, Vec::new()),
        (NDJSON, b"{\"t\":\"text\",\"d\":\"so far\"}\n{\"t\":\"en".to_vec()),
        (SSE, format!("data: {record}\n\n").into_bytes()),
        // An event that its blank line does not end was cut off.
        (SSE, format!("data: {record}\n\ndata: {}\n", end()).into_bytes()),
        (FRAMES, asp_frame(STREAM, 1, &record)),
        (FRAMES, [asp_frame(STREAM, 1, &record), asp_frame(STREAM, 1, &end())[..12].to_vec()].concat()),
    ] {
        let frames = answered(&mut relayed, kind, &body, 1 << 20).await;
        let last = frames.last().unwrap();
        assert_eq!(last.outcome(), "2503", "{kind}: {}", String::from_utf8_lossy(&body));
        assert_eq!((&last.value["name"], &last.value["retry"]), (&json!("FUNCTION_ABORTED"), &json!(true)));
        assert_eq!(text_of(&frames), if body.is_empty() { "" } else { "so far" });
    }
}

#[tokio::test]
async fn asp_063_a_broken_transfer_is_an_abort() {
    let mut relayed = Relayed::start(&["agents.fn.retries=0"]).await;
    let record = text("so far");
    for (kind, body, said) in [
        (NDJSON, lines(std::slice::from_ref(&record)), "so far"),
        (SSE, format!("data: {record}\n\n").into_bytes(), "so far"),
        (FRAMES, asp_frame(STREAM, 1, &record), "so far"),
        ("text/plain", b"so far".to_vec(), "so far"),
        ("application/octet-stream", b"so far".to_vec(), "so far"),
        ("application/json", b"{}".to_vec(), ""),
    ] {
        let (mut peer, mut exchange) = relayed.asked("hi").await;
        exchange.begin(kind, &[]).await;
        exchange.chunk(&body).await;
        sleep(Duration::from_millis(50)).await;
        drop(exchange);
        let (text, last) = peer.finish(1).await;
        assert_eq!((text.as_str(), last.outcome().as_str()), (said, "2503"), "{kind}");
    }
    // Shorter than was promised.
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply_short(200, &["Content-Type: text/plain"], "so far", 100).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "2503");
}

#[tokio::test]
async fn asp_069_processor_time_of_a_header() {
    let mut relayed = Relayed::start(&[]).await;
    for (kind, body) in
        [(NDJSON, lines(&[end()])), ("application/json", b"{}".to_vec()), ("text/plain", b"x".to_vec())]
    {
        let (mut peer, exchange) = relayed.asked("hi").await;
        let kind = format!("Content-Type: {kind}");
        exchange.reply(200, &["X-Cpu-Time: 45ms", &kind], body).await;
        assert_eq!(peer.finish(1).await.1.value["metrics"]["cpu_ms"], 45, "{kind}");
    }
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(204, &["X-Cpu-Time: 12.4ms"], "").await;
    assert_eq!(peer.finish(1).await.1.value["metrics"]["cpu_ms"], 12);
    for wrong in ["45", "45 ms", "-1ms", "ms", "1e3ms", "1.ms"] {
        let (mut peer, exchange) = relayed.asked("hi").await;
        let header = format!("X-Cpu-Time: {wrong}");
        exchange.reply(200, &[&header, "Content-Type: application/json"], "{}").await;
        assert!(peer.finish(1).await.1.value["metrics"]["cpu_ms"].is_null(), "{wrong}");
    }
}

#[tokio::test]
async fn asp_069_processor_time_of_a_trailer() {
    let mut relayed = Relayed::start(&[]).await;
    for (kind, body) in [
        (NDJSON, lines(&[text("x"), end()])),
        (SSE, format!("data: {}\n\n", end()).into_bytes()),
        (FRAMES, asp_frame(STREAM, 1, &end())),
        ("text/plain", b"x".to_vec()),
        ("application/json", b"{}".to_vec()),
    ] {
        let (mut peer, mut exchange) = relayed.asked("hi").await;
        assert!(exchange.asked.header("te").is_some_and(|te| te.contains("trailers")));
        exchange.begin(kind, &["Trailer: X-Cpu-Time"]).await;
        exchange.chunk(body).await;
        // Whatever comes last comes a little later.
        sleep(Duration::from_millis(30)).await;
        exchange.finish(&["X-Cpu-Time: 45ms"]).await;
        assert_eq!(peer.finish(1).await.1.value["metrics"]["cpu_ms"], 45, "{kind}");
    }
}

#[tokio::test]
async fn asp_069_processor_time_of_the_end_record() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.ndjson(&[json!({ "t": "end", "finish": "complete", "metrics": { "cpu_ms": 45 } })]).await;
    assert_eq!(peer.finish(1).await.1.value["metrics"]["cpu_ms"], 45);
}
