//! What a relay makes of a function's status and headers (§14.3).

use crate::error::Code;
use crate::message::fields::clip;
use crate::message::names;
use crate::value::{MAX_INT, Map, Value, decode_json};

/// What to do with a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Read the body.
    Stream(ContentKind),
    /// The output comes by push.
    Async,
    /// Success without output: `end` with `finish:"empty"`.
    Empty,
    /// A duplicate: attach to the push output of the attempt that runs, if there is one.
    Attach {
        /// What to report if there is none.
        otherwise: Code,
    },
    /// Failed for good.
    Fail {
        /// What to report.
        code: Code,
        /// Whether the words come from the body, see [`message_from_body`].
        message: MessageSource,
        /// Whether an operator has to act.
        alarm: Alarm,
    },
    /// Try again while attempts are left and nothing was forwarded.
    Retry {
        /// The time the function asked for, at most [`MAX_RETRY_AFTER_MS`]; otherwise the usual backoff.
        after_ms: Option<u64>,
        /// What to report when attempts are used up.
        then: Code,
    },
    /// Try again if no byte of the body arrived, while attempts are left.
    RetryIfNoBody {
        /// What to report otherwise.
        then: Code,
    },
}

impl Verdict {
    /// Judges a response by its status, `Content-Type` and `Retry-After`.
    pub fn of(status: u16, content_type: Option<&str>, retry_after: Option<&str>) -> Self {
        match status {
            200 => match content_type.and_then(ContentKind::from_content_type) {
                Some(kind) => Self::Stream(kind),
                None => Self::fail(Code::FunctionBadResponse),
            },
            202 => Self::Async,
            204 => Self::Empty,
            400 | 422 => Self::Fail {
                code: Code::InvalidInvoke,
                message: MessageSource::BodyIfJson,
                alarm: Alarm::Quiet,
            },
            401 => Self::Fail {
                code: Code::FunctionBadResponse,
                message: MessageSource::Relay,
                alarm: Alarm::Signature,
            },
            403 => Self::fail(Code::Forbidden),
            404 => Self::fail(Code::AgentNotFound),
            409 => Self::Attach { otherwise: Code::ExecutionFailed },
            408 | 429 | 502 | 503 | 504 => Self::Retry {
                after_ms: retry_after.and_then(retry_after_ms),
                then: Code::FunctionUnreachable,
            },
            500..=599 => Self::RetryIfNoBody { then: Code::ExecutionFailed },
            // Redirects are never followed: a signed body goes to the configured address only.
            _ => Self::fail(Code::FunctionBadResponse),
        }
    }

    const fn fail(code: Code) -> Self {
        Self::Fail { code, message: MessageSource::Relay, alarm: Alarm::Quiet }
    }
}

/// Where the words of a failure come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageSource {
    /// The relay's own.
    Relay,
    /// The function's, if its body is JSON and has some.
    BodyIfJson,
}

/// Whether an operator has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alarm {
    /// No.
    Quiet,
    /// Relay and function do not share a secret.
    Signature,
}

names! {
    /// Content types of a function's answer; names are the types without parameters.
    ContentKind {
        /// One record per line.
        Ndjson = "application/x-ndjson",
        /// One record per event.
        Sse = "text/event-stream",
        /// ASP frames.
        Frames = "application/vnd.asp.frames",
        /// Text deltas.
        Text = "text/plain",
        /// Raw output.
        Bytes = "application/octet-stream",
        /// The whole output.
        Json = "application/json",
    }
}

impl ContentKind {
    /// Reads a `Content-Type`, whatever its case and parameters.
    pub fn from_content_type(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next()?.trim().to_ascii_lowercase();
        Self::from_name(&essence)
    }
}

/// Reads `X-Cpu-Time`, `^\d+(\.\d+)?ms$`, as whole milliseconds.
pub fn cpu_time(text: &str) -> Option<u64> {
    let number = text.strip_suffix("ms")?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let ms: f64 = number.parse().ok()?;
    Some(ms.min(MAX_INT as f64).round() as u64)
}

/// What a JSON body says about a failure: `msg` or `message`, at the top or in `error`, or `error` itself.
pub fn message_from_body(body: &[u8]) -> Option<String> {
    let Ok(Value::Map(map)) = decode_json(body) else { return None };
    let words = |map: &Map| map.get_str("msg").or_else(|| map.get_str("message")).map(str::to_owned);
    let said = match map.get("error") {
        Some(Value::Map(error)) => words(error),
        Some(error) => error.as_str().map(str::to_owned),
        None => None,
    };
    said.or_else(|| words(&map)).map(|message| clip(&message, MAX_MESSAGE).to_owned())
}

/// Longest `Retry-After` that is waited for.
pub const MAX_RETRY_AFTER_MS: u64 = 5_000;
const MAX_MESSAGE: usize = 512;

/// Whole seconds; the form with a date needs a common clock and is not honoured.
fn retry_after_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = if digits { text.parse::<u64>().unwrap_or(u64::MAX) } else { return None };
    Some(seconds.saturating_mul(1_000).min(MAX_RETRY_AFTER_MS))
}
