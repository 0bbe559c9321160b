//! Functions that end their response to wait, and are asked to go on.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::answers::{ask, call};
use crate::setup::{Relayed, able, end, frames_of, stream, text, text_of};
use crate::signature::assert_signed;
use crate::support::ANN;
use crate::support::function::{Asked, Exchange};
use crate::support::wire::{Frame, INTERRUPT, INVOKE, Over, Peer};

fn suspend(state: Value) -> Value {
    json!({ "t": "suspend", "state": state })
}

/// A client whose function has said something, asked something, and suspended itself.
async fn suspended(relayed: &mut Relayed, asks: &[Value]) -> (Peer, Asked, Vec<Frame>) {
    let mut peer = relayed.able_client().await;
    peer.invoke(1, "hi").await;
    let exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    let mut records = vec![text("let me see ")];
    records.extend_from_slice(asks);
    records.push(suspend(json!({ "step": 1, "seen": ["a"] })));
    exchange.ndjson(&records).await;
    let mut frames = Vec::new();
    while frames.iter().filter(|frame: &&Frame| is_question(frame)).count() < asks.len() {
        frames.push(peer.wait(|frame| frame.id == 1).await);
    }
    (peer, asked, frames)
}

fn is_question(frame: &Frame) -> bool {
    frame.value["t"] == "call" || frame.value["t"] == "ask"
}

async fn answer(peer: &mut Peer, id: u16, question: &Frame, output: Value) {
    let result = match question.value["t"].as_str() {
        Some("call") => json!({
            "kind": "result", "parent": 1, "call_id": question.value["call_id"], "ok": true, "output": output,
        }),
        _ => json!({ "kind": "reply", "parent": 1, "ask_id": question.value["ask_id"], "text": output }),
    };
    peer.send(INVOKE, id, &result).await;
    let accepted = peer.wait(|frame| frame.id == id).await;
    assert_eq!(accepted.outcome(), "accepted", "{accepted:?}");
}

/// That a request goes on with what another has left.
fn assert_continues(first: &Asked, next: &Asked, leg: u64, state: &Value) {
    assert_eq!((next.event(), next.path.as_str()), ("continue", "/invoke"));
    assert_eq!((next.inv(), next.cid()), (first.inv(), first.cid()));
    assert_eq!((&next.body["leg"], next.attempt()), (&json!(leg), 1));
    assert_eq!(&next.body["state"], state);
    assert_eq!(next.body["rid"], first.body["rid"]);
    assert_eq!(next.header("webhook-id"), Some(format!("{}-{leg}", first.inv()).as_str()));
    assert_signed(next);
}

#[tokio::test]
async fn asp_084_a_suspended_function_goes_on_when_its_call_is_answered() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked, mut frames) = suspended(&mut relayed, &[call("weather", "c1", 20_000)]).await;
    assert!(frames.iter().all(|frame| frame.value["t"] != "suspend"), "it is not for clients");
    sleep(Duration::from_millis(100)).await;
    assert_eq!(relayed.function.all_of("continue").len(), 0, "nothing to go on with yet");
    let question = frames.last().unwrap().clone();
    answer(&mut peer, 2, &question, json!({ "degrees": 21 })).await;
    let exchange = relayed.function.next().await;
    let next = exchange.asked.clone();
    assert_continues(&asked, &next, 1, &json!({ "step": 1, "seen": ["a"] }));
    let given = json!({ "k": 1, "call_id": "c1", "ok": true, "output": { "degrees": 21 } });
    assert_eq!(next.body["answers"], json!([given]));
    assert_eq!(next.body["next_n"], 2, "after the text and the call");
    assert_eq!(next.body["push"]["url"], asked.body["push"]["url"]);
    exchange.ndjson(&[text("21 degrees"), end()]).await;
    frames.extend(frames_of(&mut peer, 1).await);
    assert_eq!(text_of(&frames), "let me see 21 degrees");
    assert_eq!(frames.last().unwrap().outcome(), "complete");
    // Every number once, in order, over both legs.
    let numbers: Vec<u64> = frames.iter().filter_map(Frame::number).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
    assert!(relayed.function.all_of("interrupt").is_empty());
}

