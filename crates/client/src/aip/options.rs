//! How to connect.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use switchboard_aip::client::{Handlers, Message, Middleware, Pipeline, Refused};
use tokio_tungstenite::tungstenite::http::Uri;

use crate::endpoint::Endpoint;
pub use crate::endpoint::{FirstAttempt, OptionsError};
use crate::socket::Upgrade;
use crate::tls::Trust;

/// How to connect, and what looks at the messages.
pub struct Options {
    url: String,
    token: Option<String>,
    place: Place,
    plaintext: bool,
    middleware: Vec<Step>,
    pub(super) trust: Trust,
    pub(super) dial_timeout: Duration,
    pub(super) first: FirstAttempt,
}

/// A step that is still to be added.
struct Step(Box<dyn FnOnce(&mut Pipeline) + Send>);

/// Where the token travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    Query,
}

impl Options {
    /// Connects to `ws:`, `wss:`, `http:` or `https:`, with a path before `/ws` if there is one.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            place: Place::Header,
            plaintext: false,
            middleware: Vec::new(),
            trust: Trust::System,
            dial_timeout: Duration::from_secs(10),
            first: FirstAttempt::FailFast,
        }
    }

    /// The token, sent as `Authorization: Bearer`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sends the token in the address, as `token=…`, for servers that look for it only there. It may
    /// end up in the logs of those on the way.
    #[must_use]
    pub fn token_in_query(mut self) -> Self {
        self.place = Place::Query;
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

    /// How long one attempt to connect may take.
    #[must_use]
    pub fn dial_timeout(mut self, timeout: Duration) -> Self {
        self.dial_timeout = timeout;
        self
    }

    /// What to do if the first attempt fails for now.
    #[must_use]
    pub fn first_attempt(mut self, first: FirstAttempt) -> Self {
        self.first = first;
        self
    }

    /// Puts a step on the way of every message, closer to the server than those before.
    #[must_use]
    pub fn middleware(mut self, step: impl Middleware + 'static) -> Self {
        self.middleware.push(Step(Box::new(move |pipeline| pipeline.add(step))));
        self
    }

    /// Calls these for every message of the server that steps closer to it let pass. They hear of it
    /// before the client acts on it, and must be quick.
    #[must_use]
    pub fn handlers(self, handlers: Handlers) -> Self {
        self.middleware(Dispatch(handlers))
    }

    pub(super) fn add_middleware(&mut self, pipeline: &mut Pipeline) {
        for Step(add) in self.middleware.drain(..) {
            add(pipeline);
        }
    }

    /// Where to go, and what to ask for there.
    pub(super) fn upgrade(&self) -> Result<(Endpoint, Upgrade), OptionsError> {
        let endpoint = Endpoint::parse(&self.url)?;
        endpoint.check_token(self.token.as_deref(), self.plaintext)?;
        let base = endpoint.base(SOCKET);
        let (mut query, mut headers) = (String::new(), Vec::new());
        match (&self.token, self.place) {
            (Some(token), Place::Header) => headers.push(("Authorization", format!("Bearer {token}"))),
            (Some(token), Place::Query) => query = format!("token={}", encoded(token)),
            (None, _) => {}
        }
        let uri: Uri = endpoint.websocket(&format!("{base}{SOCKET}"), &query)?;
        Ok((endpoint, Upgrade { uri, headers, subprotocols: Vec::new(), expected: None }))
    }
}

/// Shows neither the token nor what holds it.
impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Options").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Tells handlers of what comes in.
#[derive(Debug)]
struct Dispatch(Handlers);

impl Middleware for Dispatch {
    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        for error in self.0.dispatch(&message).failures {
            tracing::warn!(%error, "a handler failed");
        }
        Ok(message)
    }
}

/// A token as it stands in an address.
fn encoded(token: &str) -> String {
    let mut text = String::with_capacity(token.len());
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

const SOCKET: &str = "/ws";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_the_socket_with_or_without_its_path() {
        for (url, socket) in [
            ("http://h:1", "ws://h:1/ws"),
            ("wss://h/", "wss://h/ws"),
            ("ws://h/base/?q=1#f", "ws://h/base/ws"),
            ("https://h/base/ws", "wss://h/base/ws"),
        ] {
            assert_eq!(Options::new(url).upgrade().unwrap().1.uri.to_string(), socket);
        }
    }

    #[test]
    fn tokens_travel_in_a_header_or_in_the_address() {
        let options = Options::new("wss://h").token("a+b/c=");
        let (_, upgrade) = options.upgrade().unwrap();
        assert_eq!(upgrade.headers, [("Authorization", "Bearer a+b/c=".to_owned())]);
        assert_eq!(upgrade.uri.to_string(), "wss://h/ws");
        let (_, upgrade) = options.token_in_query().upgrade().unwrap();
        assert!(upgrade.headers.is_empty());
        assert_eq!(upgrade.uri.to_string(), "wss://h/ws?token=a%2Bb%2Fc%3D");
        assert_eq!(Options::new("ws://h").token("t").upgrade().unwrap_err(), OptionsError::Plaintext);
        assert_eq!(Options::new("wss://h").token("t t").upgrade().unwrap_err(), OptionsError::Token);
        assert!(!format!("{:?}", Options::new("ws://h").token("hunter2")).contains("hunter2"));
    }
}
