//! Clients that come back, servers that leave, and what is delivered in spite of it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::setup::{Relayed, end, frames_of, text, text_of};
use crate::support::ANN;
use crate::support::function::{Exchange, lines};
use crate::support::wire::{ERROR, Frame, HELLO, INVOKE, Over, Peer, REPLAY};

/// Reads so many pieces of text of request 1.
async fn read_texts(peer: &mut Peer, count: usize, into: &mut Vec<Frame>) {
    let mut read = 0;
    while read < count {
        let frame = peer.wait(|frame| frame.id == 1).await;
        assert!(!frame.is_terminal(), "{frame:?}");
        read += usize::from(frame.text().is_some());
        into.push(frame);
    }
}

fn next_of(frames: &[Frame]) -> BTreeMap<u16, u64> {
    BTreeMap::from([(1, frames.iter().filter_map(Frame::number).max().map_or(0, |n| n + 1))])
}

/// That nothing is missing, doubled or out of order.
fn assert_whole(frames: &[Frame], expected: &str) {
    assert_eq!(text_of(frames), expected);
    let numbers: Vec<u64> = frames.iter().filter_map(Frame::number).collect();
    // Merged deltas carry the highest number that they contain.
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let last = frames.last().unwrap();
    let unnumbered: Vec<&Frame> =
        frames.iter().filter(|frame| frame.number().is_none() && frame.opcode != ERROR).collect();
    assert!(unnumbered.iter().all(|frame| frame.value["t"] == "status"), "{unnumbered:?}");
    assert_eq!(frames.iter().filter(|frame| frame.is_terminal()).count(), 1);
    assert!(last.is_terminal());
}

async fn say(exchange: &mut Exchange, words: std::ops::Range<usize>) {
    for word in words {
        exchange.record(text(&format!("w{word} "))).await;
    }
}

fn words(range: std::ops::Range<usize>) -> String {
    range.map(|word| format!("w{word} ")).collect()
}

#[tokio::test]
async fn asp_076_every_record_comes_once_and_in_order_over_many_sockets() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    let mut frames = Vec::new();
    for round in 0..5 {
        say(&mut exchange, round * 20..round * 20 + 10).await;
        read_texts(&mut peer, 2, &mut frames).await;
        let accept = peer.accept.clone();
        // The socket is lost with some on its way, and more to come meanwhile.
        drop(peer);
        say(&mut exchange, round * 20 + 10..round * 20 + 20).await;
        sleep(Duration::from_millis(20)).await;
        peer = Peer::resume(relayed.address(), ANN, &accept, &next_of(&frames)).await;
        assert_eq!(peer.accept["resumed"], true);
        assert_eq!(peer.accept["cid"], accept["cid"]);
    }
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    frames.extend(frames_of(&mut peer, 1).await);
    assert_whole(&frames, &words(0..100));
    assert!(frames.iter().any(|frame| frame.flags & REPLAY != 0));
    assert_eq!(relayed.function.all_of("invoke").len(), 1, "the function noticed nothing");
    assert!(relayed.function.all_of("interrupt").is_empty());
}

#[tokio::test]
async fn asp_076_records_that_come_at_once_come_in_order() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let mut records: Vec<Value> = (0..2_000).map(|word| text(&format!("w{word} "))).collect();
    records.push(end());
    exchange.reply(200, &["Content-Type: application/x-ndjson"], lines(&records)).await;
    let frames = frames_of(&mut peer, 1).await;
    assert_whole(&frames, &words(0..2_000));
    // All of it again from the log, and again from somewhere within.
    let mut accept = peer.accept.clone();
    drop(peer);
    let middle = frames[frames.len() / 2].number().unwrap();
    for next in [0, middle] {
        let mut again = Peer::resume(relayed.address(), ANN, &accept, &BTreeMap::from([(1, next)])).await;
        let replayed = frames_of(&mut again, 1).await;
        let numbers: Vec<u64> = replayed.iter().filter_map(Frame::number).collect();
        assert!(numbers.iter().all(|n| *n >= next) && numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(words(0..2_000).ends_with(&text_of(&replayed)));
        if next == 0 {
            assert_whole(&replayed, &words(0..2_000));
        }
        accept = again.accept.clone();
    }
}

