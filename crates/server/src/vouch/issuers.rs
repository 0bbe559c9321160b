//! Who may vouch for users, and whether this token does (§2.4, §3.1).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jsonwebtoken::{Algorithm, DecodingKey};
use switchboard_core::{Principal, PrincipalId, Scopes, Timestamp};
use switchboard_vip::errand::{Failed, Vouched};

use super::config::{AppAlgorithm, DevelopmentConfig, IssuerConfig};
use super::jwks::{NoKey, PublicKeys, RemoteKeys};
use super::replay::{Mark, Redeemed, Unredeemed};
use super::setup_error;
use super::token::{AppToken, Refused};
use crate::auth::{AuthSetupError, DEVELOPMENT_PRINCIPAL};
use crate::config::Secrets;

/// Turns App Tokens into principals.
pub struct Vouching {
    issuers: BTreeMap<String, Issuer>,
    development: Development,
    redeemed: Arc<Redeemed>,
}

struct Development {
    allowed: bool,
    secret: Option<DecodingKey>,
    /// Whether everybody is the development principal of the whole server.
    everybody: bool,
}

struct Issuer {
    namespace: String,
    algorithms: Vec<AppAlgorithm>,
    audience: Option<String>,
    secret: Option<DecodingKey>,
    public: Public,
}

/// Where the public keys of an issuer are.
enum Public {
    Nowhere,
    One(AppAlgorithm, DecodingKey),
    Set(PublicKeys),
    Remote(Arc<RemoteKeys>),
}

impl Vouching {
    /// Reads keys as configured, and which tokens were used before. `everybody` says that the whole server runs in
    /// development. Without a folder, used tokens are forgotten with the process.
    ///
    /// # Errors
    /// The configuration contradicts itself, or a file cannot be read or written.
    pub fn open(
        issuers: &[IssuerConfig],
        development: &DevelopmentConfig,
        everybody: bool,
        secrets: &Secrets,
        folder: Option<&Path>,
        now: Timestamp,
    ) -> Result<Self, AuthSetupError> {
        // Somebody else may have installed the same provider already.
        let _ = jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.install_default();
        let mut known: BTreeMap<String, Issuer> = BTreeMap::new();
        for (index, config) in issuers.iter().enumerate() {
            let at = format!("vip.issuers[{index}]");
            let issuer = Issuer::read(&at, config, secrets)?;
            if known.values().any(|other| other.namespace == issuer.namespace) {
                let problem = "two issuers must not share their principals";
                return Err(setup_error(format!("{at}.namespace"), problem));
            }
            if known.insert(config.issuer.clone(), issuer).is_some() {
                return Err(setup_error(format!("{at}.issuer"), "is registered twice"));
            }
        }
        let secret = match &development.secret_env {
            Some(name) => Some(shared_secret("vip.development_secret_env", name, secrets)?),
            None => None,
        };
        let development = Development { allowed: development.allowed, secret, everybody };
        let path = folder.map(|folder| folder.join("redeemed"));
        let redeemed = Arc::new(Redeemed::open(path.as_deref(), now)?);
        Ok(Self { issuers: known, development, redeemed })
    }

    /// Whom this token vouches for, in a request that says it is one of `development`. `audience` is the issuer of
    /// this server, as discovery names it. With `redeem` the token is used up by this; without, the answer says
    /// whether it is.
    ///
    /// What the claims allow is left to be compared with the request: environment, application, scopes, origins.
    ///
    /// # Errors
    /// Nobody is vouched for; the code says why.
    pub async fn vouch(
        &self,
        token: Option<&str>,
        development: bool,
        redeem: bool,
        audience: &str,
        now: Timestamp,
    ) -> Result<(Vouched, Principal), Failed> {
        let verified = self.verify(token, development, redeem, audience, now).await;
        verified.map_err(Failed::from)
    }

