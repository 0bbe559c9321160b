//! A function on this machine, written by hand on TCP: it shows every request as it came, and answers
//! what the test says, when the test says it, down to single chunks and broken connections.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// How long anything may take that should take no time; generous, since the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) raw: Vec<u8>,
    /// The body, read as JSON.
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

impl Asked {
    /// The one value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} is there twice");
        value
    }

    pub(crate) fn event(&self) -> &str {
        self.body["event"].as_str().unwrap_or_default()
    }

    pub(crate) fn inv(&self) -> &str {
        self.body["inv"].as_str().unwrap_or_default()
    }

    pub(crate) fn attempt(&self) -> u64 {
        self.body["attempt"].as_u64().unwrap_or_default()
    }

    /// The text that the client has sent.
    pub(crate) fn input(&self) -> &str {
        self.body["payload"]["input"].as_str().unwrap_or_default()
    }

    pub(crate) fn cid(&self) -> &str {
        self.body["cid"].as_str().unwrap_or_default()
    }

    pub(crate) fn push_token(&self) -> &str {
        self.body["push"]["token"].as_str().unwrap_or_default()
    }

    /// Everything that was sent, to be searched for what must not be there.
    pub(crate) fn everything(&self) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{} {}\n{headers}\n{}", self.method, self.path, String::from_utf8_lossy(&self.raw))
    }
}

