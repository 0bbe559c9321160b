//! Functions as processes, and a relay by hand.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response};
use switchboard_asp::message::{RecordBody, Secret};
use switchboard_asp::relay::{
    CancelGrant, ContentKind, Decoder, Ended, Event, Finished, Invocation, Limits, Original, Payload, Piece,
    PushGrant, SigningKey, Verdict, sign, webhook_id,
};
use switchboard_asp::{Map, Value};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::relay::Relay;

pub(crate) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub(crate) const OTHER_SECRET: &str = "whsec_HwABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4=";
pub(crate) const CID: &str = "7f8a0000000000000000000000000001";
pub(crate) const TOKEN: &str = "push-token";
pub(crate) const RID: u16 = 7;

/// The same function in several languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Python,
    Node,
}

impl Language {
    fn command(self) -> Command {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        match self {
            Self::Rust => Command::new(rust_example()),
            Self::Python => with_argument("python3", &examples.join("function-python/function.py")),
            Self::Node => with_argument("node", &examples.join("function-node/function.mjs")),
        }
    }
}

fn with_argument(program: &str, argument: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(argument);
    command
}

/// Cargo puts examples next to the folder of the test programs.
fn rust_example() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    let path = program.parent().and_then(Path::parent).expect("a folder").join("examples/function");
    assert!(path.exists(), "build the example first: cargo build -p switchboard-client --example function");
    path
}

/// A function that runs.
pub(crate) struct Function {
    url: String,
    complaints: Arc<Mutex<Vec<String>>>,
    http: reqwest::Client,
    _child: Option<Child>,
}

impl Function {
    pub(crate) async fn start(language: Language) -> Self {
        Self::start_with(language, &[]).await
    }

    pub(crate) async fn start_with(language: Language, variables: &[(&str, &str)]) -> Self {
        let mut command = language.command();
        command.arg("0").env("FUNCTION_SECRET", SECRET).env("FUNCTION_DELAY_MS", "1");
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("{language:?} functions are tested with a program that cannot be run: {error}")
        });
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let sink = complaints.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                sink.lock().push(line);
            }
        });
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let line = soon(lines.next_line()).await.expect("stdout").unwrap_or_default();
        let url = line.strip_prefix("listening on ").map(str::to_owned);
        let url = url.unwrap_or_else(|| panic!("{language:?} said {line:?} and {:?}", complaints.lock()));
        // Reading on, or what else is said would break the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { url, complaints, http: http(), _child: Some(child) }
    }

    /// One that somebody else runs.
    pub(crate) fn at(url: String) -> Self {
        Self { url, complaints: Arc::default(), http: http(), _child: None }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Asks as a relay does, and waits for the head of the response.
    pub(crate) async fn invoke(&self, invocation: &Invocation) -> Response {
        self.post("/invoke", invocation).await
    }

    pub(crate) async fn post(&self, path: &str, invocation: &Invocation) -> Response {
        soon(self.signed(path, invocation, SECRET, now_s()).send()).await.expect("a response")
    }

    pub(crate) fn signed(
        &self,
        path: &str,
        invocation: &Invocation,
        secret: &str,
        timestamp_s: u64,
    ) -> RequestBuilder {
        let body = invocation.to_json();
        let id = webhook_id(&invocation.inv, invocation.leg);
        let signature = sign(&[key(secret)], &id, timestamp_s, &body);
        self.raw(path, body).headers(
            [
                ("webhook-id", id),
                ("webhook-timestamp", timestamp_s.to_string()),
                ("webhook-signature", signature),
            ]
            .into_iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect(),
        )
    }

    pub(crate) fn raw(&self, path: &str, body: Bytes) -> RequestBuilder {
        self.http.post(self.url(path)).header("content-type", "application/json").body(body)
    }

    /// Waits until the function says that it was cancelled, and gives in which ways.
    pub(crate) async fn cancelled(&self, inv: &str) -> Vec<String> {
        let prefix = format!("cancelled inv={inv} by=");
        let known = || -> Vec<String> {
            let lines = self.complaints.lock();
            lines.iter().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
        };
        until("the function notices", || !known().is_empty()).await;
        known()
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        self.complaints.lock().clone()
    }
}

/// What a relay asks first.
pub(crate) fn chat(text: &str, relay: &Relay) -> Invocation {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let inv = format!("inv_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let mut invocation = Invocation::new(Event::Invoke, CID, RID, &*inv);
    invocation.enc = Some(Original::Json);
    invocation.payload = Some(Payload::Json(Map::new().with("kind", "chat").with("input", text).into()));
    invocation.deadline_ms = Some(300_000);
    let connection = relay.url(&format!("/v1/relay/connections/{CID}"));
    invocation.push = Some(PushGrant {
        url: format!("{connection}/frames"),
        token: Secret::new(TOKEN),
        exp: now_s() + 900,
    });
    invocation.cancel = Some(CancelGrant { url: format!("{connection}/requests/{inv}"), poll_ms: 100 });
    invocation
}

/// The next leg.
pub(crate) fn continued(before: &Invocation, heard: &Heard) -> Invocation {
    let mut next = before.clone();
    next.event = Event::Continue;
    next.leg += 1;
    next.payload = None;
    next.state = Some(heard.state().clone());
    next.next_n = Some(heard.count());
    next
}

/// An answer, whole or up to where it broke.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) ended: Ended,
    pub(crate) broke: bool,
}

