//! Every status that a function may answer with.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::setup::{PATIENCE, Relayed, end, serve, stream, text};
use crate::support::ANN;
use crate::support::function::Function;
use crate::support::wire::{Frame, Peer};

/// The terminal frame of a request that is answered so.
async fn ended(relayed: &mut Relayed, status: u16, headers: &[&str], body: &str) -> Frame {
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.reply(status, headers, body).await;
    peer.finish(1).await.1
}

const JSON: &str = "Content-Type: application/json";

#[tokio::test]
async fn asp_062_final_statuses_have_an_outcome_each() {
    let mut relayed = Relayed::start(&[]).await;
    let table: &[(u16, &str, &str)] = &[
        (204, "empty", ""),
        (400, "2300", "INVALID_INVOKE"),
        (422, "2300", "INVALID_INVOKE"),
        (401, "2502", "FUNCTION_BAD_RESPONSE"),
        (403, "2103", "FORBIDDEN"),
        (404, "2304", "AGENT_NOT_FOUND"),
        // Those that the reference does not name are no answer either.
        (201, "2502", "FUNCTION_BAD_RESPONSE"),
        (206, "2502", "FUNCTION_BAD_RESPONSE"),
        (405, "2502", "FUNCTION_BAD_RESPONSE"),
        (410, "2502", "FUNCTION_BAD_RESPONSE"),
        (418, "2502", "FUNCTION_BAD_RESPONSE"),
    ];
    for (asked, (status, outcome, name)) in (1..).zip(table) {
        let last = ended(&mut relayed, *status, &[JSON], "").await;
        assert_eq!(last.outcome(), *outcome, "{status}");
        if !name.is_empty() {
            assert_eq!(last.value["name"], *name, "{status}");
            assert_eq!(last.value["retry"], false, "{status}");
        }
        assert_eq!(relayed.function.all_of("invoke").len(), asked, "{status} is not asked for again");
    }
}

#[tokio::test]
async fn where_nothing_answers_the_path_that_was_tried_is_told_and_nothing_secret() {
    let mut function = Function::start().await;
    for (single, hint) in
        [("false", "/agent/invoke; serve it there, or set `single_url`"), ("true", "/agent; serve it")]
    {
        let url = format!("{}/agent?key=hidden", function.url());
        let server = serve(&url, &[&format!("agents.fn.single_url={single}")]).await;
        let mut peer = Peer::standard(server.address, ANN).await;
        peer.invoke(1, "hi").await;
        function.next().await.reply(404, &[], "").await;
        let last = peer.finish(1).await.1;
        let said = last.value["msg"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(hint) && !said.contains("hidden"), "{last:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_in_the_words_of_the_function() {
    let mut relayed = Relayed::start(&[]).await;
    for (status, body) in [
        (400, r#"{"error":{"msg":"too long"}}"#),
        (400, r#"{"message":"too long"}"#),
        (422, r#"{"error":"too long"}"#),
    ] {
        let last = ended(&mut relayed, status, &[JSON], body).await;
        assert_eq!((last.outcome().as_str(), &last.value["msg"]), ("2300", &json!("too long")), "{body}");
    }
    // Pages of some proxy are not for clients, and neither are the words of other refusals.
    for (status, body) in [(400, "<h1>secret page</h1>"), (403, r#"{"msg":"secret reason"}"#)] {
        let last = ended(&mut relayed, status, &[JSON], body).await;
        assert!(!last.value.to_string().contains("secret"), "{last:?}");
    }
}

#[tokio::test]
async fn redirects_are_never_followed() {
    let elsewhere = Function::start().await;
    let mut relayed = Relayed::start(&[]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("Location: {}/invoke", elsewhere.url());
        let last = ended(&mut relayed, status, &[&location], "").await;
        assert_eq!(last.outcome(), "2502", "{status}");
    }
    assert_eq!(elsewhere.connections(), 0);
    assert_eq!(relayed.function.all_of("invoke").len(), 5);
}

#[tokio::test]
async fn a_duplicate_that_runs_is_joined() {
    let mut relayed = Relayed::start(&["agents.fn.retries=1"]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let asked = exchange.asked.clone();
    // The first attempt goes on behind a gateway that has given up, and pushes.
    exchange.reply(504, &[], "").await;
    relayed.function.next().await.reply(409, &[JSON], "{}").await;
    let until = Instant::now() + PATIENCE;
    loop {
        let (status, _) = relayed.push(&asked, &json!({ "frames": [stream(1, text("by push "))] })).await;
        if status == 202 {
            break;
        }
        assert!(Instant::now() < until, "{status}");
    }
    // It has shown itself, so that it now has all the time of the request.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let frames = json!({ "frames": [stream(1, text("and more")), stream(1, end())] });
    assert_eq!(relayed.push(&asked, &frames).await.0, 202);
    let (said, last) = peer.finish(1).await;
    assert_eq!((said.as_str(), last.outcome().as_str()), ("by push and more", "complete"));
    assert_eq!(relayed.function.all_of("invoke").len(), 2);
}

#[tokio::test]
async fn a_duplicate_that_does_not_run_has_failed() {
    let mut relayed = Relayed::start(&[]).await;
    let last = ended(&mut relayed, 409, &[JSON], "{}").await;
    assert_eq!((last.outcome().as_str(), &last.value["name"]), ("2400", &json!("EXECUTION_FAILED")));
    assert_eq!(relayed.function.all_of("invoke").len(), 1);
}

#[tokio::test]
async fn asp_046_the_deadline_of_a_request_ends_what_is_asynchronous() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    peer.send(crate::support::wire::INVOKE, 1, &json!({ "input": "hi", "deadline_ms": 1_000 })).await;
    let exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    exchange.reply(202, &[], "").await;
    assert_eq!(peer.finish(1).await.1.outcome(), "2405");
    relayed.function.told("interrupt", Some(asked.inv())).await;
    let (status, cancelled) = relayed.get(&asked, asked.body["cancel"]["url"].as_str().unwrap()).await;
    assert_eq!((status, &cancelled["cancelled"]), (200, &json!(true)));
}

#[tokio::test]
async fn asp_062_a_session_goes_on_after_every_failure() {
    let mut relayed = Relayed::start(&["agents.fn.retries=0", "agents.fn.breaker_failures=0"]).await;
    let mut peer: Peer = relayed.client().await;
    for (id, status) in (1..).zip([400u16, 401, 403, 404, 500, 502, 307]) {
        let invoke = json!({ "input": "hi", "session": "one" });
        peer.send(crate::support::wire::INVOKE, id, &invoke).await;
        relayed.function.next().await.reply(status, &[], "").await;
        assert_ne!(peer.finish(id).await.1.outcome(), "complete");
    }
    peer.send(crate::support::wire::INVOKE, 20, &json!({ "input": "hi", "session": "one" })).await;
    relayed.function.next().await.ndjson(&[text("fine"), end()]).await;
    assert_eq!(peer.finish(20).await.0, "fine");
}
