//! A server in this process, and a cable to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use switchboard_client::alicia::{
    Answer, Client, Connect, Conversation, ConversationEvent, Join, Library, Updates,
};
use switchboard_server::{Config, Server};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

pub(crate) const ANN: &str = "key-of-ann-0123456789abcdef";
pub(crate) const BOB: &str = "key-of-bob-0123456789abcdef";

/// A server that is gone when this is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    data: TempDir,
    shutdown: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start() -> Self {
        Self::start_on(tempfile::tempdir().expect("a folder"), "127.0.0.1:0".parse().expect("an address"))
            .await
    }

    async fn start_on(data: TempDir, address: SocketAddr) -> Self {
        let folder = format!("data_dir={}", data.path().display());
        let settings = [
            folder.as_str(),
            "listen=127.0.0.1:0",
            "auth.api_keys=[{id='ann',key_env='KEY_ANN',principal='ann'},\
                {id='bob',key_env='KEY_BOB',principal='bob'}]",
            "agent=conformance",
            "agents.conformance.kind=script",
            "agents.conformance.builtin=conformance",
        ];
        let environment = [("KEY_ANN", ANN), ("KEY_BOB", BOB)];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(None, environment, settings).expect("a configuration");
        let server = Server::start(config).await.expect("a server");
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (shutdown, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            server.run(listener, stopped).await.expect("service");
        });
        Self { address, data, shutdown, running }
    }

    /// Another one on the same data.
    pub(crate) async fn restart(self) -> Self {
        drop(self.shutdown);
        tokio::time::timeout(Duration::from_secs(40), self.running).await.expect("in time").expect("an end");
        Self::start_on(self.data, "127.0.0.1:0".parse().expect("an address")).await
    }

    pub(crate) fn options(&self) -> Connect {
        Connect::new(format!("http://{}", self.address)).token(ANN)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.options()).await.expect("a connection")
    }

    pub(crate) fn library(&self) -> Library {
        Library::new(&self.options()).expect("a library")
    }

    /// A client in a new conversation.
    pub(crate) async fn conversation(&self) -> (Client, Conversation, Updates) {
        let client = self.client().await;
        let (conversation, updates) =
            soon(client.conversation(Join::create())).await.expect("a conversation");
        (client, conversation, updates)
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

    pub(crate) async fn client(&self) -> Client {
        let options = Connect::new(format!("http://{}", self.address)).token(ANN);
        Client::connect(options).await.expect("a connection")
    }
}

/// Nothing in these tests takes long, except on a machine that has much else to do.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time")
}

/// The next event of which this is so; what comes before is passed over.
pub(crate) async fn until(
    updates: &mut Updates,
    mut is: impl FnMut(&ConversationEvent) -> bool,
) -> ConversationEvent {
    loop {
        let event = soon(updates.next()).await.expect("an event");
        if is(&event) {
            return event;
        }
    }
}

/// The next answer, with all the pieces of it that were told.
pub(crate) async fn answer(updates: &mut Updates) -> (Answer, String) {
    let mut pieces = String::new();
    loop {
        match soon(updates.next()).await.expect("an event") {
            ConversationEvent::Piece { text, .. } => pieces.push_str(&text.0),
            ConversationEvent::Answered(answer) => return (answer, pieces),
            ConversationEvent::Closed(why) => panic!("{why:?}"),
            _ => {}
        }
    }
}