    async fn verify(
        &self,
        token: Option<&str>,
        development: bool,
        redeem: bool,
        audience: &str,
        now: Timestamp,
    ) -> Result<(Vouched, Principal), Refused> {
        let forbidden = development && !self.development.allowed;
        let forbidden = forbidden.then_some(Refused::new(
            "AUTH_ENVIRONMENT_FORBIDDEN",
            "development is not allowed here; set vip.allow_development, or ask for production",
        ));
        let Some(token) = token else {
            return match forbidden {
                Some(refused) => Err(refused),
                None if development => Ok(self.anonymous()),
                None => Err(Refused::new("AUTH_TOKEN_MISSING", "production needs an App Token")),
            };
        };
        let token = AppToken::read(token);
        if let Some(refused) = forbidden {
            // An unsigned token is refused as such in every environment.
            let unsigned = token.err().filter(Refused::is_algorithm);
            return Err(unsigned.unwrap_or(refused));
        }
        let token = token?;
        let issuer = token.issuer().ok_or(Refused::invalid("no iss"))?;
        let (realm, namespace, audience) = if development && self.development.signed(&token) {
            (Realm::Development, DEVELOPMENT_NAMESPACE, audience)
        } else {
            let reason = if development {
                "no such issuer is registered, nor is the token signed with the development secret"
            } else {
                "no such issuer is registered"
            };
            let unknown = Refused::new("AUTH_ISSUER_UNKNOWN", reason);
            let known = self.issuers.get(issuer).ok_or(unknown)?;
            known.verify(&token, now).await?;
            (Realm::Registered, known.namespace.as_str(), known.audience.as_deref().unwrap_or(audience))
        };
        let life = token.check(audience, now)?;
        let mark = Mark::new(&[realm.name(), issuer, &life.jti]);
        let replayed = self.redeemed.contains(mark);
        if redeem && replayed {
            return Err(REPLAYED);
        }
        let vouched = token.vouched(|sub| format!("{namespace}|{sub}"))?;
        if redeem {
            self.redeemed.redeem(mark, life.ends_at.as_secs(), now).await.map_err(|unredeemed| {
                match unredeemed {
                    Unredeemed::Used => REPLAYED,
                    Unredeemed::Full => {
                        Refused::new("SES_QUOTA", "too many tokens within minutes; try again later")
                    }
                    Unredeemed::Unwritable(error) => {
                        tracing::error!(%error, "a used token cannot be written down");
                        Refused::new("INTERNAL", "used tokens cannot be written down")
                    }
                }
            })?;
        }
        let principal = Principal {
            id: PrincipalId::new(vouched.own.clone()),
            scopes: Scopes::default(),
            expires_at: Some(life.ends_at),
        };
        Ok((Vouched { replayed, ..vouched }, principal))
    }

    /// Whoever tries things out without a token.
    fn anonymous(&self) -> (Vouched, Principal) {
        let principal = if self.development.everybody {
            Principal { scopes: Scopes::all(), ..Principal::new(DEVELOPMENT_PRINCIPAL) }
        } else {
            Principal::new(&format!("{DEVELOPMENT_NAMESPACE}|{ANONYMOUS}"))
        };
        let vouched = Vouched {
            own: principal.id.as_str().to_owned(),
            iss: None,
            sub: ANONYMOUS.to_owned(),
            app_id: None,
            env: None,
            modes: None,
            scopes: EVERY_SCOPE.map(str::to_owned).to_vec(),
            max_session_s: None,
            origins: None,
            locale: None,
            replayed: false,
        };
        (vouched, principal)
    }
}

impl fmt::Debug for Vouching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vouching")
            .field("issuers", &self.issuers.keys())
            .field("development", &self.development.allowed)
            .finish_non_exhaustive()
    }
}

impl Development {
    /// Whether a developer has signed this. What is signed so is never taken for the word of a registered issuer,
    /// whatever it says.
    fn signed(&self, token: &AppToken<'_>) -> bool {
        let secret = self.secret.as_ref().filter(|_| token.algorithm() == Some(AppAlgorithm::Hs256));
        secret.is_some_and(|secret| fits(token, secret, AppAlgorithm::Hs256))
    }
}

impl Issuer {
    fn read(at: &str, config: &IssuerConfig, secrets: &Secrets) -> Result<Self, AuthSetupError> {
        let key = |name: &str| format!("{at}.{name}");
        if config.issuer.is_empty() {
            return Err(setup_error(key("issuer"), "is required"));
        }
        let namespace = config.namespace();
        if namespace.is_empty() || namespace.contains('|') || namespace == DEVELOPMENT_NAMESPACE {
            let problem =
                format!("must not be empty nor {DEVELOPMENT_NAMESPACE}, nor contain |, which ends it");
            return Err(setup_error(key("namespace"), problem));
        }
        let public: Vec<AppAlgorithm> =
            config.algorithms.iter().copied().filter(|algorithm| *algorithm != AppAlgorithm::Hs256).collect();
        let secret = match (&config.secret_env, config.algorithms.contains(&AppAlgorithm::Hs256)) {
            (Some(name), true) => Some(shared_secret(&key("secret_env"), name, secrets)?),
            (None, false) => None,
            (Some(_), false) | (None, true) => {
                return Err(setup_error(key("secret_env"), "belongs to HS256, and HS256 needs it"));
            }
        };
        let public = match (&config.jwks_url, &config.jwks_file, &config.public_key) {
            (None, None, None) if public.is_empty() && secret.is_some() => Public::Nowhere,
            (Some(url), None, None) if !public.is_empty() => {
                Public::Remote(Arc::new(RemoteKeys::new(&key("jwks_url"), url)?))
            }
            (None, Some(path), None) if !public.is_empty() => {
                Public::Set(key_set(&key("jwks_file"), &public, path)?)
            }
            (None, None, Some(path)) if let [algorithm] = public.as_slice() => {
                Public::One(*algorithm, public_key(&key("public_key"), *algorithm, path)?)
            }
            _ => {
                let problem = "ES256, EdDSA and RS256 need exactly one of jwks_url, jwks_file and public_key, \
                               the last with one of them only; HS256 alone needs none";
                return Err(setup_error(key("algorithms"), problem));
            }
        };
        Ok(Self {
            namespace: namespace.to_owned(),
            algorithms: config.algorithms.clone(),
            audience: config.audience.clone(),
            secret,
            public,
        })
    }

