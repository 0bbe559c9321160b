//! Signatures. Expected values were computed with another implementation of HMAC.

use switchboard_asp::relay::sign::{KeyError, MAX_SIGNATURES};
use switchboard_asp::relay::{
    SignatureError, SignedHeaders, SigningKey, body_hash, sign, verify, webhook_id,
};

/// T24 of the reference.
const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY: &[u8] = br#"{"asp":1,"event":"invoke","cid":"7f8a0000000000000000000000000001","rid":1,"inv":"inv_01","attempt":1,"enc":"json","payload":{"kind":"chat","input":"hi"}}"#;
const SIGNATURE: &str = "v1,8dkoeaK0xVLcLWWCFtUPKJUMvr+BdUZcn7S7/7Nn8Mg=";
const NOW: u64 = 1_767_225_600;
const OTHER_SECRET: &str = "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7";

fn key(text: &str) -> SigningKey {
    SigningKey::from_text(text).unwrap()
}

fn headers<'a>(id: &'a str, timestamp: &'a str, signature: &'a str) -> SignedHeaders<'a> {
    SignedHeaders { id: Some(id), timestamp: Some(timestamp), signature: Some(signature) }
}

fn check(headers: SignedHeaders<'_>, body: &[u8], now_s: u64) -> Result<usize, SignatureError> {
    verify(&[key(SECRET)], headers, body, now_s).map(|verified| verified.key)
}

fn genuine() -> SignedHeaders<'static> {
    headers("inv_01", "1767225600", SIGNATURE)
}

#[test]
fn signatures_are_those_of_another_implementation() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let long_key = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiYw==";
    let block_key =
        "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2traw==";
    let vectors: [(&str, &str, u64, &[u8], &str); 5] = [
        (SECRET, "inv_01", NOW, BODY, SIGNATURE),
        (OTHER_SECRET, "inv_01-1", 1_767_225_601, BODY, "v1,3dPvh/HROIq21yy7rn/cTXMitt3vjYQ7O4Fn351pk20="),
        (block_key, "x", 0, b"", "v1,2AXFJCm3LxT26KPJVVVz3FgZ6fdpEQGi5bfKVy/1k2M="),
        (long_key, "inv-2", 9_999_999_999, &all_bytes, "v1,AIwr7VIl9u/yugPrvcDeRMbffOssnzQJE5ZvimMSTCk="),
        (
            SECRET,
            "inv_01",
            NOW,
            "{\"d\":\"Grüße 👋\"}".as_bytes(),
            "v1,ngyHFKgOYRaQtgzVY7XHZI7PoRwfUk7rqcp2ElsFF0M=",
        ),
    ];
    for (secret, id, timestamp, body, expected) in vectors {
        assert_eq!(sign(&[key(secret)], id, timestamp, body), expected, "{id}");
        let timestamp_text = timestamp.to_string();
        let verified =
            verify(&[key(secret)], headers(id, &timestamp_text, expected), body, timestamp).unwrap();
        assert_eq!((verified.id.as_str(), verified.timestamp_s, verified.key), (id, timestamp, 0));
    }
}

