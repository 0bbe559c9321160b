//! An HTTP server that behaves like an endpoint of a model, well or badly.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use switchboard_agents::{OpenAi, OpenAiConfig, Secret};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the server does with one request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Streams these events in small pieces, then `[DONE]`.
    Stream(Vec<Value>),
    /// Streams these bytes, each piece after a pause of so many milliseconds, and ends the stream.
    Pieces(Vec<(u64, Vec<u8>)>),
    /// Streams these bytes over and over, as long as there is somebody to listen.
    Endless(String),
    /// Streams these bytes, then cuts the connection.
    Cut(String),
    /// Streams these bytes, then says nothing more.
    Hang(String),
    /// A status, headers and a body.
    Status(u16, &'static str, String),
    /// Accepts the request and cuts the connection at once.
    Drop,
    /// Never even answers.
    Silence,
}

pub(crate) struct Server {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Told when the client has closed a connection that the server still held open.
    pub(crate) closed: mpsc::UnboundedReceiver<()>,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    /// Null if the body is something else than JSON.
    pub(crate) body: Value,
    pub(crate) bytes: Vec<u8>,
}

impl Server {
    /// Answers the first request with the first reply and so on; the last one is repeated.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (closing, closed) = mpsc::unbounded_channel();
        let seen = requests.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                tokio::spawn(serve(stream, replies.clone(), seen.clone(), closing.clone()));
            }
        });
        Self { url, requests, closed }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn agent(&self, change: impl FnOnce(&mut OpenAiConfig)) -> OpenAi {
        let mut config = OpenAiConfig {
            base_url: self.url.clone(),
            model: "test-model".into(),
            api_key: Some(Secret::new("sk-test")),
            backoff_ms: 5,
            ..OpenAiConfig::default()
        };
        change(&mut config);
        OpenAi::new(config).unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    replies: Vec<Reply>,
    requests: Arc<Mutex<Vec<Request>>>,
    closing: mpsc::UnboundedSender<()>,
) {
    while let Some(request) = read_request(&mut stream).await {
        let number = {
            let mut requests = requests.lock().unwrap();
            requests.push(request);
            requests.len() - 1
        };
        let reply = replies.get(number).or_else(|| replies.last()).unwrap().clone();
        match reply {
            Reply::Stream(events) => {
                let mut text = String::from(": processing\r\n\r\n");
                for event in events {
                    text += &format!("data: {event}\r\n\r\n");
                }
                text += "data: [DONE]\r\n\r\n";
                head(&mut stream).await;
                // Seven bytes at a time, so that characters and line endings are split.
                for piece in text.as_bytes().chunks(7) {
                    chunk(&mut stream, piece).await;
                }
                chunk(&mut stream, b"").await;
            }
            Reply::Pieces(pieces) => {
                head(&mut stream).await;
                for (pause, piece) in pieces {
                    if pause > 0 {
                        tokio::time::sleep(Duration::from_millis(pause)).await;
                    }
                    chunk(&mut stream, &piece).await;
                }
                chunk(&mut stream, b"").await;
            }
            Reply::Endless(text) => {
                head(&mut stream).await;
                let (mut reader, mut writer) = stream.split();
                let talk = async {
                    loop {
                        chunk(&mut writer, text.as_bytes()).await;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                };
                tokio::select! {
                    () = wait_for_close(&mut reader, &closing) => return,
                    () = talk => {}
                }
            }
            Reply::Cut(text) => {
                head(&mut stream).await;
                chunk(&mut stream, text.as_bytes()).await;
                return;
            }
            Reply::Hang(text) => {
                head(&mut stream).await;
                chunk(&mut stream, text.as_bytes()).await;
                wait_for_close(&mut stream, &closing).await;
                return;
            }
            Reply::Status(status, headers, body) => {
                let text = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(text.as_bytes()).await;
            }
            Reply::Drop => return,
            Reply::Silence => {
                wait_for_close(&mut stream, &closing).await;
                return;
            }
        }
    }
}

async fn wait_for_close(stream: &mut (impl AsyncRead + Unpin), closing: &mpsc::UnboundedSender<()>) {
    let mut byte = [0];
    let read = stream.read(&mut byte).await;
    assert!(matches!(read, Ok(0) | Err(_)), "the client sent something more");
    let _ = closing.send(());
}

async fn head(stream: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).await;
}

async fn chunk(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    let framed = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let _ = stream.write_all(&framed).await;
    let _ = stream.flush().await;
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
            .unwrap();
        let length: usize = length.parse().unwrap();
        if bytes.len() >= end + 4 + length {
            let bytes = bytes[end + 4..end + 4 + length].to_vec();
            let json = head.to_ascii_lowercase().contains("\r\ncontent-type: application/json");
            let body = if json { serde_json::from_slice(&bytes).unwrap() } else { Value::Null };
            return Some(Request { head, body, bytes });
        }
    }
}
