//! TLS of the listener: rustls with ring, from PEM files that may be replaced while it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};

use crate::config::Config;

/// What ends TLS as configured; none when the listener is plain.
///
/// # Errors
/// A file cannot be read, or the two do not belong together.
pub fn acceptor(config: &Config) -> Result<Option<TlsAcceptor>, TlsError> {
    Ok(Tls::load(config)?.map(|tls| tls.acceptor()))
}

/// The certificate of the listener.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: Arc<Certificate>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files that are configured; none when the listener is plain.
    ///
    /// # Errors
    /// A file cannot be read, or the two do not belong together.
    pub fn load(config: &Config) -> Result<Option<Self>, TlsError> {
        let (Some(cert), Some(key)) = (&config.tls.cert, &config.tls.key) else { return Ok(None) };
        let provider = Arc::new(ring::default_provider());
        let changed_at = [changed_at(cert), changed_at(key)];
        let current = RwLock::new(Current { certified: read(cert, key, &provider)?, changed_at });
        let certificate = Arc::new(Certificate { cert: cert.clone(), key: key.clone(), provider, current });
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&certificate.provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>);
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Some(Self { certificate, server: Arc::new(server) }))
    }

    /// What ends TLS. A reload reaches every acceptor that was ever given out.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.server))
    }

    /// Reads the files again. New connections get the new certificate; if this fails, they go on
    /// with the old one.
    ///
    /// # Errors
    /// A file cannot be read, or the two do not belong together.
    pub fn reload(&self) -> Result<(), TlsError> {
        let certificate = &self.certificate;
        let changed_at = [changed_at(&certificate.cert), changed_at(&certificate.key)];
        let certified = read(&certificate.cert, &certificate.key, &certificate.provider)?;
        *certificate.current.write() = Current { certified, changed_at };
        Ok(())
    }

    /// Reads the files again if either has changed; says whether it did.
    ///
    /// # Errors
    /// A file cannot be read, or the two do not belong together.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let certificate = &self.certificate;
        let changed_at = [changed_at(&certificate.cert), changed_at(&certificate.key)];
        if certificate.current.read().changed_at == changed_at {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }
}

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate cannot be read.
    #[error("tls.cert: {} holds no certificate chain in PEM: {problem}", path.display())]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The private key cannot be read.
    #[error("tls.key: {} holds no private key in PEM: {problem}", path.display())]
    Key {
        /// Which file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The two cannot be used together.
    #[error("tls: the certificate and the key cannot be used together: {0}")]
    Unusable(rustls::Error),
}

#[derive(Debug)]
struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: RwLock<Current>,
}

/// What new connections get, and when its two files were last written.
#[derive(Debug)]
struct Current {
    certified: Arc<CertifiedKey>,
    changed_at: [Option<SystemTime>; 2],
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().certified))
    }
}

fn read(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let broken = |problem: String| TlsError::Certificate { path: cert.to_owned(), problem };
    let chain: Vec<_> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| broken(error.to_string()))?;
    if chain.is_empty() {
        return Err(broken("it is empty".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::Key { path: key.to_owned(), problem: error.to_string() })?;
    CertifiedKey::from_der(chain, key, provider).map(Arc::new).map_err(TlsError::Unusable)
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    struct Files {
        folder: TempDir,
        config: Config,
    }

    impl Files {
        fn new() -> (Self, CertificateDer<'static>) {
            let folder = tempfile::tempdir().unwrap();
            let mut config = Config::default();
            config.tls.cert = Some(folder.path().join("cert.pem"));
            config.tls.key = Some(folder.path().join("key.pem"));
            let files = Self { folder, config };
            let certificate = files.write();
            (files, certificate)
        }

        fn write(&self) -> CertificateDer<'static> {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            std::fs::write(self.folder.path().join("cert.pem"), made.cert.pem()).unwrap();
            std::fs::write(self.folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
            made.cert.der().clone()
        }
    }

    /// Whether a client that trusts `certificate` alone gets through, and can speak.
    async fn speaks(acceptor: TlsAcceptor, certificate: CertificateDer<'static>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (near, far) = tokio::io::duplex(64 << 10);
        let server = tokio::spawn(async move {
            let mut stream = acceptor.accept(far).await?;
            stream.write_all(b"hi").await?;
            stream.shutdown().await
        });
        let name = ServerName::try_from("localhost").unwrap();
        let mut text = String::new();
        let heard = match TlsConnector::from(Arc::new(client)).connect(name, near).await {
            Ok(mut stream) => stream.read_to_string(&mut text).await.is_ok(),
            Err(_) => false,
        };
        let _ = server.await.unwrap();
        heard && text == "hi"
    }

    #[tokio::test]
    async fn a_client_gets_through() {
        let (files, certificate) = Files::new();
        assert!(speaks(acceptor(&files.config).unwrap().unwrap(), certificate).await);
    }

    #[tokio::test]
    async fn a_new_certificate_reaches_old_acceptors() {
        let (files, old) = Files::new();
        let tls = Tls::load(&files.config).unwrap().unwrap();
        let acceptor = tls.acceptor();
        assert!(!tls.reload_if_changed().unwrap());
        let new = files.write();
        let later = changed_at(&files.folder.path().join("key.pem")).unwrap() + Duration::from_secs(5);
        std::fs::File::options()
            .append(true)
            .open(files.folder.path().join("key.pem"))
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert!(tls.reload_if_changed().unwrap());
        assert!(!tls.reload_if_changed().unwrap());
        assert!(speaks(acceptor.clone(), new.clone()).await);
        assert!(!speaks(acceptor.clone(), old).await);

        std::fs::write(files.folder.path().join("cert.pem"), "half a fi").unwrap();
        assert!(tls.reload().is_err());
        assert!(speaks(acceptor, new).await, "a failed reload changes nothing");
    }

    #[test]
    fn without_files_the_listener_is_plain() {
        assert!(acceptor(&Config::default()).unwrap().is_none());
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let (files, _) = Files::new();
        let error = |change: &dyn Fn(&mut Config)| {
            let mut config = files.config.clone();
            change(&mut config);
            acceptor(&config).map(|_| ()).unwrap_err().to_string()
        };
        let missing = error(&|config| config.tls.cert = Some("no/such/cert.pem".into()));
        assert!(missing.starts_with("tls.cert: no/such/cert.pem holds no certificate"), "{missing}");
        let swapped = error(&|config| config.tls.key.clone_from(&config.tls.cert));
        assert!(swapped.starts_with("tls.key: "), "{swapped}");
        let keys_only = error(&|config| config.tls.cert.clone_from(&config.tls.key));
        assert!(keys_only.starts_with("tls.cert: "), "{keys_only}");
        let (other, _) = Files::new();
        let strangers = error(&|config| config.tls.key.clone_from(&other.config.tls.key));
        assert!(strangers.starts_with("tls: the certificate and the key"), "{strangers}");
    }

    #[test]
    fn the_key_is_not_formatted() {
        let (files, _) = Files::new();
        let key = std::fs::read_to_string(files.folder.path().join("key.pem")).unwrap();
        let line = key.lines().nth(1).unwrap();
        assert!(!format!("{:?}", Tls::load(&files.config)).contains(&line[..20]));
    }
}