#[tokio::test]
async fn asp_077_what_is_stored_is_delivered_by_another_server() {
    let settings = ["drain.timeout_ms=200", "asp.limits.drain_s=0"];
    let mut relayed = Relayed::start(&settings).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    say(&mut exchange, 0..10).await;
    let mut frames = Vec::new();
    read_texts(&mut peer, 1, &mut frames).await;
    let accept = peer.accept.clone();
    drop(peer);
    // Nobody is there, and the function ends.
    relayed.wait_for_state(&exchange.asked.clone(), "detached").await;
    say(&mut exchange, 10..20).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let asked = relayed.function.all()[0].clone();
    let url = format!("/v1/relay/connections/{}", asked.cid());
    while relayed.get(&asked, &url).await.1["inflight"] != 0 {
        sleep(Duration::from_millis(10)).await;
    }
    let relayed = relayed.restart(&settings).await;
    let mut peer = Peer::resume(relayed.address(), ANN, &accept, &next_of(&frames)).await;
    assert_eq!((&peer.accept["resumed"], &peer.accept["lost"]), (&json!(true), &json!([])));
    frames.extend(frames_of(&mut peer, 1).await);
    assert_whole(&frames, &words(0..20));
    assert_eq!(frames.last().unwrap().outcome(), "complete");
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
}

#[tokio::test]
async fn asp_073_a_function_that_had_spoken_is_not_asked_again_by_another_server() {
    let settings = ["drain.timeout_ms=200", "asp.limits.drain_s=0"];
    let mut relayed = Relayed::start(&settings).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    say(&mut exchange, 0..5).await;
    let mut frames = Vec::new();
    read_texts(&mut peer, 1, &mut frames).await;
    while text_of(&frames) != words(0..5) {
        read_texts(&mut peer, 1, &mut frames).await;
    }
    let accept = peer.accept.clone();
    let leaving = tokio::spawn(async move { peer.over(Duration::from_secs(30)).await });
    let mut relayed = relayed.restart(&settings).await;
    assert_eq!(leaving.await.unwrap(), Over::Closed(1012));
    let mut peer = Peer::resume(relayed.address(), ANN, &accept, &next_of(&frames)).await;
    frames.extend(frames_of(&mut peer, 1).await);
    assert_whole(&frames, &words(0..5));
    let last = frames.last().unwrap();
    assert_eq!((last.outcome().as_str(), &last.value["name"]), ("2504", &json!("WORKER_LOST")));
    peer.invoke(2, "another").await;
    let exchange = relayed.function.next().await;
    assert_eq!(exchange.asked.input(), "another", "the first is not asked for again");
    exchange.ndjson(&[end()]).await;
    peer.finish(2).await;
    assert_eq!(relayed.function.all_of("invoke").len(), 2);
}

#[tokio::test]
async fn asp_071_a_repeated_request_is_one_invocation() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let invoke = json!({ "input": "hi", "idem": "only once" });
    peer.send(INVOKE, 1, &invoke).await;
    peer.send(INVOKE, 2, &invoke).await;
    let mut exchange = relayed.function.next().await;
    let inv = exchange.asked.inv().to_owned();
    exchange.begin_records().await;
    exchange.record(text("one ")).await;
    let mut other = relayed.client().await;
    other.send(INVOKE, 7, &invoke).await;
    exchange.record(text("answer")).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let mut said: BTreeMap<u16, String> = BTreeMap::new();
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let frame = peer.wait(|frame| frame.id != 0).await;
        said.entry(frame.id).or_default().push_str(frame.text().unwrap_or_default());
        if frame.is_terminal() {
            assert_eq!(frame.outcome(), "complete");
            ended.push(frame.id);
        }
    }
    assert_eq!(said, [(1, "one answer".to_owned()), (2, "one answer".to_owned())].into());
    assert_eq!(other.finish(7).await.0, "one answer");
    // Afterwards too, and for another server.
    assert_eq!(repeated(&mut peer, 3, &invoke).await, "one answer");
    drop((peer, other));
    let mut relayed = relayed.restart(&[]).await;
    let mut peer = relayed.client().await;
    assert_eq!(repeated(&mut peer, 1, &invoke).await, "one answer");
    peer.send(INVOKE, 2, &json!({ "input": "another", "idem": "only once" })).await;
    assert_eq!(peer.finish(2).await.1.outcome(), "2305");
    peer.invoke(3, "a new one").await;
    let exchange = relayed.function.next().await;
    assert_eq!(exchange.asked.input(), "a new one");
    assert_ne!(exchange.asked.inv(), inv);
    assert_eq!(relayed.function.all_of("invoke").len(), 2);
}

