//! Where a server is, and whether a credential may travel there.

use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::http::uri::Scheme;

use crate::tls::TlsError;

/// A URL of a server, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as they were written.
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
}

impl Endpoint {
    /// Reads `ws:`, `wss:`, `http:` or `https:`.
    pub(crate) fn parse(url: &str) -> Result<Self, OptionsError> {
        let invalid = || OptionsError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let secure = match uri.scheme().map(Scheme::as_str) {
            Some("ws" | "http") => false,
            Some("wss" | "https") => true,
            Some(_) | None => return Err(invalid()),
        };
        let authority = uri.authority().ok_or_else(invalid)?;
        if authority.as_str().contains('@') {
            return Err(OptionsError::UserInfo);
        }
        Ok(Self {
            secure,
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_string(),
            path: uri.path().to_owned(),
            query: uri.query().map(str::to_owned),
        })
    }

    /// Whether a token may go there, as it is.
    pub(crate) fn check_token(&self, token: Option<&str>, plaintext: bool) -> Result<(), OptionsError> {
        let Some(token) = token else { return Ok(()) };
        if !self.secure && !plaintext && !is_loopback(&self.host) {
            return Err(OptionsError::Plaintext);
        }
        check_token(token)
    }

    /// What stands before the paths of a protocol, whether or not the URL names that of its socket.
    pub(crate) fn base(&self, socket: &str) -> &str {
        let path = self.path.trim_end_matches('/');
        path.strip_suffix(socket).unwrap_or(path)
    }

    /// The address of something that is served there over HTTP, before what `base` tells.
    pub(crate) fn http(&self, base: &str, path: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{base}{path}", self.authority)
    }

    /// The address of a WebSocket there.
    pub(crate) fn websocket(&self, path: &str, query: &str) -> Result<Uri, OptionsError> {
        let scheme = if self.secure { "wss" } else { "ws" };
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{scheme}://{}{path}{mark}{query}", self.authority);
        url.parse().map_err(|_| OptionsError::Url(url))
    }
}

/// Whether a token fits a header.
pub(crate) fn check_token(token: &str) -> Result<(), OptionsError> {
    let fits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(()) } else { Err(OptionsError::Token) }
}

/// Whether a token may go there without TLS.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Options that contradict themselves or each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Not a URL of the right kind.
    #[error("{0} is not a URL like wss://host or ws://127.0.0.1:4600")]
    Url(String),
    /// A password in the URL.
    #[error("the URL must not hold a user or password: give a token instead")]
    UserInfo,
    /// Not the name of an agent.
    #[error("{0} is not the name of an agent: 1 to 64 letters, digits, - or _")]
    Agent(String),
    /// A token that everybody on the way could read.
    #[error("the token would travel unencrypted: use wss, or permit it")]
    Plaintext,
    /// A token that does not fit a header.
    #[error("the token holds characters that no header may hold")]
    Token,
    /// A header that is none.
    #[error("{0} is not a header, or has a value that no header may have")]
    Header(String),
    /// Only ASP has tokens among its subprotocols.
    #[error("this protocol cannot carry the token among its subprotocols")]
    Bearer,
    /// What the protocol's own settings say breaks one of its rules.
    #[error("{0}")]
    Settings(String),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// What to do if the first attempt to connect fails for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstAttempt {
    /// Say so.
    FailFast,
    /// Try again, as after a loss.
    KeepTrying,
}
