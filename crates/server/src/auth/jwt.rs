//! JSON Web Tokens.
//!
//! The library checks signatures; every claim is checked here, against the `now` that is passed
//! in. Each issuer has one algorithm and keys of that algorithm only, so a public key can never
//! be taken for a shared secret, and `alg: none` is not even an algorithm.

use std::path::Path;
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::Deserialize;
use serde_json::Value;
use switchboard_core::{Principal, PrincipalId, Scopes, Timestamp};

use super::{AuthError, AuthSetupError, Credential, Identity, Refused};
use crate::config::{self, Config, JwtIssuer};

/// The issuers that are configured.
pub(super) struct Issuers {
    issuers: Vec<Issuer>,
}

impl Issuers {
    pub(super) fn read(config: &Config) -> Result<Self, AuthSetupError> {
        // Somebody else may have installed the same provider already.
        let _ = jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.install_default();
        let issuers = config
            .auth
            .jwt
            .iter()
            .enumerate()
            .map(|(index, issuer)| Issuer::read(config, &format!("auth.jwt[{index}]"), issuer))
            .collect::<Result<_, _>>()?;
        Ok(Self { issuers })
    }

    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Result<Identity, Refused> {
        if self.issuers.is_empty() {
            return Err(Refused::invalid("unknown API key"));
        }
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| Refused::invalid("neither an API key nor a token with a known algorithm"))?;
        if let Some(typ) = &header.typ
            && !TYPES.iter().any(|known| known.eq_ignore_ascii_case(typ))
        {
            return Err(Refused::invalid("wrong typ"));
        }
        if header.crit.is_some() {
            return Err(Refused::invalid("critical header that is not understood"));
        }
        let mut refused = Refused::invalid("no issuer uses this algorithm");
        for issuer in self.issuers.iter().filter(|issuer| issuer.algorithm == header.alg) {
            match issuer.verify(token, &header, now) {
                Ok(identity) => return Ok(identity),
                // An expired token was at least genuine, which no other issuer can say of it.
                Err(other) if refused.error != AuthError::Expired => refused = other,
                Err(_) => {}
            }
        }
        Err(refused)
    }
}

struct Issuer {
    issuer: String,
    audience: String,
    namespace: String,
    algorithm: Algorithm,
    leeway: Duration,
    default_scopes: Scopes,
    keys: Vec<(Option<String>, DecodingKey)>,
    /// Whether tokens choose among the keys by `kid`.
    by_kid: bool,
}

impl Issuer {
    fn read(config: &Config, at: &str, issuer: &JwtIssuer) -> Result<Self, AuthSetupError> {
        let algorithm =
            issuer.algorithm.ok_or_else(|| AuthSetupError::new(format!("{at}.algorithm"), "is required"))?;
        let symmetric = algorithm.is_symmetric();
        let keys = match (&issuer.secret_env, &issuer.public_key, &issuer.jwks) {
            (Some(name), None, None) if symmetric => {
                let secret = config.secrets.find(name).ok_or_else(|| {
                    let problem = format!("the environment variable {name} is not set");
                    AuthSetupError::new(format!("{at}.secret_env"), problem)
                })?;
                vec![(None, DecodingKey::from_secret(secret.as_bytes()))]
            }
            (None, Some(path), None) if !symmetric => {
                vec![(None, public_key(&format!("{at}.public_key"), algorithm, path)?)]
            }
            (None, None, Some(path)) if !symmetric => key_set(&format!("{at}.jwks"), algorithm, path)?,
            _ => {
                let problem = "HS algorithms need secret_env, all others public_key or jwks";
                return Err(AuthSetupError::new(at, problem));
            }
        };
        Ok(Self {
            issuer: issuer.issuer.clone(),
            audience: issuer.audience.clone(),
            namespace: issuer.namespace().to_owned(),
            algorithm: library(algorithm),
            leeway: Duration::from_secs(issuer.leeway_s),
            default_scopes: Scopes::parse(&issuer.default_scopes.join(" ")),
            keys,
            by_kid: issuer.jwks.is_some(),
        })
    }