#[tokio::test]
async fn asp_084_a_question_can_be_waited_for() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked, frames) = suspended(&mut relayed, &[ask("q1")]).await;
    answer(&mut peer, 2, frames.last().unwrap(), json!("yes")).await;
    let exchange = relayed.function.next().await;
    assert_continues(&asked, &exchange.asked, 1, &json!({ "step": 1, "seen": ["a"] }));
    let given = json!({ "k": 1, "ask_id": "q1", "ok": true, "text": "yes" });
    assert_eq!(exchange.asked.body["answers"], json!([given]));
    exchange.ndjson(&[end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
}

#[tokio::test]
async fn asp_084_several_calls_are_all_waited_for() {
    let mut relayed = Relayed::start(&[]).await;
    let asks = [call("weather", "c1", 20_000), call("weather", "c2", 20_000), ask("q1")];
    let (mut peer, _, frames) = suspended(&mut relayed, &asks).await;
    let questions: Vec<&Frame> = frames.iter().filter(|frame| is_question(frame)).collect();
    answer(&mut peer, 2, questions[2], json!("yes")).await;
    answer(&mut peer, 3, questions[1], json!(2)).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(relayed.function.all_of("continue").len(), 0, "one is still missing");
    answer(&mut peer, 4, questions[0], json!(1)).await;
    let exchange = relayed.function.next().await;
    let answers = exchange.asked.body["answers"].as_array().unwrap().clone();
    let mut named: Vec<String> = answers
        .iter()
        .map(|answer| answer["call_id"].as_str().or_else(|| answer["ask_id"].as_str()).unwrap().to_owned())
        .collect();
    named.sort();
    assert_eq!(named, ["c1", "c2", "q1"]);
    let counted: Vec<u64> = answers.iter().filter_map(|answer| answer["k"].as_u64()).collect();
    assert_eq!(counted, [1, 2, 3]);
    assert_eq!(exchange.asked.body["next_n"], 4);
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
}

#[tokio::test]
async fn asp_084_a_call_that_is_not_answered_in_time_is_told() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked, _) = suspended(&mut relayed, &[call("weather", "c1", 500)]).await;
    let exchange = relayed.function.next().await;
    assert_continues(&asked, &exchange.asked, 1, &json!({ "step": 1, "seen": ["a"] }));
    let answer = &exchange.asked.body["answers"][0];
    assert_eq!((&answer["call_id"], &answer["ok"]), (&json!("c1"), &json!(false)));
    assert_eq!(answer["error"]["name"], "CALL_TIMEOUT");
    exchange.ndjson(&[text("nobody knows"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "nobody knows");
}

#[tokio::test]
async fn asp_084_a_function_may_suspend_itself_again_and_again() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked, frames) = suspended(&mut relayed, &[call("weather", "c0", 20_000)]).await;
    let mut question = frames.last().unwrap().clone();
    for leg in 1..=3u16 {
        answer(&mut peer, 1 + leg, &question, json!(leg)).await;
        let exchange = relayed.function.next().await;
        let state = if leg == 1 { json!({ "step": 1, "seen": ["a"] }) } else { json!(leg - 1) };
        assert_continues(&asked, &exchange.asked, leg.into(), &state);
        let answers = exchange.asked.body["answers"].as_array().unwrap();
        assert_eq!(answers.len(), 1, "only what came since: {answers:?}");
        assert_eq!((&answers[0]["output"], &answers[0]["k"]), (&json!(leg), &json!(leg)));
        assert_eq!(exchange.asked.body["next_n"], 2 * u64::from(leg));
        let next = call("weather", &format!("c{leg}"), 20_000);
        exchange.ndjson(&[text("more "), next, suspend(json!(leg))]).await;
        question = peer.wait(|frame| frame.value["t"] == "call").await;
    }
    answer(&mut peer, 9, &question, json!(4)).await;
    relayed.function.next().await.ndjson(&[text("done"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "done");
}

#[tokio::test]
async fn asp_084_each_leg_may_be_repeated() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked, frames) = suspended(&mut relayed, &[call("weather", "c1", 20_000)]).await;
    answer(&mut peer, 2, frames.last().unwrap(), json!(1)).await;
    let first = relayed.function.next().await;
    let body = first.asked.body.clone();
    first.reply(503, &[], "").await;
    let second = relayed.function.next().await;
    assert_eq!(
        (second.asked.event(), second.asked.attempt(), second.asked.inv()),
        ("continue", 2, asked.inv())
    );
    for member in ["leg", "state", "answers", "next_n", "rid"] {
        assert_eq!(second.asked.body[member], body[member], "{member}");
    }
    second.ndjson(&[text("done"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "done");
}

#[tokio::test]
async fn asp_084_a_leg_that_has_said_something_is_not_repeated() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, _, frames) = suspended(&mut relayed, &[call("weather", "c1", 20_000)]).await;
    answer(&mut peer, 2, frames.last().unwrap(), json!(1)).await;
    relayed.function.next().await.ndjson(&[text("half")]).await;
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("half", "2503"));
    assert_eq!(relayed.function.all_of("continue").len(), 1);
}

