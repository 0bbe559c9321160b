//! Whoever verifies requests by the reference alone finds them genuine.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::setup::{Relayed, end, text};
use crate::support::FUNCTION_SECRET;
use crate::support::function::Asked;
use crate::support::rpc::http;

/// RFC 2104, with SHA-256.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

/// What `webhook-signature` has to hold for this secret.
fn expected(secret: &str, asked: &Asked) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let id = asked.header("webhook-id").expect("an id");
    let timestamp = asked.header("webhook-timestamp").expect("a timestamp");
    let mut message = format!("{id}.{timestamp}.").into_bytes();
    message.extend_from_slice(&asked.raw);
    format!("v1,{}", STANDARD.encode(hmac(&key, &message)))
}

/// Checks that a request was signed with the secret of the tests, just now.
pub(crate) fn assert_signed(asked: &Asked) {
    assert_eq!(asked.header("webhook-signature"), Some(expected(FUNCTION_SECRET, asked).as_str()));
    let signed_at: u64 = asked.header("webhook-timestamp").unwrap().parse().unwrap();
    let now = jsonwebtoken::get_current_timestamp();
    assert!(now.abs_diff(signed_at) <= 60, "signed at {signed_at}, now is {now}");
}

#[test]
fn the_signature_of_the_reference_is_found_again() {
    // Vector T24.
    let body = concat!(
        r#"{"asp":1,"event":"invoke","cid":"7f8a0000000000000000000000000001","rid":1,"inv":"inv_01","#,
        r#""attempt":1,"enc":"json","payload":{"kind":"chat","input":"hi"}}"#
    );
    let key: Vec<u8> = (0..32).collect();
    let signature = STANDARD.encode(hmac(&key, format!("inv_01.1767225600.{body}").as_bytes()));
    assert_eq!(signature, "8dkoeaK0xVLcLWWCFtUPKJUMvr+BdUZcn7S7/7Nn8Mg=");
}

#[tokio::test]
async fn asp_059_requests_are_signed_by_hmac() {
    let mut relayed = Relayed::start(&["agents.fn.retries=1"]).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    assert_signed(&exchange.asked);
    assert_eq!(exchange.asked.header("webhook-id"), Some(exchange.asked.inv()));
    assert_eq!(exchange.asked.header("authorization"), None);
    // Each attempt is signed for itself, since its body is another.
    exchange.reply(503, &[], "").await;
    let again = relayed.function.next().await;
    assert_signed(&again.asked);
    again.ndjson(&[text("ok"), end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
}

#[tokio::test]
async fn asp_059_both_secrets_sign_while_one_takes_the_place_of_another() {
    let other = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let function = crate::support::function::Function::start().await;
    let settings = crate::setup::with_function(&function.url(), &[]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let secrets = format!("{other} {FUNCTION_SECRET}");
    let server = crate::support::InProcess::start_knowing(&[("FUNCTION_SECRET", &secrets)], &settings).await;
    let mut relayed = Relayed { server, function };
    let (_peer, exchange) = relayed.asked("hi").await;
    let signatures: Vec<&str> = exchange.asked.header("webhook-signature").unwrap().split(' ').collect();
    let both = [expected(other, &exchange.asked), expected(FUNCTION_SECRET, &exchange.asked)];
    assert_eq!(signatures, both);
}

#[tokio::test]
async fn asp_059_requests_are_signed_by_a_token_that_the_published_key_verifies() {
    let settings = ["agents.fn.jwt=true", "agents.fn.retries=1", "relay.public_url=https://relay.test"];
    let mut relayed = Relayed::start_unsigned(&settings).await;
    let (mut peer, exchange) = relayed.asked("hi").await;
    let published = http(relayed.address(), "GET /.well-known/jwks.json", None, &[], "").await;
    assert_eq!(published.status, 200);
    let keys: JwkSet = serde_json::from_str(&published.body).unwrap();
    let audience = format!("{}/invoke", relayed.function.url());
    let verify = |asked: &Asked| -> Value {
        let token = asked.header("authorization").unwrap().strip_prefix("Bearer ").unwrap();
        let header = jsonwebtoken::decode_header(token).unwrap();
        assert_eq!(header.typ.as_deref(), Some("asp-relay+jwt"));
        assert!(matches!(header.alg, Algorithm::EdDSA | Algorithm::ES256), "{:?}", header.alg);
        let key = keys.find(header.kid.as_deref().unwrap()).expect("a published key");
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&[&audience]);
        validation.set_issuer(&["https://relay.test"]);
        validation.set_required_spec_claims(&["exp", "aud", "iss"]);
        validation.leeway = 0;
        let claims = jsonwebtoken::decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &validation);
        claims.expect("a good token").claims
    };
    let first = verify(&exchange.asked);
    let lifetime = first["exp"].as_u64().unwrap() - jsonwebtoken::get_current_timestamp();
    assert!(lifetime <= 60, "{lifetime} s");
    for member in ["cid", "rid", "inv"] {
        assert_eq!(first[member], exchange.asked.body[member], "{member}");
    }
    assert_eq!(first["bh"], URL_SAFE_NO_PAD.encode(Sha256::digest(&exchange.asked.raw)));
    exchange.reply(503, &[], "").await;
    let again = relayed.function.next().await;
    let second = verify(&again.asked);
    assert_ne!(first["jti"], second["jti"], "a token is good for one request");
    assert!(first["jti"].is_string());
    again.ndjson(&[end()]).await;
    assert_eq!(peer.finish(1).await.1.outcome(), "complete");
    assert!(!published.body.contains("\"d\""), "only the public half is published");
}

#[tokio::test]
async fn the_key_of_tokens_survives_a_restart() {
    let settings = ["agents.fn.jwt=true"];
    let relayed = Relayed::start(&settings).await;
    let before = http(relayed.address(), "GET /.well-known/jwks.json", None, &[], "").await.body;
    let relayed = relayed.restart(&settings).await;
    let after = http(relayed.address(), "GET /.well-known/jwks.json", None, &[], "").await.body;
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_function_without_a_signature_is_refused_at_start() {
    let settings = crate::setup::unsigned("http://127.0.0.1:1", &[]);
    let problem = crate::guard::refused(&settings);
    assert!(problem.contains("agents.fn.secret_env") && problem.contains("signed"), "{problem}");
}