    fn verify(&self, token: &str, header: &Header, now: Timestamp) -> Result<Identity, Refused> {
        let key = self.key(header.kid.as_deref())?;
        let mut validation = Validation::new(self.algorithm);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        let claims = jsonwebtoken::decode::<Claims>(token, key, &validation)
            .map_err(|_| Refused::invalid("wrong signature, or claims of a wrong type"))?
            .claims;

        if claims.iss.as_deref() != Some(&self.issuer) {
            return Err(Refused::invalid("wrong issuer"));
        }
        if !words(&claims.aud).any(|audience| audience == self.audience) {
            return Err(Refused::invalid("wrong audience"));
        }
        let scopes = self.scopes(&claims);
        let subject = claims
            .sub
            .filter(|sub| {
                !sub.is_empty() && sub.len() <= MAX_SUBJECT_BYTES && !sub.chars().any(char::is_control)
            })
            .ok_or(Refused::invalid("no usable sub"))?;
        let ends_at = seconds(&claims.exp).ok_or(Refused::invalid("no usable exp"))?.after(self.leeway);
        if !claims.nbf.is_null() {
            let begins_at = seconds(&claims.nbf).ok_or(Refused::invalid("no usable nbf"))?;
            if begins_at > now.after(self.leeway) {
                return Err(Refused::invalid("not valid yet"));
            }
        }
        if ends_at <= now {
            return Err(Refused::expired());
        }
        let jti = match claims.jti {
            Value::String(jti) => Some(jti),
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                return Err(Refused::invalid("no usable jti"));
            }
        };
        Ok(Identity {
            principal: Principal {
                id: PrincipalId::new(format!("{}|{subject}", self.namespace)),
                scopes,
                expires_at: Some(ends_at),
            },
            credential: Credential::Token { jti },
        })
    }

    /// What a token allows. A word with the prefix of somebody else, such as `billing:admin`, is none of
    /// ours; a token that names only such words allows nothing here.
    fn scopes(&self, claims: &Claims) -> Scopes {
        let list = scope_list(&claims.scope).or_else(|| scope_list(&claims.scp));
        list.map_or_else(|| self.default_scopes.clone(), |list| Scopes::parse(&list))
    }

    fn key(&self, kid: Option<&str>) -> Result<&DecodingKey, Refused> {
        if !self.by_kid {
            return self.keys.first().map(|(_, key)| key).ok_or(Refused::invalid("no key"));
        }
        match kid {
            Some(kid) => self
                .keys
                .iter()
                .find(|(known, _)| known.as_deref() == Some(kid))
                .map(|(_, key)| key)
                .ok_or(Refused::invalid("unknown kid")),
            None => match self.keys.as_slice() {
                [(_, key)] => Ok(key),
                _ => Err(Refused::invalid("no kid, but more than one key")),
            },
        }
    }
}

/// What is read of a token. Claims that may have several types are looked at later.
#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    #[serde(default)]
    aud: Value,
    #[serde(default)]
    exp: Value,
    #[serde(default)]
    nbf: Value,
    #[serde(default)]
    jti: Value,
    #[serde(default)]
    scope: Value,
    #[serde(default)]
    scp: Value,
}

/// The strings of a claim that is a string or a list of them.
fn words(claim: &Value) -> impl Iterator<Item = &str> {
    let list = claim.as_array().map(Vec::as_slice).unwrap_or_default();
    claim.as_str().into_iter().chain(list.iter().filter_map(Value::as_str))
}

/// A time in seconds, fractions cut off.
fn seconds(claim: &Value) -> Option<Timestamp> {
    let number = claim.as_u64().or_else(|| {
        let number = claim.as_f64()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, by the test")]
        (0.0..9e15).contains(&number).then_some(number as u64)
    })?;
    Some(Timestamp::from_secs(number))
}