impl Heard {
    pub(crate) fn text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Record(record) => match &record.body {
                RecordBody::Text(text) => Some(text.as_str()),
                _ => None,
            },
            _ => None,
        });
        texts.collect()
    }

    /// What the records are.
    pub(crate) fn types(&self) -> Vec<&str> {
        self.pieces.iter().map(kind_of).collect()
    }

    /// Records that are counted.
    pub(crate) fn count(&self) -> u64 {
        self.numbers().len() as u64
    }

    /// Numbers in the order in which they came.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let numbers = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Record(record) => Some(record.n.expect("a number")),
            _ => None,
        });
        numbers.collect()
    }

    pub(crate) fn record(&self, t: &str) -> &RecordBody {
        let found = self.pieces.iter().find_map(|piece| match piece {
            Piece::Record(record) if record.t() == t => Some(&record.body),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no {t} in {:?}", self.types()))
    }

    pub(crate) fn state(&self) -> &Value {
        match self.pieces.last() {
            Some(Piece::Suspend(state)) => state,
            other => panic!("{other:?} is no suspend"),
        }
    }
}

pub(crate) fn kind_of(piece: &Piece) -> &str {
    match piece {
        Piece::Record(record) => record.t(),
        Piece::Error(_) => "error",
        Piece::ToolDef(_) => "tool_def",
        Piece::Suspend(_) => "suspend",
        Piece::Raw(_) => "raw",
        Piece::Ping => "ping",
    }
}

/// Reads an answer as it comes.
pub(crate) struct Reader {
    response: Response,
    decoder: Option<Decoder>,
    pub(crate) pieces: Vec<Piece>,
}

impl Reader {
    pub(crate) fn new(response: Response) -> Self {
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().expect("text"));
        let verdict = Verdict::of(response.status().as_u16(), header("content-type"), header("retry-after"));
        let Verdict::Stream(kind) = verdict else { panic!("{verdict:?} is no stream") };
        let decoder = Some(Decoder::new(kind, RID, Limits::default()));
        Self { response, decoder, pieces: Vec::new() }
    }

    /// Takes what comes next; false at the end.
    async fn more(&mut self) -> Result<bool, reqwest::Error> {
        let Some(chunk) = soon(self.response.chunk()).await? else { return Ok(false) };
        let decoder = self.decoder.as_mut().expect("open");
        decoder.feed(&chunk, &mut self.pieces).expect("records");
        Ok(true)
    }

    /// Reads until there is a record like this.
    pub(crate) async fn until(&mut self, t: &str) {
        while !self.pieces.iter().any(|piece| kind_of(piece) == t) {
            assert!(self.more().await.expect("a body"), "the answer ended before {t}");
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.decoder.as_ref().is_none_or(|decoder| decoder.ended().is_some())
    }

    pub(crate) async fn rest(mut self) -> Heard {
        let broke = soon(async {
            loop {
                match self.more().await {
                    Ok(true) => {}
                    Ok(false) => break false,
                    Err(_) => break true,
                }
            }
        })
        .await;
        let decoder = self.decoder.take().expect("open");
        if broke {
            let ended = decoder.ended().unwrap_or(Ended::WithoutTerminal);
            return Heard { pieces: self.pieces, ended, broke };
        }
        let Finished { ended, dropped } = decoder.finish(&mut self.pieces).expect("records");
        assert_eq!(dropped, 0, "nothing follows what is terminal");
        Heard { pieces: self.pieces, ended, broke }
    }
}

pub(crate) async fn hear(response: Response) -> Heard {
    Reader::new(response).rest().await
}

pub(crate) fn content(response: &Response) -> Option<ContentKind> {
    let value = response.headers().get("content-type")?.to_str().ok()?;
    ContentKind::from_content_type(value)
}

/// Without TLS, since nothing here leaves the machine.
pub(crate) fn http() -> reqwest::Client {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy();
    // A connection of its own for each request: dropping a response then breaks it.
    builder.pool_max_idle_per_host(0).build().expect("a client")
}

pub(crate) fn key(secret: &str) -> SigningKey {
    SigningKey::from_text(secret).expect("a secret")
}

#[expect(clippy::disallowed_methods, reason = "a relay signs with the time of the calendar")]
pub(crate) fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    let waits = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waits).await.is_ok(), "in vain: {what}");
}

const PATIENCE: Duration = Duration::from_secs(60);
