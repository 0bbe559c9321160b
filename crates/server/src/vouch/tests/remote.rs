//! Keys that an issuer publishes.

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use switchboard_core::Timestamp;

use super::NOW;
use super::support::{AUDIENCE, ISSUER, Signer, TestServer, at, claims, json_answer, key_set, open};
use crate::vouch::{AppAlgorithm, IssuerConfig, Vouching};

fn later(seconds: u64) -> Timestamp {
    Timestamp::from_secs(NOW.as_secs() + seconds)
}

/// What an issuer answers: this set, or a failure.
type Published = Arc<Mutex<Option<Value>>>;

async fn publish(set: Value) -> (TestServer, Published, Vouching) {
    let published: Published = Arc::new(Mutex::new(Some(set)));
    let answer = Arc::clone(&published);
    let server = TestServer::start(move |_| {
        let set = answer.lock().clone();
        async move {
            // Slow enough for others to come meanwhile.
            tokio::time::sleep(Duration::from_millis(50)).await;
            set.map_or_else(|| json_answer(500, &json!({})), |set| json_answer(200, &set))
        }
    })
    .await;
    let vouching = open(&[remote(&server.url)]);
    (server, published, vouching)
}

fn remote(url: &str) -> IssuerConfig {
    IssuerConfig {
        issuer: ISSUER.into(),
        algorithms: vec![AppAlgorithm::Es256, AppAlgorithm::Rs256, AppAlgorithm::EdDsa],
        jwks_url: Some(format!("{url}/jwks.json")),
        ..IssuerConfig::default()
    }
}

/// The code of a look at a token of this signer, or `ok`.
async fn look(vouching: &Vouching, signer: &Signer, now: Timestamp) -> String {
    let mut claims = claims("1");
    claims["iat"] = json!(now.as_secs());
    claims["exp"] = json!(now.as_secs() + 60);
    let token = signer.sign(&claims);
    match vouching.vouch(Some(&token), false, false, AUDIENCE, now).await {
        Ok(_) => "ok".into(),
        Err(failed) => failed.failed,
    }
}

