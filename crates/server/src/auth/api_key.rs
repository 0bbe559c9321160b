//! API keys. They are long and random, so that one round of SHA-256 is enough to store them.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use switchboard_core::{Principal, Reservation, Scopes, hex};

use super::{AuthSetupError, Credential, Identity};
use crate::config::{ApiKey, Config};

/// What `auth.api_keys[].hash` holds for a key: its SHA-256 in hexadecimal.
pub fn hash_key(key: &str) -> String {
    hex(&digest(key))
}

/// The keys that are configured, as digests.
pub(super) struct ApiKeys {
    keys: Vec<([u8; 32], Identity)>,
}

impl ApiKeys {
    pub(super) fn read(config: &Config) -> Result<Self, AuthSetupError> {
        let mut keys = Vec::with_capacity(config.auth.api_keys.len());
        for (index, key) in config.auth.api_keys.iter().enumerate() {
            let at = |field: &str| format!("auth.api_keys[{index}].{field}");
            let hash = match (&key.hash, &key.key_env) {
                (Some(hash), None) => from_hex(hash)
                    .ok_or_else(|| AuthSetupError::new(at("hash"), "expected 64 hexadecimal digits"))?,
                (None, Some(name)) => config.secrets.find(name).map(digest).ok_or_else(|| {
                    AuthSetupError::new(at("key_env"), format!("the environment variable {name} is not set"))
                })?,
                (Some(_), Some(_)) | (None, None) => {
                    return Err(AuthSetupError::new(at("hash"), "expected exactly one of hash and key_env"));
                }
            };
            let principal = Principal { scopes: scopes(key), ..Principal::new(&key.principal) };
            let credential = Credential::ApiKey { id: key.id.clone(), version: version(key, &hash) };
            keys.push((hash, Identity { principal, credential }));
        }
        Ok(Self { keys })
    }

    /// The names of devices that the keys are for.
    pub(super) fn reservations(&self) -> Vec<Reservation> {
        let reserved = |(_, identity): &([u8; 32], Identity)| {
            let Principal { id, scopes, .. } = &identity.principal;
            let names: Vec<String> = scopes.device_names().map(str::to_owned).collect();
            (!names.is_empty()).then(|| Reservation { names, principal: id.clone() })
        };
        self.keys.iter().filter_map(reserved).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Identity> {
        self.keys.iter().map(|(_, identity)| identity)
    }

    /// The version of each entry, by the name of its key.
    pub(super) fn versions(&self) -> BTreeMap<String, u64> {
        let versions = self.iter().filter_map(|identity| match &identity.credential {
            Credential::ApiKey { id, version } => Some((id.clone(), *version)),
            Credential::Development | Credential::Token { .. } => None,
        });
        versions.collect()
    }

    /// Looks at every key, whichever fits, so that time tells nothing.
    pub(super) fn find(&self, credential: &str) -> Option<Identity> {
        let hash = digest(credential);
        let mut found = None;
        for (known, identity) in &self.keys {
            if bool::from(known.ct_eq(&hash)) {
                found = Some(identity);
            }
        }
        found.cloned()
    }
}

/// What a key allows; without a list, every ordinary scope.
pub(crate) fn scopes(key: &ApiKey) -> Scopes {
    key.scopes.as_ref().map_or_else(Scopes::default, |words| Scopes::parse(&words.join(" ")))
}

/// Differs between entries that differ in the key, the principal or the scopes.
fn version(key: &ApiKey, hash: &[u8; 32]) -> u64 {
    let mut digest = Sha256::new_with_prefix(hash);
    for part in std::iter::once(&key.principal).chain(key.scopes.iter().flatten()) {
        digest.update([0]);
        digest.update(part.as_bytes());
    }
    digest.update([u8::from(key.scopes.is_some())]);
    let digest: [u8; 32] = digest.finalize().into();
    digest.iter().take(8).fold(0, |version, byte| version << 8 | u64::from(*byte))
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}
