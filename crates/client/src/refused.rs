//! Requests that a server answered with a status, in words that protocols without their own share.

use serde_json::Value;

/// What the server said: the text in this field of a JSON object, or the body as it is.
pub(crate) fn said(body: &[u8], field: &str) -> String {
    let json = serde_json::from_slice::<Value>(body).ok();
    match json.as_ref().and_then(|json| json.get(field)).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(body).trim().chars().take(MAX_SAID).collect(),
    }
}

/// What a status means to a person who wanted to speak this protocol.
pub(crate) fn words(status: u16, text: &str, protocol: &str) -> String {
    match (status, text) {
        (401, _) => "the server does not accept the credential".to_owned(),
        (403, _) => "the server does not permit this".to_owned(),
        (101 | 404, _) => format!("the server does not speak {protocol} here"),
        (status, "") => format!("the server refused with HTTP {status}"),
        (status, text) => format!("the server refused with HTTP {status}: {text}"),
    }
}

/// Whether a status may be another one later.
pub(crate) const fn is_temporary(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

const MAX_SAID: usize = 500;
