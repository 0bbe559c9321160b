//! Requests that this server makes itself.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Url, redirect};
use rustls::{ClientConfig, RootCertStore};

use super::setup_error;
use crate::auth::AuthSetupError;

/// A place that is asked, and the client for it.
pub(super) struct Place {
    url: Url,
    client: Client,
    timeout: Duration,
}

// Addresses may hold secrets.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// A whole answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nobody is there, or the connection broke.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// The answer is too long.
    TooLong,
}

impl Place {
    /// A place of the configuration; `key` is where it stands there. Does not connect yet. Goes where it is told:
    /// no redirects, no proxies of the environment.
    pub(super) fn new(key: &str, url: &str, timeout: Duration) -> Result<Self, AuthSetupError> {
        let url = Url::parse(url).map_err(|error| setup_error(key, error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(setup_error(key, "has to begin with http:// or https://"));
        }
        let builder = Client::builder()
            .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(timeout.min(CONNECT_TIMEOUT))
            .redirect(redirect::Policy::none())
            .no_proxy();
        let provider = rustls::crypto::ring::default_provider();
        let builder = if url.scheme() == "https" {
            // Somebody else may have chosen a provider already, which is as good.
            let _ = provider.install_default();
            builder
        } else {
            // Without TLS there is no need for certificates, which some small systems do not have.
            let tls = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(|error| setup_error(key, error.to_string()))?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            builder.tls_backend_preconfigured(tls)
        };
        let client = builder.build().map_err(|_| setup_error(key, "cannot set up HTTP"))?;
        Ok(Self { url, client, timeout })
    }

    /// Whether nobody on the way can change what is answered: it is encrypted, or does not leave this machine.
    pub(super) fn is_private(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        self.url.scheme() == "https" || loopback
    }

    /// Asks for what is there.
    pub(super) async fn get(&self, max_bytes: usize) -> Result<Answer, Lost> {
        self.exchange(self.client.get(self.url.clone()), max_bytes).await
    }

    /// Sends JSON there.
    pub(super) async fn post(
        &self,
        bearer: Option<&str>,
        body: &serde_json::Value,
        max_bytes: usize,
    ) -> Result<Answer, Lost> {
        let mut request = self.client.post(self.url.clone()).json(body);
        if let Some(bearer) = bearer {
            request = request.bearer_auth(bearer);
        }
        self.exchange(request, max_bytes).await
    }

    async fn exchange(&self, request: RequestBuilder, max_bytes: usize) -> Result<Answer, Lost> {
        let lost =
            |error: reqwest::Error| if error.is_timeout() { Lost::TimedOut } else { Lost::Unreachable };
        let mut response = request.timeout(self.timeout).send().await.map_err(lost)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(lost)? {
            if body.len() + bytes.len() > max_bytes {
                return Err(Lost::TooLong);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(Answer { status, body })
    }
}

/// Whether this can stand in a header.
pub(super) fn is_header_value(secret: &str) -> bool {
    !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic())
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
