//! Content, credentials and identities never get into the log, at whatever level, nor into metrics, nor into what
//! others are told; and credentials are kept nowhere.
//!
//! One test, alone in its process: the log belongs to the process.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

#[path = "../alicia/ear.rs"]
#[allow(dead_code, reason = "Alicia's own tests ask more of it")]
mod ear;
#[path = "../alicia/envelope.rs"]
#[allow(dead_code, reason = "Alicia's own tests ask more of it")]
mod envelope;
#[path = "../access/line.rs"]
#[allow(dead_code, reason = "who may reach what is another test")]
mod line;
#[path = "../alicia/pack.rs"]
#[allow(dead_code, reason = "Alicia's own tests ask more of it")]
mod pack;
#[path = "../support/mod.rs"]
mod support;
mod traffic;

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use switchboard_server::config::TelemetryConfig;
use switchboard_server::telemetry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use support::function::Function;
use support::rpc::http;
use support::wire::{ERROR, HELLO, INTERRUPT, INVOKE, Peer, frame};
use support::{ADMIN, ANN, BOB, FUNCTION_SECRET, InProcess, SECRET, token};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In everything that must not be found.
const MARK: &str = "xyzzy7c1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_content_in_logs() {
    let captured = Captured::default();
    let writer = captured.clone();
    let config = TelemetryConfig { log_level: "trace".into(), ..TelemetryConfig::default() };
    let subscriber = telemetry::subscriber(&config, move || writer.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let mut function = Function::start().await;
    let ear = ear::Ear::open([json!({ "text": format!("echo {MARK}") })]).await;
    let server = InProcess::start(&[
        "drain.retry_ms=10",
        "drain.spread_ms=10",
        "telemetry.metrics=true",
        "voice.recogniser=endpoint",
        ear.settings()[0],
        ear.settings()[1],
        "voice.synthesiser=none",
        "limits.bad_credentials_per_minute=100000",
        "vip.issuer=https://vip.test",
        "vip.issuers=[{issuer='https://app.test',namespace='shop',algorithms=['HS256'],secret_env='JWT_SECRET'}]",
        "vip.providers=[{id='house',adapter='vip-native',model='m'}]",
        "agents.fn.kind=function",
        "agents.fn.allow_private=true",
        "agents.fn.secret_env=FUNCTION_SECRET",
        &format!("agents.fn.url={}", function.url()),
    ])
    .await;
    let carol = token(&format!("carol-{MARK}"), 30);
    let tools = json!([{ "name": format!("tool-{MARK}"), "input_schema": { "type": "object" } }]);
    let features = json!(["flags", "events", "push", "resume", "ping", "reauth", "client_tools"]);
    let hello = json!({ "features": features, "tools": tools, "client": { "name": MARK, "version": "1" } });
    let mut peer = Peer::with(server.address, Some(&carol), hello).await;
    let accept = peer.accept.clone();

    // Turns that go well and badly, with something secret in every place there is.
    let turns = [
        json!({ "input": format!("echo {MARK}"), "session": MARK, "meta": { MARK: MARK }, "idem": MARK }),
        json!({ "input": format!("words {MARK} {MARK}"), "agent": MARK }),
        json!({ "input": format!("status {MARK}") }),
        json!({ "input": format!("warn {MARK}") }),
        json!({ "input": format!("data {{\"{MARK}\":\"{MARK}\"}}"), "want": ["data"] }),
        json!({ "input": format!("tool-error {MARK}") }),
        json!({ "input": format!("finish complete \"{MARK}\"") }),
        json!({ "input": format!("fail execution {MARK}") }),
        json!({ "input": format!("call tool-{MARK} {{\"{MARK}\":1}} within 100") }),
        json!({ "input": format!("ask {MARK} within 100") }),
        json!({ "kind": "tool", "tool": "greet", "args": { "name": MARK } }),
        json!({ "kind": "tool", "tool": "greet", "args": { MARK: MARK } }),
        json!({ "kind": "tool", "tool": MARK, "args": { MARK: MARK } }),
        json!({ "kind": "step", "step": { "goal": MARK, "state": { MARK: MARK } } }),
        json!({ "kind": MARK }),
    ];
    for (id, turn) in (1..).zip(&turns) {
        peer.send(INVOKE, id, turn).await;
        peer.finish(id).await;
    }
    peer.raw(frame(INVOKE, 90, format!("{{\"input\":\"{MARK}").as_bytes())).await;
    peer.finish(90).await;
    peer.invoke(91, &format!("hang after 1 {MARK}")).await;
    peer.send(INTERRUPT, 91, &json!({ "reason": MARK })).await;
    peer.finish(91).await;
    peer.send(ERROR, 92, &json!({ "code": 2900, "name": MARK, "msg": MARK })).await;
    let renewed = token(&format!("carol-{MARK}"), 60);
    peer.send(HELLO, 0, &json!({ "op": "auth", "token": renewed })).await;
    peer.wait(|frame| frame.value["op"] == "authed").await;
    drop(peer);
    let again = Peer::resume(server.address, Some(&carol), &accept, &[(1, 0)].into()).await;
    let rotated = again.accept["resume"]["token"].as_str().unwrap().to_owned();
    assert_eq!(again.accept["resumed"], true);

    // Upgrades that are refused.
    let expired = token(&format!("dora-{MARK}"), -100);
    for wrong in [expired.as_str(), MARK, "nonsense-xyzzy7c1"] {
        assert_eq!(Peer::open(server.address, Some(wrong)).await.err(), Some(401));
    }
    for target in [format!("/v1/agent-socket?token={MARK}"), format!("/{MARK}?{MARK}={MARK}")] {
        let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nOrigin: https://{MARK}.test\r\nUpgrade: websocket\r\n\
             Connection: close, Upgrade\r\nAuthorization: Bearer {MARK}\r\nSec-WebSocket-Key: eA==\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let _ = tokio::time::timeout(Duration::from_secs(5), socket.read_to_end(&mut Vec::new())).await;
    }
    let mut bob = Peer::standard(server.address, BOB).await;
    assert_eq!(bob.turn(1, &format!("echo {MARK}")).await.0, MARK);
    drop((again, bob));

    traffic::acolyte(server.address, &carol).await;
    traffic::aip(server.address, &carol).await;
    traffic::alicia(server.address, &carol).await;
    let mut secrets = traffic::vip(server.address).await;
    secrets.extend(traffic::function(server.address, &mut function).await);
    let first = accept["resume"]["token"].as_str().unwrap();
    secrets.extend([first, &rotated, &carol, &renewed, &expired].map(str::to_owned));
    secrets.extend([SECRET, FUNCTION_SECRET, ANN.unwrap(), BOB.unwrap(), ADMIN.unwrap()].map(str::to_owned));

    // What is told about all of this to those who have no part in it, and what even an admin is not told.
    for path in ["/metrics", "/admin/v1/agents", "/readyz"] {
        let answer = http(server.address, &format!("GET {path}"), ADMIN, &[], "").await;
        assert!(answer.status == 200 && answer.body.len() > 5, "{path}: {}", answer.body);
        assert!(!answer.body.contains(MARK), "{path} tells {}", line_with(&answer.body, MARK));
    }
    for path in ["sessions", "devices", "connections", "agents"] {
        let answer = http(server.address, &format!("GET /admin/v1/{path}"), BOB, &[], "").await;
        assert!(!answer.body.contains(&format!("carol-{MARK}")), "{path}: {}", answer.body);
    }
    let sessions = http(server.address, "GET /admin/v1/sessions?limit=100", ADMIN, &[], "").await.body;
    let sessions: serde_json::Value = serde_json::from_str(&sessions).unwrap();
    let sessions = sessions["sessions"].as_array().unwrap();
    assert!(sessions.len() > 6, "{sessions:?}");
    for session in sessions {
        let path =
            format!("GET /admin/v1/sessions/{}/events?limit=500", session["session"].as_str().unwrap());
        let events = http(server.address, &path, ADMIN, &[], "").await.body;
        let told = secrets.iter().find(|secret| events.contains(secret.as_str()));
        assert_eq!(told, None, "an admin is told a credential: {path}");
    }
    let data = server.stop().await;
    for secret in &secrets {
        assert_eq!(file_with(data.path(), secret), None, "{secret} is kept");
    }

    let log = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(log.lines().count() > 5 && log.contains("session{"), "nothing was logged: {log}");
    for secret in secrets.iter().map(String::as_str).chain([MARK]) {
        let found: Vec<_> = log.lines().filter(|line| line.contains(secret)).take(3).collect();
        assert!(found.is_empty(), "in the log: {found:#?}");
    }
}

fn line_with<'a>(text: &'a str, mark: &str) -> &'a str {
    text.lines().find(|line| line.contains(mark)).unwrap_or_default()
}

/// The first file below a folder that holds a text.
fn file_with(folder: &Path, text: &str) -> Option<String> {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = if path.is_dir() {
            file_with(&path, text)
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let holds = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            holds.then(|| path.display().to_string())
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
