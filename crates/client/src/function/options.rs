//! How a function is served.

use std::fmt;
use std::sync::Arc;

use switchboard_asp::relay::Format;
use switchboard_asp::relay::sign::KeyError;

use super::relay::Plaintext;
use super::run::Cause;
use super::seen::Seen;
use super::verify::Verifier;
use crate::tls::Trust;

/// Options of [`super::serve()`].
#[derive(Clone)]
pub struct Options {
    pub(super) verifier: Verifier,
    pub(super) seen: Seen,
    pub(super) format: Format,
    pub(super) trust: Trust,
    pub(super) plaintext: Plaintext,
    pub(super) max_running: usize,
    pub(super) max_body: usize,
    pub(super) on_cancel: Option<CancelHook>,
}

impl Options {
    /// Answers a relay that signs with this secret, or one of these, apart by spaces.
    ///
    /// # Errors
    /// A secret that is none.
    pub fn new(secret: &str) -> Result<Self, KeyError> {
        Ok(Self {
            verifier: Verifier::new(secret)?,
            seen: Seen::default(),
            format: Format::Ndjson,
            trust: Trust::System,
            plaintext: Plaintext::Refuse,
            max_running: 256,
            max_body: 16 * 1024 * 1024,
            on_cancel: None,
        })
    }

    /// Answers in this format unless a handler wants another; NDJSON without it.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Trusts these authorities when it calls the relay; the system's without it.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Whether it calls a relay on another machine without TLS; it does not without this.
    #[must_use]
    pub fn plaintext(mut self, plaintext: Plaintext) -> Self {
        self.plaintext = plaintext;
        self
    }

    /// Runs at most so many handlers at once, and sends the relay away for a second beyond; 256 without it.
    #[must_use]
    pub fn max_running(mut self, max_running: usize) -> Self {
        self.max_running = max_running;
        self
    }

    /// Takes bodies of at most so many bytes; 16 MiB without it.
    #[must_use]
    pub fn max_body(mut self, max_body: usize) -> Self {
        self.max_body = max_body;
        self
    }

    /// Tells of invocations that were cancelled, by `inv`.
    #[must_use]
    pub fn on_cancel(mut self, hook: impl Fn(String, Cause) + Send + Sync + 'static) -> Self {
        self.on_cancel = Some(CancelHook(Arc::new(hook)));
        self
    }
}

/// Whom to tell of cancelled invocations.
#[derive(Clone)]
pub(super) struct CancelHook(Arc<dyn Fn(String, Cause) + Send + Sync>);

impl CancelHook {
    pub(super) fn call(&self, inv: String, cause: Cause) {
        (self.0)(inv, cause);
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("format", &self.format)
            .field("plaintext", &self.plaintext)
            .field("max_running", &self.max_running)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}
