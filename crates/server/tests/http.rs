//! Exchanges over HTTP: who is let in, how many, how fast, and what becomes of those that misbehave.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use support::rpc::{PATIENCE, Rpc, delta, http};
use support::wire::Peer;
use support::{ADMIN, ANN, BOB, InProcess, token};

fn request(message: &str) -> String {
    json!({ "message": message, "history": [], "model": "m" }).to_string()
}

/// A stream that has begun and stays open; whoever drops it leaves.
async fn held(address: SocketAddr, key: Option<&str>) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let (key, body) = (key.unwrap(), request("hang after 1"));
    let head = format!(
        "POST /v1/chat/stream HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    while !line.contains("text-delta") {
        line.clear();
        let count = timeout(PATIENCE, reader.read_line(&mut line)).await.expect("a line").unwrap();
        assert!(count > 0 && !line.starts_with("HTTP/1.1 4"), "{line}");
    }
    reader
}

/// The last frame of a whole stream.
fn last(body: &str) -> Value {
    let frame = body.trim_end().rsplit("\n\n").next().unwrap();
    serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap()
}

#[tokio::test]
async fn arrivals_of_a_protocol_are_its_own() {
    let strict = ["asp.limits.connections_per_s=1", "asp.limits.connections_burst=2"];
    let server = InProcess::start(&strict).await;
    let address = server.address;
    for _ in 0..2 {
        Peer::standard(address, ANN).await.close().await;
    }
    let mut refused = 0;
    for _ in 0..20 {
        refused += usize::from(Peer::open(address, ANN).await.err() == Some(429));
    }
    assert!(refused > 0);
    // Nobody else pays for it.
    for _ in 0..20 {
        assert_eq!(http(address, "GET /v1/status", ANN, &[], "").await.status, 200);
        Rpc::open(address, ANN).await.unwrap().close().await;
    }
}

#[tokio::test]
async fn several_methods_share_a_path() {
    let server = InProcess::start(&[]).await;
    let status = async |what: &str| http(server.address, what, None, &[], "").await.status;
    for method in ["GET", "POST"] {
        assert_eq!(status(&format!("{method} /api/v1/conversations")).await, 401, "{method} is served");
    }
    for method in ["GET", "PATCH", "DELETE"] {
        assert_eq!(status(&format!("{method} /api/v1/conversations/ac_1")).await, 401, "{method} is served");
    }
    assert_eq!(status("POST /api/v1/conversations/ac_1").await, 405);
    let refused = http(server.address, "DELETE /api/v1/conversations", ANN, &[], "").await;
    assert_eq!(refused.status, 405);
    let body: Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!((&body["error"], &body["code"]), (&json!("method_not_allowed"), &json!(405)));
    assert_eq!(http(server.address, "GET /api/v1/nothing", ANN, &[], "").await.status, 404);
}

#[tokio::test]
async fn answers_name_the_version_of_acolyte_also_where_nothing_is_served() {
    let server = InProcess::start(&[]).await;
    for (what, status, named) in [
        ("GET /v1/status", 200, true),
        ("DELETE /v1/status", 404, true),
        ("GET /v1/nope", 404, true),
        ("GET /v1/rpc/", 404, true),
        ("GET /v2/nope", 404, false),
        ("GET /api/v1/nope", 404, false),
        ("GET /", 404, false),
    ] {
        let answer = http(server.address, what, ANN, &[], "").await;
        assert_eq!((answer.status, answer.head.contains("acolyte-protocol: 1")), (status, named), "{what}");
    }
}

#[tokio::test]
async fn exchanges_count_as_arrivals_of_their_address() {
    let settings =
        ["limits.new_connections_per_address_per_s=1", "limits.new_connections_per_address_burst=3"];
    let server = InProcess::start(&settings).await;
    let mut answers = Vec::new();
    for _ in 0..20 {
        answers.push(http(server.address, "GET /v1/status", ANN, &[], "").await);
    }
    assert!(answers.iter().take(3).all(|answer| answer.status == 200));
    let refused = answers.iter().find(|answer| answer.status == 429).expect("too fast");
    assert_eq!(refused.body, "Too Many Requests");
    for line in ["retry-after: 1", "content-type: text/plain", "acolyte-protocol: 1"] {
        assert!(refused.head.contains(line), "{}", refused.head);
    }
    // Health is asked by those who must not be kept waiting.
    assert_eq!(http(server.address, "GET /healthz", None, &[], "").await.status, 200);
}

#[tokio::test]
async fn streams_take_the_places_of_connections() {
    let server = InProcess::start(&["limits.connections_per_principal=2"]).await;
    let address = server.address;
    let (one, two) = (held(address, ANN).await, held(address, ANN).await);
    let third = http(address, "POST /v1/chat/stream", ANN, &[], &request("echo x")).await;
    assert_eq!((third.status, third.body.as_str()), (429, "Too Many Requests"));
    assert_eq!(Rpc::open(address, ANN).await.err(), Some(429));
    let other = http(address, "POST /v1/chat/stream", BOB, &[], &request("echo x")).await;
    assert_eq!((other.status, &last(&other.body)["type"]), (200, &json!("done")));
    drop(one);
    until_served(address).await;
    drop(two);
}