    /// Checks the signature, with a key that is meant for just this algorithm.
    async fn verify(&self, token: &AppToken<'_>, now: Timestamp) -> Result<(), Refused> {
        let algorithm = token
            .algorithm()
            .filter(|algorithm| self.algorithms.contains(algorithm))
            .ok_or(Refused::algorithm("the issuer is not registered for this algorithm"))?;
        let unknown = Refused::invalid("the issuer has no key of this kid");
        let key = if algorithm == AppAlgorithm::Hs256 {
            self.secret.clone().ok_or(unknown)?
        } else {
            let kid = token.kid().ok_or(Refused::invalid("no kid"))?;
            match &self.public {
                Public::Nowhere => None,
                Public::One(own, key) => (*own == algorithm).then(|| key.clone()),
                Public::Set(keys) => keys.find(kid, algorithm),
                Public::Remote(keys) => match keys.find(kid, algorithm, now).await {
                    Ok(key) => Some(key),
                    Err(NoKey::Unknown) => None,
                    Err(NoKey::Unavailable) => {
                        return Err(Refused::new(
                            "AUTH_JWKS_UNAVAILABLE",
                            "the keys of the issuer cannot be fetched; try again later",
                        ));
                    }
                },
            }
            .ok_or(unknown)?
        };
        if fits(token, &key, algorithm) { Ok(()) } else { Err(Refused::invalid("wrong signature")) }
    }
}

/// Kept apart, so that a developer cannot use up the tokens of an issuer.
#[derive(Clone, Copy)]
enum Realm {
    Development,
    Registered,
}

impl Realm {
    const fn name(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Registered => "registered",
        }
    }
}

fn fits(token: &AppToken<'_>, key: &DecodingKey, algorithm: AppAlgorithm) -> bool {
    let algorithm = match algorithm {
        AppAlgorithm::Es256 => Algorithm::ES256,
        AppAlgorithm::EdDsa => Algorithm::EdDSA,
        AppAlgorithm::Rs256 => Algorithm::RS256,
        AppAlgorithm::Hs256 => Algorithm::HS256,
    };
    jsonwebtoken::crypto::verify(token.signature, token.message.as_bytes(), key, algorithm).unwrap_or(false)
}

fn shared_secret(at: &str, name: &str, secrets: &Secrets) -> Result<DecodingKey, AuthSetupError> {
    let secret = secrets
        .find(name)
        .ok_or_else(|| setup_error(at, format!("the environment variable {name} is not set")))?;
    if secret.len() < MIN_SECRET_BYTES {
        let problem = format!("{name} is too short to be secret: at least {MIN_SECRET_BYTES} bytes");
        return Err(setup_error(at, problem));
    }
    Ok(DecodingKey::from_secret(secret.as_bytes()))
}

fn read(at: &str, path: &Path) -> Result<Vec<u8>, AuthSetupError> {
    std::fs::read(path)
        .map_err(|error| setup_error(at, format!("{} cannot be read: {error}", path.display())))
}

fn public_key(at: &str, algorithm: AppAlgorithm, path: &Path) -> Result<DecodingKey, AuthSetupError> {
    let pem = read(at, path)?;
    let key = match algorithm {
        AppAlgorithm::Es256 => DecodingKey::from_ec_pem(&pem),
        AppAlgorithm::EdDsa => DecodingKey::from_ed_pem(&pem),
        AppAlgorithm::Rs256 => DecodingKey::from_rsa_pem(&pem),
        AppAlgorithm::Hs256 => return Err(setup_error(at, "a public key is no shared secret")),
    };
    key.map_err(|_| {
        setup_error(at, format!("{} holds no public key in PEM for {algorithm:?}", path.display()))
    })
}

fn key_set(at: &str, algorithms: &[AppAlgorithm], path: &Path) -> Result<PublicKeys, AuthSetupError> {
    let keys = PublicKeys::parse(&read(at, path)?)
        .ok_or_else(|| setup_error(at, format!("{} is no key set", path.display())))?;
    match algorithms.iter().find(|algorithm| !keys.has(**algorithm)) {
        None => Ok(keys),
        Some(algorithm) => {
            let problem = format!("{} holds no key with a kid for {algorithm:?}", path.display());
            Err(setup_error(at, problem))
        }
    }
}

const REPLAYED: Refused =
    Refused::new("AUTH_TOKEN_REPLAYED", "used before; sign a new token for each session");
/// Begins the principals of development.
const DEVELOPMENT_NAMESPACE: &str = "vip-development";
const ANONYMOUS: &str = "dev-anonymous";
const EVERY_SCOPE: [&str; 4] = ["session:create", "prompt:inline", "function:call", "history:read"];
const MIN_SECRET_BYTES: usize = 32;
