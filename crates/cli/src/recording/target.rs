//! The server at the other end: reached over TCP, or over TLS.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use switchboard_client::Trust;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::failure::Failure;

/// Where a server is.
#[derive(Clone)]
pub(crate) struct Target {
    url: String,
    host: String,
    port: u16,
    /// Host and port as they were written.
    pub(crate) authority: String,
    tls: Option<TlsConnector>,
}

impl Target {
    /// Reads `ws:`, `wss:`, `http:` or `https:`; the path does not matter.
    pub(crate) fn new(url: &str, ca_file: Option<&PathBuf>) -> Result<Self, Failure> {
        let invalid =
            || Failure::usage(format!("{url} is not a URL like ws://127.0.0.1:4600 or https://host"));
        let uri: hyper::Uri = url.parse().map_err(|_| invalid())?;
        let secure = match uri.scheme_str() {
            Some("ws" | "http") => false,
            Some("wss" | "https") => true,
            Some(_) | None => return Err(invalid()),
        };
        let authority = uri.authority().ok_or_else(invalid)?;
        let tls = if secure { Some(connector(ca_file)?) } else { None };
        Ok(Self {
            url: url.to_owned(),
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_string(),
            tls,
        })
    }

    /// Whether it is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Sends one request over a connection of its own; an answer with 101 can be upgraded.
    pub(crate) async fn send(
        &self,
        request: hyper::Request<Full<Bytes>>,
    ) -> Result<hyper::Response<Incoming>, String> {
        let exchange = async {
            let stream = self.connect().await?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
            tokio::spawn(async move {
                // What went wrong shows where the answer is read.
                let _ = connection.with_upgrades().await;
            });
            sender.send_request(request).await.map_err(|error| error.to_string())
        };
        match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(answered) => answered,
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Io>, String> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| format!("there is no server at {}: {error}", self.url))?;
        // Small frames must not wait for each other.
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(tls) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
        Ok(Box::new(tls.connect(name, tcp).await.map_err(|error| error.to_string())?))
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Target").field("url", &self.url).finish_non_exhaustive()
    }
}

fn connector(ca_file: Option<&PathBuf>) -> Result<TlsConnector, Failure> {
    let trust = match ca_file {
        None => Trust::System,
        Some(path) => Trust::Only(std::fs::read(path).map_err(|error| {
            Failure::usage(format!("the certificates in {} cannot be read: {error}", path.display()))
        })?),
    };
    let config = trust.config().map_err(|error| Failure::usage(error.to_string()))?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Anything that carries bytes both ways.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// How long a server may take to begin its answer; some answer when a turn is over.
const PATIENCE: Duration = Duration::from_secs(120);
