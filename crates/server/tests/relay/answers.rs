//! What functions ask of clients, while they keep their response open.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::setup::{PATIENCE, Relayed, end, stream, text};
use crate::support::ANN;
use crate::support::function::{Asked, Exchange};
use crate::support::wire::{INTERRUPT, INVOKE, Peer};

pub(crate) fn call(name: &str, id: &str, timeout_ms: u64) -> Value {
    json!({ "t": "call", "call_id": id, "name": name, "args": { "city": "Bern" }, "timeout_ms": timeout_ms })
}

pub(crate) fn ask(id: &str) -> Value {
    json!({ "t": "ask", "ask_id": id, "text": "Sure?", "schema": { "type": "string" } })
}

/// A request of a client that executes tools, whose function has begun its response.
async fn talking(relayed: &mut Relayed) -> (Peer, Exchange) {
    let mut peer = relayed.able_client().await;
    peer.invoke(1, "hi").await;
    let mut exchange = relayed.function.next().await;
    exchange.begin_records().await;
    (peer, exchange)
}

fn answers_url(asked: &Asked, after: u64) -> String {
    format!("{}/answers?after={after}", asked.body["cancel"]["url"].as_str().unwrap())
}

async fn answers(relayed: &Relayed, asked: &Asked, after: u64) -> Value {
    let (status, said) = relayed.get(asked, &answers_url(asked, after)).await;
    assert_eq!(status, 200, "{said}");
    said
}

#[tokio::test]
async fn asp_083_a_result_reaches_the_function_that_waits_for_it() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    let asked = exchange.asked.clone();
    exchange.record(call("weather", "c1", 20_000)).await;
    let called = peer.wait(|frame| frame.value["t"] == "call").await;
    assert_eq!((called.id, &called.value["name"]), (1, &json!("weather")));
    assert_eq!(called.value["args"], json!({ "city": "Bern" }));
    assert!(called.value["timeout_ms"].as_u64().unwrap() <= 20_000);
    // Whoever asks before there is an answer waits for it.
    let url = answers_url(&asked, 0);
    let asking = relayed.get(&asked, &url);
    let answering = async {
        sleep(Duration::from_millis(300)).await;
        let call_id = &called.value["call_id"];
        let result = json!({
            "kind": "result", "parent": 1, "call_id": call_id, "ok": true, "output": { "degrees": 21 },
        });
        peer.send(INVOKE, 2, &result).await;
        peer.wait(|frame| frame.id == 2 && frame.is_terminal()).await
    };
    let ((status, said), accepted) = tokio::join!(asking, answering);
    assert_eq!(accepted.outcome(), "accepted");
    let answer = json!({ "k": 1, "call_id": "c1", "ok": true, "output": { "degrees": 21 } });
    assert_eq!((status, &said), (200, &json!({ "answers": [answer], "cancelled": false })));
    assert_eq!(relayed.function.all_of("invoke").len(), 1, "answers are not invocations");
    exchange.record(text("21 degrees")).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    assert_eq!(peer.finish(1).await.0, "21 degrees");
}

#[tokio::test]
async fn asp_083_a_reply_reaches_the_function_that_waits_for_it() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    let asked = exchange.asked.clone();
    for (k, reply, expected) in [
        (1, json!({ "text": "yes" }), json!({ "text": "yes" })),
        (2, json!({ "data": { "sure": true } }), json!({ "data": { "sure": true } })),
    ] {
        let name = format!("q{k}");
        exchange.record(ask(&name)).await;
        let question = peer.wait(|frame| frame.value["t"] == "ask").await;
        assert_eq!(
            (&question.value["text"], &question.value["schema"]),
            (&json!("Sure?"), &json!({ "type": "string" }))
        );
        let mut invoke = json!({ "kind": "reply", "parent": 1, "ask_id": question.value["ask_id"] });
        invoke.as_object_mut().unwrap().extend(reply.as_object().unwrap().clone());
        let id = 1 + u16::try_from(k).unwrap();
        peer.send(INVOKE, id, &invoke).await;
        assert_eq!(peer.finish(id).await.1.outcome(), "accepted");
        let said = answers(&relayed, &asked, k - 1).await;
        let mut answer = json!({ "k": k, "ask_id": name, "ok": true });
        answer.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        assert_eq!(said["answers"], json!([answer]));
    }
    let all = answers(&relayed, &asked, 0).await;
    assert_eq!(all["answers"].as_array().unwrap().len(), 2, "from the beginning");
}

