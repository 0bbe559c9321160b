//! How to connect over VIP: as what, and with what on the screen.

use std::fmt;
use std::future::Future;

use serde_json::{Value, json};
use switchboard_vip::client::Execution;
use switchboard_vip::message::{DetectionType, Environment};

use super::action::{Answer, Handler, Handlers};

/// How to connect, as what, and with what on the screen. The token is the App Token, with which the backend of the app
/// vouches for its user. Without further words: production, in English, with an empty screen, and turns that the
/// client takes by itself.
pub type Connect = crate::Connect<Settings>;

/// What only VIP knows; see the methods of [`Connect`].
#[derive(Clone)]
pub struct Settings {
    pub(super) app: String,
    pub(super) environment: Environment,
    pub(super) locale: String,
    pub(super) detection: DetectionType,
    /// Whether there are neither microphone nor loudspeaker.
    pub(super) silent: bool,
    pub(super) screen: Value,
    pub(super) handlers: Handlers,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            app: String::new(),
            environment: Environment::Production,
            locale: "en-US".into(),
            detection: DetectionType::ClientVad,
            silent: false,
            screen: json!({"route": {"id": "none"}, "narration": "", "actions": {}, "visibility": []}),
            handlers: Handlers::new(),
        }
    }
}

impl Connect {
    /// The id of the app.
    #[must_use]
    pub fn app(mut self, app: impl Into<String>) -> Self {
        self.config.app = app.into();
        self
    }

    /// A session of development, for which nobody has to vouch.
    #[must_use]
    pub fn development(mut self) -> Self {
        self.config.environment = Environment::Development;
        self
    }

    /// The language, such as `en-US`.
    #[must_use]
    pub fn locale(mut self, locale: impl Into<String>) -> Self {
        self.config.locale = locale.into();
        self
    }

    /// Who takes turns.
    #[must_use]
    pub fn detection(mut self, detection: DetectionType) -> Self {
        self.config.detection = detection;
        self
    }

    /// There is neither microphone nor loudspeaker: the user types and reads.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.config.silent = true;
        self
    }

    /// What is on the screen, as the members of a full `state.update` but its mode and version.
    #[must_use]
    pub fn screen(mut self, screen: Value) -> Self {
        self.config.screen = screen;
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
        self.config.handlers.insert(id.into(), Handler::new(handler));
        self
    }
}

/// Does not show the screen.
impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Settings").field("app", &self.app).finish_non_exhaustive()
    }
}
