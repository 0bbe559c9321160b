//! HTTP clients for what agents talk to.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect};
use rustls::{ClientConfig, RootCertStore};

/// A client for URLs of this scheme, which goes where it is told: no redirects, no proxies of the
/// environment.
///
/// # Errors
/// The system has no usable TLS.
pub(crate) fn client(scheme: &str, connect_timeout: Duration) -> Result<ClientBuilder, rustls::Error> {
    let builder = Client::builder()
        .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .redirect(redirect::Policy::none())
        .no_proxy();
    let provider = rustls::crypto::ring::default_provider();
    if scheme == "https" {
        // Somebody else may have chosen a provider already, which is as good.
        let _ = provider.install_default();
        return Ok(builder);
    }
    // Without TLS there is no need for certificates, which some small systems do not have.
    let tls = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(builder.tls_backend_preconfigured(tls))
}
