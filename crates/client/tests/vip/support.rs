//! A server in this process, and a cable to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use switchboard_server::{Config, Server};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// A server that is gone when this is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    _data: TempDir,
    _shutdown: oneshot::Sender<()>,
}

impl Served {
    pub(crate) async fn start() -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let story = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/vip_story.toml");
        let settings = [
            format!("data_dir={}", data.path().display()),
            "listen=127.0.0.1:0".into(),
            "agent=story".into(),
            "agents.story.kind=script".into(),
            format!("agents.story.path={story}"),
            "voice.recogniser=none".into(),
            "voice.synthesiser=none".into(),
        ];
        let config = Config::load(None, [], settings).expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = Server::start(config).await.expect("a server");
        let address = listener.local_addr().expect("an address");
        let (shutdown, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            server.run(listener, stopped).await.expect("service");
        });
        Self { address, _data: data, _shutdown: shutdown }
    }
}

/// What a client is connected by: it can be cut, put back, and lead elsewhere.
pub(crate) struct Cable {
    pub(crate) address: SocketAddr,
    plug: watch::Sender<Option<SocketAddr>>,
    _carrying: Arc<JoinHandle<()>>,
}

impl Cable {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (plug, plugged) = watch::channel(Some(server));
        let carrying = tokio::spawn(async move {
            loop {
                let Ok((mut near, _)) = listener.accept().await else { return };
                let mut plugged = plugged.clone();
                let Some(server) = *plugged.borrow_and_update() else { continue };
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = plugged.changed() => {}
                    }
                });
            }
        });
        Self { address, plug, _carrying: Arc::new(carrying) }
    }

    pub(crate) fn cut(&self) {
        self.plug.send_replace(None);
    }

    pub(crate) fn plug_into(&self, server: SocketAddr) {
        self.plug.send_replace(Some(server));
    }
}

/// Nothing in these tests takes long, except on a machine that has much else to do.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time")
}