/// The function. Nobody listens any more when this is dropped.
pub(crate) struct Function {
    pub(crate) address: SocketAddr,
    arrivals: mpsc::UnboundedReceiver<Exchange>,
    /// What has arrived and nobody has asked for yet.
    waiting: VecDeque<Exchange>,
    asked: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Function {
    pub(crate) async fn start() -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, arrivals) = mpsc::unbounded_channel();
        let asked = Arc::default();
        let connections = Arc::new(AtomicUsize::new(0));
        let desk = Desk { arrivals: sender, asked: Arc::clone(&asked) };
        let count = connections.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.set_nodelay(true);
                tokio::spawn(desk.clone().serve(stream));
            }
        });
        Self { address, arrivals, waiting: VecDeque::new(), asked, connections, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request to work on; what is only told is answered without the test.
    pub(crate) async fn next(&mut self) -> Exchange {
        self.next_with(|_| true).await
    }

    /// The next request to work on that matches; others are kept.
    pub(crate) async fn next_with(&mut self, matches: impl Fn(&Asked) -> bool) -> Exchange {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(index) = self.waiting.iter().position(|exchange| matches(&exchange.asked)) {
                return self.waiting.remove(index).unwrap();
            }
            match tokio::time::timeout_at(until, self.arrivals.recv()).await {
                Ok(Some(exchange)) => self.waiting.push_back(exchange),
                Ok(None) | Err(_) => panic!("the function is not asked; it was asked {:?}", self.summary()),
            }
        }
    }

    /// Waits until the function was told of something that it need not work on.
    pub(crate) async fn told(&self, event: &str, inv: Option<&str>) -> Asked {
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self
                .all()
                .into_iter()
                .find(|asked| asked.event() == event && inv.is_none_or(|inv| asked.inv() == inv));
            if let Some(asked) = found {
                return asked;
            }
            assert!(Instant::now() < until, "never told of {event}: {:?}", self.summary());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything that was ever asked, in the order of arrival.
    pub(crate) fn all(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// What was asked under this event.
    pub(crate) fn all_of(&self, event: &str) -> Vec<Asked> {
        self.all().into_iter().filter(|asked| asked.event() == event).collect()
    }

    /// Connections that were ever made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn summary(&self) -> Vec<String> {
        let all = self.all().into_iter();
        all.map(|asked| format!("{} {} {} {}", asked.path, asked.event(), asked.inv(), asked.attempt()))
            .collect()
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Takes requests in.
#[derive(Clone)]
struct Desk {
    arrivals: mpsc::UnboundedSender<Exchange>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Desk {
    /// Reads requests until there is one that the test has to answer, which then has the connection.
    async fn serve(self, mut stream: TcpStream) {
        while let Some(asked) = read(&mut stream).await {
            self.asked.lock().unwrap().push(asked.clone());
            if matches!(asked.event(), "interrupt" | "connect" | "disconnect") {
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
                continue;
            }
            let _ = self.arrivals.send(Exchange { asked, stream, desk: self.clone() });
            return;
        }
    }
}

/// A request that waits for its answer. Dropping it breaks the connection off.
pub(crate) struct Exchange {
    pub(crate) asked: Asked,
    stream: TcpStream,
    desk: Desk,
}

impl Exchange {
    /// Answers as a whole, with a length.
    pub(crate) async fn reply(mut self, status: u16, headers: &[&str], body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let mut answer = head(status, headers);
        if status != 204 {
            answer.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        answer.extend_from_slice(b"\r\n");
        answer.extend_from_slice(body);
        self.write(&answer).await;
        self.release();
    }

    /// Promises more bytes than it sends, and breaks off.
    pub(crate) async fn reply_short(mut self, status: u16, headers: &[&str], body: &str, promised: usize) {
        let mut answer = head(status, headers);
        answer.extend_from_slice(format!("Content-Length: {promised}\r\n\r\n{body}").as_bytes());
        self.write(&answer).await;
    }

    /// Answers 200 with records, one per line.
    pub(crate) async fn ndjson(self, records: &[Value]) {
        self.reply(200, &["Content-Type: application/x-ndjson"], lines(records)).await;
    }

    /// Begins an answer in chunks.
    pub(crate) async fn begin(&mut self, kind: &str, headers: &[&str]) {
        let mut answer = head(200, headers);
        answer.extend_from_slice(
            format!("Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes(),
        );
        self.write(&answer).await;
    }

    /// Begins an answer of records, one per line.
    pub(crate) async fn begin_records(&mut self) {
        self.begin("application/x-ndjson", &[]).await;
    }

    /// One chunk.
    pub(crate) async fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.write(&chunk).await;
    }

    /// One record in a chunk of its own.
    pub(crate) async fn record(&mut self, record: Value) {
        self.chunk(lines(&[record])).await;
    }

    /// The end of an answer in chunks.
    pub(crate) async fn finish(mut self, trailers: &[&str]) {
        let trailers: String = trailers.iter().map(|trailer| format!("{trailer}\r\n")).collect();
        self.write(format!("0\r\n{trailers}\r\n").as_bytes()).await;
        self.release();
    }

    /// Waits until the relay has closed the connection.
    pub(crate) async fn hung_up(&mut self) {
        let closed = async {
            let mut rest = [0; 64];
            while !matches!(self.stream.read(&mut rest).await, Ok(0) | Err(_)) {}
        };
        timeout(PATIENCE, closed).await.expect("the relay to hang up");
    }

    /// The relay may be gone, which is what some tests are about.
    async fn write(&mut self, bytes: &[u8]) {
        let _ = timeout(PATIENCE, self.stream.write_all(bytes)).await;
    }

    /// The connection can be used again.
    fn release(self) {
        tokio::spawn(self.desk.serve(self.stream));
    }
}

fn head(status: u16, headers: &[&str]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status} Whatever\r\n{headers}").into_bytes()
}

/// Records as lines.
pub(crate) fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().map(|record| format!("{record}\n")).collect::<String>().into_bytes()
}

/// One request with a length; none when the connection is over.
async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let split = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..split].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut request = lines.next()?.split(' ');
    let (method, path) = (request.next()?.to_owned(), request.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').expect("a header"))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
    let mut raw = bytes.split_off(split + 4);
    while raw.len() < length {
        if stream.read_buf(&mut raw).await.ok()? == 0 {
            return None;
        }
    }
    assert_eq!(raw.len(), length, "nobody sends two requests at once");
    let body = serde_json::from_slice(&raw).unwrap_or_default();
    Some(Asked { method, path, headers, raw, body, at: Instant::now() })
}
