//! A token counts once.

use std::sync::Arc;

use serde_json::json;
use switchboard_core::Timestamp;

use super::NOW;
use super::support::{
    AUDIENCE, ISSUER, Signer, at, changed, claims, code, open, open_with, redeem, secrets, shared,
};
use crate::vouch::{DevelopmentConfig, IssuerConfig, Vouching};

fn later(seconds: u64) -> Timestamp {
    Timestamp::from_secs(NOW.as_secs() + seconds)
}

#[tokio::test]
async fn vip_006_a_second_use_is_refused() {
    let vouching = open(&[shared()]);
    let token = Signer::hs256().sign(&claims("1"));
    assert!(redeem(&vouching, &token).await.is_ok());
    assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_REPLAYED");
    let again = changed("1", |claims| claims["sub"] = json!("somebody else"));
    assert_eq!(code(&vouching, &Signer::hs256().sign(&again)).await, "AUTH_TOKEN_REPLAYED", "the jti counts");
    assert!(redeem(&vouching, &Signer::hs256().sign(&claims("2"))).await.is_ok());
}

#[tokio::test]
async fn looking_does_not_use_a_token_up() {
    let vouching = open(&[shared()]);
    let token = Signer::hs256().sign(&claims("1"));
    let look = || vouching.vouch(Some(&token), false, false, AUDIENCE, NOW);
    assert!(!look().await.unwrap().0.replayed);
    assert!(!look().await.unwrap().0.replayed);
    assert!(!redeem(&vouching, &token).await.unwrap().0.replayed);
    let (vouched, principal) = look().await.unwrap();
    assert!(vouched.replayed, "and whoever looks is told");
    assert_eq!(principal.id.as_str(), vouched.own);
}

#[tokio::test]
async fn tokens_of_different_issuers_are_different() {
    let other = IssuerConfig { issuer: "https://other.example".into(), ..shared() };
    let vouching = open(&[shared(), other]);
    assert!(redeem(&vouching, &Signer::hs256().sign(&claims("1"))).await.is_ok());
    let theirs = changed("1", |claims| claims["iss"] = json!("https://other.example"));
    assert!(redeem(&vouching, &Signer::hs256().sign(&theirs)).await.is_ok());
    // However the words are cut.
    let shifted = changed(&format!("{ISSUER}1"), |_| {});
    assert!(redeem(&vouching, &Signer::hs256().sign(&shifted)).await.is_ok());
}

#[tokio::test]
async fn a_refused_token_is_not_used_up() {
    let vouching = open(&[shared()]);
    let wrong = changed("1", |claims| claims["aud"] = json!("https://else.example"));
    assert_eq!(code(&vouching, &Signer::hs256().sign(&wrong)).await, "AUTH_TOKEN_INVALID");
    assert!(redeem(&vouching, &Signer::hs256().sign(&claims("1"))).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn vip_006_of_many_at_once_exactly_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let vouching = Arc::new(open_with(&[shared()], &DevelopmentConfig::default(), Some(folder.path())));
    let tokens: Vec<String> =
        (0..8).map(|index| Signer::hs256().sign(&claims(&format!("t{index}")))).collect();
    let attempts: Vec<_> = (0..64)
        .map(|index| {
            let (vouching, token) = (Arc::clone(&vouching), tokens[index % tokens.len()].clone());
            tokio::spawn(async move { redeem(&vouching, &token).await.map(drop) })
        })
        .collect();
    let mut won = 0;
    for attempt in attempts {
        match attempt.await.unwrap() {
            Ok(()) => won += 1,
            Err(code) => assert_eq!(code, "AUTH_TOKEN_REPLAYED"),
        }
    }
    assert_eq!(won, tokens.len());
    let written = std::fs::read_to_string(folder.path().join("redeemed")).unwrap();
    assert_eq!(written.lines().count(), tokens.len(), "written down before the answer");
}

#[tokio::test]
async fn vip_006_a_restart_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let reopen = |now| {
        let development = DevelopmentConfig::default();
        Vouching::open(&[shared()], &development, false, &secrets(), Some(folder.path()), now).unwrap()
    };
    let token = Signer::hs256().sign(&claims("1"));
    assert!(redeem(&reopen(NOW), &token).await.is_ok());
    assert_eq!(code(&reopen(NOW), &token).await, "AUTH_TOKEN_REPLAYED");
    // A write that was cut off was never answered.
    let path = folder.path().join("redeemed");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("2000000300 abc");
    std::fs::write(&path, &text).unwrap();
    let vouching = reopen(later(299));
    assert_eq!(at(&vouching, &token, later(299)).await.unwrap_err(), "AUTH_TOKEN_REPLAYED", "until it ends");
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);

    drop(reopen(later(1000)));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "", "what has ended is left out");
}

#[test]
fn a_damaged_file_keeps_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("redeemed"), "rubbish\n").unwrap();
    let development = DevelopmentConfig::default();
    let opened = Vouching::open(&[], &development, false, &secrets(), Some(folder.path()), NOW);
    assert!(opened.unwrap_err().problem.contains("is damaged"));
}
