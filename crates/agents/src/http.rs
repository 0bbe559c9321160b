//! HTTP clients for what agents talk to.

use std::sync::Arc;

use reqwest::{Client, ClientBuilder, Url};
use rustls::{ClientConfig, RootCertStore};

/// A client for endpoints with the scheme of this URL: without proxies of the environment.
///
/// # Errors
/// The system has no usable TLS.
pub(crate) fn client(url: &Url) -> Result<ClientBuilder, rustls::Error> {
    let builder = Client::builder().user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION"))).no_proxy();
    let provider = rustls::crypto::ring::default_provider();
    if url.scheme() == "https" {
        // Somebody else may have chosen a provider already, which is as good.
        let _ = provider.install_default();
        return Ok(builder);
    }
    // Without TLS there is no need for certificates, which some small systems do not have.
    let versions =
        ClientConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions()?;
    let none = versions.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    Ok(builder.tls_backend_preconfigured(none))
}