#[tokio::test]
async fn streams_are_no_half_open_sockets() {
    let server = InProcess::start(&["limits.handshakes=3"]).await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(held(server.address, ANN).await);
    }
    assert_eq!(http(server.address, "GET /healthz", None, &[], "").await.status, 200);
    let mut sockets = Vec::new();
    for _ in 0..10 {
        let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
        assert_eq!(rpc.chat("echo fine").await.0, "fine");
        sockets.push(rpc);
    }
}

/// Waits until there is a place again.
async fn until_served(address: SocketAddr) {
    let served = async {
        while http(address, "GET /v1/status", ANN, &[], "").await.status != 200 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, served).await.expect("the place is free again");
}

#[tokio::test]
async fn a_body_that_breaks_off_frees_its_place() {
    let server = InProcess::start(&["limits.connections_per_principal=1"]).await;
    let address = server.address;
    let key = ANN.unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/chat/stream HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: 100\r\n\r\n{{\"mess"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let taken = async {
        while http(address, "GET /v1/status", ANN, &[], "").await.status != 429 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, taken).await.expect("the place is taken");
    drop(socket);
    until_served(address).await;
}

#[tokio::test]
async fn one_connection_carries_several_exchanges() {
    let server = InProcess::start(&[]).await;
    let socket = TcpStream::connect(server.address).await.unwrap();
    let mut socket = BufReader::new(socket);
    let body = request("count 3");
    let asked = [
        ("GET /v1/status", "", "200"),
        ("POST /v1/chat/stream", body.as_str(), "200"),
        ("POST /v1/chat/stream", "{oops", "400"),
        ("GET /v1/nothing", "", "404"),
        ("GET /v1/status", "", "200"),
    ];
    for (what, body, status) in asked {
        let head = format!(
            "{what} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            ANN.unwrap(),
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let (mut length, mut line) = (None, String::new());
        timeout(PATIENCE, socket.read_line(&mut line)).await.unwrap().unwrap();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {line}");
        while line != "\r\n" {
            line.clear();
            timeout(PATIENCE, socket.read_line(&mut line)).await.unwrap().unwrap();
            let lower = line.to_lowercase();
            if let Some(value) = lower.strip_prefix("content-length: ") {
                length = Some(value.trim().parse::<usize>().unwrap());
            }
        }
        loop {
            let size = match length {
                Some(size) => size,
                None => {
                    line.clear();
                    socket.read_line(&mut line).await.unwrap();
                    usize::from_str_radix(line.trim(), 16).unwrap() + 2
                }
            };
            let mut piece = vec![0; size];
            timeout(PATIENCE, socket.read_exact(&mut piece)).await.unwrap().unwrap();
            if length.is_some() || size == 2 {
                break;
            }
        }
    }
}

#[tokio::test]
async fn ac_077_a_stream_does_not_outlive_its_token() {
    let server = InProcess::start(&[]).await;
    let short = token("carol", 5);
    let answer =
        http(server.address, "POST /v1/chat/stream", Some(&short), &[], &request("hang after 1")).await;
    assert_eq!((answer.status, &last(&answer.body)["errorCode"]), (200, &json!("E_ABORTED")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_leaves_lets_streams_finish() {
    let server = InProcess::start(&["drain.retry_ms=0", "drain.spread_ms=0"]).await;
    let address = server.address;
    // Keeps the server from leaving before everything was tried.
    let mut last_guest = Rpc::open(address, BOB).await.unwrap();
    let kept = last_guest.start("hang after 1", json!({})).await;
    last_guest.wait(|message| delta(message).is_some()).await;
    let mut rpc = Rpc::open(address, ANN).await.unwrap();
    let body = request("count 50 every 20");
    let stream = tokio::spawn(async move { http(address, "POST /v1/chat/stream", ANN, &[], &body).await });
    let running = async {
        loop {
            let id = rpc.send("status.get", json!({})).await;
            if rpc.wait(|message| message["id"] == id).await["status"]["tasks_running"] == 1 {
                break;
            }
        }
    };
    timeout(PATIENCE, running).await.expect("it runs");
    let stopping = tokio::spawn(server.stop());
    rpc.closed().await;
    let refused = http(address, "GET /v1/status", ANN, &[], "").await;
    assert_eq!((refused.status, refused.body.as_str()), (503, "Service Unavailable"));
    let answer = stream.await.unwrap();
    assert_eq!(last(&answer.body)["type"], "done", "{}", answer.body);
    assert!(last_guest.abort(&kept).await);
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_078_a_shutdown_is_answered_and_stops_the_server() {
    let server = InProcess::start(&[]).await;
    let address = server.address;
    let refused = http(address, "POST /v1/admin/shutdown", ANN, &[], "").await;
    assert_eq!((refused.status, refused.body.as_str()), (403, "Forbidden"));
    let mut stream = held(address, BOB).await;
    let answer = http(address, "POST /v1/admin/shutdown", ADMIN, &[], "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"ok":true,"shutdown":true}"#));
    let mut line = String::new();
    while !line.contains(r#""errorCode":"E_ABORTED""#) {
        line.clear();
        let count = timeout(PATIENCE, stream.read_line(&mut line)).await.expect("a line").unwrap();
        assert!(count > 0, "the stream ends without a terminal");
    }
    server.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
}
