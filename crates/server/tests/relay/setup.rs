//! A server whose agent is a function, and the function.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::function::{Asked, Exchange, Function};
use crate::support::rpc::{Answer, http};
use crate::support::wire::{Frame, Peer, frame};
use crate::support::{ANN, InProcess};

/// How long something may take that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and the function that it relays to.
pub(crate) struct Relayed {
    pub(crate) server: InProcess,
    pub(crate) function: Function,
}

impl Relayed {
    /// With quick retries and no patience lost on the way out, as changed by `settings`.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let function = Function::start().await;
        let server = serve(&function.url(), settings).await;
        Self { server, function }
    }

    /// The same, but requests are signed only as `settings` say.
    pub(crate) async fn start_unsigned(settings: &[&str]) -> Self {
        let function = Function::start().await;
        let settings = unsigned(&function.url(), settings);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Self { server: InProcess::start(&settings).await, function }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// A client in the standard profile.
    pub(crate) async fn client(&self) -> Peer {
        Peer::standard(self.address(), ANN).await
    }

    /// A client that offers the tool `weather`, and takes part in everything.
    pub(crate) async fn able_client(&self) -> Peer {
        Peer::with(self.address(), ANN, able()).await
    }

    /// A client that has sent a request, and the function that has been asked.
    pub(crate) async fn asked(&mut self, text: &str) -> (Peer, Exchange) {
        let mut peer = self.client().await;
        peer.invoke(1, text).await;
        let exchange = self.function.next().await;
        (peer, exchange)
    }

    /// The server leaves, and another takes its place on the same data.
    pub(crate) async fn restart(self, settings: &[&str]) -> Self {
        let Self { server, function } = self;
        let data = server.stop().await;
        let settings = with_function(&function.url(), settings);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Self { server: InProcess::start_on(data, &settings).await, function }
    }

    /// What the function asks of the server under the leave that it was given with a request.
    pub(crate) async fn get(&self, asked: &Asked, url: &str) -> (u16, Value) {
        let answer = self.call("GET", asked.push_token(), url, &[], "").await;
        (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        token: &str,
        url: &str,
        headers: &[&str],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        let path = path_of(url);
        http(self.address(), &format!("{method} {path}"), Some(token), headers, body).await
    }

    /// Pushes frames under the leave that came with a request.
    pub(crate) async fn push(&self, asked: &Asked, body: &Value) -> (u16, Value) {
        self.push_as(asked.push_token(), asked, body).await
    }

    pub(crate) async fn push_as(&self, token: &str, asked: &Asked, body: &Value) -> (u16, Value) {
        let url = asked.body["push"]["url"].as_str().unwrap();
        let headers = ["Content-Type: application/json"];
        let answer = self.call("POST", token, url, &headers, body.to_string()).await;
        (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
    }

    /// Waits until the connection of a request is seen in this state.
    pub(crate) async fn wait_for_state(&self, asked: &Asked, state: &str) {
        let url = format!("/v1/relay/connections/{}", asked.cid());
        let until = Instant::now() + PATIENCE;
        loop {
            let (status, seen) = self.get(asked, &url).await;
            if seen["state"] == state || (status == 410 && state == "gone") {
                return;
            }
            assert!(Instant::now() < until, "{state}: {status} {seen}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The settings of a server whose agent is the function at this URL.
pub(crate) fn with_function(url: &str, settings: &[&str]) -> Vec<String> {
    let signed = ["agents.fn.secret_env=FUNCTION_SECRET"];
    let settings: Vec<&str> = signed.iter().chain(settings).copied().collect();
    unsigned(url, &settings)
}

/// The same, without a way to sign.
pub(crate) fn unsigned(url: &str, settings: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = [
        "agent=fn",
        "agents.fn.kind=function",
        "agents.fn.allow_private=true",
        "agents.fn.backoff_ms=20",
        "drain.retry_ms=10",
        "drain.spread_ms=10",
    ]
    .map(str::to_owned)
    .into();
    all.push(format!("agents.fn.url={url}"));
    all.extend(settings.iter().map(ToString::to_string));
    all
}

/// A server whose agent is the function at this URL.
pub(crate) async fn serve(url: &str, settings: &[&str]) -> InProcess {
    let settings = with_function(url, settings);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    InProcess::start(&settings).await
}

/// The HELLO of a client that executes the tool `weather`.
pub(crate) fn able() -> Value {
    json!({
        "features": ["flags", "events", "push", "resume", "client_tools"],
        "tools": [{ "name": "weather", "input_schema": { "type": "object" } }],
    })
}

/// What follows the host in a URL.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// Every frame of a request, up to its end.
pub(crate) async fn frames_of(peer: &mut Peer, id: u16) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        let frame = peer.wait(|frame| frame.id == id).await;
        let last = frame.is_terminal();
        frames.push(frame);
        if last {
            return frames;
        }
    }
}

/// The text of frames.
pub(crate) fn text_of(frames: &[Frame]) -> String {
    frames.iter().filter_map(Frame::text).collect()
}

/// A frame as functions send it, the payload in JSON.
pub(crate) fn asp_frame(opcode: u8, id: u16, payload: &Value) -> Vec<u8> {
    frame(opcode, id, payload.to_string().as_bytes())
}

pub(crate) fn text(d: &str) -> Value {
    json!({ "t": "text", "d": d })
}

pub(crate) fn end() -> Value {
    json!({ "t": "end", "finish": "complete" })
}

/// A STREAM record to push.
pub(crate) fn stream(rid: u16, payload: Value) -> Value {
    json!({ "type": "STREAM", "rid": rid, "payload": payload })
}

/// A TOOL_DEF to push that adds one tool.
pub(crate) fn tool(name: &str) -> Value {
    let tools = json!([{ "name": name, "input_schema": { "type": "object" } }]);
    json!({ "type": "TOOL_DEF", "rid": 0, "payload": { "op": "add", "tools": tools } })
}