#[tokio::test]
async fn keys_are_fetched_when_they_are_needed_and_kept_for_ten_minutes() {
    let (one, two, three) = (Signer::es256("one"), Signer::rs256("two"), Signer::eddsa("three"));
    let (server, published, vouching) = publish(key_set(&[&one, &two, &three])).await;
    assert_eq!(server.asked(), 0);
    for signer in [&one, &two, &three, &one] {
        assert_eq!(look(&vouching, signer, NOW).await, "ok");
    }
    assert_eq!(server.asked(), 1);
    *published.lock() = Some(key_set(&[&one]));
    assert_eq!(look(&vouching, &two, later(599)).await, "ok");
    assert_eq!(server.asked(), 1);
    assert_eq!(look(&vouching, &two, later(600)).await, "AUTH_TOKEN_INVALID", "withdrawn");
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn vip_009_an_unknown_kid_leads_to_one_fetch_in_half_a_minute() {
    let (one, two) = (Signer::es256("one"), Signer::es256("two"));
    let (server, published, vouching) = publish(key_set(&[&one])).await;
    assert_eq!(look(&vouching, &one, NOW).await, "ok");
    assert_eq!(server.asked(), 1);
    *published.lock() = Some(key_set(&[&one, &two]));
    assert_eq!(look(&vouching, &two, later(1)).await, "ok", "a new key is found at once");
    assert_eq!(server.asked(), 2);
    for kid in ["a", "b", "c"] {
        let unknown = Signer { kid: Some(kid), ..Signer::es256("") };
        assert_eq!(look(&vouching, &unknown, later(30)).await, "AUTH_TOKEN_INVALID");
    }
    assert_eq!(server.asked(), 2, "once in half a minute, whoever asks");
    assert_eq!(look(&vouching, &one, later(30)).await, "ok", "others are not affected");
    let unknown = Signer::es256("d");
    assert_eq!(look(&vouching, &unknown, later(31)).await, "AUTH_TOKEN_INVALID");
    assert_eq!(look(&vouching, &unknown, later(31)).await, "AUTH_TOKEN_INVALID");
    assert_eq!(server.asked(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vip_009_those_who_come_at_once_share_one_fetch() {
    let one = Signer::es256("one");
    let (server, _published, vouching) = publish(key_set(&[&one])).await;
    let vouching = Arc::new(vouching);
    let ask = |token: String| {
        let vouching = Arc::clone(&vouching);
        tokio::spawn(async move { at(&vouching, &token, NOW).await.map(drop) })
    };
    let many: Vec<_> = (0..32).map(|index| ask(one.sign(&claims(&format!("t{index}"))))).collect();
    for one in many {
        assert_eq!(one.await.unwrap(), Ok(()));
    }
    assert_eq!(server.asked(), 1);
    let unknown = Signer::es256("unknown");
    let many: Vec<_> = (0..32).map(|index| ask(unknown.sign(&claims(&format!("u{index}"))))).collect();
    for one in many {
        assert_eq!(one.await.unwrap(), Err("AUTH_TOKEN_INVALID".into()));
    }
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn while_the_issuer_is_away_known_keys_count_and_unknown_ones_may_later() {
    let (one, two) = (Signer::es256("one"), Signer::es256("two"));
    let (server, published, vouching) = publish(key_set(&[&one])).await;
    *published.lock() = None;
    assert_eq!(look(&vouching, &one, NOW).await, "AUTH_JWKS_UNAVAILABLE");
    assert_eq!(look(&vouching, &one, NOW).await, "AUTH_JWKS_UNAVAILABLE");
    assert_eq!(server.asked(), 1, "not asked again at once");
    *published.lock() = Some(key_set(&[&one]));
    assert_eq!(look(&vouching, &one, later(1)).await, "ok", "but soon");
    assert_eq!(server.asked(), 2);

    *published.lock() = None;
    assert_eq!(look(&vouching, &two, later(2)).await, "AUTH_JWKS_UNAVAILABLE", "it may have been published");
    assert_eq!(look(&vouching, &one, later(700)).await, "ok", "from the cache");
    let asked = server.asked();
    assert_eq!(look(&vouching, &one, later(701)).await, "ok");
    assert_eq!(server.asked(), asked);
    assert_eq!(look(&vouching, &one, later(3_601)).await, "AUTH_JWKS_UNAVAILABLE", "not for ever");
    *published.lock() = Some(key_set(&[&one, &two]));
    assert_eq!(look(&vouching, &two, later(3_700)).await, "ok");
}

#[tokio::test]
async fn a_caller_who_hangs_up_does_not_stop_the_fetch() {
    let one = Signer::es256("one");
    let (server, _published, vouching) = publish(key_set(&[&one])).await;
    let hasty = tokio::time::timeout(Duration::from_millis(1), look(&vouching, &one, NOW)).await;
    assert!(hasty.is_err());
    assert_eq!(look(&vouching, &one, NOW).await, "ok");
    assert_eq!(server.asked(), 1, "the first fetch was enough");
}

#[tokio::test]
async fn answers_that_are_no_key_set_are_none() {
    let one = Signer::es256("one");
    let good = key_set(&[&one]).to_string();
    let long = format!("{good}{}", " ".repeat(300 << 10));
    for body in ["", "not JSON", "[]", "{}", r#"{"keys": 1}"#, &long] {
        let body = body.to_owned();
        let server = TestServer::start(move |_| {
            let body = body.clone();
            async move { body.into_response() }
        })
        .await;
        let vouching = open(&[remote(&server.url)]);
        assert_eq!(look(&vouching, &one, NOW).await, "AUTH_JWKS_UNAVAILABLE");
    }
    // Redirects are not followed: the place is pinned.
    let set = key_set(&[&one]);
    let elsewhere = TestServer::start(move |_| {
        let set = set.clone();
        async move { json_answer(200, &set) }
    })
    .await;
    let target = elsewhere.url.clone();
    let server = TestServer::start(move |_| {
        let target = target.clone();
        async move { axum::response::Redirect::temporary(&target).into_response() }
    })
    .await;
    let vouching = open(&[remote(&server.url)]);
    assert_eq!(look(&vouching, &one, NOW).await, "AUTH_JWKS_UNAVAILABLE");
    assert_eq!((server.asked(), elsewhere.asked()), (1, 0));
}

#[tokio::test]
async fn an_issuer_that_is_not_there_is_unavailable() {
    let server = TestServer::start(|_| async { ().into_response() }).await;
    let url = server.url.clone();
    drop(server);
    let vouching = open(&[remote(&url)]);
    assert_eq!(look(&vouching, &Signer::es256("one"), NOW).await, "AUTH_JWKS_UNAVAILABLE");
}

#[tokio::test]
async fn keys_of_other_kinds_in_the_set_do_no_harm() {
    let one = Signer::es256("one");
    let mut set = key_set(&[&one]);
    let keys = set["keys"].as_array_mut().unwrap();
    keys.insert(0, json!({"kty": "AKP", "kid": "one", "alg": "ML-DSA-44", "pub": "x"}));
    keys.insert(0, json!({"kty": "oct", "kid": "one", "k": "c2VjcmV0"}));
    keys.insert(0, json!("rubbish"));
    let (_server, _published, vouching) = publish(set).await;
    assert_eq!(look(&vouching, &one, NOW).await, "ok");
}
