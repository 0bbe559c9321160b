//! What a function is asked, by whomever.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::setup::{Relayed, end, frames_of, text};
use crate::signature::assert_signed;
use crate::support::rpc::{Rpc, is_terminal};
use crate::support::wire::{HELLO, INVOKE, Over, Peer, frame};
use crate::support::{ANN, InProcess, token};

#[tokio::test]
async fn asp_059_the_body_has_cid_and_payload_and_all_that_a_function_may_need() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let invoke = json!({ "input": "hi", "session": "talk", "meta": { "page": 7 }, "deadline_ms": 60_000 });
    peer.send(INVOKE, 5, &invoke).await;
    let exchange = relayed.function.next().await;
    let asked = exchange.asked.clone();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/invoke"));
    let body = &asked.body;
    assert_eq!(body["cid"], peer.accept["cid"]);
    assert_eq!(body["payload"], json!({ "kind": "chat", "input": "hi", "meta": { "page": 7 } }));
    assert_eq!((&body["asp"], &body["event"]), (&json!(1), &json!("invoke")));
    assert_eq!((&body["rid"], &body["attempt"], &body["enc"]), (&json!(5), &json!(1), &json!("json")));
    assert_eq!((&body["agent"], &body["principal"]["sub"]), (&json!("fn"), &json!("ann")));
    assert!(body["leg"].is_null() || body["leg"] == 0);
    assert!((1..=40).contains(&asked.inv().len()));
    let left = body["deadline_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&left), "{left}");
    let now = jsonwebtoken::get_current_timestamp();
    assert!((body["sent_at"].as_u64().unwrap() / 1_000).abs_diff(now) < 60);
    let mut features: Vec<&str> =
        body["features"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    features.sort_unstable();
    assert_eq!(features, ["events", "flags", "ping", "push", "reauth", "resume"]);
    let base = format!("http://{}/v1/relay/connections/{}", relayed.address(), asked.cid());
    assert_eq!(body["push"]["url"], format!("{base}/frames"));
    assert!(body["push"]["exp"].as_u64().unwrap() <= now + 15 * 60 + 60);
    assert!(!asked.push_token().is_empty());
    assert_eq!(body["cancel"]["url"], format!("{base}/requests/{}", asked.inv()));
    assert_eq!(body["cancel"]["poll_ms"], 1_000);
    let deadline = left.to_string();
    for (name, value) in [
        ("content-type", "application/json"),
        (
            "accept",
            "application/x-ndjson, text/event-stream, application/vnd.asp.frames, application/json, text/plain",
        ),
        ("idempotency-key", asked.inv()),
        ("x-asp-cid", asked.cid()),
        ("x-asp-request-id", "5"),
        ("x-asp-attempt", "1"),
        ("x-asp-deadline-ms", deadline.as_str()),
    ] {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
    let trace: Vec<&str> = asked.header("traceparent").unwrap().split('-').collect();
    assert_eq!(trace.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{trace:?}");
    exchange.ndjson(&[text("ok"), end()]).await;
    assert_eq!(peer.finish(5).await.0, "ok");
}

#[tokio::test]
async fn asp_059_what_was_sent_as_messagepack_is_told_as_json() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    // Vector T05: {"kind":"chat","input":"hi"}.
    peer.raw(frame(INVOKE, 1, b"\x82\xa4kind\xa4chat\xa5input\xa2hi")).await;
    let exchange = relayed.function.next().await;
    assert_eq!(exchange.asked.body["enc"], "msgpack");
    assert_eq!(exchange.asked.body["payload"], json!({ "kind": "chat", "input": "hi" }));
    assert!(exchange.asked.body["features"].as_array().is_none_or(Vec::is_empty), "a bare client");
}

#[tokio::test]
async fn asp_059_requests_of_every_kind_are_told() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    let parts = json!([{ "type": "text", "text": "look" }, { "type": "ref", "uri": "https://a.test/b" }]);
    let step = json!({ "goal": "think", "state": { "at": 3 }, "budget": { "tokens": 10 } });
    for (id, invoke) in
        [(1, json!({ "kind": "chat", "input": parts })), (2, json!({ "kind": "step", "step": step }))]
    {
        peer.send(INVOKE, id, &invoke).await;
        let exchange = relayed.function.next().await;
        assert_eq!(exchange.asked.body["payload"], invoke);
        exchange.reply(204, &[], "").await;
        assert_eq!(peer.finish(id).await.1.outcome(), "empty");
    }
}

#[tokio::test]
async fn asp_059_one_url_may_serve_every_event() {
    let mut relayed = Relayed::start(&["agents.fn.single_url=true"]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    assert_eq!((exchange.asked.path.as_str(), exchange.asked.event()), ("/", "invoke"));
    peer.send(crate::support::wire::INTERRUPT, 1, &json!({})).await;
    let told = relayed.function.told("interrupt", None).await;
    assert_eq!((told.path.as_str(), told.inv()), ("/", exchange.asked.inv()));
}

#[tokio::test]
async fn asp_061_the_credential_of_the_client_stays_here() {
    let settings = ["agents.fn.presence=true", "agents.fn.retries=1"];
    let mut relayed = Relayed::start(&settings).await;
    let borne = token("carol", 600);
    for credential in [ANN.unwrap(), borne.as_str()] {
        let mut peer = Peer::standard(relayed.address(), Some(credential)).await;
        peer.invoke(1, "hi").await;
        relayed.function.next().await.reply(503, &[], "").await;
        let exchange = relayed.function.next().await;
        peer.send(crate::support::wire::INTERRUPT, 1, &json!({})).await;
        relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
        peer.close().await;
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, credential);
        for asked in relayed.function.all() {
            let everything = asked.everything();
            for secret in [credential, encoded.as_str()] {
                assert!(!everything.contains(secret), "{} carries the credential", asked.event());
            }
            assert_eq!(asked.header("authorization"), None);
            assert_eq!(asked.header("cookie"), None);
        }
    }
    relayed.function.told("disconnect", None).await;
    for asked in relayed.function.all_of("connect") {
        assert!(!asked.everything().contains(ANN.unwrap()));
    }
}

#[tokio::test]
async fn asp_022_a_relay_greets_with_the_name_of_the_connection() {
    let relayed = Relayed::start(&[]).await;
    let mut peer = Peer::open(relayed.address(), ANN).await.unwrap();
    let greeting = peer.next().await.unwrap();
    assert_eq!((greeting.opcode, greeting.id), (HELLO, 0));
    assert_eq!(greeting.value["op"], "greet");
    let cid = greeting.value["cid"].as_str().unwrap().to_owned();
    assert!((16..=64).contains(&cid.len()), "{cid}");
    peer.hello(json!({})).await;
    assert_eq!(peer.accept["cid"], cid);
    assert_eq!(peer.accept["server"]["mode"], "relay");
    let mut other = Peer::open(relayed.address(), ANN).await.unwrap();
    assert_ne!(other.next().await.unwrap().value["cid"], cid);
}

#[tokio::test]
async fn asp_022_a_direct_server_does_not_greet() {
    let server = InProcess::start(&[]).await;
    let mut peer = Peer::open(server.address, ANN).await.unwrap();
    assert_eq!(peer.next_within(Duration::from_millis(300)).await.err(), Some(Over::Late));
    peer.hello(json!({})).await;
    assert_eq!(peer.accept["server"]["mode"], "direct");
}

#[tokio::test]
async fn functions_are_told_when_clients_come_and_go() {
    let mut relayed = Relayed::start(&["agents.fn.presence=true"]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let came = relayed.function.told("connect", None).await;
    assert_signed(&came);
    assert_eq!((came.path.as_str(), &came.body["cid"]), ("/connect", &peer.accept["cid"]));
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
    assert!(relayed.function.all_of("disconnect").is_empty());
    let cid = peer.accept["cid"].clone();
    peer.close().await;
    let left = relayed.function.told("disconnect", None).await;
    assert_signed(&left);
    assert_eq!((left.path.as_str(), &left.body["cid"]), ("/disconnect", &cid));
    for told in [&came, &left] {
        let inv = told.body["inv"].as_str().unwrap();
        assert!(inv.contains(cid.as_str().unwrap()), "{inv} is that of no other connection, of any process");
    }
    assert_ne!(came.body["inv"], left.body["inv"]);
    assert_eq!(relayed.function.all_of("connect").len(), 1);
}

#[tokio::test]
async fn functions_are_not_told_of_clients_unless_they_want_it() {
    let mut relayed = Relayed::start(&[]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
    peer.close().await;
    let (mut peer, exchange) = relayed.asked("again").await;
    exchange.ndjson(&[end()]).await;
    peer.finish(1).await;
    let events: Vec<String> = relayed.function.all().iter().map(|asked| asked.event().to_owned()).collect();
    assert_eq!(events, ["invoke", "invoke"]);
}

#[tokio::test]
async fn a_function_serves_a_client_of_acolyte() {
    let mut relayed = Relayed::start(&[]).await;
    let mut rpc = Rpc::open(relayed.address(), ANN).await.unwrap();
    let id = rpc.start("over acolyte", json!({})).await;
    let mut exchange = relayed.function.next().await;
    assert_eq!(exchange.asked.input(), "over acolyte");
    assert_eq!(exchange.asked.body["principal"]["sub"], "ann");
    assert!(!exchange.asked.cid().is_empty());
    assert_signed(&exchange.asked);
    exchange.begin_records().await;
    exchange.record(text("one ")).await;
    exchange.record(text("two")).await;
    exchange.record(json!({ "t": "usage", "input_tokens": 3, "output_tokens": 4 })).await;
    exchange.record(end()).await;
    exchange.finish(&[]).await;
    let (said, done) = rpc.finish(&id).await;
    assert_eq!((said.as_str(), &done["type"]), ("one two", &json!("chat.done")));
    assert_eq!(done["reply"]["output"], "one two");
}

#[tokio::test]
async fn an_abort_over_acolyte_reaches_the_function() {
    let mut relayed = Relayed::start(&[]).await;
    let mut rpc = Rpc::open(relayed.address(), ANN).await.unwrap();
    let id = rpc.start("hang", json!({})).await;
    let mut exchange = relayed.function.next().await;
    exchange.begin_records().await;
    exchange.record(text("half")).await;
    rpc.wait(|message| crate::support::rpc::delta(message) == Some("half")).await;
    assert!(rpc.abort(&id).await);
    let terminal = rpc.wait(is_terminal).await;
    assert_eq!(terminal["errorCode"], "E_ABORTED");
    exchange.hung_up().await;
    relayed.function.told("interrupt", Some(exchange.asked.inv())).await;
}

#[tokio::test]
async fn a_failure_of_a_function_is_told_over_acolyte() {
    let mut relayed = Relayed::start(&["agents.fn.retries=0"]).await;
    let mut rpc = Rpc::open(relayed.address(), ANN).await.unwrap();
    let id = rpc.start("fail", json!({})).await;
    let failure = json!({ "t": "error", "code": 2402, "name": "MODEL_UNAVAILABLE", "msg": "asleep" });
    relayed.function.next().await.ndjson(&[failure]).await;
    let (_, terminal) = rpc.finish(&id).await;
    assert!(terminal.to_string().contains("asleep"), "{terminal}");
    let id = rpc.start("fail before anything", json!({})).await;
    relayed.function.next().await.reply(503, &[], "").await;
    let (_, terminal) = rpc.finish(&id).await;
    assert_eq!(terminal["type"], "chat.error", "{terminal}");
}

#[tokio::test]
async fn asp_028_two_requests_at_once_do_not_mix() {
    let mut relayed = Relayed::start(&[]).await;
    let mut peer = relayed.client().await;
    peer.invoke(1, "a").await;
    peer.invoke(2, "b").await;
    let mut open = BTreeMap::new();
    for _ in 0..2 {
        let mut exchange = relayed.function.next().await;
        exchange.begin_records().await;
        open.insert(exchange.asked.input().to_owned(), exchange);
    }
    for number in 0..10 {
        for (name, exchange) in &mut open {
            exchange.record(text(&format!("{name}{number} "))).await;
        }
    }
    let mut b = open.remove("b").unwrap();
    let mut a = open.remove("a").unwrap();
    b.record(end()).await;
    b.finish(&[]).await;
    let mut said: BTreeMap<u16, String> = BTreeMap::new();
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let frame = peer.wait(|frame| frame.id != 0).await;
        said.entry(frame.id).or_default().push_str(frame.text().unwrap_or_default());
        if frame.is_terminal() {
            ended.push(frame.id);
            if ended.len() == 1 {
                a.record(end()).await;
            }
        }
    }
    assert_eq!(ended, [2, 1]);
    let expected = |name: &str| (0..10).map(|number| format!("{name}{number} ")).collect::<String>();
    assert_eq!((said[&1].as_str(), said[&2].as_str()), (expected("a").as_str(), expected("b").as_str()));
    assert!(frames_are_over(&mut peer).await);
}

async fn frames_are_over(peer: &mut Peer) -> bool {
    peer.invoke(9, "last").await;
    // Nothing of an ended request comes before what begins now.
    peer.next().await.is_ok_and(|frame| frame.id == 9) && {
        peer.send(crate::support::wire::INTERRUPT, 9, &json!({})).await;
        frames_of(peer, 9).await.last().is_some_and(|frame| frame.outcome() == "interrupted")
    }
}

#[tokio::test]
async fn a_function_is_told_what_was_said_before_if_it_is_to_be() {
    let mut relayed = Relayed::start(&["agents.fn.history=3"]).await;
    let mut peer = relayed.client().await;
    for (id, word) in [(1, "one"), (2, "two"), (3, "three")] {
        peer.send(INVOKE, id, &json!({ "input": word, "session": "talk" })).await;
        let exchange = relayed.function.next().await;
        let history = exchange.asked.body["history"].clone();
        let said = |role: &str, text: &str| json!({ "role": role, "text": text });
        match id {
            1 => assert!(history.is_null(), "{history}"),
            2 => assert_eq!(history, json!([said("user", "one"), said("assistant", "one!")])),
            _ => {
                let newest = [said("assistant", "one!"), said("user", "two"), said("assistant", "two!")];
                assert_eq!(history, json!(newest));
            }
        }
        let answer = format!("{word}!");
        exchange.ndjson(&[text(&answer), end()]).await;
        frames_of(&mut peer, id).await;
    }
}
