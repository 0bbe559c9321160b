//! `switchboard vip token --show`: what is inside a token, in words.

use std::io::Read as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use switchboard_core::Timestamp;

use super::findings::{Finding, findings};
use crate::clock;
use crate::console::{Console, Palette, one_line};
use crate::failure::{Exit, Failure};

/// Explains a token; fails if a server would refuse it.
pub(super) fn run(token: &str, console: &Console) -> Result<(), Failure> {
    let mut read = String::new();
    let token = if token == "-" {
        std::io::stdin().lock().take(MAX_TOKEN_BYTES + 1).read_to_string(&mut read)?;
        read.trim()
    } else {
        token.trim()
    };
    let token = Parts::of(token)?;
    let now = clock::now();
    let found = findings(&token.header, &token.claims, token.signed, now);
    console.print(&explained(&token, &found, now, console.palette()))?;
    if found.is_empty() { Ok(()) } else { Err(Failure::silent(Exit::Failed)) }
}

/// A token that was taken apart.
pub(super) struct Parts {
    header: Map<String, Value>,
    pub(super) claims: Map<String, Value>,
    signed: bool,
}

impl Parts {
    pub(super) fn of(token: &str) -> Result<Self, Failure> {
        if token.len() as u64 > MAX_TOKEN_BYTES {
            return Err(Failure::failed("this is longer than any token may be"));
        }
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else {
            return Err(Failure::failed(format!(
                "this is no token: expected three parts with dots between them, found {}",
                parts.len()
            )));
        };
        let decoded = |part: &str, name| {
            let bytes = URL_SAFE_NO_PAD.decode(part).ok();
            bytes
                .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                .ok_or_else(|| Failure::failed(format!("its {name} is no JSON object in base64url")))
        };
        Ok(Self {
            header: decoded(header, "header")?,
            claims: decoded(claims, "claims")?,
            signed: !signature.is_empty(),
        })
    }
}

fn explained(token: &Parts, found: &[Finding], now: Timestamp, palette: Palette) -> String {
    let Palette { bold, dim, red, green, reset, .. } = palette;
    let mut text = String::new();
    for (title, members) in [("Header", &token.header), ("Claims", &token.claims)] {
        text += &format!("{bold}{title}{reset}\n");
        for (name, value) in members {
            match value {
                Value::Object(inner) => {
                    for (inner_name, value) in inner {
                        text += &row(&format!("{name}.{inner_name}"), value, now, palette);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    text += &row(name, value, now, palette);
                }
            }
        }
    }
    text += &format!("{bold}Verdict{reset}\n");
    for Finding { code, problem } in found {
        text += &format!("  {red}wrong{reset}  {problem} {dim}({code}){reset}\n");
    }
    if found.is_empty() {
        text += &format!(
            "  {green}fine{reset}   as far as the token itself shows; the server also looks at its signature, at \
             who signed it,\n         and whether it was used before\n"
        );
    }
    text
}

/// One member: its name, its value, and what that means.
fn row(name: &str, value: &Value, now: Timestamp, palette: Palette) -> String {
    let Palette { dim, reset, .. } = palette;
    let shown = match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let texts = list.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join(", ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    let meaning = match (meaning(name), value.as_u64()) {
        (Some(meaning), Some(seconds)) if matches!(name, "iat" | "exp" | "nbf") => {
            let then = Timestamp::from_secs(seconds);
            format!("{meaning} {} UTC, {}", clock::utc(then), relative(then, now))
        }
        (Some(meaning), _) => meaning.to_owned(),
        (None, _) => String::new(),
    };
    let line = format!("  {name:<18} {:<28}  {dim}{meaning}{reset}", one_line(&shown, 120));
    format!("{}\n", line.trim_end())
}

fn relative(then: Timestamp, now: Timestamp) -> String {
    let ahead = then.since(now);
    if ahead > Duration::ZERO { format!("in {}", clock::short(ahead)) } else { clock::ago(then, now) }
}

fn meaning(name: &str) -> Option<&'static str> {
    Some(match name {
        "typ" => "what it is",
        "alg" => "how it is signed",
        "kid" => "with which key",
        "iss" => "who vouches",
        "sub" => "for whom",
        "aud" => "to which server",
        "iat" => "issued",
        "nbf" => "counts from",
        "exp" => "counts until",
        "jti" => "good for one use",
        "vip.app_id" => "the app",
        "vip.env" => "the environment",
        "vip.modes" => "the modes it allows",
        "vip.scopes" => "what it allows",
        "vip.max_session_s" => "the longest session, in seconds",
        "vip.origins" => "the sites that may use it",
        "vip.locale" => "the language unless another is asked for",
        _ => return None,
    })
}

const MAX_TOKEN_BYTES: u64 = 16 << 10;
