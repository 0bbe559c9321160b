//! Credentials that no longer count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use switchboard_core::{PrincipalId, Timestamp};

use super::{AuthSetupError, Credential, Identity};

/// Something to revoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The API key of this id.
    ApiKey(String),
    /// The token with this `jti`.
    Token {
        /// Its `jti`.
        jti: String,
        /// When it ends anyway, so that it can be forgotten then.
        until: Option<Timestamp>,
    },
    /// Every credential of this principal, until it is restored.
    Principal(PrincipalId),
}

/// Everything that is revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Revocations {
    api_keys: BTreeSet<String>,
    /// By `jti`: the second in which the token ends anyway.
    tokens: BTreeMap<String, Option<u64>>,
    principals: BTreeSet<PrincipalId>,
    /// The API keys that are configured, with the version of each entry. Not stored: the configuration is.
    #[serde(skip)]
    configured: BTreeMap<String, u64>,
}

impl Revocations {
    /// The same, where these keys are configured.
    pub(super) fn with_keys(mut self, configured: BTreeMap<String, u64>) -> Self {
        self.configured = configured;
        self
    }

    /// Whether `identity` no longer counts.
    pub fn covers(&self, identity: &Identity) -> bool {
        let credential = match &identity.credential {
            Credential::Development | Credential::Token { jti: None } => false,
            Credential::ApiKey { id, version } => {
                self.api_keys.contains(id) || self.configured.get(id) != Some(version)
            }
            Credential::Token { jti: Some(jti) } => self.tokens.contains_key(jti),
        };
        credential || self.principals.contains(&identity.principal.id)
    }

    pub(super) fn insert(&mut self, revocation: Revocation) -> Result<(), RevokeError> {
        match revocation {
            Revocation::ApiKey(id) => self.api_keys.insert(id),
            Revocation::Principal(principal) => self.principals.insert(principal),
            Revocation::Token { jti, until } => {
                self.tokens.insert(jti, until.map(|until| until.as_secs().saturating_add(1))).is_none()
            }
        };
        if self.api_keys.len() + self.tokens.len() + self.principals.len() > MAX_REVOCATIONS {
            return Err(RevokeError::Full);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, revocation: &Revocation) {
        match revocation {
            Revocation::ApiKey(id) => self.api_keys.remove(id),
            Revocation::Principal(principal) => self.principals.remove(principal),
            Revocation::Token { jti, .. } => self.tokens.remove(jti).is_some(),
        };
    }

    /// Forgets tokens that have ended by now. A day is left for clocks and leeways.
    pub(super) fn forget_expired(&mut self, now: Timestamp) {
        let before = now.as_secs().saturating_sub(24 * 3600);
        self.tokens.retain(|_, until| until.is_none_or(|until| until >= before));
    }
}

/// The file that keeps revocations.
#[derive(Debug)]
pub(super) struct RevocationFile {
    path: PathBuf,
}

impl RevocationFile {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What the file holds; nothing if there is none. A damaged file is an error: what was
    /// revoked must not come back to life.
    pub(super) fn read(&self) -> Result<Revocations, AuthSetupError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Revocations::default()),
            Err(error) => return Err(AuthSetupError::unreadable("data_dir", &self.path, &error)),
        };
        serde_json::from_str(&text).map_err(|error| {
            let problem = format!(
                "{} is damaged ({error}); repair it, or delete it to let everything revoked in again",
                self.path.display()
            );
            AuthSetupError::new("data_dir", problem)
        })
    }

    /// Replaces the file in one step.
    pub(super) fn write(&self, revocations: &Revocations) -> Result<(), RevokeError> {
        let write = || {
            if let Some(folder) = self.path.parent() {
                crate::folder::create_private(folder)?;
            }
            let beside = self.path.with_extension("json.new");
            let mut file = private_file(&beside)?;
            serde_json::to_writer_pretty(&mut file, revocations)?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)
        };
        write().map_err(|error| RevokeError::Unwritable { path: self.path.clone(), error })
    }
}

/// An empty file that nobody else may read.
fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Why a revocation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    /// There are too many.
    #[error("there are {MAX_REVOCATIONS} revocations already; restore some, or replace the signing key")]
    Full,
    /// The file cannot be written.
    #[error("{} cannot be written: {error}", path.display())]
    Unwritable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
}

const MAX_REVOCATIONS: usize = 100_000;
