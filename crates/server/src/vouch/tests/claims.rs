//! What tokens have to say.

use std::time::Duration;

use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};
use switchboard_core::Timestamp;

use super::NOW;
use super::support::{
    AUDIENCE, DEVELOPMENT_SECRET, SECRET, Signer, at, changed, claims, code, forged, open, open_with, redeem,
    shared,
};
use crate::vouch::{DevelopmentConfig, IssuerConfig};

fn signed(jti: &str, change: impl FnOnce(&mut Value)) -> String {
    Signer::hs256().sign(&changed(jti, change))
}

#[tokio::test]
async fn the_vector_of_the_reference_is_accepted() {
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6InZpcC1hcHArand0Iiwia2lkIjoiZGV2LTEifQ.eyJpc3MiOiJodHRwczovL2FwcC5l\
                 eGFtcGxlIiwic3ViIjoidXNlci00MiIsImF1ZCI6Imh0dHBzOi8vdmlwLmV4YW1wbGUiLCJpYXQiOjE3NjcyMjU2MDAsImV4\
                 cCI6MTc2NzIyNTg0MCwianRpIjoiNmYxYzJkOWEiLCJ2aXAiOnsiYXBwX2lkIjoic2hvcC13ZWIiLCJlbnYiOiJkZXZlbG9w\
                 bWVudCIsIm1vZGVzIjpbImV4dGVybmFsIl0sInNjb3BlcyI6WyJzZXNzaW9uOmNyZWF0ZSJdfX0._w4ZtqBYO0qovqkM6L01\
                 UwpN3oAkz_8dr5lWHjmUsFQ";
    let development = DevelopmentConfig { allowed: true, secret_env: Some("DEV_SECRET".into()) };
    let vouching = open_with(&[], &development, None);
    let now = Timestamp::from_secs(1_767_225_700);
    let (vouched, _) = vouching.vouch(Some(token), true, true, AUDIENCE, now).await.unwrap();
    assert_eq!(vouched.sub, "user-42");
    assert_eq!(vouched.modes.unwrap(), ["external"]);
    assert_eq!(DEVELOPMENT_SECRET.len(), 32, "and not a byte more is asked for");
}