#[tokio::test]
async fn asp_084_what_is_suspended_goes_on_after_a_restart() {
    // So short that the server leaves before anything is answered.
    let settings = ["drain.timeout_ms=200", "asp.limits.drain_s=0"];
    let mut relayed = Relayed::start(&settings).await;
    let (mut peer, asked, frames) = suspended(&mut relayed, &[call("weather", "c1", 60_000)]).await;
    let accept = peer.accept.clone();
    let seen = frames.iter().filter_map(Frame::number).max().unwrap();
    let leaving = tokio::spawn(async move { peer.over(Duration::from_secs(30)).await });
    let mut relayed = relayed.restart(&settings).await;
    assert_eq!(leaving.await.unwrap(), Over::Closed(1012));
    let mut hello = able();
    let next = json!({ "1": seen + 1 });
    hello["resume"] = json!({ "cid": accept["cid"], "token": accept["resume"]["token"], "next": next });
    let mut peer = Peer::with(relayed.address(), ANN, hello).await;
    assert_eq!((&peer.accept["resumed"], &peer.accept["lost"]), (&json!(true), &json!([])));
    answer(&mut peer, 2, frames.last().unwrap(), json!({ "degrees": 21 })).await;
    let exchange = relayed.function.next().await;
    assert_continues(&asked, &exchange.asked, 1, &json!({ "step": 1, "seen": ["a"] }));
    let given = json!({ "k": 1, "call_id": "c1", "ok": true, "output": { "degrees": 21 } });
    assert_eq!(exchange.asked.body["answers"], json!([given]));
    assert_eq!(exchange.asked.body["next_n"], 2);
    exchange.ndjson(&[text("21 degrees"), end()]).await;
    let rest = frames_of(&mut peer, 1).await;
    assert_eq!(
        (text_of(&rest).as_str(), rest.last().unwrap().outcome().as_str()),
        ("21 degrees", "complete")
    );
    let numbers: Vec<u64> = frames.iter().chain(&rest).filter_map(Frame::number).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
    let told = relayed.function.all_of("interrupt");
    assert!(told.is_empty(), "what goes on is not interrupted: {told:?}");
}

