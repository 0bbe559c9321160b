//! HTTP requests as somebody else would send them.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::{Io, PATIENCE, Target, Transcript};

/// A request that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    bare: bool,
}

impl Request {
    /// A request without a body.
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: Vec::new(), bare: false }
    }

    /// `GET`.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    /// `POST` of JSON.
    pub(crate) fn post(path: impl Into<String>, body: &serde_json::Value) -> Self {
        Self::new("POST", path).header("content-type", "application/json").body(body.to_string())
    }

    /// An upgrade to a WebSocket that offers these sub-protocols.
    pub(crate) fn upgrade(path: impl Into<String>, offered: &[&str]) -> Self {
        let request = Self::get(path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", SAMPLE_KEY);
        if offered.is_empty() {
            request
        } else {
            request.header("sec-websocket-protocol", &offered.join(", "))
        }
    }

    /// One more header; one of the same name is replaced.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this body.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Without the credential that the target has.
    pub(crate) fn without_key(mut self) -> Self {
        self.bare = true;
        self
    }

    fn build(&self, target: &Target) -> Result<hyper::Request<Full<Bytes>>, String> {
        let path = format!("{}{}", target.base, self.path);
        let mut request = hyper::Request::builder().method(self.method).uri(path);
        let named = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !named("host") {
            request = request.header("host", &target.authority);
        }
        if let Some(key) = target.key.as_deref().filter(|_| !self.bare && !named("authorization")) {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            let value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from(self.body.clone()))).map_err(|error| error.to_string())
    }
}

/// An answer whose body is read as it comes.
#[derive(Debug)]
pub(crate) struct Streaming {
    /// The status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    response: hyper::Response<Incoming>,
}

impl Streaming {
    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The next piece of the body; none at its end, an error when none comes in time or it breaks off.
    pub(crate) async fn chunk(&mut self, patience: Duration) -> Result<Option<Bytes>, String> {
        let end = Instant::now() + patience;
        loop {
            match tokio::time::timeout_at(end, self.response.body_mut().frame()).await {
                Err(_) => return Err(format!("nothing came within {} ms", patience.as_millis())),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(error.to_string()),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The bytes behind a 101.
    pub(super) async fn upgraded(self) -> Result<hyper::upgrade::Upgraded, String> {
        hyper::upgrade::on(self.response).await.map_err(|error| error.to_string())
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body, as far as it is text.
    pub(crate) body: String,
}

impl Answer {
    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl Target {
    /// Sends a request on a connection of its own, whose answer is read as bytes: whoever has to know when it begins
    /// to come sees that best there.
    pub(crate) async fn begin(&self, log: &Transcript, request: &Request) -> Result<Box<dyn Io>, String> {
        let built = request.build(self)?;
        log.sent(&format!("{} {}", built.method(), built.uri()));
        let mut bytes = format!("{} {} HTTP/1.1\r\n", built.method(), built.uri()).into_bytes();
        for (name, value) in built.headers() {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", request.body.len()).as_bytes());
        bytes.extend_from_slice(&request.body);
        let mut stream = self.dial().await?;
        stream.write_all(&bytes).await.map_err(|error| error.to_string())?;
        Ok(stream)
    }

    /// Sends a request on a connection of its own, and waits for the head of the answer. A server that is
    /// busy is asked again, a few times.
    pub(crate) async fn open(&self, log: &Transcript, request: &Request) -> Result<Streaming, String> {
        for _ in 0..BUSY_ATTEMPTS {
            let answer = self.open_once(log, request).await?;
            if answer.status != 429 {
                return Ok(answer);
            }
            let told = answer.header("retry-after").and_then(|text| text.parse().ok()).unwrap_or(1_u64);
            tokio::time::sleep(Duration::from_secs(told.clamp(1, LONGEST_RETRY_S))).await;
        }
        self.open_once(log, request).await
    }

    async fn open_once(&self, log: &Transcript, request: &Request) -> Result<Streaming, String> {
        log.sent(&describe(request));
        let stream = self.dial().await.inspect_err(|why| log.note(why))?;
        let exchange = async {
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
            tokio::spawn(connection.with_upgrades());
            sender.send_request(request.build(self)?).await.map_err(|error| error.to_string())
        };
        let response = match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(response) => response.inspect_err(|why| log.note(why))?,
            Err(_) => return Err(format!("{} {}: no answer in time", request.method, request.path)),
        };
        let status = response.status().as_u16();
        log.received(&format!("HTTP {status}"));
        Ok(Streaming { status, headers: response.headers().clone(), response })
    }

    /// Sends a request and waits for the whole answer.
    pub(crate) async fn ask(&self, log: &Transcript, request: &Request) -> Result<Answer, String> {
        let mut answer = self.open(log, request).await?;
        let mut body = Vec::new();
        if answer.status != 101 {
            while let Some(chunk) = answer.chunk(PATIENCE).await? {
                body.extend_from_slice(&chunk);
                if body.len() > LARGEST_BODY {
                    return Err(format!("a body of more than {LARGEST_BODY} bytes"));
                }
            }
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        if !body.is_empty() {
            log.received(&body);
        }
        Ok(Answer { status: answer.status, headers: answer.headers, body })
    }
}

fn describe(request: &Request) -> String {
    let mut text = format!("{} {}", request.method, request.path);
    for (name, value) in &request.headers {
        if !matches!(name.as_str(), "connection" | "upgrade" | "sec-websocket-version" | "sec-websocket-key")
        {
            let value = if name == "authorization" { "…" } else { value };
            text += &format!(" [{name}: {value}]");
        }
    }
    if !request.body.is_empty() {
        text += &format!(" {}", String::from_utf8_lossy(&request.body));
    }
    text
}

/// The key that RFC 6455 uses as its example; what a server has to answer to it is known.
pub(super) const SAMPLE_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const BUSY_ATTEMPTS: usize = 8;
const LONGEST_RETRY_S: u64 = 5;
const LARGEST_BODY: usize = 32 << 20;
