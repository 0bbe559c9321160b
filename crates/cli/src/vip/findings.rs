//! What a server would have against an App Token, as far as the token itself shows it.

use serde_json::{Map, Value};
use switchboard_core::Timestamp;

use super::token::TYPE;
use crate::clock;

/// Something that makes a server refuse a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The code of the refusal.
    pub(super) code: &'static str,
    /// What is wrong, and what to do about it.
    pub(super) problem: String,
}

/// Everything that is wrong, in the order in which a server looks.
pub(super) fn findings(
    header: &Map<String, Value>,
    claims: &Map<String, Value>,
    signed: bool,
    now: Timestamp,
) -> Vec<Finding> {
    let mut found = Found::default();
    found.header(header, signed);
    found.times(claims, now);
    found.claims(claims);
    found.list
}

#[derive(Default)]
struct Found {
    list: Vec<Finding>,
}

impl Found {
    fn add(&mut self, code: &'static str, problem: impl Into<String>) {
        self.list.push(Finding { code, problem: problem.into() });
    }

    fn invalid(&mut self, problem: impl Into<String>) {
        self.add("AUTH_TOKEN_INVALID", problem);
    }

    fn header(&mut self, header: &Map<String, Value>, signed: bool) {
        let text = |name| header.get(name).and_then(Value::as_str);
        match text("alg") {
            Some("HS256") => {}
            Some("ES256" | "EdDSA" | "RS256") => {
                if text("kid").is_none_or(str::is_empty) {
                    self.invalid("kid is missing: an asymmetric key is found by it");
                }
            }
            Some(alg) if alg.eq_ignore_ascii_case("none") => {
                self.add("AUTH_ALG_FORBIDDEN", "alg is none: a token has to be signed");
            }
            _ => self.add("AUTH_ALG_FORBIDDEN", "alg has to be ES256, EdDSA, RS256 or HS256"),
        }
        if text("typ") != Some(TYPE) {
            self.invalid(format!("typ has to be {TYPE}"));
        }
        if header.contains_key("crit") {
            self.invalid("crit names a header that servers do not understand");
        }
        if !signed {
            self.invalid("there is no signature");
        }
    }

    fn times(&mut self, claims: &Map<String, Value>, now: Timestamp) {
        for name in ["iat", "exp"] {
            if !claims.contains_key(name) {
                self.invalid(format!("{name} is missing"));
            }
        }
        for name in ["iat", "exp", "nbf"] {
            if claims.get(name).is_some_and(|claim| claim.as_u64().is_none()) {
                self.invalid(format!("{name} has to be a whole number of seconds since 1970"));
            }
        }
        let time = |name| claims.get(name).and_then(Value::as_u64);
        let now_s = now.as_secs();
        if let Some(exp) = time("exp")
            && exp.saturating_add(SKEW_S) <= now_s
        {
            let ago = clock::ago(Timestamp::from_secs(exp), now);
            self.add("AUTH_TOKEN_EXPIRED", format!("it expired {ago}: sign a new one"));
        }
        if let Some(begin) = time("nbf").max(time("iat"))
            && begin > now_s.saturating_add(SKEW_S)
        {
            self.add("AUTH_TOKEN_EXPIRED", "it does not count yet: check the clock of who signed it");
        }
        if let (Some(iat), Some(exp)) = (time("iat"), time("exp")) {
            let life = exp.saturating_sub(iat);
            if life > MAX_LIFE_S {
                self.add(
                    "AUTH_TOKEN_EXPIRED",
                    format!("it counts for {life} s: exp may lie at most {MAX_LIFE_S} s after iat"),
                );
            }
        }
    }

    fn claims(&mut self, claims: &Map<String, Value>) {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        for (name, most) in [("iss", None), ("sub", Some(128)), ("jti", None)] {
            match (text(name), most) {
                (None, _) => self.invalid(format!("{name} is missing")),
                (Some(text), Some(most)) if text.chars().count() > most => {
                    self.invalid(format!("{name} has more than {most} characters"));
                }
                (Some(_), _) => {}
            }
        }
        let addressed = match claims.get("aud") {
            Some(Value::String(one)) => !one.is_empty(),
            Some(Value::Array(all)) => !all.is_empty() && all.iter().all(Value::is_string),
            _ => false,
        };
        if !addressed {
            self.invalid("aud is missing: it names the server, as `issuer` of its /.well-known/vip");
        }
        match claims.get("vip") {
            Some(Value::Object(vip)) => self.vip(vip),
            _ => self.invalid("vip is missing: an object with app_id, env and scopes"),
        }
    }

    fn vip(&mut self, vip: &Map<String, Value>) {
        let text = |name: &str| vip.get(name).and_then(Value::as_str);
        if text("app_id").is_none_or(|app| app.is_empty() || app.chars().count() > 64) {
            self.invalid("vip.app_id has to be of 1 to 64 characters");
        }
        if !matches!(text("env"), Some("development" | "production")) {
            self.invalid("vip.env has to be development or production");
        }
        for name in ["modes", "origins"] {
            let list = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
            if vip.get(name).is_some_and(|value| !list(value)) {
                self.invalid(format!("vip.{name} has to be a list of texts"));
            }
        }
        if vip.get("max_session_s").is_some_and(|most| most.as_u64().is_none_or(|most| most == 0)) {
            self.invalid("vip.max_session_s has to be a positive number");
        }
        let scopes = vip.get("scopes").and_then(Value::as_array);
        if !scopes.is_some_and(|scopes| scopes.iter().any(|scope| scope == "session:create")) {
            self.add("AUTH_SCOPE", "vip.scopes has to contain session:create");
        }
    }
}

/// How far clocks may be apart.
const SKEW_S: u64 = 60;
/// How long a token may count.
pub(super) const MAX_LIFE_S: u64 = 300;