#[tokio::test]
async fn asp_084_an_answer_from_before_a_restart_is_not_lost() {
    let settings = ["drain.timeout_ms=200", "asp.limits.drain_s=0"];
    let mut relayed = Relayed::start(&settings).await;
    let asks = [call("weather", "c1", 60_000), call("weather", "c2", 60_000)];
    let (mut peer, asked, frames) = suspended(&mut relayed, &asks).await;
    let questions: Vec<Frame> = frames.into_iter().filter(is_question).collect();
    answer(&mut peer, 2, &questions[1], json!("before")).await;
    let accept = peer.accept.clone();
    let leaving = tokio::spawn(async move { peer.over(Duration::from_secs(30)).await });
    let mut relayed = relayed.restart(&settings).await;
    leaving.await.unwrap();
    let mut hello = able();
    hello["resume"] = json!({ "cid": accept["cid"], "token": accept["resume"]["token"], "next": { "1": 3 } });
    let mut peer = Peer::with(relayed.address(), ANN, hello).await;
    answer(&mut peer, 3, &questions[0], json!("after")).await;
    let exchange = relayed.function.next().await;
    assert_continues(&asked, &exchange.asked, 1, &json!({ "step": 1, "seen": ["a"] }));
    let mut outputs: Vec<(String, Value)> = exchange.asked.body["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (answer["call_id"].as_str().unwrap().to_owned(), answer["output"].clone()))
        .collect();
    outputs.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [("c1", "after"), ("c2", "before")];
    assert_eq!(outputs, expected.map(|(id, output)| (id.to_owned(), json!(output))));
    exchange.ndjson(&[end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
}

#[tokio::test]
async fn asp_066_an_interrupt_ends_what_is_suspended() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked, _) = suspended(&mut relayed, &[call("weather", "c1", 60_000)]).await;
    let began = Instant::now();
    peer.send(INTERRUPT, 1, &json!({ "reason": "never mind" })).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "interrupted");
    assert!(began.elapsed() < Duration::from_secs(30), "it does not wait for the answer");
    relayed.function.told("interrupt", Some(asked.inv())).await;
    let (_, said) = relayed.get(&asked, asked.body["cancel"]["url"].as_str().unwrap()).await;
    assert_eq!(said, json!({ "cancelled": true, "reason": "never mind" }));
    assert!(relayed.function.all_of("continue").is_empty());
}

#[tokio::test]
async fn asp_046_the_deadline_ends_what_is_suspended() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.able_client().await;
    peer.send(INVOKE, 1, &json!({ "input": "hi", "deadline_ms": 1_000 })).await;
    let exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    exchange.ndjson(&[call("weather", "c1", 60_000), suspend(json!(1))]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "2405");
    relayed.function.told("interrupt", Some(asked.inv())).await;
    assert!(relayed.function.all_of("continue").is_empty());
}

#[tokio::test]
async fn asp_084_a_function_that_waits_for_nothing_goes_on_at_once() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    exchange.ndjson(&[text("a "), suspend(json!("s"))]).await;
    let exchange: Exchange = relayed.function.next().await;
    assert_continues(&asked, &exchange.asked, 1, &json!("s"));
    assert_eq!(exchange.asked.body["next_n"], 1);
    exchange.ndjson(&[text("b"), end()]).await;
    assert_eq!(peer.finish(1).await.0, "a b");
}

#[tokio::test]
async fn asp_084_the_state_of_a_function_has_a_bound() {
    let mut relayed = Relayed::start(&[]).await;
    for (size, fits) in [(60 << 10, true), (70 << 10, false)] {
        let (mut peer, exchange) = relayed.asked("hi").await;
        let state = json!("s".repeat(size));
        exchange.ndjson(&[suspend(state.clone())]).await;
        if fits {
            let exchange = relayed.function.next().await;
            assert_eq!(exchange.asked.body["state"], state);
            exchange.ndjson(&[end()]).await;
            assert_eq!(peer.finish(1).await.1.outcome(), "complete");
        } else {
            assert_eq!(peer.finish(1).await.1.outcome(), "2502");
        }
    }
}

#[tokio::test]
async fn asp_068_a_suspended_function_can_still_push() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, asked, frames) = suspended(&mut relayed, &[call("weather", "c1", 60_000)]).await;
    let body = json!({ "frames": [stream(1, text("still thinking "))] });
    assert_eq!(relayed.push(&asked, &body).await.0, 202);
    peer.wait(|frame| frame.text() == Some("still thinking ")).await;
    answer(&mut peer, 2, frames.last().unwrap(), json!(1)).await;
    let exchange = relayed.function.next().await;
    assert_eq!(exchange.asked.body["next_n"], 3, "what was pushed counts");
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
}