async fn repeated(peer: &mut Peer, id: u16, invoke: &Value) -> String {
    peer.send(INVOKE, id, invoke).await;
    let (said, last) = peer.finish(id).await;
    assert_eq!(last.outcome(), "complete");
    said
}

#[tokio::test]
async fn asp_071_what_is_accepted_is_stored_before_the_client_hears_of_it() {
    let mut relayed = Relayed::start(&["drain.timeout_ms=200", "asp.limits.drain_s=0"]).await;
    let mut peer = relayed.client().await;
    peer.send(INVOKE, 1, &json!({ "input": "hi", "idem": "k" })).await;
    peer.wait(|frame| frame.id == 1).await;
    let held = relayed.function.next().await;
    let first = held.asked.clone();
    let reading = tokio::spawn(async move { peer.over(Duration::from_secs(30)).await });
    let mut relayed = relayed.restart(&[]).await;
    reading.await.unwrap();
    // Whoever asks again for the same finds it, and does not begin another.
    let mut peer = relayed.client().await;
    peer.send(INVOKE, 1, &json!({ "input": "hi", "idem": "k" })).await;
    let exchange = relayed.function.next_with(|asked| asked.attempt() > 1).await;
    assert_eq!(exchange.asked.inv(), first.inv());
    exchange.ndjson(&[text("one"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "one");
    let asked = relayed.function.all_of("invoke");
    assert!(asked.iter().all(|asked| asked.inv() == first.inv()), "{}", asked.len());
    drop(held);
}

#[tokio::test]
async fn asp_078_what_is_in_flight_finishes_before_the_server_leaves() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    exchange.record(text("one ")).await;
    peer.wait(|frame| frame.text() == Some("one ")).await;
    relayed.server.shut_down();
    let goaway = peer.wait(|frame| frame.opcode == HELLO).await;
    assert_eq!(goaway.value["op"], "goaway");
    assert!(goaway.value["retry_ms"].is_u64());
    peer.invoke(2, "too late").await;
    let refused = peer.wait(|frame| frame.id == 2).await;
    assert_eq!((refused.outcome().as_str(), &refused.value["retry"]), ("2501", &json!(true)));
    exchange.record(text("two")).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("two", "complete"));
    assert_eq!(peer.over(Duration::from_secs(20)).await, Over::Closed(1012));
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
    assert!(relayed.function.all_of("interrupt").is_empty());
    relayed.server.stop().await;
}

#[tokio::test]
async fn asp_078_pushes_are_taken_while_the_server_leaves() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    exchange.reply(202, &[], "").await;
    relayed.server.shut_down();
    peer.wait(|frame| frame.opcode == HELLO && frame.value["op"] == "goaway").await;
    let frames =
        json!({ "frames": [crate::setup::stream(1, text("pushed")), crate::setup::stream(1, end())] });
    assert_eq!(relayed.push(&asked, &frames).await.0, 202);
    assert_eq!(peer.finish(1).await.0, "pushed");
    assert_eq!(peer.over(Duration::from_secs(20)).await, Over::Closed(1012));
}

#[tokio::test]
async fn asp_079_a_newer_socket_takes_over() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut old, mut exchange) = relayed.asked("hi").await;
    exchange.begin_records().await;
    exchange.record(text("one ")).await;
    let mut frames = Vec::new();
    read_texts(&mut old, 1, &mut frames).await;
    let mut new = Peer::resume(relayed.address(), ANN, &old.accept, &next_of(&frames)).await;
    assert_eq!(new.accept["resumed"], true);
    assert_eq!(old.over(Duration::from_secs(20)).await, Over::Closed(4409));
    exchange.record(text("two")).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    frames.extend(frames_of(&mut new, 1).await);
    assert_whole(&frames, "one two");
    assert!(relayed.function.all_of("interrupt").is_empty(), "what the old one had goes on");
    // The token of the old one is used up.
    let third = Peer::resume(relayed.address(), ANN, &old.accept, &next_of(&frames)).await;
    assert_ne!(third.accept["resumed"], true);
}

