//! The keys with which this server signs tokens of its own.
//!
//! Each key is a file of the data folder. The newest signs; one that was replaced is still believed for as long as
//! a session can last, so that no token dies of a rotation.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use switchboard_core::Timestamp;
use switchboard_vip::token::{Seal, Unsealed};

use super::{files, setup_error};
use crate::auth::AuthSetupError;
use crate::entropy;

/// The keys of this server.
pub struct Keys {
    /// Where they are kept; nowhere, if nothing has to survive.
    folder: Option<PathBuf>,
    /// The time, by which replaced keys end.
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Newest first, never empty.
    ring: RwLock<Arc<Ring>>,
}

impl Keys {
    /// The keys of this folder, which gets a first one, or a new one if the newest is a month old. Without a
    /// folder they end with the process.
    ///
    /// # Errors
    /// A key cannot be read or written.
    pub fn open(
        folder: Option<&Path>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, AuthSetupError> {
        let mut known = match folder {
            Some(folder) => read(folder)?,
            None => Vec::new(),
        };
        known.sort_by_key(|key| std::cmp::Reverse(key.created_at));
        let mut known = known.into_iter();
        let newest = match known.next() {
            Some(newest) => newest,
            None => create(folder, now())?,
        };
        let ring = Ring { newest, older: known.collect() };
        let keys = Self {
            folder: folder.map(Path::to_owned),
            now: Box::new(now),
            ring: RwLock::new(Arc::new(ring)),
        };
        keys.tend()?;
        Ok(keys)
    }

    /// Replaces the signing key if it is a month old, and removes the files of keys that nobody believes any more.
    /// Says whether it was replaced.
    ///
    /// # Errors
    /// The new key cannot be written.
    pub fn tend(&self) -> Result<bool, AuthSetupError> {
        let due = (self.now)().since(self.ring.read().newest.created_at) >= ROTATE_AFTER;
        if due {
            self.rotate()?;
        } else {
            self.replace(|ring| Ok(ring.clone()))?;
        }
        Ok(due)
    }

    /// Signs with a new key from now on.
    ///
    /// # Errors
    /// The new key cannot be written.
    pub fn rotate(&self) -> Result<(), AuthSetupError> {
        self.replace(|ring| {
            // Later than every other key, whatever the clock says, so that the order is never in doubt.
            let created_at = (self.now)().max(ring.newest.created_at.after(Duration::from_micros(1)));
            let newest = create(self.folder.as_deref(), created_at)?;
            let older = std::iter::once(&ring.newest).chain(&ring.older).cloned().collect();
            Ok(Ring { newest, older })
        })
    }

    fn replace(
        &self,
        change: impl FnOnce(&Ring) -> Result<Ring, AuthSetupError>,
    ) -> Result<(), AuthSetupError> {
        let mut current = self.ring.write();
        let mut ring = change(&current)?;
        for dead in ring.bury((self.now)()) {
            if let Some(folder) = &self.folder
                && let Err(error) = std::fs::remove_file(path(folder, &dead.kid))
            {
                tracing::warn!(%error, "the file of a key that has ended cannot be removed");
            }
        }
        *current = Arc::new(ring);
        drop(current);
        Ok(())
    }

    fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring.read())
    }
}

