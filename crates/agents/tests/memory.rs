//! An endpoint for embeddings, well and badly behaved.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::endpoint::{Reply, Server};
use switchboard_agents::Secret;
use switchboard_agents::memory::{Embedder, EmbedderConfig, EmbedderError, MAX_BATCH, cosine};

fn embedder(server: &Server, change: impl FnOnce(&mut EmbedderConfig)) -> Embedder {
    let mut config = EmbedderConfig {
        base_url: server.url.clone(),
        model: "test-embedding".into(),
        api_key: Some(Secret::new("sk-test")),
        backoff_ms: 5,
        ..EmbedderConfig::default()
    };
    change(&mut config);
    Embedder::new(config).unwrap()
}

fn answer(data: Value) -> Reply {
    Reply::Status(200, "", json!({ "object": "list", "data": data }).to_string())
}

fn item(index: usize, embedding: &[f64]) -> Value {
    json!({ "object": "embedding", "index": index, "embedding": embedding })
}

async fn embed(embedder: &Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedderError> {
    tokio::time::timeout(Duration::from_secs(20), embedder.embed(texts)).await.unwrap()
}

#[tokio::test]
async fn every_text_has_its_embedding() {
    let server = Server::start(vec![answer(json!([item(1, &[0.6, 0.8]), item(0, &[1.0, 0.0])]))]).await;
    let found = embed(&embedder(&server, |_| ()), &["tea", "coffee"]).await.unwrap();
    assert_eq!(found, [[1.0, 0.0], [0.6, 0.8]]);
    assert!((cosine(&found[0], &found[1]) - 0.6).abs() < 1e-6);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].body, json!({ "model": "test-embedding", "input": ["tea", "coffee"] }));
    assert!(requests[0].head.starts_with("POST /v1/embeddings "), "{}", requests[0].head);
    assert!(requests[0].head.to_lowercase().contains("authorization: bearer sk-test"));
}

#[tokio::test]
async fn an_endpoint_that_does_not_count_keeps_the_order() {
    let server = Server::start(vec![answer(json!([{ "embedding": [1] }, { "embedding": [2] }]))]).await;
    let embedder = embedder(&server, |config| {
        config.api_key = None;
        config.dimensions = Some(1);
    });
    assert_eq!(embed(&embedder, &["a", "b"]).await.unwrap(), [[1.0], [2.0]]);
    let requests = server.requests();
    assert_eq!(requests[0].body["dimensions"], 1);
    assert!(!requests[0].head.to_lowercase().contains("authorization"));
}

#[tokio::test]
async fn many_texts_are_sent_in_parts_and_long_ones_are_cut() {
    let batch = |count: usize| answer((0..count).map(|index| item(index, &[index as f64])).collect());
    let server = Server::start(vec![batch(MAX_BATCH), batch(2)]).await;
    let long = "ü".repeat(20_000);
    let texts: Vec<&str> = (0..MAX_BATCH + 2).map(|_| long.as_str()).collect();
    let found = embed(&embedder(&server, |_| ()), &texts).await.unwrap();
    assert_eq!((found.len(), found[63][0], found[64][0], found[65][0]), (66, 63.0, 0.0, 1.0));
    let requests = server.requests();
    let sizes: Vec<usize> =
        requests.iter().map(|request| request.body["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [MAX_BATCH, 2]);
    assert_eq!(requests[0].body["input"][0].as_str().unwrap().len(), 16 << 10);

    assert!(embed(&embedder(&server, |_| ()), &[]).await.unwrap().is_empty());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let failing = || Reply::Status(503, "retry-after-ms: 1\r\n", String::new());
    for first in [failing(), Reply::Status(429, "", "{}".into()), Reply::Drop] {
        let server = Server::start(vec![first, answer(json!([item(0, &[1.0])]))]).await;
        assert_eq!(embed(&embedder(&server, |_| ()), &["a"]).await.unwrap(), [[1.0]]);
        assert_eq!(server.requests().len(), 2);
    }
    let server = Server::start(vec![failing()]).await;
    let error = embed(&embedder(&server, |_| ()), &["a"]).await.unwrap_err();
    assert_eq!(error, EmbedderError::Unavailable("the embedding endpoint failed (HTTP 503)".into()));
    assert_eq!(server.requests().len(), 3);

    let server = Server::start(vec![Reply::Status(429, "retry-after: 3600\r\n", String::new())]).await;
    assert!(matches!(embed(&embedder(&server, |_| ()), &["a"]).await, Err(EmbedderError::Unavailable(_))));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_final_and_quotes_nobody() {
    for status in [400, 401, 404, 422] {
        let body = json!({ "error": { "message": "cannot embed: my secret, key sk-test" } }).to_string();
        let server = Server::start(vec![Reply::Status(status, "", body)]).await;
        let error = embed(&embedder(&server, |_| ()), &["my secret"]).await.unwrap_err();
        assert!(matches!(error, EmbedderError::Refused(_)), "{error:?}");
        let said = format!("{error} {error:?}");
        assert!(said.contains(&status.to_string()), "{said}");
        assert!(!said.contains("my secret") && !said.contains("sk-test"), "{said}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_given_up() {
    let server = Server::start(vec![Reply::Silence]).await;
    let error = embed(&embedder(&server, |config| config.timeout_ms = 100), &["a"]).await.unwrap_err();
    assert_eq!(error, EmbedderError::Unavailable("the embedding endpoint took longer than 100 ms".into()));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn answers_that_make_no_sense_are_refused() {
    let flood = format!("{{\"data\":[],\"x\":\"{}\"}}", "x".repeat(17 << 20));
    for reply in [
        Reply::Status(200, "", "no JSON".into()),
        Reply::Status(200, "", r#"{"data":[{"index":0,"embedding":"AAAA"}]}"#.into()),
        Reply::Status(200, "", r#"{"data":[{"index":0,"embedding":[1e99]},{"embedding":[1]}]}"#.into()),
        Reply::Status(200, "", flood),
        answer(json!([])),
        answer(json!([item(0, &[1.0])])),
        answer(json!([item(0, &[1.0]), item(0, &[1.0])])),
        answer(json!([item(0, &[1.0]), item(1, &[1.0, 2.0])])),
        answer(json!([item(0, &[]), item(1, &[])])),
        answer(json!([item(0, &[1.0]), item(1, &[1.0]), item(2, &[1.0])])),
    ] {
        let server = Server::start(vec![reply]).await;
        let error = embed(&embedder(&server, |_| ()), &["a", "b"]).await.unwrap_err();
        assert!(matches!(error, EmbedderError::BadResponse(_)), "{error:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_configuration_has_to_make_sense() {
    let problem = |change: fn(&mut EmbedderConfig)| {
        let mut config = EmbedderConfig { model: "m".into(), ..EmbedderConfig::default() };
        change(&mut config);
        Embedder::new(config).unwrap_err().to_string()
    };
    assert!(problem(|config| config.model.clear()).contains("`model`"));
    assert!(problem(|config| config.attempts = 0).contains("`attempts`"));
    assert!(problem(|config| config.dimensions = Some(0)).contains("`dimensions`"));
    assert!(problem(|config| config.base_url = "ftp://x".into()).contains("http://"));
    assert!(problem(|config| config.base_url = "x".into()).contains("`base_url`"));
    assert!(problem(|config| config.api_key = Some(Secret::new("a\nb"))).contains("API key"));
}
