//! What can go wrong, and what to do about it.

use switchboard_vip::client::{CommandError, Down};

use super::options::OptionsError;
use crate::refused::{self, Undialled};
use crate::socket::DialError;

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The options contradict themselves or each other.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// What is on the screen breaks a rule.
    #[error(transparent)]
    Screen(CommandError),
    /// No address, no route, no TLS, no answer.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server answered with a status.
    #[error("{}", refused::words(*.status, .text, "VIP"))]
    Refused {
        /// HTTP status.
        status: u16,
        /// The code of the error, such as `AUTH_TOKEN_EXPIRED`.
        code: Option<String>,
        /// What the server said.
        text: String,
    },
    /// The session ended before it had begun.
    #[error("the session ended at once, with code {}", .0.code)]
    Lost(Down),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoEntropy,
}

impl ConnectError {
    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Options(_) | Self::Screen(_) => "correct the options",
            Self::Unreachable(_) => "check the address and whether the server runs",
            Self::Refused { status: 401, .. } => "give a fresh App Token: each counts once, and for minutes",
            Self::Refused { status: 403, .. } => "use a token that may do this, or allow development",
            Self::Refused { status: 429 | 503, .. } => "wait, then try again",
            Self::Refused { .. } => "check the URL: it must lead to a server that speaks VIP",
            Self::Lost(_) | Self::NoEntropy => "try again",
        }
    }

    /// What the server said with a status.
    pub(super) fn refused(status: u16, body: &[u8]) -> Self {
        let error = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
        let member = |name: &str| error["error"][name].as_str().map(str::to_owned);
        Self::Refused {
            status,
            code: member("code"),
            text: member("message").unwrap_or_else(|| refused::said(body, "error")),
        }
    }
}

impl From<DialError> for ConnectError {
    fn from(error: DialError) -> Self {
        match Undialled::of(&error, "error") {
            Undialled::Unreachable(what) => Self::Unreachable(what),
            Undialled::Refused { status, text, .. } => Self::refused(status, text.as_bytes()),
        }
    }
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not now, or not like this.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The session is over.
    #[error("the session is over")]
    Over,
}