impl Seal for Keys {
    fn sign(&self, typ: &str, claims: &Value) -> String {
        let ring = self.ring();
        let header = json!({"alg": ALGORITHM, "typ": typ, "kid": ring.newest.kid}).to_string();
        let mut token =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = ring.newest.key.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.to_bytes(), &mut token);
        token
    }

    fn open(&self, typ: &str, token: &str) -> Result<Value, Unsealed> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Unsealed::Invalid);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(Unsealed::Invalid)?;
        let (header, claims) = message.split_once('.').ok_or(Unsealed::Invalid)?;
        let header: Header = decode(header).ok_or(Unsealed::Invalid)?;
        if header.alg != ALGORITHM {
            return Err(Unsealed::Algorithm);
        }
        if header.typ != typ || header.crit.is_some() {
            return Err(Unsealed::Invalid);
        }
        let ring = self.ring();
        let key = ring
            .believed((self.now)())
            .find(|key| key.kid == header.kid)
            .map(SealingKey::public)
            .ok_or(Unsealed::Invalid)?;
        let signature = URL_SAFE_NO_PAD
            .decode(signature)
            .ok()
            .and_then(|bytes| Signature::from_slice(&bytes).ok())
            .ok_or(Unsealed::Invalid)?;
        key.verify_strict(message.as_bytes(), &signature).map_err(|_| Unsealed::Invalid)?;
        decode(claims).ok_or(Unsealed::Invalid)
    }

    fn key_set(&self) -> Value {
        let ring = self.ring();
        let keys: Vec<Value> = ring.believed((self.now)()).map(SealingKey::jwk).collect();
        json!({"keys": keys})
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("kid", &self.ring().newest.kid).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Ring {
    newest: SealingKey,
    /// Newest first.
    older: Vec<SealingKey>,
}

impl Ring {
    /// The keys whose signatures count.
    fn believed(&self, now: Timestamp) -> impl Iterator<Item = &SealingKey> {
        let replaced = std::iter::once(&self.newest).chain(&self.older).map(|key| key.created_at);
        let older = self.older.iter().zip(replaced).filter(move |(_, at)| now < at.after(LONGEST_SESSION));
        std::iter::once(&self.newest).chain(older.map(|(key, _)| key))
    }

    /// Takes the keys out whose signatures no longer count.
    fn bury(&mut self, now: Timestamp) -> Vec<SealingKey> {
        // Each was replaced before the ones in front of it, so that the believed ones come first.
        let alive = self.believed(now).count() - 1;
        self.older.split_off(alive)
    }
}

#[derive(Clone)]
struct SealingKey {
    kid: String,
    created_at: Timestamp,
    key: SigningKey,
}

impl SealingKey {
    fn new(seed: &[u8; 32], created_at: Timestamp) -> Self {
        let key = SigningKey::from_bytes(seed);
        let x = URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes());
        // The thumbprint of RFC 7638.
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        Self { kid: URL_SAFE_NO_PAD.encode(Sha256::digest(members)), created_at, key }
    }

    fn public(&self) -> VerifyingKey {
        self.key.verifying_key()
    }

    fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.public().as_bytes());
        json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": ALGORITHM, "kid": self.kid, "x": x})
    }
}

/// A key as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    created_at_us: u64,
    seed: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    typ: String,
    #[serde(default)]
    kid: String,
    crit: Option<Value>,
}

fn decode<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn path(folder: &Path, kid: &str) -> PathBuf {
    folder.join(format!("{kid}.{EXTENSION}"))
}

fn create(folder: Option<&Path>, created_at: Timestamp) -> Result<SealingKey, AuthSetupError> {
    let seed = entropy::bytes();
    let key = SealingKey::new(&seed, created_at);
    if let Some(folder) = folder {
        let kept = Kept { created_at_us: created_at.as_micros(), seed: URL_SAFE_NO_PAD.encode(seed) };
        let path = path(folder, &key.kid);
        serde_json::to_vec(&kept)
            .map_err(std::io::Error::from)
            .and_then(|text| files::replace(&path, &text))
            .map_err(|error| {
                setup_error("data_dir", format!("{} cannot be written: {error}", path.display()))
            })?;
    }
    Ok(key)
}

fn read(folder: &Path) -> Result<Vec<SealingKey>, AuthSetupError> {
    let unreadable = |path: &Path, error: &dyn fmt::Display| {
        setup_error("data_dir", format!("{} cannot be read: {error}", path.display()))
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, &error)),
    };
    let mut keys = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let text = std::fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let kept: Option<Kept> = serde_json::from_slice(&text).ok();
        let seed = kept.as_ref().and_then(|kept| URL_SAFE_NO_PAD.decode(&kept.seed).ok());
        let seed: Option<[u8; 32]> = seed.and_then(|seed| seed.try_into().ok());
        let (Some(kept), Some(seed)) = (kept, seed) else {
            return Err(unreadable(&path, &"it holds no key; remove it to go on without"));
        };
        keys.push(SealingKey::new(&seed, Timestamp::from_micros(kept.created_at_us)));
    }
    Ok(keys)
}

const ALGORITHM: &str = "EdDSA";
const EXTENSION: &str = "key";
const ROTATE_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);
const LONGEST_SESSION: Duration = Duration::from_secs(4 * 3600);
const MAX_TOKEN_BYTES: usize = 16 << 10;
