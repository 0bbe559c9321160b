//! Nobody can take everything: memory for unfinished messages, room for large ones, slots for turns.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use switchboard_agents::{Agent, AgentError, Turn};
use switchboard_core::model::{Output, TurnEnd};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use support::rpc::{PATIENCE, Rpc, http};
use support::wire::{ERROR, HELLO, INVOKE, Peer};
use support::{ANN, BOB, InProcess};

/// A WebSocket by hand.
struct Raw(TcpStream);

impl Raw {
    async fn open(address: SocketAddr, path: &str, key: Option<&str>) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Authorization: Bearer {}\r\n\r\n",
            key.unwrap()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.expect("a head"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Self(socket)
    }

    /// Sends a frame of a text message; whether the server is still there shows when something is read.
    async fn send(&mut self, first: bool, last: bool, length: usize) {
        let mut frame = vec![u8::from(first) | if last { 0x80 } else { 0 }, 0x80 | 127];
        frame.extend((length as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.resize(frame.len() + length, b' ');
        let _ = timeout(PATIENCE, self.0.write_all(&frame)).await.expect("the server reads");
    }

    async fn pong(&mut self) {
        let _ = self.0.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await;
    }

    /// The code with which the server closes; pings before it are passed over.
    async fn closed(&mut self) -> u16 {
        loop {
            let first = timeout(PATIENCE, self.0.read_u8()).await.expect("a frame").expect("a frame");
            let length = match self.0.read_u8().await.unwrap() {
                126 => usize::from(self.0.read_u16().await.unwrap()),
                short => usize::from(short),
            };
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).await.unwrap();
            if first == 0x88 {
                return u16::from_be_bytes([payload[0], payload[1]]);
            }
        }
    }
}

const ACOLYTE: &str = "/v1/rpc";
const AIP: &str = "/ws";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_messages_of_a_principal_share_a_bound() {
    let server = InProcess::start(&["limits.principal_unfinished_bytes=3000000"]).await;
    let address = server.address;
    let (mut one, mut two) = (Raw::open(address, ACOLYTE, ANN).await, Raw::open(address, ACOLYTE, ANN).await);
    one.send(true, false, 2_000_000).await;
    two.send(true, false, 900_000).await;
    let mut other = Raw::open(address, ACOLYTE, BOB).await;
    other.send(true, false, 2_000_000).await;
    two.send(false, false, 2_000_000).await;
    // Whichever of hers is read last.
    let code = tokio::select! { code = one.closed() => code, code = two.closed() => code };
    assert_eq!(code, 1013);
    let mut rpc = Rpc::open(address, ANN).await.unwrap();
    assert_eq!(rpc.chat("echo fine").await.0, "fine");
    // His is none of her business, and is read to its end.
    other.send(false, true, 2_000_000).await;
    let mut rpc = Rpc::open(address, BOB).await.unwrap();
    assert_eq!(rpc.chat("echo fine").await.0, "fine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_not_registered_may_send_little() {
    let server = InProcess::start(&["aip.limits.max_first_message=65536"]).await;
    let mut device = Raw::open(server.address, AIP, ANN).await;
    device.send(true, false, 100_000).await;
    device.send(false, false, 100_000).await;
    assert_eq!(device.closed().await, 1009);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_has_to_be_finished_in_time() {
    let server = InProcess::start(&["limits.message_timeout_ms=500"]).await;
    let mut device = Raw::open(server.address, ACOLYTE, ANN).await;
    device.send(true, false, 10).await;
    let code = loop {
        // Signs of life do not help.
        device.pong().await;
        if let Ok(code) = timeout(Duration::from_millis(100), device.0.readable()).await {
            code.unwrap();
            break device.closed().await;
        }
    };
    assert_eq!(code, 1013);
}

/// Answers with many characters that take more than one byte when they are escaped.
#[derive(Debug)]
struct Costly;

#[async_trait]
impl Agent for Costly {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let text = turn.request().text();
        let (what, megabytes) = text.split_once(' ').unwrap();
        let piece = match what {
            "quotes" => "\"",
            "escapes" => "\u{1b}",
            _ => "x",
        };
        for _ in 0..megabytes.parse::<usize>().unwrap() {
            turn.emit(Output::Text(piece.repeat(1 << 20))).await?;
        }
        Ok(TurnEnd::complete())
    }
}

/// Works until it is let go, asks somebody, or says what it was told.
#[derive(Debug, Default)]
struct Busy {
    working: AtomicUsize,
    release: Notify,
}

#[async_trait]
impl Agent for Busy {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let text = turn.request().text();
        match text.as_str() {
            "work" => {
                self.working.fetch_add(1, Ordering::SeqCst);
                self.release.notified().await;
            }
            "ask" => {
                turn.ask("Well?", None, Duration::from_secs(600)).await?;
            }
            _ => turn.emit(Output::Text(text)).await?,
        }
        Ok(TurnEnd::complete())
    }
}

/// Waits until so many turns are worked on.
async fn until_working(agent: &Busy, count: usize) {
    let working = async {
        while agent.working.load(Ordering::SeqCst) < count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, working).await.expect("slots");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_given_back() {
    let server = InProcess::start(&["limits.running_turns=2"]).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    for _ in 0..5 {
        assert_eq!(rpc.chat("echo fine").await.0, "fine");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_principal_cannot_take_all_slots() {
    let agent = Arc::new(Busy::default());
    let settings = [
        "limits.running_turns=3",
        "limits.running_turns_per_principal=2",
        "limits.turn_wait_ms=300",
        "acolyte.limits.queue=10",
    ];
    let server = InProcess::with_agent(agent.clone(), &settings).await;
    let mut hers = Vec::new();
    for _ in 0..2 {
        let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
        let chat = rpc.start("work", json!({})).await;
        hers.push((rpc, chat));
    }
    until_working(&agent, 2).await;
    let mut his = Rpc::open(server.address, BOB).await.unwrap();
    assert_eq!(his.chat("fine").await.0, "fine");
    // Her next one waits, and is told that there was no slot.
    let mut third = Rpc::open(server.address, ANN).await.unwrap();
    let (_, end) = third.chat("fine").await;
    assert!(end["reply"]["error"].as_str().is_some_and(|error| error.contains("busy")), "{end}");
    agent.release.notify_waiters();
    for (rpc, chat) in &mut hers {
        assert_eq!(rpc.finish(chat).await.1["type"], "chat.done");
    }
    assert_eq!(third.chat("fine").await.0, "fine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_waits_for_an_answer_holds_no_slot() {
    let agent = Arc::new(Busy::default());
    let settings = ["limits.running_turns=1", "limits.turn_wait_ms=60000", "acolyte.questions=wait"];
    let server = InProcess::with_agent(agent.clone(), &settings).await;
    let mut asked = Peer::standard(server.address, ANN).await;
    for id in 1..4 {
        asked.invoke(id, "ask").await;
    }
    let mut calls = Vec::new();
    for _ in 1..4 {
        let question = asked.wait(|frame| frame.value["t"] == "ask").await;
        calls.push((question.id, question.value["ask_id"].clone()));
    }
    let mut rpc = Rpc::open(server.address, BOB).await.unwrap();
    assert_eq!(rpc.chat("fine").await.0, "fine");
    // Whoever was answered goes on.
    for (id, ask) in calls {
        let reply = json!({ "kind": "reply", "parent": id, "ask_id": ask, "text": "yes" });
        asked.send(INVOKE, id + 10, &reply).await;
        assert_eq!(asked.wait(|frame| frame.id == id && frame.is_terminal()).await.outcome(), "complete");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_090_answers_arrive_whatever_their_characters_cost() {
    let server = InProcess::with_agent(Arc::new(Costly), &[]).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    for (what, megabytes) in [("quotes", 9), ("escapes", 3)] {
        let (text, end) = rpc.chat(&format!("{what} {megabytes}")).await;
        assert_eq!((text.len(), &end["type"]), (megabytes << 20, &json!("chat.done")), "{what}");
        assert_eq!(end["reply"]["output"].as_str().map(str::len), Some(megabytes << 20), "{what}");
    }
}

/// A socket of which little is read at a time, at a steady pace.
struct Slow {
    stream: TcpStream,
    pause: Pin<Box<Sleep>>,
}

impl Slow {
    fn new(stream: TcpStream) -> Self {
        Self { stream, pause: Box::pin(sleep(Duration::ZERO)) }
    }
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.pause.as_mut().poll(cx));
        let mut little = [0; 16 << 10];
        let room = buffer.remaining().min(little.len());
        let mut little = ReadBuf::new(&mut little[..room]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut little))?;
        buffer.put_slice(little.filled());
        self.pause.as_mut().reset(Instant::now() + Duration::from_millis(25));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Slow {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_091_a_slow_reader_that_goes_on_reading_is_not_closed() {
    let server = InProcess::with_agent(Arc::new(Costly), &["acolyte.limits.stall_s=1"]).await;
    let request = format!("ws://{}/v1/rpc", server.address);
    let mut request = request.into_client_request().unwrap();
    request.headers_mut().insert("Authorization", format!("Bearer {}", ANN.unwrap()).parse().unwrap());
    let socket = TcpSocket::new_v4().unwrap();
    // Little waits on this side.
    socket.set_recv_buffer_size(128 << 10).unwrap();
    let stream = socket.connect(server.address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, Slow::new(stream)).await.unwrap();
    let chat = json!({ "id": "rpc_1", "type": "chat.start",
        "payload": { "request": { "message": "xs 2", "history": [], "model": "m" } } });
    socket.send(Message::text(chat.to_string())).await.unwrap();
    let done = async {
        loop {
            let message = socket.next().await.expect("a message").expect("a message");
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            assert_ne!(message["type"], "error", "{message}");
            if message["type"] == "chat.done" {
                return;
            }
        }
    };
    timeout(PATIENCE, done).await.expect("an end");
}

const PROXIED: [&str; 2] = ["trusted_proxies=['127.0.0.1']", "limits.bad_credentials_per_minute=5"];

/// The status of the answer to somebody at an address behind a proxy.
async fn from(client: &str, server: SocketAddr, request: &str, key: Option<&str>) -> u16 {
    let forwarded = format!("X-Forwarded-For: {client}");
    http(server, request, key, &[&forwarded], "").await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_are_counted_on_every_path() {
    for path in ["GET /admin/v1/sessions", "GET /metrics", "GET /v1/status"] {
        let server = InProcess::start(&PROXIED).await;
        let address = server.address;
        for _ in 0..5 {
            assert_eq!(
                from("203.0.113.1", address, path, Some("a-wrong-key-that-is-long-enough")).await,
                401
            );
        }
        for shut in ["GET /admin/v1/sessions", "GET /metrics", "GET /v1/status"] {
            assert_eq!(from("203.0.113.1", address, shut, ANN).await, 429, "{path}, {shut}");
        }
        assert_eq!(from("203.0.113.1", address, "GET /healthz", None).await, 200);
        assert_eq!(from("203.0.113.2", address, "GET /v1/status", ANN).await, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_that_a_proxy_adds_as_a_line_counts() {
    let server = InProcess::start(&PROXIED).await;
    let ask = async |claimed: &str, real: &str, key| {
        let lines = [format!("X-Forwarded-For: {claimed}"), format!("X-Forwarded-For: {real}")];
        http(server.address, "GET /v1/status", key, &[&lines[0], &lines[1]], "").await.status
    };
    for _ in 0..5 {
        assert_eq!(ask("198.51.100.77", "203.0.113.66", Some("a-wrong-key-that-is-long-enough")).await, 401);
    }
    assert_eq!(ask("192.0.2.1", "203.0.113.66", ANN).await, 429);
    assert_eq!(ask("203.0.113.66", "198.51.100.77", ANN).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_api_has_the_rates_of_everything_else() {
    let settings = [
        PROXIED[0],
        "limits.principal_frames_per_s=1",
        "limits.principal_frames_burst=3",
        "limits.new_connections_per_address_per_s=1",
        "limits.new_connections_per_address_burst=6",
    ];
    let server = InProcess::start(&settings).await;
    let mut answers = Vec::new();
    for number in 0..5 {
        let client = format!("203.0.113.{number}");
        answers.push(from(&client, server.address, "GET /admin/v1/sessions", ANN).await);
    }
    assert_eq!(answers[..3], [200; 3]);
    assert!(answers[3..].contains(&429), "{answers:?}: a principal has one share, wherever it is");
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(from("203.0.113.99", server.address, "GET /metrics", None).await);
    }
    assert_eq!(answers[..6], [401; 6]);
    assert!(answers[6..].contains(&429), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_are_counted_within_a_connection() {
    let settings = [PROXIED[0], "limits.bad_credentials_per_minute=3"];
    let server = InProcess::start(&settings).await;
    let renew = async |client: &str, token: &str| {
        let mut peer = Peer::behind_proxy(server.address, &support::token("ann", 600), client).await;
        peer.send(HELLO, 0, &json!({ "op": "auth", "token": token })).await;
        let answer = peer.wait(|frame| frame.opcode == HELLO || frame.opcode == ERROR).await;
        answer.opcode == HELLO
    };
    assert!(renew("203.0.113.5", &support::token("ann", 900)).await);
    for _ in 0..3 {
        assert!(!renew("203.0.113.5", "a-wrong-token-that-is-long-enough").await);
    }
    assert_eq!(from("203.0.113.5", server.address, "GET /v1/status", ANN).await, 429);
    assert_eq!(from("203.0.113.6", server.address, "GET /v1/status", ANN).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_for_which_nobody_vouches_are_limited_by_address() {
    let settings = [
        PROXIED[0],
        "vip.allow_development=true",
        "vip.development_sessions_per_minute=2",
        "voice.recogniser=none",
        "voice.synthesiser=none",
        "vip.webrtc.enabled=false",
    ];
    let server = InProcess::start(&settings).await;
    let request = json!({
        "protocol_versions": ["0.1"], "environment": "development", "mode": "external", "app_id": "shop",
        "client": { "name": "test", "version": "1", "platform": "other" },
        "audio": { "input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"] },
    });
    let create = async |client: &str| {
        let forwarded = format!("X-Forwarded-For: {client}");
        let headers = ["Content-Type: application/json", &forwarded];
        http(server.address, "POST /v1/vip/sessions", None, &headers, request.to_string()).await
    };
    for _ in 0..2 {
        assert_eq!(create("203.0.113.1").await.status, 201);
    }
    let refused = create("203.0.113.1").await;
    assert!(refused.status == 429 && refused.body.contains("SES_QUOTA"), "{refused:?}");
    assert_eq!(create("203.0.113.2").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_has_only_so_many_sessions() {
    let (data, settings) = (tempfile::tempdir().unwrap(), ["limits.sessions_per_principal=3"]);
    let server = InProcess::start_on(data, &settings).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let in_session = |name: &str| json!({ "sessionId": format!("sess_{name}") });
    for name in ["a", "b", "c"] {
        let chat = rpc.start("echo fine", in_session(name)).await;
        assert_eq!(rpc.finish(&chat).await.1["type"], "chat.done", "{name}");
    }
    let told = |end: &Value| end.to_string().contains("The storage of this account is used up");
    let chat = rpc.start("echo more", in_session("d")).await;
    let refused = rpc.finish(&chat).await.1;
    assert!(told(&refused), "{refused}");
    // Those that there are go on, and nobody else is concerned.
    let chat = rpc.start("echo again", in_session("a")).await;
    assert_eq!(rpc.finish(&chat).await.0, "again");
    let mut other = Rpc::open(server.address, BOB).await.unwrap();
    assert_eq!(other.chat("echo fine").await.0, "fine");
    // In other protocols, and after a restart, too.
    drop((rpc, other));
    let server = InProcess::start_on(server.stop().await, &settings).await;
    let body = json!({ "title": "one more" }).to_string();
    let headers = ["Content-Type: application/json"];
    let answer = http(server.address, "POST /api/v1/conversations", ANN, &headers, body).await;
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert!(answer.body.contains("quota_exceeded"), "{}", answer.body);
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.send(INVOKE, 1, &json!({ "input": "echo x", "session": "new" })).await;
    let refused = peer.wait(|frame| frame.id == 1 && frame.is_terminal()).await;
    assert_eq!((refused.value["code"].as_u64(), &refused.value["retry"]), (Some(2206), &json!(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_principal_has_only_so_much_room() {
    let server = InProcess::start(&["limits.stored_bytes_per_principal=1000000"]).await;
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    let mut said = 0;
    // What is stored is looked at now and then.
    let refused = loop {
        let (text, end) = rpc.chat("size 200000").await;
        if text.is_empty() {
            break end;
        }
        said += text.len();
        assert!(said < 100_000_000, "there is no end to it");
    };
    assert!(refused.to_string().contains("The storage of this account is used up"), "{refused}");
    assert!(said >= 400_000, "{said}");
    let mut other = Rpc::open(server.address, BOB).await.unwrap();
    assert_eq!(other.chat("echo fine").await.0, "fine");
    // What there is can still be read, and deleted.
    let sessions = http(server.address, "GET /admin/v1/sessions", ANN, &[], "").await;
    assert_eq!(sessions.status, 200, "{}", sessions.body);
}
