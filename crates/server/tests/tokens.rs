//! Tokens that were changed: whatever somebody does to one, it opens nothing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use switchboard_core::Timestamp;
use switchboard_server::auth::Authenticator;
use switchboard_server::vouch::Keys;
use switchboard_vip::token::{SESSION, Seal as _};

use support::{ANN, SECRET, config, token};

fn now() -> Timestamp {
    Timestamp::from_secs(jsonwebtoken::get_current_timestamp())
}

/// Numbers from a seed, so that a failure can be seen again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// A token in which something is different: letters, parts, their order, their number.
fn changed(token: &str, dice: &mut Dice) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \0\xff";
    let mut bytes = token.as_bytes().to_vec();
    for _ in 0..=dice.below(3) {
        let place = dice.below(bytes.len());
        let letter = LETTERS[dice.below(LETTERS.len())];
        match dice.below(7) {
            0..3 if !bytes.is_empty() => bytes[place] = letter,
            3 => bytes.insert(place, letter),
            4 if !bytes.is_empty() => drop(bytes.remove(place)),
            5 => bytes.truncate(place),
            _ => {
                let mut parts: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'.').map(<[u8]>::to_vec).collect();
                let one = dice.below(parts.len());
                let other = dice.below(parts.len());
                parts[one] = parts[other].clone();
                bytes = parts.join(&b'.');
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether two texts are the same token: the last letter of base64 has bits that mean nothing.
fn is_same(one: &str, other: &str) -> bool {
    let read = |token: &str| -> Option<Vec<Vec<u8>>> {
        token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).ok()).collect()
    };
    one == other || read(one).is_some_and(|bytes| read(other) == Some(bytes))
}

#[test]
fn a_changed_credential_is_nobodys() {
    let data = tempfile::tempdir().unwrap();
    let authenticator = Authenticator::new(&config(data.path(), &[])).unwrap();
    for good in [token("ann", 3600), ANN.unwrap().to_owned()] {
        assert!(authenticator.authenticate(Some(&good), now()).is_ok());
        let mut dice = Dice(7);
        for _ in 0..1000 {
            let other = changed(&good, &mut dice);
            if !is_same(&good, &other) {
                let known = authenticator.authenticate(Some(&other), now());
                assert!(known.is_err(), "{other} is {known:?}");
            }
        }
    }
}

#[test]
fn a_token_says_neither_by_whom_nor_how_it_is_to_be_checked() {
    let data = tempfile::tempdir().unwrap();
    let authenticator = Authenticator::new(&config(data.path(), &[])).unwrap();
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let exp = jsonwebtoken::get_current_timestamp() + 3600;
    let claims = json!({
        "iss": "https://issuer.test", "aud": "https://switchboard.test", "sub": "ann", "exp": exp,
    });
    for alg in ["none", "None", "NONE", "HS512", "HS384", "RS256", "ES256", "EdDSA", ""] {
        let head = encode(&json!({ "alg": alg, "typ": "JWT" }));
        let body = encode(&claims);
        let signed = token("ann", 3600);
        for signature in ["", signed.rsplit('.').next().unwrap(), "AAAA"] {
            let forged = format!("{head}.{body}.{signature}");
            assert!(authenticator.authenticate(Some(&forged), now()).is_err(), "{alg} {signature}");
        }
    }
    // Signed with the right secret, but for somebody else, by somebody else, or not yet.
    for (member, value) in [
        ("iss", json!("https://other.test")),
        ("aud", json!("https://other.test")),
        ("exp", json!(1)),
        ("exp", Value::Null),
        ("nbf", json!(exp)),
        ("sub", json!("")),
        ("sub", json!(5)),
    ] {
        let mut claims = claims.clone();
        claims[member] = value;
        let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
        let signed = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap();
        assert!(authenticator.authenticate(Some(&signed), now()).is_err(), "{member}");
    }
}

#[test]
fn a_changed_token_of_our_own_is_none() {
    let keys = Keys::open(None, now).unwrap();
    let good = keys.sign(SESSION, &json!({ "sub": "ann", "sid": "vs_1" }));
    assert!(keys.open(SESSION, &good).is_ok());
    assert!(keys.open("vip-ephemeral+jwt", &good).is_err(), "a token is good for one thing");
    let mut dice = Dice(11);
    for _ in 0..1000 {
        let other = changed(&good, &mut dice);
        if !is_same(&good, &other) {
            assert!(keys.open(SESSION, &other).is_err(), "{other}");
        }
    }
    let others = Keys::open(None, now).unwrap();
    assert!(others.open(SESSION, &good).is_err(), "a server believes itself alone");
}
