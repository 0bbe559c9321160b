//! App Tokens: what they look like, and what their claims have to say (§3.1).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};
use switchboard_core::Timestamp;
use switchboard_vip::errand::{Failed, Vouched};
use switchboard_vip::token::APP;

use super::config::AppAlgorithm;
use crate::telemetry::names;

/// A token that was taken apart; nothing of it is believed yet.
pub(super) struct AppToken<'a> {
    header: Header,
    claims: Map<String, Value>,
    /// What is signed.
    pub(super) message: &'a str,
    pub(super) signature: &'a str,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> AppToken<'a> {
    /// Takes it apart. `alg: none` is refused before anything else is looked at.
    pub(super) fn read(token: &'a str) -> Result<Self, Refused> {
        let syntax = Refused::invalid("not a token of three parts");
        if token.len() > MAX_TOKEN_BYTES {
            return Err(syntax);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(syntax)?;
        let (header, claims) = message.split_once('.').ok_or(syntax)?;
        let header: Header = decode(header).ok_or(syntax)?;
        if header.alg.eq_ignore_ascii_case("none") || header.alg.is_empty() {
            return Err(Refused::algorithm("tokens have to be signed"));
        }
        let claims = decode(claims).ok_or(syntax)?;
        if signature.is_empty() || signature.contains('.') {
            return Err(syntax);
        }
        if header.typ.as_deref() != Some(APP) {
            return Err(Refused::invalid("typ has to be vip-app+jwt"));
        }
        if header.crit.is_some() {
            return Err(Refused::invalid("critical header that is not understood"));
        }
        Ok(Self { header, claims, message, signature })
    }

    /// The algorithm, if it is one that App Tokens can have.
    pub(super) fn algorithm(&self) -> Option<AppAlgorithm> {
        match self.header.alg.as_str() {
            "ES256" => Some(AppAlgorithm::Es256),
            "EdDSA" => Some(AppAlgorithm::EdDsa),
            "RS256" => Some(AppAlgorithm::Rs256),
            "HS256" => Some(AppAlgorithm::Hs256),
            _ => None,
        }
    }

    pub(super) fn kid(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str().filter(|issuer| !issuer.is_empty())
    }

    /// Checks when it counts, for whom, and which one it is. The signature has to be known to be right by now.
    pub(super) fn check(&self, audience: &str, now: Timestamp) -> Result<Life, Refused> {
        let time = |name| match self.claims.get(name) {
            None => Ok(None),
            Some(claim) => seconds(claim).map(Some).ok_or(Refused::invalid("a time that is no time")),
        };
        let expires_at = time("exp")?.ok_or(Refused::invalid("no exp"))?;
        let issued_at = time("iat")?.ok_or(Refused::invalid("no iat"))?;
        let begins_at = time("nbf")?.unwrap_or(issued_at);
        let ends_at = Timestamp::from_secs(expires_at).after(SKEW);
        if ends_at <= now {
            return Err(Refused::expired("expired; sign a new token"));
        }
        if Timestamp::from_secs(begins_at.max(issued_at)) > now.after(SKEW) {
            return Err(Refused::expired("not valid yet; check the clock of the issuer"));
        }
        if expires_at.saturating_sub(issued_at) > MAX_LIFE_S {
            return Err(Refused::expired(
                "exp lies more than 300 s after iat; sign a token that ends earlier",
            ));
        }
        let meant_for_us = match self.claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(all)) => all.iter().any(|one| one == audience),
            _ => false,
        };
        if !meant_for_us {
            return Err(Refused::invalid("aud does not contain the issuer of this server"));
        }
        let jti = self.text("jti", MAX_JTI_CHARS)?.ok_or(Refused::invalid("no jti"))?.to_owned();
        Ok(Life { ends_at, jti })
    }

    /// Whom it is about, and what it allows. `own` makes the principal of the user.
    pub(super) fn vouched(&self, own: impl FnOnce(&str) -> String) -> Result<Vouched, Refused> {
        let sub = self.text("sub", MAX_SUB_CHARS)?.ok_or(Refused::invalid("no sub"))?;
        let claims = self.claims.get("vip").cloned().ok_or(Refused::invalid("no vip"))?;
        let vip: VipClaims = serde_json::from_value(claims)
            .map_err(|_| Refused::invalid("vip has members of a wrong type"))?;
        let short = |text: &str, most: usize| !text.is_empty() && text.chars().count() <= most;
        let few =
            |list: &[String]| list.len() <= MAX_LIST && list.iter().all(|text| short(text, MAX_LIST_CHARS));
        if !short(&vip.app_id, MAX_APP_CHARS) {
            return Err(Refused::invalid("vip.app_id has to be of 1 to 64 characters"));
        }
        if !matches!(vip.env.as_str(), "development" | "production") {
            return Err(Refused::invalid("vip.env has to be development or production"));
        }
        let lists = [Some(&vip.scopes), vip.modes.as_ref(), vip.origins.as_ref()];
        if !lists.into_iter().flatten().all(|list| few(list)) {
            return Err(Refused::invalid("vip has a list that is too long"));
        }
        if vip.locale.as_deref().is_some_and(|locale| !short(locale, MAX_LOCALE_CHARS)) {
            return Err(Refused::invalid("vip.locale has to be a language tag"));
        }
        if vip.max_session_s == Some(0) {
            return Err(Refused::invalid("vip.max_session_s has to be positive"));
        }
        Ok(Vouched {
            own: own(sub),
            iss: self.issuer().map(str::to_owned),
            sub: sub.to_owned(),
            app_id: Some(vip.app_id),
            env: Some(vip.env),
            modes: vip.modes,
            scopes: vip.scopes,
            max_session_s: vip.max_session_s,
            origins: vip.origins,
            locale: vip.locale,
            replayed: false,
        })
    }

    /// A claim that is a short text, if it is there.
    fn text(&self, name: &str, most: usize) -> Result<Option<&str>, Refused> {
        let usable = |text: &&str| {
            !text.is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control)
        };
        match self.claims.get(name) {
            None => Ok(None),
            Some(claim) => claim
                .as_str()
                .filter(usable)
                .map(Some)
                .ok_or(Refused::invalid("a claim that is no short text")),
        }
    }
}