#[tokio::test]
async fn asp_083_a_failed_result_is_an_answer() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    exchange.record(call("weather", "c1", 20_000)).await;
    let called = peer.wait(|frame| frame.value["t"] == "call").await;
    let result = json!({
        "kind": "result", "parent": 1, "call_id": called.value["call_id"], "ok": false,
        "error": { "name": "NO_SIGNAL", "msg": "clouds" },
    });
    peer.send(INVOKE, 2, &result).await;
    assert_eq!(peer.finish(2).await.1.outcome(), "accepted");
    let said = answers(&relayed, &exchange.asked, 0).await;
    let error = json!({ "name": "NO_SIGNAL", "msg": "clouds" });
    assert_eq!(said["answers"], json!([{ "k": 1, "call_id": "c1", "ok": false, "error": error }]));
}

#[tokio::test]
async fn asp_045_an_answer_that_does_not_come_is_told() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    exchange.record(call("weather", "c1", 500)).await;
    peer.wait(|frame| frame.value["t"] == "call").await;
    let said = answers(&relayed, &exchange.asked, 0).await;
    let answer = &said["answers"][0];
    assert_eq!((&answer["call_id"], &answer["ok"]), (&json!("c1"), &json!(false)));
    assert_eq!(answer["error"]["name"], "CALL_TIMEOUT");
    // The function has given up, in words of its own.
    exchange.record(json!({ "t": "error", "code": 2403, "name": "CALL_TIMEOUT", "msg": "no weather" })).await;
    exchange.finish(&[]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "2403");
}

#[tokio::test]
async fn asp_083_answers_to_what_is_closed_are_gone() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    exchange.record(call("weather", "c1", 20_000)).await;
    let called = peer.wait(|frame| frame.value["t"] == "call").await;
    let result = |parent: u16, call_id: &Value| json!({ "kind": "result", "parent": parent, "call_id": call_id, "ok": true, "output": 1 });
    let call_id = called.value["call_id"].clone();
    // A request that was never there, a call that was never made.
    for (id, invoke) in [(2, result(9, &call_id)), (3, result(1, &json!("c9")))] {
        peer.send(INVOKE, id, &invoke).await;
        assert_eq!(peer.finish(id).await.1.outcome(), "2303", "{invoke}");
    }
    peer.send(INVOKE, 4, &result(1, &call_id)).await;
    assert_eq!(peer.finish(4).await.1.outcome(), "accepted");
    // Twice, and after the end.
    peer.send(INVOKE, 5, &result(1, &call_id)).await;
    assert_eq!(peer.finish(5).await.1.outcome(), "2303");
    exchange.record(call("weather", "c2", 20_000)).await;
    let called = peer.wait(|frame| frame.value["t"] == "call").await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    peer.finish(1).await;
    peer.send(INVOKE, 6, &result(1, &called.value["call_id"])).await;
    assert_eq!(peer.finish(6).await.1.outcome(), "2303");
    let reply = json!({ "kind": "reply", "parent": 1, "ask_id": "q1", "text": "yes" });
    peer.send(INVOKE, 7, &reply).await;
    assert_eq!(peer.finish(7).await.1.outcome(), "2303");
}

#[tokio::test]
async fn asp_083_an_interrupt_voids_what_was_asked() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    let asked = exchange.asked.clone();
    exchange.record(call("weather", "c1", 20_000)).await;
    let called = peer.wait(|frame| frame.value["t"] == "call").await;
    // Whoever waits for an answer learns at once that none will come.
    let url = answers_url(&asked, 0);
    let asking = async {
        let began = Instant::now();
        (relayed.get(&asked, &url).await, began.elapsed())
    };
    let interrupting = async {
        sleep(Duration::from_millis(200)).await;
        peer.send(INTERRUPT, 1, &json!({})).await;
        peer.finish(1).await.1.outcome()
    };
    let (((status, said), took), outcome) = tokio::join!(asking, interrupting);
    assert_eq!(outcome, "interrupted");
    assert_eq!((status, &said), (200, &json!({ "answers": [], "cancelled": true })));
    assert!(took < Duration::from_secs(15), "{took:?}");
    let result = json!({ "kind": "result", "parent": 1, "call_id": called.value["call_id"], "ok": true });
    peer.send(INVOKE, 2, &result).await;
    assert_eq!(peer.finish(2).await.1.outcome(), "2303");
    assert_eq!(relayed.get(&asked, &url).await.1, json!({ "answers": [], "cancelled": true }));
}

#[tokio::test]
async fn asp_083_a_tool_that_nobody_offers_is_answered_by_the_relay() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    exchange.record(call("unheard_of", "c1", 20_000)).await;
    let said = answers(&relayed, &exchange.asked, 0).await;
    assert_eq!(
        (&said["answers"][0]["ok"], &said["answers"][0]["error"]["name"]),
        (&json!(false), &json!("TOOL_NOT_FOUND"))
    );
    exchange.record(text("then without")).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    assert_eq!(peer.finish(1).await.0, "then without");
}

