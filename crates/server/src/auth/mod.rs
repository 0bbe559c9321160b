//! Who is asking: credentials become one [`Principal`].
//!
//! * **API keys** are known by their SHA-256 only and compared in constant time. Their principal
//!   is what the configuration says.
//! * **JSON Web Tokens** are checked against one pinned algorithm per issuer. Their principal is
//!   `<namespace>|<sub>`, where the namespace is the issuer unless configured otherwise; so the
//!   `sub` of one issuer never meets that of another, nor an API key, unless an operator writes
//!   the whole name on purpose. A renewed token keeps its principal exactly if issuer and `sub`
//!   stay the same.
//! * **Development**: on loopback, with nothing configured, whoever runs the server is `dev` with all
//!   scopes, without a credential; so is whoever shows the token in the data folder.
//!
//! No credential is ever logged or formatted; reasons of refusal are, at `debug`.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use switchboard_core::{Principal, PrincipalId, Reservation, Scopes, Timestamp};
use tokio::sync::watch;

use crate::config::Config;
use crate::telemetry::names;

mod api_key;
mod development;
mod jwt;
mod revocation;
#[cfg(test)]
mod tests;

pub use api_key::hash_key;
pub use revocation::{Revocation, Revocations, RevokeError};

use api_key::ApiKeys;
pub(crate) use api_key::scopes as key_scopes;
pub(crate) use development::Development;
use jwt::Issuers;
use revocation::RevocationFile;

/// Turns credentials into principals.
pub struct Authenticator {
    keys: RwLock<Arc<Keys>>,
    development: Option<Development>,
    file: Mutex<RevocationFile>,
    revocations: watch::Sender<Arc<Revocations>>,
}

impl Authenticator {
    /// Reads keys and revocations as configured.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it should.
    pub fn new(config: &Config) -> Result<Self, AuthSetupError> {
        let file = RevocationFile::new(config.data_dir.join(REVOCATIONS_FILE));
        let keys = Keys::read(config)?;
        let revocations = Arc::new(file.read()?.with_keys(keys.api_keys.versions()));
        Ok(Self {
            keys: RwLock::new(Arc::new(keys)),
            development: config.is_development().then(|| Development::new(config)).transpose()?,
            file: Mutex::new(file),
            revocations: watch::Sender::new(revocations),
        })
    }

    /// Whose credential this is.
    ///
    /// # Errors
    /// There is none, it is not valid, or it was valid once.
    pub fn authenticate(&self, credential: Option<&str>, now: Timestamp) -> Result<Principal, AuthError> {
        self.identify(credential, now).map(|identity| identity.principal)
    }

    /// Whose credential this is, and which one it is: what a live connection keeps in order to
    /// notice that it was revoked.
    ///
    /// # Errors
    /// There is none, it is not valid, or it was valid once.
    pub fn identify(&self, credential: Option<&str>, now: Timestamp) -> Result<Identity, AuthError> {
        let identity = self.verify(credential, now).map_err(|refused| {
            refuse(refused.reason);
            refused.error
        })?;
        if self.revocations.borrow().covers(&identity) {
            refuse("revoked");
            return Err(AuthError::Invalid);
        }
        Ok(identity)
    }

    /// Whether somebody no longer counts who was known by other means than a credential of ours.
    pub fn is_revoked(&self, identity: &Identity) -> bool {
        self.revocations.borrow().covers(identity)
    }

    /// The names of devices that are reserved for the principals of keys.
    pub fn reservations(&self) -> Vec<Reservation> {
        self.keys.read().api_keys.reservations()
    }

    /// Development mode, if this is it.
    pub(crate) const fn development(&self) -> Option<&Development> {
        self.development.as_ref()
    }