/// How long a token counts, and what tells it from others of its issuer.
pub(super) struct Life {
    /// When it ends, the skew of clocks included.
    pub(super) ends_at: Timestamp,
    pub(super) jti: String,
}

/// The members of `vip`. Who names no scopes has none, which is not for us to judge.
#[derive(Deserialize)]
struct VipClaims {
    app_id: String,
    env: String,
    #[serde(default)]
    scopes: Vec<String>,
    modes: Option<Vec<String>>,
    max_session_s: Option<u64>,
    origins: Option<Vec<String>>,
    locale: Option<String>,
}

/// A refusal: its code, and a reason that says nothing about anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    code: &'static str,
    reason: &'static str,
}

impl Refused {
    pub(super) const fn new(code: &'static str, reason: &'static str) -> Self {
        Self { code, reason }
    }

    pub(super) const fn invalid(reason: &'static str) -> Self {
        Self::new("AUTH_TOKEN_INVALID", reason)
    }

    pub(super) const fn algorithm(reason: &'static str) -> Self {
        Self::new("AUTH_ALG_FORBIDDEN", reason)
    }

    /// Whether it is about the algorithm.
    pub(super) fn is_algorithm(&self) -> bool {
        self.code == Self::algorithm("").code
    }

    const fn expired(reason: &'static str) -> Self {
        Self::new("AUTH_TOKEN_EXPIRED", reason)
    }
}

impl From<Refused> for Failed {
    fn from(Refused { code, reason }: Refused) -> Self {
        metrics::counter!(names::AUTH_FAILURES, "reason" => reason).increment(1);
        tracing::debug!(code, reason, "nobody is vouched for");
        super::failed(code, reason)
    }
}

fn decode<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// A time in seconds, fractions cut off.
fn seconds(claim: &Value) -> Option<u64> {
    claim.as_u64().or_else(|| {
        let number = claim.as_f64()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, by the test")]
        (0.0..9e15).contains(&number).then_some(number as u64)
    })
}

/// How far clocks may be apart.
const SKEW: Duration = Duration::from_secs(60);
const MAX_LIFE_S: u64 = 300;
const MAX_TOKEN_BYTES: usize = 16 << 10;
const MAX_SUB_CHARS: usize = 128;
const MAX_JTI_CHARS: usize = 256;
const MAX_APP_CHARS: usize = 64;
const MAX_LOCALE_CHARS: usize = 35;
const MAX_LIST: usize = 64;
const MAX_LIST_CHARS: usize = 256;