/// The words of a claim that lists scopes: a text with blanks between them, or a list of texts. None if it
/// is missing, empty, or anything else, a list with something else in it included.
fn scope_list(claim: &Value) -> Option<String> {
    let list = match claim {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?.join(" "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    (!list.trim().is_empty()).then_some(list)
}

fn public_key(at: &str, algorithm: config::Algorithm, path: &Path) -> Result<DecodingKey, AuthSetupError> {
    let pem = std::fs::read(path).map_err(|error| AuthSetupError::unreadable(at, path, &error))?;
    let key = match family(algorithm) {
        Family::Rsa => DecodingKey::from_rsa_pem(&pem),
        Family::Ec => DecodingKey::from_ec_pem(&pem),
        Family::Ed => DecodingKey::from_ed_pem(&pem),
        Family::Hmac => return Err(AuthSetupError::new(at, "a public key is no shared secret")),
    };
    key.map_err(|_| {
        AuthSetupError::new(at, format!("{} holds no public key in PEM for {algorithm:?}", path.display()))
    })
}

/// The keys of a set that may sign with `algorithm`. Others, shared secrets among them, are left
/// out.
fn key_set(
    at: &str,
    algorithm: config::Algorithm,
    path: &Path,
) -> Result<Vec<(Option<String>, DecodingKey)>, AuthSetupError> {
    let text = std::fs::read_to_string(path).map_err(|error| AuthSetupError::unreadable(at, path, &error))?;
    let set: JwkSet = serde_json::from_str(&text)
        .map_err(|error| AuthSetupError::new(at, format!("{} is no key set: {error}", path.display())))?;
    let mut keys = Vec::new();
    for jwk in &set.keys {
        let fits = matches!(
            (&jwk.algorithm, family(algorithm)),
            (AlgorithmParameters::RSA(_), Family::Rsa)
                | (AlgorithmParameters::EllipticCurve(_), Family::Ec)
                | (AlgorithmParameters::OctetKeyPair(_), Family::Ed)
        );
        let signs =
            jwk.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
        let pinned = jwk.common.key_algorithm.is_none_or(|alg| alg == library(algorithm).into());
        if fits && signs && pinned {
            let key = DecodingKey::from_jwk(jwk)
                .map_err(|_| AuthSetupError::new(at, format!("{} holds a broken key", path.display())))?;
            keys.push((jwk.common.key_id.clone(), key));
        }
    }
    if keys.is_empty() {
        return Err(AuthSetupError::new(at, format!("{} holds no key for {algorithm:?}", path.display())));
    }
    Ok(keys)
}

const fn library(algorithm: config::Algorithm) -> Algorithm {
    match algorithm {
        config::Algorithm::Hs256 => Algorithm::HS256,
        config::Algorithm::Hs384 => Algorithm::HS384,
        config::Algorithm::Hs512 => Algorithm::HS512,
        config::Algorithm::Rs256 => Algorithm::RS256,
        config::Algorithm::Rs384 => Algorithm::RS384,
        config::Algorithm::Rs512 => Algorithm::RS512,
        config::Algorithm::Ps256 => Algorithm::PS256,
        config::Algorithm::Ps384 => Algorithm::PS384,
        config::Algorithm::Ps512 => Algorithm::PS512,
        config::Algorithm::Es256 => Algorithm::ES256,
        config::Algorithm::Es384 => Algorithm::ES384,
        config::Algorithm::EdDsa => Algorithm::EdDSA,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Hmac,
    Rsa,
    Ec,
    Ed,
}

const fn family(algorithm: config::Algorithm) -> Family {
    match algorithm {
        config::Algorithm::Hs256 | config::Algorithm::Hs384 | config::Algorithm::Hs512 => Family::Hmac,
        config::Algorithm::Rs256
        | config::Algorithm::Rs384
        | config::Algorithm::Rs512
        | config::Algorithm::Ps256
        | config::Algorithm::Ps384
        | config::Algorithm::Ps512 => Family::Rsa,
        config::Algorithm::Es256 | config::Algorithm::Es384 => Family::Ec,
        config::Algorithm::EdDsa => Family::Ed,
    }
}

/// Values of `typ` that name an access token.
const TYPES: &[&str] = &["JWT", "at+jwt", "application/at+jwt"];
const MAX_SUBJECT_BYTES: usize = 256;
