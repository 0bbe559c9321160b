//! Requests that a server answered with a status, in words that protocols without their own share.

use std::time::Duration;

use serde_json::Value;

use crate::socket::DialError;

/// What the server said: the text in this field of a JSON object, or the body as it is.
pub(crate) fn said(body: &[u8], field: &str) -> String {
    let json = serde_json::from_slice::<Value>(body).ok();
    match json.as_ref().and_then(|json| json.get(field)).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(body).trim().chars().take(MAX_SAID).collect(),
    }
}

/// Why a server could not be dialled.
pub(crate) enum Undialled {
    /// No address, no route, no TLS, no answer.
    Unreachable(String),
    /// It answered with a status.
    Refused { status: u16, text: String, retry_after: Option<Duration> },
}

impl Undialled {
    /// What became of an attempt; words of the server stand in this field of a JSON object.
    pub(crate) fn of(error: &DialError, field: &str) -> Self {
        match error {
            DialError::Refused { status, retry_after_ms, body } => Self::Refused {
                status: *status,
                text: said(body, field),
                retry_after: retry_after_ms.map(Duration::from_millis),
            },
            DialError::OtherProtocol => {
                Self::Refused { status: 101, text: error.to_string(), retry_after: None }
            }
            DialError::Timeout | DialError::Io(_) | DialError::Name | DialError::WebSocket(_) => {
                Self::Unreachable(error.to_string())
            }
        }
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
