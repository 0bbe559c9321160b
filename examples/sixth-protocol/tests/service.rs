//! The real server with one protocol more: its clients and those of ASP share a session.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use switchboard_client::asp::{Client, Connect, Features, Invoke, InvokeBody};
use switchboard_linewise::{Linewise, PATH};
use switchboard_server::{Config, Guests, Server};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A server in this process.
struct Service {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Service {
    async fn start(data: &Path) -> Self {
        let data = format!("data_dir={}", data.display());
        let settings = [
            data.as_str(),
            "listen=127.0.0.1:0",
            "agent=story",
            "agents.story.kind=script",
            "agents.story.builtin=conformance",
            "drain.timeout_ms=1000",
        ];
        let none: [(String, String); 0] = [];
        let config = Config::load(None, none, settings).unwrap();
        let guests = Guests::default().with_protocol(Linewise::default());
        let server = Server::start_hosting(config, guests).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            server.run(listener, async { drop(stopped.await) }).await.unwrap();
        });
        Self { address, stop, running }
    }

    async fn lines(&self) -> Lines {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let address = format!("ws://{}{PATH}", self.address);
        let (socket, _) = tokio_tungstenite::client_async(address, stream).await.unwrap();
        let mut lines = Lines(socket);
        assert_eq!(lines.next().await, "hello linewise/1");
        lines
    }

    async fn asp(&self) -> Client {
        let options = Connect::new(format!("ws://{}", self.address)).features(Features::ALL);
        Client::connect(options).await.unwrap()
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }
}

struct Lines(WebSocketStream<TcpStream>);

impl Lines {
    async fn say(&mut self, line: &str) {
        self.0.send(Message::text(line)).await.unwrap();
    }

    async fn next(&mut self) -> String {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("a line in time");
            match next.expect("a line").unwrap() {
                Message::Text(line) => return line.to_string(),
                Message::Ping(_) | Message::Pong(_) => {}
                other @ (Message::Binary(_) | Message::Close(_) | Message::Frame(_)) => panic!("{other:?}"),
            }
        }
    }

    /// The next line, which has to be of this kind: its position, its turn and what follows.
    async fn news(&mut self, kind: &str) -> (String, String, String) {
        let line = self.next().await;
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        assert_eq!(words[1], kind, "{line}");
        (words[0].to_owned(), words[2].to_owned(), words.get(3).copied().unwrap_or_default().to_owned())
    }

    /// Reads an answer to its end: its words, and the last position.
    async fn answer(&mut self, turn: &str) -> (String, String) {
        let mut text = String::new();
        loop {
            let line = self.next().await;
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            assert_eq!(words[2], turn, "{line}");
            match words[1] {
                "text" => text.push_str(words[3]),
                "done" => return (text, words[0].to_owned()),
                _ => panic!("{line}"),
            }
        }
    }
}

fn in_notes(body: Invoke) -> Invoke {
    Invoke { session: Some("notes".into()), ..body }
}

#[tokio::test]
async fn both_protocols_see_the_same_session_as_it_happens() {
    let data = tempfile::tempdir().unwrap();
    let service = Service::start(data.path()).await;
    let (mut lines, asp) = (service.lines().await, service.asp().await);
    lines.say("join notes").await;
    assert!(lines.next().await.starts_with("ok "));

    // What is asked over ASP is heard line by line.
    let answer = asp.invoke(in_notes(Invoke::chat("words one two three"))).await.unwrap();
    let (_, turn, asked) = lines.news("asked").await;
    assert!(asked.ends_with(" words one two three"), "{asked}");
    assert_eq!(lines.answer(&turn).await.0, "one two three");
    assert_eq!(answer.collect_text().await.unwrap().text, "one two three");

    // What is said on a line is watched over ASP, and can be stopped from there.
    lines.say("say count 1000 every 50").await;
    let accepted = lines.next().await;
    let (at, turn, _) = lines.news("asked").await;
    assert_eq!(accepted, format!("ok {at}"));
    let watch = InvokeBody::Watch { turn: Some(turn.clone()) };
    let watched = asp.invoke(in_notes(Invoke::new(watch))).await.unwrap();
    lines.news("text").await;
    watched.interrupt();
    loop {
        let line = lines.next().await;
        if line.split(' ').nth(1) != Some("text") {
            assert!(line.ends_with(&format!(" stopped {turn}")), "{line}");
            break;
        }
    }
    drop((watched, asp, lines));
    service.stop().await;
}

#[tokio::test]
async fn a_line_client_goes_on_where_it_was_when_the_server_is_started_again() {
    let data = tempfile::tempdir().unwrap();
    let service = Service::start(data.path()).await;
    let mut lines = service.lines().await;
    lines.say("join notes").await;
    lines.next().await;
    lines.say("@k1 say echo before").await;
    lines.next().await;
    let (seen, turn, _) = lines.news("asked").await;
    assert_eq!(lines.answer(&turn).await.0, "before");
    drop(lines);
    service.stop().await;

    let service = Service::start(data.path()).await;
    let mut lines = service.lines().await;
    lines.say(&format!("join notes since {seen}")).await;
    assert!(lines.next().await.starts_with("ok "));
    assert_eq!(lines.answer(&turn).await.0, "before", "what came after the position is told again");
    lines.say("@k1 say echo before").await;
    assert_eq!(lines.next().await, format!("@k1 ok {seen}"), "it was taken before, and is not taken twice");
    drop(lines);
    service.stop().await;
}

const PATIENCE: Duration = Duration::from_secs(60);