    /// Whether a connection from this address may ask at all: in development mode, only those of the user who
    /// runs the server, and those that show the token. No address stands for a caller in this process.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn admit<'a>(
        &self,
        mut credentials: impl Iterator<Item = &'a str>,
        peer: Option<SocketAddr>,
    ) -> Result<(), AuthError> {
        let Some(development) = &self.development else { return Ok(()) };
        if peer.is_none_or(|peer| development.is_own(peer)) {
            return Ok(());
        }
        let mut error = AuthError::Missing;
        if credentials.any(|credential| {
            error = AuthError::Invalid;
            development.is_token(credential)
        }) {
            return Ok(());
        }
        refuse("another user of this machine");
        Err(error)
    }

    /// Follows revocations. A live connection closes when [`Revocations::covers`] its identity.
    pub fn subscribe_revocations(&self) -> watch::Receiver<Arc<Revocations>> {
        self.revocations.subscribe()
    }

    /// Revokes a key, a token or a principal, for good and at once: it is written to the data
    /// folder first, and then every live connection learns of it.
    ///
    /// # Errors
    /// It could not be written, or there are too many.
    pub fn revoke(&self, revocation: Revocation, now: Timestamp) -> Result<(), RevokeError> {
        self.change(now, |revocations| revocations.insert(revocation))
    }

    /// Takes a revocation back.
    ///
    /// # Errors
    /// It could not be written.
    pub fn restore(&self, revocation: &Revocation, now: Timestamp) -> Result<(), RevokeError> {
        self.change(now, |revocations| {
            revocations.remove(revocation);
            Ok(())
        })
    }

    /// Takes over the keys and issuers of a configuration, and reads key files and revocations again. What
    /// was valid before stays so if this fails. Connections whose key is gone, or says something else now, end.
    /// Whether this is development mode counts from the next start.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it should.
    pub fn reload(&self, config: &Config) -> Result<(), AuthSetupError> {
        let keys = Keys::read(config)?;
        let file = self.file.lock();
        let revocations = file.read()?.with_keys(keys.api_keys.versions());
        *self.keys.write() = Arc::new(keys);
        self.revocations.send_replace(Arc::new(revocations));
        drop(file);
        Ok(())
    }

    /// The API keys that are configured, and whether each is revoked.
    pub(crate) fn api_keys(&self) -> Vec<KnownKey> {
        let revocations = self.revocations.borrow().clone();
        let known = |identity: &Identity, id: &str| KnownKey {
            id: id.to_owned(),
            principal: identity.principal.id.clone(),
            revoked: revocations.covers(identity),
        };
        let keys = Arc::clone(&self.keys.read());
        let entries = keys.api_keys.iter().filter_map(|identity| match &identity.credential {
            Credential::ApiKey { id, .. } => Some(known(identity, id)),
            Credential::Development | Credential::Token { .. } => None,
        });
        entries.collect()
    }

    fn change(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Revocations) -> Result<(), RevokeError>,
    ) -> Result<(), RevokeError> {
        // Held over the write, so that two changes cannot overtake each other on their way to the
        // file.
        let file = self.file.lock();
        let mut revocations = Revocations::clone(&self.revocations.borrow());
        revocations.forget_expired(now);
        change(&mut revocations)?;
        file.write(&revocations)?;
        self.revocations.send_replace(Arc::new(revocations));
        drop(file);
        Ok(())
    }

    fn verify(&self, credential: Option<&str>, now: Timestamp) -> Result<Identity, Refused> {
        if self.development.is_some() {
            let principal = Principal { scopes: Scopes::all(), ..Principal::new(DEVELOPMENT_PRINCIPAL) };
            return Ok(Identity { principal, credential: Credential::Development });
        }
        let Some(credential) = credential else {
            return Err(Refused { error: AuthError::Missing, reason: "no credential" });
        };
        if credential.is_empty() || credential.len() > MAX_CREDENTIAL_BYTES {
            return Err(Refused::invalid("empty or too long"));
        }
        let keys = Arc::clone(&self.keys.read());
        match keys.api_keys.find(credential) {
            Some(identity) => Ok(identity),
            None => keys.issuers.verify(credential, now),
        }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("development", &self.development.is_some())
            .finish_non_exhaustive()
    }
}

/// An API key, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct KnownKey {
    pub(crate) id: String,
    pub(crate) principal: PrincipalId,
    pub(crate) revoked: bool,
}

/// A principal, and the credential that showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who it is.
    pub principal: Principal,
    /// By what.
    pub credential: Credential,
}

/// Which credential it was; never the credential itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// None: everybody is let in.
    Development,
    /// An API key.
    ApiKey {
        /// Its name in the configuration.
        id: String,
        /// Tells the entry from what the configuration said of the key at other times.
        version: u64,
    },
    /// A JSON Web Token.
    Token {
        /// Its `jti`, if it has one.
        jti: Option<String>,
    },
}

/// Why nobody was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// There is no credential.
    #[error("a credential is required")]
    Missing,
    /// The credential is not valid.
    #[error("the credential is not valid")]
    Invalid,
    /// The credential was valid once.
    #[error("the credential has expired")]
    Expired,
}

/// The keys or revocations that are configured cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct AuthSetupError {
    /// The key of the configuration.
    pub key: String,
    /// What is wrong with what it names.
    pub problem: String,
}

impl AuthSetupError {
    fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }

    fn unreadable(key: impl Into<String>, path: &Path, error: &std::io::Error) -> Self {
        Self::new(key, format!("{} cannot be read: {error}", path.display()))
    }
}

/// The token of an `Authorization: Bearer` header.
pub fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Tells the operator why, without saying whose credential it was.
fn refuse(reason: &'static str) {
    metrics::counter!(names::AUTH_FAILURES, "reason" => reason).increment(1);
    tracing::debug!(reason, "credential refused");
}

/// A refusal, with a reason for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    error: AuthError,
    reason: &'static str,
}

impl Refused {
    const fn invalid(reason: &'static str) -> Self {
        Self { error: AuthError::Invalid, reason }
    }

    const fn expired() -> Self {
        Self { error: AuthError::Expired, reason: "expired" }
    }
}

/// Everything that a credential is held against.
struct Keys {
    api_keys: ApiKeys,
    issuers: Issuers,
}

impl Keys {
    fn read(config: &Config) -> Result<Self, AuthSetupError> {
        Ok(Self { api_keys: ApiKeys::read(config)?, issuers: Issuers::read(config)? })
    }
}

/// The principal of development mode.
pub const DEVELOPMENT_PRINCIPAL: &str = "dev";
/// The longest credential that is looked at.
const MAX_CREDENTIAL_BYTES: usize = 16 << 10;
const REVOCATIONS_FILE: &str = "revoked.json";