#[tokio::test]
async fn asp_082_what_the_relay_says_itself_has_no_number() {
    let mut relayed = Relayed::start(&["agents.fn.cold_start_ms=100"]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let starting = peer.wait(|frame| frame.value["state"] == "starting").await;
    assert_eq!(starting.number(), None);
    exchange.reply(503, &[], "").await;
    let retrying = peer.wait(|frame| frame.value["state"] == "retrying").await;
    assert_eq!(retrying.number(), None);
    let mut exchange = relayed.function.next().await;
    exchange.begin_records().await;
    let mut numbers = Vec::new();
    for word in 0..5 {
        exchange.record(text(&format!("w{word} "))).await;
        numbers.push(peer.wait(|frame| frame.text().is_some()).await.number().unwrap());
    }
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let (_, last) = peer.finish(1).await;
    numbers.push(last.number().unwrap());
    let first = numbers[0];
    assert_eq!(numbers, (first..first + 6).collect::<Vec<_>>(), "without holes, whatever was injected");
    // And so it is not there when everything comes again.
    let accept = peer.accept.clone();
    drop(peer);
    let mut again = Peer::resume(relayed.address(), ANN, &accept, &[(1, 0)].into()).await;
    let replayed = frames_of(&mut again, 1).await;
    let kinds: Vec<&str> = replayed.iter().filter_map(|frame| frame.value["t"].as_str()).collect();
    assert!(!kinds.contains(&"status"), "{kinds:?}");
    assert_whole(&replayed, &words(0..5));
}

#[tokio::test]
async fn asp_081_the_numbers_of_a_function_are_not_believed() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let odd = [
        json!({ "t": "text", "d": "a", "n": 7 }),
        json!({ "t": "text", "d": "b", "n": 7 }),
        json!({ "t": "text", "d": "c", "n": 3 }),
        json!({ "t": "end", "finish": "complete", "n": 0 }),
    ];
    exchange.ndjson(&odd).await;
    let frames = frames_of(&mut peer, 1).await;
    assert_whole(&frames, "abc");
}

#[tokio::test]
async fn asp_075_what_is_cancelled_before_it_begins_is_not_begun() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let invoke = |input: &str| json!({ "input": input, "session": "one after another" });
    peer.send(INVOKE, 1, &invoke("first")).await;
    let exchange = relayed.function.next().await;
    peer.send(INVOKE, 2, &invoke("cancelled")).await;
    let mut overdue = invoke("overdue");
    overdue["deadline_ms"] = 1_000.into();
    peer.send(INVOKE, 3, &overdue).await;
    peer.send(INVOKE, 4, &invoke("last")).await;
    peer.wait(|frame| frame.id == 4 && frame.value["state"] == "queued").await;
    peer.send(crate::support::wire::INTERRUPT, 2, &json!({})).await;
    let mut ended = BTreeMap::new();
    while ended.len() < 2 {
        let frame = peer.wait(|frame| frame.is_terminal()).await;
        ended.insert(frame.id, frame.outcome());
    }
    assert_eq!(ended, [(2, "interrupted".to_owned()), (3, "2405".to_owned())].into());
    exchange.ndjson(&[end()]).await;
    let exchange = relayed.function.next().await;
    assert_eq!(exchange.asked.input(), "last");
    exchange.ndjson(&[end()]).await;
    assert_eq!(peer.finish(4).await.1.outcome(), "complete");
    let inputs: Vec<String> =
        relayed.function.all_of("invoke").iter().map(|asked| asked.input().to_owned()).collect();
    assert_eq!(inputs, ["first", "last"]);
}

#[tokio::test]
async fn asp_074_a_function_that_had_said_nothing_is_asked_again_by_another_server() {
    let settings = ["drain.timeout_ms=200", "asp.limits.drain_s=0"];
    let mut relayed = Relayed::start(&settings).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let first = exchange.asked.clone();
    let accept = peer.accept.clone();
    let leaving = tokio::spawn(async move { peer.over(Duration::from_secs(30)).await });
    let mut relayed = relayed.restart(&settings).await;
    leaving.await.unwrap();
    let mut peer = Peer::resume(relayed.address(), ANN, &accept, &[(1, 0)].into()).await;
    assert_eq!(peer.accept["resumed"], true);
    let again = relayed.function.next_with(|asked| asked.attempt() > 1).await;
    assert_eq!((again.asked.inv(), again.asked.event()), (first.inv(), "invoke"));
    assert_eq!(again.asked.header("webhook-id"), Some(first.inv()));
    again.ndjson(&[text("here"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "here");
    drop(exchange);
}
