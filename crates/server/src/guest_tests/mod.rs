//! What the server does for any protocol, shown with one of the tests' own.

mod audit;
mod door;
mod errands;
mod paths;
mod pressure;
mod probe;
mod vip;
mod voice;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::config::Config;
use crate::guests::Guests;
use crate::handle::Handle;
use crate::serve::Server;

/// A server in this process that speaks the tests' protocol, too.
struct Hosted {
    address: SocketAddr,
    handle: Handle,
    shutdown: Option<oneshot::Sender<()>>,
    _data: TempDir,
}

impl Hosted {
    async fn start(guests: Guests, settings: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let folder = format!("data_dir={}", data.path().display());
        let basic = [folder.as_str(), "listen=127.0.0.1:0"];
        let none: [(String, String); 0] = [];
        let config = Config::load(None, none, basic.iter().chain(settings)).unwrap();
        let server = Server::start_hosting(config, guests).await.unwrap();
        let handle = server.handle();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            server.run(listener, stopped).await.unwrap();
        });
        Self { address, handle, shutdown: Some(shutdown), _data: data }
    }

    /// The principals of every open connection.
    fn principals(&self) -> Vec<String> {
        use crate::admin::Connections as _;

        let list = self.handle.door.registry.list();
        list.into_iter().map(|info| info.principal.to_string()).collect()
    }

    async fn ask(&self, request: &str, headers: &[&str], body: &str) -> Answer {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let mut lines = vec![format!("{request} HTTP/1.1"), "Connection: close".to_owned()];
        if !headers.iter().any(|line| line.starts_with("Host:")) {
            lines.push(format!("Host: {}", self.address));
        }
        lines.extend(headers.iter().map(ToString::to_string));
        lines.push(format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        socket.write_all(lines.join("\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("an end").unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn socket(&self, headers: &[(&'static str, &str)]) -> Result<Socket, u16> {
        let mut request = format!("ws://{}/probe/socket", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        drop(self.shutdown.take());
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    async fn hear(&mut self) -> String {
        loop {
            match timeout(PATIENCE, self.0.next()).await.expect("a message").expect("a message").unwrap() {
                Message::Text(text) => return text.to_string(),
                Message::Close(close) => panic!("closed: {close:?}"),
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

impl Socket {
    /// The code with which the server says goodbye.
    async fn closed(&mut self) -> u16 {
        loop {
            let next = timeout(PATIENCE, self.0.next()).await.expect("an end").expect("a goodbye").unwrap();
            if let Message::Close(close) = next {
                return close.map_or(0, |close| close.code.into());
            }
        }
    }
}

/// Waits until something is so.
async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it comes true");
}

fn hosting(probe: probe::Probe) -> Guests {
    Guests { protocols: vec![Arc::new(probe)], ..Guests::default() }
}

/// How long anything may take; generous, since the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
