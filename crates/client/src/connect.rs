//! How to connect: the same for every protocol.

use std::fmt;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use switchboard_core::{Backoff, Pii};

use crate::endpoint::{Endpoint, FirstAttempt, OptionsError};
use crate::http;
use crate::socket::{Dialer, Target};
use crate::tls::Trust;

/// How to connect, and what only the protocol of the configuration `C` knows.
#[derive(Clone)]
pub struct Connect<C> {
    url: String,
    token: Option<Pii<String>>,
    bearer: Bearer,
    headers: Vec<(String, String)>,
    trust: Trust,
    plaintext: bool,
    dial_timeout: Duration,
    max_message: Option<usize>,
    pub(crate) first: FirstAttempt,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) config: C,
}

impl<C: Default> Connect<C> {
    /// Connects to `ws:`, `wss:`, `http:` or `https:`. The path of the protocol may be left out.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            bearer: Bearer::Header,
            headers: Vec::new(),
            trust: Trust::System,
            plaintext: false,
            dial_timeout: Duration::from_secs(10),
            max_message: None,
            first: FirstAttempt::FailFast,
            backoff: None,
            config: C::default(),
        }
    }
}

impl<C> Connect<C> {
    /// The token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Pii(token.into()));
        self
    }

    /// Where the token travels; in a header unless said otherwise.
    #[must_use]
    pub fn bearer(mut self, bearer: Bearer) -> Self {
        self.bearer = bearer;
        self
    }

    /// One more header of every HTTP request and upgrade, such as `Origin`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Certificate authorities to trust.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Permits a token to travel unencrypted beyond this machine.
    #[must_use]
    pub fn allow_plaintext(mut self) -> Self {
        self.plaintext = true;
        self
    }

    /// How long one attempt to connect may take; 10 seconds unless said otherwise.
    #[must_use]
    pub fn dial_timeout(mut self, timeout: Duration) -> Self {
        self.dial_timeout = timeout;
        self
    }

    /// The largest message of the server that is taken, in bytes, if not what the protocol allows.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = Some(bytes);
        self
    }

    /// What to do if the first attempt fails for now.
    #[must_use]
    pub fn first_attempt(mut self, first: FirstAttempt) -> Self {
        self.first = first;
        self
    }

    /// Pauses between attempts to connect, if not those of the protocol.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// What only this protocol knows.
    #[must_use]
    pub fn config(mut self, config: C) -> Self {
        self.config = config;
        self
    }

    pub(crate) fn exposed_token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.as_str())
    }

    /// Where the server is, if the token may go there.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, OptionsError> {
        let endpoint = Endpoint::parse(&self.url)?;
        self.check_token(&endpoint, self.exposed_token())?;
        Ok(endpoint)
    }

    /// Whether this token may go there.
    pub(crate) fn check_token(&self, endpoint: &Endpoint, token: Option<&str>) -> Result<(), OptionsError> {
        endpoint.check_token(token, self.plaintext)
    }

    /// The address of something that is served over HTTP beside the socket at this path.
    pub(crate) fn http_url(&self, socket: &str, path: &str) -> Result<String, OptionsError> {
        let endpoint = self.endpoint()?;
        Ok(endpoint.http(endpoint.base(socket), path))
    }

    /// A client for requests over HTTP to this server.
    pub(crate) fn http_client(&self) -> Result<reqwest::ClientBuilder, OptionsError> {
        let builder = http::client(self.endpoint()?.secure, &self.trust)?;
        Ok(builder.connect_timeout(self.dial_timeout).default_headers(self.headers()?))
    }

    pub(crate) const fn dial_limit(&self) -> Duration {
        self.dial_timeout
    }

    /// What to dial: this socket, behind whatever path the URL has, and no query.
    pub(crate) fn target(&self, socket: &Socket) -> Result<Target, OptionsError> {
        let endpoint = self.endpoint()?;
        let path = format!("{}{}", endpoint.base(socket.path), socket.path);
        self.target_at(socket, endpoint, &path, "")
    }

    /// What to dial: this socket, elsewhere.
    pub(crate) fn target_at(
        &self,
        socket: &Socket,
        endpoint: Endpoint,
        path: &str,
        query: &str,
    ) -> Result<Target, OptionsError> {
        if self.bearer == Bearer::Subprotocol && socket.bearer.is_none() {
            return Err(OptionsError::Bearer);
        }
        let uri = endpoint.websocket(path, query)?;
        let max_message = self.max_message.unwrap_or(socket.max_message);
        let dialer = Dialer::new(endpoint, &self.trust, self.dial_timeout, max_message)?;
        let (token, headers) = (self.token.clone(), self.headers()?);
        Ok(Target { dialer, uri, headers, socket: *socket, token, bearer: self.bearer })
    }

    fn headers(&self) -> Result<HeaderMap, OptionsError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let invalid = || OptionsError::Header(name.clone());
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            headers.append(name, HeaderValue::from_str(value).map_err(|_| invalid())?);
        }
        Ok(headers)
    }
}

