//! Tokens of this server.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};
use switchboard_core::Timestamp;
use switchboard_vip::token::{EPHEMERAL, SESSION, Seal as _, Unsealed};

use super::NOW;
use super::support::{Signer, forged};
use crate::vouch::Keys;

const HOUR: u64 = 3600;

/// A clock that is set by hand.
#[derive(Clone)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(NOW.as_secs())))
    }

    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn open(&self, folder: Option<&Path>) -> Keys {
        let hands = self.0.clone();
        Keys::open(folder, move || Timestamp::from_secs(hands.load(Ordering::SeqCst))).unwrap()
    }
}

fn claims() -> Value {
    json!({"iss": "https://vip.example", "sub": "user-42", "exp": 1, "nested": {"z": 1, "a": "ü"}})
}

fn kids(keys: &Keys) -> Vec<String> {
    let set = keys.key_set();
    set["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tokens_are_opened_by_whoever_signed_them_and_by_nobody_else() {
    let (keys, other) = (Hands::new().open(None), Hands::new().open(None));
    let token = keys.sign(SESSION, &claims());
    assert_eq!(token, keys.sign(SESSION, &claims()), "the same claims, the same token");
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)), "{token}");
    assert_eq!(keys.open(SESSION, &token), Ok(claims()));
    assert_eq!(keys.open(EPHEMERAL, &token), Err(Unsealed::Invalid), "another type");
    assert_eq!(other.open(SESSION, &token), Err(Unsealed::Invalid), "another key");
    for index in 0..token.len() {
        assert_eq!(keys.open(SESSION, &token[..index]), Err(Unsealed::Invalid), "{index}");
        let mut bytes = token.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        assert!(keys.open(SESSION, &String::from_utf8(bytes).unwrap()).is_err(), "{index}");
    }
    for more in ["=", ".", "A"] {
        assert_eq!(keys.open(SESSION, &format!("{token}{more}")), Err(Unsealed::Invalid), "{more}");
    }
}

#[test]
fn vip_003_no_other_algorithm_is_known() {
    let keys = Hands::new().open(None);
    let kid = kids(&keys).remove(0);
    let token = keys.sign(SESSION, &claims());
    let signature = token.rsplit('.').next().unwrap();
    for alg in ["none", "None", "", "HS256", "ES256", "RS256", "eddsa"] {
        for signature in ["", signature] {
            let token = forged(&json!({"alg": alg, "typ": SESSION, "kid": kid}), &claims(), signature);
            assert_eq!(keys.open(SESSION, &token), Err(Unsealed::Algorithm), "{alg}");
        }
    }
    // The public key as a shared secret.
    let x = keys.key_set()["keys"][0]["x"].as_str().unwrap().to_owned();
    for secret in [x.as_bytes(), &URL_SAFE_NO_PAD.decode(&x).unwrap()] {
        let confused = Signer { key: jsonwebtoken::EncodingKey::from_secret(secret), ..Signer::hs256() };
        assert_eq!(keys.open(SESSION, &confused.sign_as(SESSION, &claims())), Err(Unsealed::Algorithm));
    }
    for header in [
        json!({"alg": "EdDSA", "typ": SESSION}),
        json!({"alg": "EdDSA", "typ": SESSION, "kid": "unknown"}),
        json!({"alg": "EdDSA", "kid": kid}),
        json!({"alg": "EdDSA", "typ": SESSION, "kid": kid, "crit": ["b64"]}),
    ] {
        assert_eq!(
            keys.open(SESSION, &forged(&header, &claims(), signature)),
            Err(Unsealed::Invalid),
            "{header}"
        );
    }
}

#[test]
fn anybody_can_verify_with_the_published_keys() {
    let keys = Hands::new().open(None);
    let set = keys.key_set();
    let jwk: Jwk = serde_json::from_value(set["keys"][0].clone()).unwrap();
    let token = keys.sign(SESSION, &claims());
    let header = jsonwebtoken::decode_header(&token).unwrap();
    assert_eq!(header.kid, jwk.common.key_id);
    Signer::hs256().sign(&claims());
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.validate_exp = false;
    let key = DecodingKey::from_jwk(&jwk).unwrap();
    assert_eq!(jsonwebtoken::decode::<Value>(&token, &key, &validation).unwrap().claims, claims());
    assert!(set["keys"][0].get("d").is_none() && !set.to_string().contains("seed"));
}

#[test]
fn keys_survive_a_restart_and_nobody_else_can_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vip/keys");
    let hands = Hands::new();
    let token = hands.open(Some(&path)).sign(SESSION, &claims());
    let keys = hands.open(Some(&path));
    assert_eq!(keys.open(SESSION, &token), Ok(claims()));
    let files: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let seed: Value = serde_json::from_slice(&std::fs::read(files[0].path()).unwrap()).unwrap();
    assert!(!format!("{keys:?}").contains(seed["seed"].as_str().unwrap()));
}

#[test]
fn replaced_keys_are_believed_for_as_long_as_a_session_can_last() {
    let folder = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let keys = hands.open(Some(folder.path()));
    let token = keys.sign(SESSION, &claims());
    hands.pass(100 * HOUR);
    assert_eq!(keys.open(SESSION, &token), Ok(claims()), "a key that was not replaced does not end");
    keys.rotate().unwrap();
    let newer = keys.sign(SESSION, &claims());
    assert_ne!(token, newer);
    assert_eq!(kids(&keys).len(), 2);
    assert_eq!(jsonwebtoken::decode_header(&newer).unwrap().kid.as_deref(), Some(kids(&keys)[0].as_str()));

    hands.pass(4 * HOUR - 1);
    for keys in [&keys, &hands.open(Some(folder.path()))] {
        assert_eq!(keys.open(SESSION, &token), Ok(claims()));
        assert_eq!(keys.sign(SESSION, &claims()), newer, "after a restart, too");
    }
    hands.pass(1);
    assert_eq!(keys.open(SESSION, &token), Err(Unsealed::Invalid));
    assert_eq!(kids(&keys).len(), 1);
    assert_eq!(keys.open(SESSION, &newer), Ok(claims()));
    assert!(!keys.tend().unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of it");
}

#[test]
fn keys_are_replaced_once_a_month_and_as_often_as_one_likes() {
    let folder = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let first = kids(&hands.open(Some(folder.path())));
    hands.pass(30 * 24 * HOUR - 1);
    assert_eq!(kids(&hands.open(Some(folder.path()))), first);
    hands.pass(1);
    let keys = hands.open(Some(folder.path()));
    let second = kids(&keys);
    assert_eq!((second.len(), &second[1..]), (2, &first[..]));
    // All within the same second, and yet in order.
    for _ in 0..3 {
        keys.rotate().unwrap();
    }
    assert_eq!(kids(&keys), kids(&hands.open(Some(folder.path()))));
    assert_eq!(kids(&keys)[3..], second);
}

#[test]
fn a_damaged_key_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.key"), "{}").unwrap();
    let error = Keys::open(Some(folder.path()), || NOW).unwrap_err();
    assert!(error.problem.contains("x.key"), "{error}");
}
