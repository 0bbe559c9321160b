//! How a function knows that a request comes from its relay (§14.2): HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// A shared secret.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// Reads the text form, `whsec_` and the key in base64.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(KeyError::Prefix)?;
        let key = STANDARD.decode(encoded).map_err(|_| KeyError::Base64)?;
        if key.len() < MIN_KEY {
            return Err(KeyError::TooShort { bytes: key.len() });
        }
        // HMAC takes keys of any length, so this does not fail.
        Hmac::new_from_slice(&key).map(Self).map_err(|_| KeyError::TooShort { bytes: key.len() })
    }

    fn tag(&self, id: &str, timestamp: &str, body: &[u8]) -> [u8; TAG] {
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SigningKey(…)")
    }
}

/// Why a text is not a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Another beginning.
    #[error("a signing key begins with {PREFIX}")]
    Prefix,
    /// Not base64.
    #[error("what follows {PREFIX} must be base64 with padding")]
    Base64,
    /// Easy to guess.
    #[error("a signing key has {MIN_KEY} bytes or more, this one has {bytes}; make one from random bytes")]
    TooShort {
        /// Bytes it has.
        bytes: usize,
    },
}

/// `webhook-id` of a request: the same for every attempt of a leg, another for the next leg.
pub fn webhook_id(inv: &str, leg: u32) -> String {
    if leg == 0 { inv.to_owned() } else { format!("{inv}-{leg}") }
}

/// `webhook-signature` of a request, one signature per key; newest key first.
pub fn sign(keys: &[SigningKey], id: &str, timestamp_s: u64, body: &[u8]) -> String {
    let timestamp = timestamp_s.to_string();
    let signatures: Vec<String> = keys
        .iter()
        .map(|key| format!("{VERSION},{}", STANDARD.encode(key.tag(id, &timestamp, body))))
        .collect();
    signatures.join(" ")
}

/// Checks a request: `body` as it came, before anything reads it, and `now_s` from the function's own clock.
/// That an id was not seen before is for the caller to check (§14.2).
pub fn verify(
    keys: &[SigningKey],
    headers: SignedHeaders<'_>,
    body: &[u8],
    now_s: u64,
) -> Result<Verified, SignatureError> {
    let id = headers.id.ok_or(SignatureError::Missing(WEBHOOK_ID))?;
    let timestamp = headers.timestamp.ok_or(SignatureError::Missing(WEBHOOK_TIMESTAMP))?;
    let signature = headers.signature.ok_or(SignatureError::Missing(WEBHOOK_SIGNATURE))?;
    if keys.is_empty() {
        return Err(SignatureError::NoKeys);
    }
    // A dot would let the end of an id be taken for a timestamp.
    if !(1..=MAX_ID).contains(&id.len()) || id.bytes().any(|byte| byte == b'.' || !byte.is_ascii_graphic()) {
        return Err(SignatureError::Id);
    }
    let timestamp_s = read_timestamp(timestamp).ok_or(SignatureError::Timestamp)?;
    if now_s.saturating_sub(timestamp_s) > MAX_SKEW_S {
        return Err(SignatureError::TooOld { seconds: now_s.saturating_sub(timestamp_s) });
    }
    if timestamp_s.saturating_sub(now_s) > MAX_SKEW_S {
        return Err(SignatureError::TooNew { seconds: timestamp_s.saturating_sub(now_s) });
    }
    let given = read_signatures(signature)?;
    let mut matching = None;
    for (index, key) in keys.iter().enumerate() {
        let tag = key.tag(id, timestamp, body);
        for candidate in &given {
            if bool::from(tag.ct_eq(candidate)) {
                matching = matching.or(Some(index));
            }
        }
    }
    let key = matching.ok_or(SignatureError::Mismatch)?;
    Ok(Verified { id: id.to_owned(), timestamp_s, key })
}

/// The `bh` of a relay's token: SHA-256 of the body, base64url without padding.
pub fn body_hash(body: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(body))
}

/// The signature headers of a request, as they came.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignedHeaders<'a> {
    /// `webhook-id`.
    pub id: Option<&'a str>,
    /// `webhook-timestamp`.
    pub timestamp: Option<&'a str>,
    /// `webhook-signature`.
    pub signature: Option<&'a str>,
}

/// A request that is genuine and recent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// `webhook-id`, by which duplicates are told.
    pub id: String,
    /// When it was signed.
    pub timestamp_s: u64,
    /// Which key fits, as its place in the list; shows when an old one is not needed any more.
    pub key: usize,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// A header is not there.
    #[error(
        "the header {0} is missing: is the relay configured to sign, and do proxies pass its headers on?"
    )]
    Missing(&'static str),
    /// Nothing to check against.
    #[error("no signing key is configured: give the function the secret that the relay signs with")]
    NoKeys,
    /// `webhook-id`.
    #[error("{WEBHOOK_ID} must be 1 to {MAX_ID} visible characters without a dot")]
    Id,
    /// `webhook-timestamp`.
    #[error("{WEBHOOK_TIMESTAMP} must be whole Unix seconds")]
    Timestamp,
    /// Signed too long ago.
    #[error(
        "signed {seconds} s ago, at most {MAX_SKEW_S} are accepted: compare the clocks, or it is a replay"
    )]
    TooOld {
        /// Age.
        seconds: u64,
    },
    /// Signed in the future.
    #[error("signed {seconds} s in the future, at most {MAX_SKEW_S} are accepted: compare the clocks")]
    TooNew {
        /// Distance.
        seconds: u64,
    },
    /// No `v1` signature.
    #[error("{WEBHOOK_SIGNATURE} holds no {VERSION} signature: configure the relay to sign with HMAC")]
    Version,
    /// `v1` signatures that cannot be one.
    #[error("{WEBHOOK_SIGNATURE} holds no {VERSION} signature of {TAG} bytes in base64")]
    Malformed,
    /// Made with another secret, or over another request.
    #[error("no signature fits: compare the secrets, and verify the body as it came, byte for byte")]
    Mismatch,
}

/// Header with the id of the request.
pub const WEBHOOK_ID: &str = "webhook-id";
/// Header with the time of signing.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// Header with the signatures.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// Largest difference between the clocks of relay and function.
pub const MAX_SKEW_S: u64 = 300;
/// Most signatures of a header that are looked at.
pub const MAX_SIGNATURES: usize = 16;
const PREFIX: &str = "whsec_";
const VERSION: &str = "v1";
const MIN_KEY: usize = 24;
const MAX_ID: usize = 64;
const TAG: usize = 32;

/// Digits only: the text is signed, so it must have one form.
fn read_timestamp(text: &str) -> Option<u64> {
    let digits = (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn read_signatures(header: &str) -> Result<Vec<[u8; TAG]>, SignatureError> {
    let entries = header.split_ascii_whitespace().take(MAX_SIGNATURES);
    let ours: Vec<&str> = entries
        .filter_map(|entry| entry.split_once(','))
        .filter(|(version, _)| *version == VERSION)
        .map(|(_, signature)| signature)
        .collect();
    if ours.is_empty() {
        return Err(SignatureError::Version);
    }
    let read = |text: &str| STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    let tags: Vec<[u8; TAG]> = ours.into_iter().filter_map(read).collect();
    if tags.is_empty() { Err(SignatureError::Malformed) } else { Ok(tags) }
}