/// The socket of a protocol.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    pub(crate) path: &'static str,
    /// What the server must choose.
    pub(crate) subprotocol: Option<&'static str>,
    /// A token as a further subprotocol.
    pub(crate) bearer: Option<fn(&str) -> String>,
    pub(crate) max_message: usize,
}

/// Shows neither the token nor what may hold one.
impl<C> fmt::Debug for Connect<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connect").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Where a token travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bearer {
    /// In the header `Authorization`.
    Header,
    /// In the list of subprotocols, as browsers do it; ASP only.
    Subprotocol,
    /// In the address, as `token=…`, for servers that look for it only there. It may end up in the logs of those on
    /// the way.
    Query,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: Socket = Socket { path: "/v1/ws", subprotocol: None, bearer: None, max_message: 1 };

    fn target(url: &str) -> Connect<()> {
        Connect::new(url)
    }

    #[test]
    fn urls_lead_to_the_socket_and_to_what_is_served_over_http() {
        for (url, socket, config) in [
            ("http://h:1", "ws://h:1/v1/ws", "http://h:1/v1/config"),
            ("wss://h/", "wss://h/v1/ws", "https://h/v1/config"),
            ("ws://h/base/?q=1#f", "ws://h/base/v1/ws", "http://h/base/v1/config"),
            ("https://h/base/v1/ws", "wss://h/base/v1/ws", "https://h/base/v1/config"),
        ] {
            let connect = target(url);
            assert_eq!(connect.target(&SOCKET).unwrap().uri.to_string(), socket);
            assert_eq!(connect.http_url("/v1/ws", "/v1/config").unwrap(), config);
        }
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        let error = |connect: Connect<()>| connect.target(&SOCKET).err().unwrap();
        for url in ["", "host", "ftp://host", "//host", "ws://"] {
            assert_eq!(error(target(url)), OptionsError::Url(url.to_owned()));
        }
        assert_eq!(error(target("ws://u:p@host")), OptionsError::UserInfo);
        assert_eq!(error(target("ws://h").token("t")), OptionsError::Plaintext);
        assert_eq!(error(target("wss://h").token("t t")), OptionsError::Token);
        assert_eq!(error(target("wss://h").header("a b", "c")), OptionsError::Header("a b".to_owned()));
        let subprotocol = target("wss://h").token("t").bearer(Bearer::Subprotocol);
        assert_eq!(error(subprotocol), OptionsError::Bearer);
        assert!(target("ws://h").token("t").allow_plaintext().endpoint().is_ok());
        for local in ["ws://localhost", "ws://127.0.0.1:1", "ws://[::1]", "wss://h"] {
            assert!(target(local).token("t").endpoint().is_ok());
        }
    }

    #[test]
    fn tokens_travel_in_a_header_or_in_the_address_and_are_not_printed() {
        let connect = target("wss://h").token("a+b/c=").header("Origin", "https://app");
        assert!(!format!("{connect:?}").contains("a+b"));
        let upgrade = connect.target(&SOCKET).unwrap().upgrade();
        let [authorization, origin] = &upgrade.headers[..] else { panic!() };
        assert_eq!(authorization, &("Authorization".to_owned(), "Bearer a+b/c=".to_owned()));
        assert_eq!(origin, &("origin".to_owned(), "https://app".to_owned()));
        assert_eq!(upgrade.uri.to_string(), "wss://h/v1/ws");
        let upgrade = connect.bearer(Bearer::Query).target(&SOCKET).unwrap().upgrade();
        assert_eq!(upgrade.headers.len(), 1);
        assert_eq!(upgrade.uri.to_string(), "wss://h/v1/ws?token=a%2Bb%2Fc%3D");
    }
}
