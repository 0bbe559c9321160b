//! How to connect, as what, and with what on the screen.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use switchboard_vip::client::Execution;
use switchboard_vip::message::{DetectionType, Environment};

use super::action::{Answer, Handlers};
use crate::endpoint::Endpoint;
pub use crate::endpoint::OptionsError;
use crate::tls::Trust;

/// How to connect, as what, and with what on the screen.
#[derive(Clone)]
pub struct Options {
    pub(super) url: String,
    pub(super) app: String,
    pub(super) token: Option<String>,
    pub(super) environment: Environment,
    pub(super) trust: Trust,
    pub(super) plaintext: bool,
    pub(super) dial_timeout: Duration,
    pub(super) locale: String,
    pub(super) detection: DetectionType,
    /// Whether there are neither microphone nor loudspeaker.
    pub(super) silent: bool,
    pub(super) screen: Value,
    pub(super) handlers: Handlers,
}

impl Options {
    /// An app by its id, at a server with this `http:`, `https:`, `ws:` or `wss:` address. Production, in English,
    /// with an empty screen, and turns that the client takes by itself.
    pub fn new(url: impl Into<String>, app: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            app: app.into(),
            token: None,
            environment: Environment::Production,
            trust: Trust::System,
            plaintext: false,
            dial_timeout: Duration::from_secs(10),
            locale: "en-US".into(),
            detection: DetectionType::ClientVad,
            silent: false,
            screen: json!({"route": {"id": "none"}, "narration": "", "actions": {}, "visibility": []}),
            handlers: Handlers::new(),
        }
    }

    /// The App Token, with which the backend of the app vouches for its user.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// A session of development, for which nobody has to vouch.
    #[must_use]
    pub fn development(mut self) -> Self {
        self.environment = Environment::Development;
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

    /// The language, such as `en-US`.
    #[must_use]
    pub fn locale(mut self, locale: impl Into<String>) -> Self {
        self.locale = locale.into();
        self
    }

    /// Who takes turns.
    #[must_use]
    pub fn detection(mut self, detection: DetectionType) -> Self {
        self.detection = detection;
        self
    }

    /// There is neither microphone nor loudspeaker: the user types and reads.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self
    }

    /// What is on the screen, as the members of a full `state.update` but its mode and version.
    #[must_use]
    pub fn screen(mut self, screen: Value) -> Self {
        self.screen = screen;
        self
    }

    /// Does this action whenever it is invoked. Actions without a handler are told as
    /// [`Event::Execute`](super::Event::Execute).
    #[must_use]
    pub fn action<F, D>(mut self, id: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Execution) -> D + Send + Sync + 'static,
        D: Future<Output = Answer> + Send + 'static,
    {
        self.handlers.insert(id.into(), Arc::new(move |call| handler(call).boxed()));
        self
    }

    pub(super) fn endpoint(&self) -> Result<Endpoint, OptionsError> {
        let endpoint = Endpoint::parse(&self.url)?;
        endpoint.check_token(self.token.as_deref(), self.plaintext)?;
        Ok(endpoint)
    }
}

/// Shows neither token nor screen.
impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("url", &self.url)
            .field("app", &self.app)
            .finish_non_exhaustive()
    }
}
