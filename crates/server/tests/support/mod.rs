//! A server in this process, on a port and a data folder of its own.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard_agents::Agent;
use switchboard_core::AgentId;
use switchboard_server::{Config, Server};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) mod function;
pub(crate) mod rpc;
pub(crate) mod wire;

pub(crate) const ANN: Option<&str> = Some("key-of-ann-0123456789abcdef");
pub(crate) const BOB: Option<&str> = Some("key-of-bob-0123456789abcdef");
pub(crate) const ADMIN: Option<&str> = Some("key-of-admin-0123456789abcdef");
pub(crate) const SECRET: &str = "a-secret-that-is-shared-and-long-enough";
/// What requests to functions are signed with: the bytes 0 to 31.
pub(crate) const FUNCTION_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A server that is gone when this is dropped.
pub(crate) struct InProcess {
    pub(crate) address: SocketAddr,
    pub(crate) data: TempDir,
    shutdown: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl InProcess {
    /// Serves the conformance story with high limits, as changed by `settings`.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), settings).await
    }

    /// The same, on a folder that an earlier server may have left.
    pub(crate) async fn start_on(data: TempDir, settings: &[&str]) -> Self {
        let config = config(data.path(), settings);
        let server = Server::start(config).await.unwrap();
        Self::run(server, data).await
    }

    /// The same, with other values of secrets.
    pub(crate) async fn start_knowing(secrets: &[(&str, &str)], settings: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let config = load(data.path(), secrets, settings).unwrap();
        Self::run(Server::start(config).await.unwrap(), data).await
    }

    /// Serves an agent of the test's own as `test`, by default.
    pub(crate) async fn with_agent(agent: Arc<dyn Agent>, settings: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = config(data.path(), settings);
        config.agent = "test".into();
        let agents = BTreeMap::from([(AgentId::from("test"), agent)]);
        let server = Server::start_with(config, agents).await.unwrap();
        Self::run(server, data).await
    }

    async fn run(server: Server, data: TempDir) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            server.run(listener, stopped).await.unwrap();
        });
        Self { address, data, shutdown: Some(shutdown), running }
    }

    /// Begins to leave.
    pub(crate) fn shut_down(&mut self) {
        drop(self.shutdown.take());
    }

    /// Leaves in an orderly way; what is left is its data.
    pub(crate) async fn stop(mut self) -> TempDir {
        self.shut_down();
        tokio::time::timeout(Duration::from_secs(40), self.running).await.unwrap().unwrap();
        self.data
    }
}

/// Two principals, the conformance story, no limit that a test meets by accident.
pub(crate) fn config(data: &Path, settings: &[&str]) -> Config {
    load(data, &[], settings).unwrap()
}

/// The same; `secrets` take the place of the usual ones.
pub(crate) fn load(
    data: &Path,
    secrets: &[(&str, &str)],
    settings: &[&str],
) -> Result<Config, switchboard_server::config::ConfigError> {
    let data = format!("data_dir={}", data.display());
    let basic = [
        data.as_str(),
        "listen=127.0.0.1:0",
        "auth.api_keys=[\
            {id='ann',key_env='KEY_ANN',principal='ann'},\
            {id='bob',key_env='KEY_BOB',principal='bob'},\
            {id='admin',key_env='KEY_ADMIN',principal='admin',scopes=['connect','invoke','admin']}]",
        "auth.jwt=[{issuer='https://issuer.test',audience='https://switchboard.test',algorithm='HS256',\
            secret_env='JWT_SECRET',leeway_s=0,\
            default_scopes=['connect','read','invoke','tools','approve','manage','dispatch']}]",
        "agent=conformance",
        "agents.conformance.kind=script",
        "agents.conformance.builtin=conformance",
        "limits.new_connections_per_address_per_s=100000",
        "asp.limits.connections_per_s=100000",
        "asp.limits.connections_burst=100000",
        "limits.new_connections_per_address_burst=100000",
        "limits.principal_frames_per_s=1000000",
        "limits.principal_frames_burst=1000000",
        "limits.principal_turns_per_s=100000",
        "limits.principal_turns_burst=100000",
        "asp.limits.frames_per_s=100000",
        "asp.limits.frames_burst=100000",
        "asp.limits.invokes_per_s=100000",
        "asp.limits.invokes_burst=100000",
    ];
    let usual = [
        ("KEY_ANN", ANN),
        ("KEY_BOB", BOB),
        ("KEY_ADMIN", ADMIN),
        ("JWT_SECRET", Some(SECRET)),
        ("FUNCTION_SECRET", Some(FUNCTION_SECRET)),
    ];
    let environment = usual.map(|(name, value)| {
        let other = secrets.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        (name.to_owned(), other.or(value).unwrap().to_owned())
    });
    Config::load(None, environment, basic.iter().chain(settings))
}

/// A token of the issuer that the servers of the tests believe.
pub(crate) fn token(subject: &str, lifetime_s: i64) -> String {
    let exp = i64::try_from(jsonwebtoken::get_current_timestamp()).unwrap() + lifetime_s;
    let claims = serde_json::json!({
        "iss": "https://issuer.test", "aud": "https://switchboard.test", "sub": subject, "exp": exp,
    });
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
}

/// Bytes of memory that this process uses now.
pub(crate) fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
}

/// Files that this process may have open.
pub(crate) fn file_limit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok()).unwrap_or(1024)
}
