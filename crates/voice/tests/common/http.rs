//! An HTTP server that answers as a test wants it to.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Path and body of what came.
type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// What goes back.
pub(crate) type Answer = dyn Fn(&str, &[u8]) -> (u16, Vec<u8>) + Send + Sync;

/// Answers each request by its path and its body, and remembers them.
pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Requests,
}

impl HttpServer {
    pub(crate) async fn start(
        answer: impl Fn(&str, &[u8]) -> (u16, Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Requests::default();
        let answer: Arc<Answer> = Arc::new(answer);
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&answer), Arc::clone(&seen)));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn serve(mut stream: TcpStream, answer: Arc<Answer>, seen: Requests) -> std::io::Result<()> {
    let mut request = Vec::new();
    let head = loop {
        if let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    while request.len() < head + length.unwrap_or(0) {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let first = String::from_utf8_lossy(&request[..head]).into_owned();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = request[head..].to_vec();
    let (status, content) = answer(&path, &body);
    seen.lock().push((path, body));
    let head =
        format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", content.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&content).await
}
