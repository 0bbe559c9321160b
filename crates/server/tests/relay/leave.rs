//! Who may push, and for how long.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::push::{asynchronous, one};
use crate::setup::{Relayed, stream, text};
use crate::support::ANN;
use crate::support::rpc::http;

/// A token with this signature, and these claims instead of its own.
fn forged(token: &str, change: impl Fn(&mut Value)) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
    change(&mut claims);
    format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(claims.to_string()), parts[2])
}

#[tokio::test]
async fn only_the_leave_of_a_request_lets_push() {
    let mut relayed = Relayed::start(&["agents.fn.jwt=true"]).await;
    let (_peer, asked) = asynchronous(&mut relayed).await;
    let mut elsewhere = Relayed::start(&[]).await;
    let (_foreign_peer, foreign) = asynchronous(&mut elsewhere).await;
    let body = one(stream(1, text("x")));
    let own_request = asked.header("authorization").unwrap().strip_prefix("Bearer ").unwrap();
    let longer = forged(asked.push_token(), |claims| claims["exp"] = json!(4_000_000_000_u64));
    let wider = forged(asked.push_token(), |claims| claims["inv"] = Value::Null);
    for (what, token) in [
        ("nonsense", "nonsense"),
        ("empty", ""),
        ("the key of a client", ANN.unwrap()),
        ("of another server", foreign.push_token()),
        ("the signature of a request", own_request),
        ("a longer time", &longer),
        ("no invocation", &wider),
    ] {
        let (status, answer) = relayed.push_as(token, &asked, &body).await;
        assert_eq!(status, 401, "{what}: {answer}");
    }
    let url = asked.body["push"]["url"].as_str().unwrap();
    let path = &url[url.find("/v1").unwrap()..];
    let request = format!("POST {path}");
    let answer = http(relayed.address(), &request, None, &[], body.to_string()).await;
    assert_eq!(answer.status, 401);
    assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
    let request = format!("{request}?token={}", asked.push_token());
    let answer = http(relayed.address(), &request, None, &[], body.to_string()).await;
    assert_eq!(answer.status, 401, "no token in the address");
    let other = url.replace(asked.cid(), foreign.cid());
    let status = relayed.call("POST", asked.push_token(), &other, &[], body.to_string()).await.status;
    assert_eq!(status, 403, "the connection of somebody else");
}

#[tokio::test]
async fn a_leave_to_push_ends() {
    // Signed as the server signs, with the time of its clock long past.
    let mut relayed = Relayed::start(&[]).await;
    let (_peer, asked) = asynchronous(&mut relayed).await;
    let seed = std::fs::read(relayed.server.data.path().join("relay.key")).unwrap();
    let again = |exp: u64| {
        let claims = claims_of(asked.push_token());
        resigned(&seed, asked.push_token(), claims, exp)
    };
    let now = jsonwebtoken::get_current_timestamp();
    let body = one(stream(1, text("x")));
    assert_eq!(relayed.push_as(&again(now + 600), &asked, &body).await.0, 202, "the key is the right one");
    assert_eq!(relayed.push_as(&again(now - 5), &asked, &body).await.0, 401);
    let lifetime = claims_of(asked.push_token())["exp"].as_u64().unwrap() - now;
    assert!(lifetime <= 15 * 60 + 60, "{lifetime} s");
    assert_eq!(claims_of(asked.push_token())["cid"], asked.body["cid"]);
    assert_eq!(claims_of(asked.push_token())["inv"], asked.body["inv"]);
}

fn claims_of(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// The claims of a token, with another end, signed with the key of the server.
fn resigned(seed: &[u8], token: &str, mut claims: Value, exp: u64) -> String {
    claims["exp"] = exp.into();
    let mut document =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    document.extend_from_slice(seed);
    let header = jsonwebtoken::decode_header(token).unwrap();
    jsonwebtoken::encode(&header, &claims, &jsonwebtoken::EncodingKey::from_ed_der(&document)).unwrap()
}