#[tokio::test]
async fn what_is_no_token_is_invalid() {
    let vouching = open(&[shared()]);
    let genuine = signed("1", |_| {});
    let parts: Vec<&str> = genuine.split('.').collect();
    let header = json!({"alg": "HS256", "typ": "vip-app+jwt"});
    let critical = json!({"alg": "HS256", "typ": "vip-app+jwt", "crit": ["b64"]});
    for token in [
        String::new(),
        "rubbish".into(),
        "..".into(),
        format!("{}.{}", parts[0], parts[1]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{genuine}.{}", parts[2]),
        format!("{genuine}="),
        format!(" {genuine}"),
        format!("{}.!!!.{}", parts[0], parts[2]),
        forged(&json!([]), &claims("1"), parts[2]),
        forged(&json!({"typ": "vip-app+jwt"}), &claims("1"), parts[2]),
        forged(&header, &json!("claims"), parts[2]),
        forged(&critical, &claims("1"), parts[2]),
        "a".repeat(20_000),
    ] {
        assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{token}");
    }
    assert!(redeem(&vouching, &genuine).await.is_ok());
}

#[tokio::test]
async fn every_changed_or_cut_token_is_refused() {
    let vouching = open(&[shared()]);
    let token = signed("1", |_| {});
    for length in 0..token.len() {
        assert!(redeem(&vouching, &token[..length]).await.is_err(), "{length}");
    }
    for index in (0..token.len()).step_by(5) {
        let mut bytes = token.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        let token = String::from_utf8(bytes).unwrap();
        assert!(redeem(&vouching, &token).await.is_err(), "{index}");
    }
    let other =
        Signer { key: EncodingKey::from_secret(b"another secret of more than 32 bytes"), ..Signer::hs256() };
    assert_eq!(code(&vouching, &other.sign(&claims("1"))).await, "AUTH_TOKEN_INVALID");
    assert!(redeem(&vouching, &token).await.is_ok());
}

#[tokio::test]
async fn vip_007_tokens_that_live_too_long_are_refused() {
    let vouching = open(&[shared()]);
    let lasting =
        |jti: &str, seconds: u64| signed(jti, |claims| claims["exp"] = json!(NOW.as_secs() + seconds));
    assert_eq!(code(&vouching, &lasting("1", 301)).await, "AUTH_TOKEN_EXPIRED");
    assert_eq!(code(&vouching, &lasting("1", 3600)).await, "AUTH_TOKEN_EXPIRED");
    assert!(redeem(&vouching, &lasting("1", 300)).await.is_ok());
}

#[tokio::test]
async fn clocks_may_be_a_minute_apart() {
    let vouching = open(&[shared()]);
    let (second, moment) = (Duration::from_secs(1), Duration::from_micros(1));
    let now = NOW.as_secs();
    let ended = signed("1", |claims| claims["exp"] = json!(now + 240));
    let end = Timestamp::from_secs(now + 300);
    assert_eq!(at(&vouching, &ended, end).await.unwrap_err(), "AUTH_TOKEN_EXPIRED");
    assert_eq!(at(&vouching, &ended, end.after(second)).await.unwrap_err(), "AUTH_TOKEN_EXPIRED");
    assert!(at(&vouching, &ended, Timestamp::from_micros(end.as_micros() - 1)).await.is_ok());

    for (name, jti) in [("nbf", "2"), ("iat", "3")] {
        let early = signed(jti, |claims| {
            claims[name] = json!(now + 60);
            claims["exp"] = json!(now + 200);
        });
        let before = Timestamp::from_micros(NOW.as_micros() - moment.as_micros() as u64);
        assert_eq!(at(&vouching, &early, before).await.unwrap_err(), "AUTH_TOKEN_EXPIRED", "{name}");
        assert!(at(&vouching, &early, NOW).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn times_have_to_be_there_and_to_be_numbers() {
    let vouching = open(&[shared()]);
    for name in ["exp", "iat", "nbf"] {
        for value in [json!("2000000100"), json!(null), json!(-1), json!([]), json!(1e300)] {
            let token = signed("1", |claims| claims[name] = value.clone());
            assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{name} {value}");
        }
    }
    for name in ["exp", "iat"] {
        let token = signed("1", |claims| drop(claims.as_object_mut().unwrap().remove(name)));
        assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{name}");
    }
    let fraction = signed("1", |claims| claims["exp"] = json!(NOW.as_secs() as f64 + 100.5));
    assert!(redeem(&vouching, &fraction).await.is_ok());
}

#[tokio::test]
async fn tokens_for_another_audience_are_refused() {
    let vouching = open(&[shared()]);
    for value in [json!("https://else.example"), json!([]), json!(["a", "b"]), json!(null), json!({})] {
        let token = signed("1", |claims| claims["aud"] = value.clone());
        assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{value}");
    }
    let token = signed("1", |claims| claims["aud"] = json!(["https://else.example", AUDIENCE]));
    assert!(redeem(&vouching, &token).await.is_ok());

    let own = IssuerConfig { audience: Some("https://else.example".into()), ..shared() };
    let vouching = open(&[own]);
    assert_eq!(code(&vouching, &signed("1", |_| {})).await, "AUTH_TOKEN_INVALID");
    let token = signed("1", |claims| claims["aud"] = json!("https://else.example"));
    assert!(redeem(&vouching, &token).await.is_ok());
}

#[tokio::test]
async fn claims_have_to_be_there_and_of_their_types() {
    let vouching = open(&[shared()]);
    let long = |length: usize| json!("x".repeat(length));
    let cases = [
        ("/iss", vec![json!(null), json!(1), json!("")]),
        ("/sub", vec![json!(null), json!(1), json!(""), long(129), json!("a\u{0}b")]),
        ("/jti", vec![json!(null), json!(1), json!(""), long(257)]),
        ("/vip", vec![json!(null), json!([]), json!("x")]),
        ("/vip/app_id", vec![json!(null), json!(1), json!(""), long(65)]),
        ("/vip/env", vec![json!(null), json!("staging"), json!("Production"), json!(true)]),
        ("/vip/scopes", vec![json!("session:create"), json!([1]), json!(vec!["x"; 65])]),
        ("/vip/modes", vec![json!("external"), json!([1])]),
        ("/vip/max_session_s", vec![json!("60"), json!(0), json!(-1), json!(1.5)]),
        ("/vip/origins", vec![json!("https://shop.example"), json!([null])]),
        ("/vip/locale", vec![json!(1), json!(""), long(36)]),
    ];
    let full = |claims: &mut Value| {
        claims["vip"] = json!({
            "app_id": "shop-web", "env": "production", "scopes": ["session:create", "prompt:inline"],
            "modes": ["external"], "max_session_s": 60, "origins": ["https://shop.example"], "locale": "de-DE",
        });
    };
    for (pointer, values) in cases {
        for value in values {
            let token = signed("1", |claims| {
                full(claims);
                *claims.pointer_mut(pointer).unwrap() = value.clone();
            });
            assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{pointer} {value}");
        }
    }
    for (within, name) in
        [("", "iss"), ("", "sub"), ("", "aud"), ("", "jti"), ("", "vip"), ("/vip", "app_id"), ("/vip", "env")]
    {
        let token = signed("1", |claims| {
            drop(claims.pointer_mut(within).unwrap().as_object_mut().unwrap().remove(name));
        });
        assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{name}");
    }
    let (vouched, _) = redeem(&vouching, &signed("1", full)).await.unwrap();
    assert_eq!(vouched.scopes, ["session:create", "prompt:inline"]);
    assert_eq!(vouched.modes.unwrap(), ["external"]);
    assert_eq!(vouched.origins.unwrap(), ["https://shop.example"]);
    assert_eq!((vouched.max_session_s, vouched.locale.as_deref()), (Some(60), Some("de-DE")));

    let token = signed("2", |claims| drop(claims["vip"].as_object_mut().unwrap().remove("scopes")));
    assert!(
        redeem(&vouching, &token).await.unwrap().0.scopes.is_empty(),
        "without scopes nothing is allowed"
    );
}

#[tokio::test]
async fn the_first_failure_wins() {
    let vouching = open(&[shared()]);
    let used = signed("used", |_| {});
    assert!(redeem(&vouching, &used).await.is_ok());
    // Each has everything wrong that comes later in the order, too.
    let spoil = |claims: &mut Value, from: usize| {
        let steps: [&dyn Fn(&mut Value); 4] = [
            &|claims| claims["exp"] = json!(NOW.as_secs() - 100),
            &|claims| claims["aud"] = json!("https://else.example"),
            &|claims| claims["jti"] = json!("used"),
            &|claims| claims["vip"]["env"] = json!("staging"),
        ];
        steps[from..].iter().for_each(|step| step(claims));
    };
    let other = Signer { key: EncodingKey::from_secret(SECRET.to_uppercase().as_bytes()), ..Signer::hs256() };
    let all = changed("1", |claims| spoil(claims, 0));
    let unsigned = other.sign(&all);
    assert_eq!(message(&vouching, &unsigned).await, "wrong signature");
    for (from, expected) in [
        (0, "AUTH_TOKEN_EXPIRED"),
        (1, "AUTH_TOKEN_INVALID"),
        (2, "AUTH_TOKEN_REPLAYED"),
        (3, "AUTH_TOKEN_INVALID"),
    ] {
        assert_eq!(code(&vouching, &signed("1", |claims| spoil(claims, from))).await, expected, "{from}");
    }
}

async fn message(vouching: &crate::vouch::Vouching, token: &str) -> String {
    vouching.vouch(Some(token), false, true, AUDIENCE, NOW).await.unwrap_err().message
}
