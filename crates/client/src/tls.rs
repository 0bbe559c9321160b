//! Whom to trust on `wss:` and `https:`.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Certificate authorities to trust.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// Those of the system.
    #[default]
    System,
    /// Those in this PEM text, and no others.
    Only(Vec<u8>),
}

impl Trust {
    /// A TLS configuration that trusts these.
    ///
    /// # Errors
    /// There is nobody to trust, or the PEM text holds something else.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        let mut roots = RootCertStore::empty();
        match self {
            Self::System => {
                let loaded = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(loaded.certs);
            }
            Self::Only(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|error| TlsError::Pem(error.to_string()))?;
                    roots.add(certificate).map_err(|error| TlsError::Pem(error.to_string()))?;
                }
            }
        }
        if roots.is_empty() { Err(TlsError::NoRoots) } else { config(roots) }
    }
}

/// A TLS configuration for those who will not use it.
pub(crate) fn unused() -> Result<ClientConfig, TlsError> {
    config(RootCertStore::empty())
}

fn config(roots: RootCertStore) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| TlsError::Setup(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// TLS cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The PEM text holds something else.
    #[error("the certificates cannot be read: {0}")]
    Pem(String),
    /// Nobody to trust.
    #[error("no certificate authority to trust: install the system's certificates or name a file")]
    NoRoots,
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}