#[tokio::test]
async fn asp_083_several_calls_at_once_are_told_apart() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, mut exchange) = talking(&mut relayed).await;
    let asked = exchange.asked.clone();
    for number in 1..=3 {
        exchange.record(call("weather", &format!("c{number}"), 20_000)).await;
    }
    let mut called = Vec::new();
    while called.len() < 3 {
        called.push(peer.wait(|frame| frame.value["t"] == "call").await.value["call_id"].clone());
    }
    // Answered in another order.
    for (id, (index, output)) in (2..).zip([(1, "two"), (2, "three"), (0, "one")]) {
        let result =
            json!({ "kind": "result", "parent": 1, "call_id": called[index], "ok": true, "output": output });
        peer.send(INVOKE, id, &result).await;
        assert_eq!(peer.finish(id).await.1.outcome(), "accepted");
    }
    let until = Instant::now() + PATIENCE;
    let mut seen: Vec<(String, Value)> = Vec::new();
    while seen.len() < 3 {
        let said = answers(&relayed, &asked, seen.len() as u64).await;
        for answer in said["answers"].as_array().unwrap() {
            assert_eq!(answer["k"], seen.len() as u64 + 1, "counted without holes");
            seen.push((answer["call_id"].as_str().unwrap().to_owned(), answer["output"].clone()));
        }
        assert!(Instant::now() < until);
    }
    seen.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [("c1", "one"), ("c2", "two"), ("c3", "three")];
    assert_eq!(seen, expected.map(|(id, output)| (id.to_owned(), json!(output))));
}

#[tokio::test]
async fn asp_083_names_of_calls_belong_to_their_request() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.able_client().await;
    let mut open = Vec::new();
    for id in [1, 2] {
        peer.invoke(id, "hi").await;
        let mut exchange = relayed.function.next().await;
        exchange.begin_records().await;
        exchange.record(call("weather", "c1", 20_000)).await;
        let called = peer.wait(|frame| frame.id == id && frame.value["t"] == "call").await;
        open.push((id, exchange, called.value["call_id"].clone()));
    }
    for (id, exchange, call_id) in &open {
        let result = json!({ "kind": "result", "parent": id, "call_id": call_id, "ok": true, "output": format!("for {id}") });
        peer.send(INVOKE, id + 10, &result).await;
        assert_eq!(peer.finish(id + 10).await.1.outcome(), "accepted");
        let said = answers(&relayed, &exchange.asked, 0).await;
        let answer = json!({ "k": 1, "call_id": "c1", "ok": true, "output": format!("for {id}") });
        assert_eq!(said["answers"], json!([answer]), "by the name that the function gave");
    }
}

#[tokio::test]
async fn asp_083_an_asynchronous_function_gets_answers_too() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.able_client().await;
    peer.invoke(1, "hi").await;
    let exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    exchange.reply(202, &[], "").await;
    assert_eq!(relayed.push(&asked, &json!({ "frames": [stream(1, ask("q1"))] })).await.0, 202);
    let question = peer.wait(|frame| frame.value["t"] == "ask").await;
    let reply = json!({ "kind": "reply", "parent": 1, "ask_id": question.value["ask_id"], "text": "yes" });
    peer.send(INVOKE, 2, &reply).await;
    assert_eq!(peer.finish(2).await.1.outcome(), "accepted");
    assert_eq!(answers(&relayed, &asked, 0).await["answers"][0]["text"], "yes");
    let body = json!({ "frames": [stream(1, text("good")), stream(1, end())] });
    assert_eq!(relayed.push(&asked, &body).await.0, 202);
    assert_eq!(peer.finish(1).await.0, "good");
}

#[tokio::test]
async fn asp_083_answers_are_for_their_function_only() {
    let mut relayed = Relayed::start(&[]).await;
    let (_peer, exchange) = talking(&mut relayed).await;
    let (_other_peer, other) = talking(&mut relayed).await;
    let url = answers_url(&exchange.asked, 0);
    assert_eq!(relayed.call("GET", ANN.unwrap(), &url, &[], "").await.status, 401);
    assert_eq!(relayed.call("GET", other.asked.push_token(), &url, &[], "").await.status, 403);
}

#[tokio::test]
async fn nobody_waits_for_answers_for_ever() {
    let mut relayed = Relayed::start(&[]).await;
    let (_peer, exchange) = talking(&mut relayed).await;
    let began = Instant::now();
    let said = answers(&relayed, &exchange.asked, 0).await;
    assert_eq!(said, json!({ "answers": [], "cancelled": false }));
    let took = began.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(28)).contains(&took), "{took:?}");
}
