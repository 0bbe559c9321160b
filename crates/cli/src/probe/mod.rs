//! A server as seen from outside: plain HTTP and WebSocket messages, and a record of both. Nothing here
//! knows a protocol, and nothing believes what the server says.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Uri;
use hyper::http::uri::Scheme;
use switchboard_client::Trust;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::environment::Environment;
use crate::failure::Failure;

mod http;
mod socket;
mod transcript;

pub(crate) use http::{Answer, Request, Streaming};
pub(crate) use socket::{Over, Received, Socket};
pub(crate) use transcript::Transcript;

/// How long anything may take that should take no time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How to reach a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct TargetArgs {
    /// The credential to show; SWITCHBOARD_TOKEN unless given. Others can see what stands on a command
    /// line: use the variable where that matters
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A credential of somebody else, to see that the two are kept apart; SWITCHBOARD_OTHER_TOKEN unless
    /// given
    #[arg(long, value_name = "KEY")]
    other_key: Option<String>,
    /// A PEM file with the certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl TargetArgs {
    /// The server at this address.
    pub(crate) fn target(&self, url: &str, environment: &Environment) -> Result<Target, Failure> {
        let of = |given: &Option<String>, variable| {
            given.clone().or_else(|| environment.find(variable).map(str::to_owned))
        };
        let trust = match &self.ca_file {
            None => Trust::System,
            Some(path) => Trust::Only(std::fs::read(path).map_err(|error| {
                Failure::usage(format!("the certificates in {} cannot be read: {error}", path.display()))
            })?),
        };
        let key = of(&self.key, "SWITCHBOARD_TOKEN");
        Target::new(url, key, of(&self.other_key, "SWITCHBOARD_OTHER_TOKEN"), &trust)
    }
}

/// A server, and who is asking.
#[derive(Clone)]
pub(crate) struct Target {
    /// The address as it was given.
    pub(crate) url: String,
    /// Whether TLS is spoken.
    pub(crate) secure: bool,
    /// Host and port as they stand in the address.
    pub(crate) authority: String,
    host: String,
    port: u16,
    /// What stands before every path.
    base: String,
    /// The credential that is shown unless a request says otherwise.
    pub(crate) key: Option<String>,
    /// A credential of somebody else.
    pub(crate) other_key: Option<String>,
    tls: Option<TlsConnector>,
}

impl Target {
    fn new(
        url: &str,
        key: Option<String>,
        other_key: Option<String>,
        trust: &Trust,
    ) -> Result<Self, Failure> {
        let unusable =
            || Failure::usage(format!("{url} is not an address like https://host or ws://host:4600"));
        let uri: Uri = url.parse().map_err(|_| unusable())?;
        let secure = match uri.scheme().map(Scheme::as_str) {
            Some("ws" | "http") => false,
            Some("wss" | "https") => true,
            Some(_) | None => return Err(unusable()),
        };
        let authority = uri.authority().ok_or_else(unusable)?;
        let path = uri.path().trim_end_matches('/');
        let base = SOCKETS.iter().find_map(|socket| path.strip_suffix(socket)).unwrap_or(path);
        let tls = match secure {
            false => None,
            true => {
                let config = trust.config().map_err(|error| Failure::usage(error.to_string()))?;
                Some(TlsConnector::from(Arc::new(config)))
            }
        };
        Ok(Self {
            url: url.to_owned(),
            secure,
            authority: authority.to_string(),
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            base: base.to_owned(),
            key,
            other_key,
            tls,
        })
    }

    /// The same server, for whoever else there is.
    pub(crate) fn for_other(&self) -> Self {
        Self { key: self.other_key.clone(), ..self.clone() }
    }

    /// Whether it is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }

    /// An empty transcript in which no credential can be read.
    pub(crate) fn transcript(&self) -> Transcript {
        let keys = self.key.iter().chain(&self.other_key).filter(|key| !key.is_empty());
        let written = keys.flat_map(|key| [key.clone(), URL_SAFE_NO_PAD.encode(key)]);
        Transcript::new(written.collect::<Rc<[String]>>())
    }

    /// A fresh connection.
    pub(crate) async fn dial(&self) -> Result<Box<dyn Io>, String> {
        let dialing = async {
            let tcp = TcpStream::connect((self.host.as_str(), self.port))
                .await
                .map_err(|error| error.to_string())?;
            tcp.set_nodelay(true).map_err(|error| error.to_string())?;
            let Some(tls) = &self.tls else { return Ok(Box::new(tcp) as Box<dyn Io>) };
            let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
            let stream = tls.connect(name, tcp).await.map_err(|error| format!("TLS: {error}"))?;
            Ok(Box::new(stream) as Box<dyn Io>)
        };
        match tokio::time::timeout(PATIENCE, dialing).await {
            Ok(dialed) => dialed,
            Err(_) => Err("no connection in time".to_owned()),
        }
    }
}

/// Shows no credential.
impl std::fmt::Debug for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Target").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Anything that carries bytes both ways.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Addresses of sockets that people give where that of the server is meant.
const SOCKETS: &[&str] = &["/v1/agent-socket", "/v1/rpc", "/api/v1/ws", "/ws"];

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, Failure> {
        Target::new(url, Some("k3y".to_owned()), None, &Trust::System)
    }

    #[test]
    fn addresses_of_servers_and_of_their_sockets_mean_the_same() {
        for (url, base) in [
            ("http://127.0.0.1:4600", ""),
            ("ws://127.0.0.1:4600/v1/agent-socket", ""),
            ("ws://127.0.0.1:4600/behind/v1/rpc/", "/behind"),
        ] {
            let target = target(url).unwrap();
            assert_eq!((target.base.as_str(), target.port, target.secure), (base, 4600, false), "{url}");
        }
        assert!(target("ftp://127.0.0.1").is_err());
        assert!(target("127.0.0.1:4600").is_err());
    }

    #[test]
    fn a_credential_is_shown_by_nothing() {
        let target = target("http://127.0.0.1:4600").unwrap();
        assert!(!format!("{target:?}").contains("k3y"));
        let transcript = target.transcript();
        transcript.sent("k3y");
        assert_eq!(transcript.lines(), ["> …"]);
    }
}
