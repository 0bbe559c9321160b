//! A server in this process whose agent does what the tests let it do, and cables to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_agents::{CommandContext, DeviceTools, WithDevice};
use switchboard_core::AgentId;
use switchboard_server::{Config, Handle, Server};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use crate::prompter::Prompter;

pub(crate) const ANN: &str = "key-of-ann-0123456789abcdef";
pub(crate) const BOB: &str = "key-of-bob-0123456789abcdef";

/// A server that is gone when this is dropped.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    pub(crate) prompter: Arc<Prompter>,
    /// Whether credentials are asked for; if not, everybody is the same principal.
    pub(crate) keyed: bool,
    _data: TempDir,
    _shutdown: oneshot::Sender<()>,
}

impl World {
    /// Everybody is the same principal, whatever they speak.
    pub(crate) async fn open() -> Self {
        Self::start(false).await
    }

    /// Ann and Bob show keys; whoever speaks VIP tries things out, as somebody else again.
    pub(crate) async fn keyed() -> Self {
        Self::start(true).await
    }

    async fn start(keyed: bool) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let folder = format!("data_dir={}", data.path().display());
        let mut settings = vec![
            folder.as_str(),
            "listen=127.0.0.1:0",
            "voice.recogniser=none",
            "voice.synthesiser=none",
            "limits.new_connections_per_address_per_s=100000",
            "limits.principal_frames_per_s=100000",
            "limits.principal_turns_per_s=100000",
        ];
        if keyed {
            settings.push(
                "auth.api_keys=[{id='ann',key_env='KEY_ANN',principal='ann'},\
                    {id='bob',key_env='KEY_BOB',principal='bob'}]",
            );
            settings.push("vip.allow_development=true");
        }
        let environment = [("KEY_ANN", ANN), ("KEY_BOB", BOB)];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut config = Config::load(None, environment, settings).expect("a configuration");
        config.agent = AGENT.into();
        let prompter = Arc::new(Prompter::default());
        let devices = Arc::new(DeviceTools::new(CommandContext::default()));
        let agent: Arc<dyn switchboard_agents::Agent> = Arc::new(WithDevice::new(prompter.clone(), devices));
        let agents = BTreeMap::from([(AgentId::from(AGENT), agent)]);
        let server = Server::start_with(config, agents).await.expect("a server");
        let handle = server.handle();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (shutdown, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            server.run(listener, stopped).await.expect("service");
        });
        Self { address, handle, prompter, keyed, _data: data, _shutdown: shutdown }
    }
}

/// What a client is connected by: it can be cut and put back.
pub(crate) struct Cable {
    pub(crate) address: SocketAddr,
    server: SocketAddr,
    plug: watch::Sender<Option<SocketAddr>>,
    told: Arc<AtomicU64>,
}

impl Cable {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (plug, plugged) = watch::channel(Some(server));
        let told = Arc::new(AtomicU64::new(0));
        let counted = told.clone();
        tokio::spawn(async move {
            loop {
                let Ok((near, _)) = listener.accept().await else { return };
                let (mut plugged, counted) = (plugged.clone(), counted.clone());
                let Some(server) = *plugged.borrow_and_update() else { continue };
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        () = carry(near, far, &counted) => {}
                        _ = plugged.changed() => {}
                    }
                });
            }
        });
        Self { address, server, plug, told }
    }

    /// How many bytes the server has sent.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn cut(&self) {
        self.plug.send_replace(None);
    }

    pub(crate) fn mend(&self) {
        self.plug.send_replace(Some(self.server));
    }
}

/// Carries bytes both ways until one side ends, and counts those from the server.
async fn carry(near: TcpStream, far: TcpStream, told: &AtomicU64) {
    let (mut from_client, mut to_client) = near.into_split();
    let (mut from_server, mut to_server) = far.into_split();
    let up = tokio::io::copy(&mut from_client, &mut to_server);
    let down = async {
        let mut bytes = vec![0; 16 << 10];
        loop {
            match from_server.read(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    told.fetch_add(count as u64, Ordering::Relaxed);
                    if to_client.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    tokio::select! {
        _ = up => {}
        () = down => {}
    }
}

/// Nothing in these tests takes long, except on a machine that has much else to do.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> Result<F::Output, String> {
    tokio::time::timeout(PATIENCE, future).await.map_err(|_| format!("{what}: not in time"))
}

/// How long something may take that should be there at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const AGENT: &str = "prompter";