#[test]
fn a_body_has_a_hash_for_tokens() {
    assert_eq!(body_hash(BODY), "nCVPb0MsAC6SjQeDdvwo0suGmqVYWRJi1qv1TCJNQjo");
    assert_eq!(body_hash(b""), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
}

#[test]
fn a_leg_has_an_id_of_its_own() {
    assert_eq!(webhook_id("inv_01", 0), "inv_01");
    assert_eq!(webhook_id("inv_01", 1), "inv_01-1");
    assert_eq!(webhook_id("inv_01", 12), "inv_01-12");
}

#[test]
fn asp_060_a_request_that_was_tampered_with_is_refused() {
    assert_eq!(check(genuine(), BODY, NOW), Ok(0));
    for at in 0..BODY.len() {
        let mut body = BODY.to_vec();
        body[at] ^= 1;
        assert_eq!(check(genuine(), &body, NOW), Err(SignatureError::Mismatch), "byte {at}");
        assert_eq!(check(genuine(), &BODY[..at], NOW), Err(SignatureError::Mismatch), "cut at {at}");
    }
    let longer = [BODY, b" "].concat();
    assert_eq!(check(genuine(), &longer, NOW), Err(SignatureError::Mismatch));
    for id in ["inv_02", "inv_01-1", "inv_0", "inv_011"] {
        assert_eq!(check(headers(id, "1767225600", SIGNATURE), BODY, NOW), Err(SignatureError::Mismatch));
    }
    let later = headers("inv_01", "1767225601", SIGNATURE);
    assert_eq!(check(later, BODY, NOW), Err(SignatureError::Mismatch));
    // The same number in another form was not signed.
    let padded = headers("inv_01", "01767225600", SIGNATURE);
    assert_eq!(check(padded, BODY, NOW), Err(SignatureError::Mismatch));
    let wrong_key = verify(&[key(OTHER_SECRET)], genuine(), BODY, NOW);
    assert_eq!(wrong_key, Err(SignatureError::Mismatch));
    for at in 3..SIGNATURE.len() {
        let mut signature = SIGNATURE.as_bytes().to_vec();
        signature[at] = if signature[at] == b'A' { b'B' } else { b'A' };
        let signature = String::from_utf8(signature).unwrap();
        assert!(check(headers("inv_01", "1767225600", &signature), BODY, NOW).is_err(), "{signature}");
    }
}

#[test]
fn asp_060_a_timestamp_too_far_from_now_is_refused() {
    for distance in [0, 1, 299, 300] {
        assert_eq!(check(genuine(), BODY, NOW + distance), Ok(0), "{distance} s old");
        assert_eq!(check(genuine(), BODY, NOW - distance), Ok(0), "{distance} s early");
    }
    assert_eq!(check(genuine(), BODY, NOW + 301), Err(SignatureError::TooOld { seconds: 301 }));
    assert_eq!(check(genuine(), BODY, u64::MAX), Err(SignatureError::TooOld { seconds: u64::MAX - NOW }));
    assert_eq!(check(genuine(), BODY, NOW - 301), Err(SignatureError::TooNew { seconds: 301 }));
    assert_eq!(check(genuine(), BODY, 0), Err(SignatureError::TooNew { seconds: NOW }));
}

#[test]
fn asp_060_what_is_missing_or_malformed_is_refused_and_named() {
    let full = genuine();
    let missing = [
        (SignedHeaders { id: None, ..full }, "webhook-id"),
        (SignedHeaders { timestamp: None, ..full }, "webhook-timestamp"),
        (SignedHeaders { signature: None, ..full }, "webhook-signature"),
    ];
    for (headers, name) in missing {
        assert_eq!(check(headers, BODY, NOW), Err(SignatureError::Missing(name)));
    }
    assert_eq!(verify(&[], full, BODY, NOW), Err(SignatureError::NoKeys));
    let long_id = "x".repeat(65);
    for id in ["", "inv.01", "inv 01", "inv\n01", "ïnv", &long_id] {
        let headers = SignedHeaders { id: Some(id), ..full };
        assert_eq!(check(headers, BODY, NOW), Err(SignatureError::Id), "{id:?}");
    }
    for timestamp in
        ["", "now", "-1", "+1767225600", "1767225600.0", " 1767225600", "0x10", "1234567890123456"]
    {
        let headers = SignedHeaders { timestamp: Some(timestamp), ..full };
        assert_eq!(check(headers, BODY, NOW), Err(SignatureError::Timestamp), "{timestamp:?}");
    }
    for signature in ["", "   ", "v1", "v1a,8dkoeaK0xVLcLWWCFtUPKJUMvr+BdUZcn7S7/7Nn8Mg=", "V1,AA==", "abc"] {
        let headers = SignedHeaders { signature: Some(signature), ..full };
        assert_eq!(check(headers, BODY, NOW), Err(SignatureError::Version), "{signature:?}");
    }
    for signature in ["v1,", "v1,!!!!", "v1,AAAA", "v1,8dkoeaK0xVLcLWWCFtUPKJUMvr+BdUZcn7S7/7Nn8Mg"] {
        let headers = SignedHeaders { signature: Some(signature), ..full };
        assert_eq!(check(headers, BODY, NOW), Err(SignatureError::Malformed), "{signature:?}");
    }
}

#[test]
fn every_refusal_has_words_of_its_own() {
    let refusals = [
        SignatureError::Missing("webhook-id"),
        SignatureError::NoKeys,
        SignatureError::Id,
        SignatureError::Timestamp,
        SignatureError::TooOld { seconds: 301 },
        SignatureError::TooNew { seconds: 301 },
        SignatureError::Version,
        SignatureError::Malformed,
        SignatureError::Mismatch,
    ];
    let words: std::collections::BTreeSet<String> = refusals.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), refusals.len());
}

#[test]
fn keys_can_be_changed_while_requests_are_under_way() {
    let (old, new) = (key(SECRET), key(OTHER_SECRET));
    let both = sign(&[new.clone(), old.clone()], "inv_01", NOW, BODY);
    let (first, second) = both.split_once(' ').unwrap();
    assert_eq!(first, sign(std::slice::from_ref(&new), "inv_01", NOW, BODY));
    assert_eq!(second, SIGNATURE);
    let headers = headers("inv_01", "1767225600", &both);
    for (keys, expected) in [
        (vec![old.clone()], 0),
        (vec![new.clone()], 0),
        (vec![old.clone(), new.clone()], 0),
        (vec![new.clone(), old.clone()], 0),
    ] {
        assert_eq!(verify(&keys, headers, BODY, NOW).unwrap().key, expected);
    }
    // A function that knows both is told which one was used.
    assert_eq!(verify(&[new, old], genuine(), BODY, NOW).unwrap().key, 1);
}

#[test]
fn other_versions_are_skipped_and_the_number_of_signatures_is_bounded() {
    let mixed = format!("v1a,c29tZXRoaW5n v2,AAAA broken {SIGNATURE}");
    assert_eq!(check(headers("inv_01", "1767225600", &mixed), BODY, NOW), Ok(0));
    let wrong = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let within = format!("{} {SIGNATURE}", [wrong; MAX_SIGNATURES - 1].join(" "));
    assert_eq!(check(headers("inv_01", "1767225600", &within), BODY, NOW), Ok(0));
    let beyond = format!("{} {SIGNATURE}", [wrong; MAX_SIGNATURES].join(" "));
    let refused = check(headers("inv_01", "1767225600", &beyond), BODY, NOW);
    assert_eq!(refused, Err(SignatureError::Mismatch));
}

#[test]
fn a_key_is_read_from_its_text_and_never_shown() {
    let fault = |text: &str| SigningKey::from_text(text).err();
    assert_eq!(fault(OTHER_SECRET), None, "24 bytes are enough");
    assert_eq!(fault("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), Some(KeyError::Prefix));
    assert_eq!(fault("WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), Some(KeyError::Prefix));
    assert_eq!(fault("whsec_not base64 at all, but long enough to be one"), Some(KeyError::Base64));
    assert_eq!(fault("whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXo="), Some(KeyError::TooShort { bytes: 23 }));
    assert_eq!(fault("whsec_"), Some(KeyError::TooShort { bytes: 0 }));
    let shown = format!("{:?}", key(SECRET));
    assert_eq!(shown, "SigningKey(…)");
}
