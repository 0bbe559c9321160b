//! Whom a function answers, and how often.

use bytes::Bytes;
use switchboard_asp::Map;
use switchboard_asp::relay::{Event, Payload, sign, webhook_id};

use crate::cancel::ends_as_interrupted;
use crate::relay::Relay;
use crate::support::{Function, Language, OTHER_SECRET, Reader, SECRET, chat, hear, key, now_s, soon, until};

pub(crate) async fn bad_signature(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat("echo hello", &relay);
    let (body, id, now) = (invocation.to_json(), webhook_id(&invocation.inv, 0), now_s());
    let good = sign(&[key(SECRET)], &id, now, &body);
    let changed = Bytes::from(String::from_utf8(body.to_vec()).expect("text").replace("hello", "hallo"));
    let (time, other_time) = (now.to_string(), (now + 1).to_string());
    for (what, id, time, signature, body) in [
        ("another secret", &*id, &*time, &*sign(&[key(OTHER_SECRET)], &id, now, &body), &body),
        ("another body", &id, &time, &good, &changed),
        ("another id", "inv_other", &time, &good, &body),
        ("another time", &id, &other_time, &good, &body),
        ("another version", &id, &time, &good.replace("v1,", "v2,"), &body),
        ("half a signature", &id, &time, &good[..20], &body),
        ("no base64", &id, &time, "v1,????", &body),
        ("no signature", &id, &time, "", &body),
        ("no time", &id, "", &good, &body),
        ("no number", &id, "0x1", &good, &body),
    ] {
        let mut request = function.raw("/invoke", body.clone()).header("webhook-id", id);
        for (name, value) in [("webhook-timestamp", time), ("webhook-signature", signature)] {
            if !value.is_empty() {
                request = request.header(name, value);
            }
        }
        assert_eq!(soon(request.send()).await.expect("a response").status(), 401, "{what}");
    }
    let bare = soon(function.raw("/invoke", body).send()).await.expect("a response");
    assert_eq!(bare.status(), 401, "nothing is signed");
    // None of it counts as having asked.
    assert_eq!(hear(function.invoke(&invocation).await).await.text(), "hello");
}

pub(crate) async fn old_timestamp(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let invocation = chat("echo hello", &relay);
    for seconds in [310, 3_600] {
        for time in [now_s() - seconds, now_s() + seconds] {
            let request = function.signed("/invoke", &invocation, SECRET, time);
            assert_eq!(soon(request.send()).await.expect("a response").status(), 401, "{seconds} s");
        }
    }
    let request = function.signed("/invoke", &invocation, SECRET, now_s() - 240);
    assert_eq!(hear(soon(request.send()).await.expect("a response")).await.text(), "hello");
}

pub(crate) async fn two_secrets(language: Language) {
    let secrets = format!("{OTHER_SECRET} {SECRET}");
    let function = Function::start_with(language, &[("FUNCTION_SECRET", &secrets)]).await;
    let relay = Relay::start().await;
    for secret in [SECRET, OTHER_SECRET] {
        let request = function.signed("/invoke", &chat("hello", &relay), secret, now_s());
        assert_eq!(soon(request.send()).await.expect("a response").status(), 200);
    }
    // The relay may sign with several as well.
    let invocation = chat("hello", &relay);
    let (body, id, now) = (invocation.to_json(), webhook_id(&invocation.inv, 0), now_s());
    let stranger = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    let signatures = sign(&[key(stranger), key(SECRET)], &id, now, &body);
    let request = function.raw("/invoke", body).header("webhook-id", id);
    let request = request.header("webhook-timestamp", now).header("webhook-signature", signatures);
    assert_eq!(soon(request.send()).await.expect("a response").status(), 200);
}

pub(crate) async fn answered_duplicate(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    for text in ["echo hello", "fail", "call clock {}"] {
        let mut invocation = chat(text, &relay);
        let heard = hear(function.invoke(&invocation).await).await;
        assert!(!heard.broke, "{heard:?}");
        for attempt in [1, 2, 3] {
            invocation.attempt = attempt;
            assert_eq!(function.invoke(&invocation).await.status(), 409, "{text}, attempt {attempt}");
        }
    }
    let mut later = chat("later hello", &relay);
    assert_eq!(function.invoke(&later).await.status(), 202);
    later.attempt = 2;
    assert_eq!(function.invoke(&later).await.status(), 409, "it was taken on");
    assert_eq!(function.invoke(&chat("hello", &relay)).await.status(), 200, "another one is no duplicate");
}

pub(crate) async fn running_duplicate(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let mut invocation = chat("wait 60", &relay);
    let mut running = Reader::new(function.invoke(&invocation).await);
    running.until("status").await;
    for attempt in [1, 2] {
        invocation.attempt = attempt;
        assert_eq!(function.invoke(&invocation).await.status(), 409);
    }
    assert!(!running.has_ended());
}

pub(crate) async fn later_attempt(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let mut invocation = chat("cold 60000", &relay);
    let request = function.signed("/invoke", &invocation, SECRET, now_s());
    let asked = tokio::spawn(request.send());
    until("the function polls, so it runs", || relay.polls() > 0).await;
    asked.abort();
    assert_eq!(function.cancelled(&invocation.inv).await, ["abort"]);
    // A replay of what broke off is none the better for it.
    assert_eq!(function.invoke(&invocation).await.status(), 409);
    invocation.attempt = 2;
    invocation.payload = Some(Payload::Json(Map::new().with("input", "hello").into()));
    // The first attempt may take a moment to be over.
    let taken = soon(async {
        loop {
            let response = function.invoke(&invocation).await;
            if response.status() != 409 {
                return response;
            }
        }
    });
    assert_eq!(hear(taken.await).await.text(), "hello");
}

pub(crate) async fn no_chat(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let mut invocation = chat("", &relay);
    let tool = Map::new().with("kind", "tool").with("tool", "clock").with("args", Map::new());
    invocation.payload = Some(Payload::Json(tool.into()));
    let refused = function.invoke(&invocation).await;
    assert_eq!(refused.status(), 422);
    let said: serde_json::Value = refused.json().await.expect("JSON");
    assert!(said["error"]["msg"].as_str().is_some_and(|words| !words.is_empty()), "{said}");

    let (body, now) = (Bytes::from_static(b"no json"), now_s());
    let signature = sign(&[key(SECRET)], "inv_x", now, &body);
    let request = function.raw("/invoke", body).header("webhook-id", "inv_x");
    let request = request.header("webhook-timestamp", now).header("webhook-signature", signature);
    assert_eq!(soon(request.send()).await.expect("a response").status(), 400);
}

pub(crate) async fn one_url(language: Language) {
    let (function, relay) = (Function::start(language).await, Relay::start().await);
    let mut invocation = chat("wait 60", &relay);
    let mut running = Reader::new(function.post("/agents/one", &invocation).await);
    running.until("status").await;
    for event in [Event::Connect, Event::Disconnect, Event::Interrupt] {
        invocation.event = event;
        let response = function.post("/agents/one", &invocation).await;
        assert!(response.status().is_success(), "{event:?}");
    }
    ends_as_interrupted(running).await;
}
