//! Public keys of issuers: from a file, or from where the issuer publishes them.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use parking_lot::Mutex;
use serde_json::Value;
use switchboard_core::Timestamp;

use super::config::AppAlgorithm;
use super::http::Place;
use super::setup_error;
use crate::auth::AuthSetupError;

/// A set of public keys. Shared secrets never get into it.
#[derive(Default)]
pub(super) struct PublicKeys {
    keys: Vec<PublicKey>,
}

struct PublicKey {
    kid: String,
    algorithm: AppAlgorithm,
    key: DecodingKey,
}

impl PublicKeys {
    /// The keys of a set, or the single key, that is written here. Keys of other kinds are left out, since a set
    /// may serve others, too. None if it is nothing of the sort.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let keys = match value.get("keys") {
            Some(keys) => keys.as_array()?.as_slice(),
            None if value.get("kty").is_some() => std::slice::from_ref(&value),
            None => return None,
        };
        let keys = keys.iter().take(MAX_KEYS).filter_map(PublicKey::read).collect();
        Some(Self { keys })
    }

    pub(super) fn find(&self, kid: &str, algorithm: AppAlgorithm) -> Option<DecodingKey> {
        let found = self.keys.iter().find(|key| key.kid == kid && key.algorithm == algorithm)?;
        Some(found.key.clone())
    }

    pub(super) fn has(&self, algorithm: AppAlgorithm) -> bool {
        self.keys.iter().any(|key| key.algorithm == algorithm)
    }
}

impl PublicKey {
    fn read(value: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        let (algorithm, named) = if let AlgorithmParameters::EllipticCurve(ec) = &jwk.algorithm
            && ec.curve == EllipticCurve::P256
        {
            (AppAlgorithm::Es256, KeyAlgorithm::ES256)
        } else if let AlgorithmParameters::OctetKeyPair(pair) = &jwk.algorithm
            && pair.curve == EllipticCurve::Ed25519
        {
            (AppAlgorithm::EdDsa, KeyAlgorithm::EdDSA)
        } else if let AlgorithmParameters::RSA(_) = &jwk.algorithm {
            (AppAlgorithm::Rs256, KeyAlgorithm::RS256)
        } else {
            return None;
        };
        let common = &jwk.common;
        let signs = common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
            && common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
        let pinned = common.key_algorithm.is_none_or(|alg| alg == named);
        if !signs || !pinned {
            return None;
        }
        let kid = common.key_id.clone()?;
        Some(Self { kid, algorithm, key: DecodingKey::from_jwk(&jwk).ok()? })
    }
}

/// Why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    /// The issuer has no such key.
    Unknown,
    /// The issuer could not be asked.
    Unavailable,
}

/// The keys that an issuer publishes, fetched when they are needed.
pub(super) struct RemoteKeys {
    place: Place,
    cache: Mutex<Cache>,
    /// Held by whoever fetches, so that those who come meanwhile wait for the same answer.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Cache {
    keys: Option<(PublicKeys, Timestamp)>,
    /// When the last attempt began, if it brought nothing.
    failed_at: Option<Timestamp>,
    /// When the last fetch for the sake of an unknown key began.
    refetched_at: Option<Timestamp>,
    /// How many attempts have ended.
    attempts: u64,
}

impl RemoteKeys {
    pub(super) fn new(key: &str, url: &str) -> Result<Self, AuthSetupError> {
        let place = Place::new(key, url, FETCH_TIMEOUT)?;
        if !place.is_private() {
            let problem = "has to begin with https://: whoever is on the way could say whose tokens are good";
            return Err(setup_error(key, problem));
        }
        Ok(Self { place, cache: Mutex::default(), turn: Arc::default() })
    }

    pub(super) async fn find(
        self: &Arc<Self>,
        kid: &str,
        algorithm: AppAlgorithm,
        now: Timestamp,
    ) -> Result<DecodingKey, NoKey> {
        let seen = {
            let cache = self.cache.lock();
            if let Some(key) = cache.younger_than(FRESH, now).and_then(|keys| keys.find(kid, algorithm)) {
                return Ok(key);
            }
            cache.attempts
        };
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let due = {
            let mut cache = self.cache.lock();
            cache.attempts == seen && cache.begin(now)
        };
        if due {
            // On its own, so that a caller who hangs up does not spoil it for the others.
            let this = Arc::clone(self);
            let fetch = tokio::spawn(async move {
                this.fetch(now).await;
                drop(turn);
            });
            let _ = fetch.await;
        } else {
            drop(turn);
        }
        let cache = self.cache.lock();
        match cache.younger_than(STALE, now).and_then(|keys| keys.find(kid, algorithm)) {
            Some(key) => Ok(key),
            None if cache.failed_at.is_some() => Err(NoKey::Unavailable),
            None => Err(NoKey::Unknown),
        }
    }

    async fn fetch(&self, now: Timestamp) {
        let answer = self.place.get(MAX_SET_BYTES).await;
        let (keys, reason) = match answer {
            Ok(answer) if answer.is_success() => (PublicKeys::parse(&answer.body), "no key set"),
            Ok(_) => (None, "refused"),
            Err(_) => (None, "unreachable, too slow or too long"),
        };
        let mut cache = self.cache.lock();
        cache.attempts += 1;
        match keys {
            Some(keys) => {
                cache.keys = Some((keys, now));
                cache.failed_at = None;
            }
            None => {
                cache.failed_at = Some(now);
                tracing::warn!(reason, "the keys of an issuer cannot be fetched");
            }
        }
    }
}

impl Cache {
    fn younger_than(&self, age: Duration, now: Timestamp) -> Option<&PublicKeys> {
        let (keys, fetched_at) = self.keys.as_ref()?;
        (now.since(*fetched_at) < age).then_some(keys)
    }

    /// Whether it is time to ask the issuer; if so, that is taken note of.
    fn begin(&mut self, now: Timestamp) -> bool {
        let rested = |since: Option<Timestamp>, pause| since.is_none_or(|since| now.since(since) >= pause);
        if self.younger_than(FRESH, now).is_some() {
            // What is there is good, so that somebody has named an unknown key.
            let due = rested(self.refetched_at, REFETCH_PAUSE);
            if due {
                self.refetched_at = Some(now);
            }
            return due;
        }
        let pause = if self.keys.is_some() { REFETCH_PAUSE } else { FIRST_PAUSE };
        rested(self.failed_at, pause)
    }
}

/// How long keys are used without a question.
const FRESH: Duration = Duration::from_secs(600);
/// How long they are used while the issuer does not answer.
const STALE: Duration = Duration::from_secs(3600);
/// Between two fetches for the sake of unknown keys, or in vain.
const REFETCH_PAUSE: Duration = Duration::from_secs(30);
/// Between two fetches in vain while there are no keys at all.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_SET_BYTES: usize = 256 << 10;
const MAX_KEYS: usize = 100;
