//! Transports that misbehave below the protocol: sockets that never say what they want, peers that
//! fall silent, and peers that are gone.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use support::wire::{INVOKE, Over, Peer};
use support::{ANN, InProcess, token};

const REQUEST: &[u8] = b"GET /v1/agent-socket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: asp-v1\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Sends `pieces` with a pause after each, and waits for the server to hang up.
async fn hung_up_on(address: SocketAddr, pieces: Vec<&[u8]>, pause: Duration) -> Duration {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    for piece in pieces {
        if socket.write_all(piece).await.is_err() {
            return began.elapsed();
        }
        sleep(pause).await;
    }
    let mut answer = Vec::new();
    // A reset is as good as an end.
    let _ = timeout(Duration::from_secs(10), socket.read_to_end(&mut answer)).await.expect("hung up");
    let said = String::from_utf8_lossy(&answer).into_owned();
    assert!(!said.contains("101 Switching"), "{said}");
    began.elapsed()
}

#[tokio::test]
async fn half_open_sockets_are_closed_in_time() {
    let server = InProcess::start(&["limits.handshake_timeout_ms=600"]).await;
    let address = server.address;
    let slow: Vec<&[u8]> = REQUEST.chunks(4).collect();
    let (silent, unfinished, slowloris, idle, mut peer) = tokio::join!(
        hung_up_on(address, vec![], Duration::ZERO),
        hung_up_on(address, vec![REQUEST], Duration::ZERO),
        hung_up_on(address, slow, Duration::from_millis(50)),
        // An HTTP connection that was answered and then asks for nothing more.
        hung_up_on(address, vec![b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"], Duration::ZERO),
        Peer::standard(address, ANN),
    );
    for (what, took) in
        [("silent", silent), ("unfinished", unfinished), ("slowloris", slowloris), ("idle", idle)]
    {
        assert!(took < Duration::from_secs(8), "{what}: {took:?}");
    }
    assert_eq!(peer.turn(1, "echo fine").await.0, "fine");
}

/// A socket from an address of this machine, to which something was written.
async fn socket_from(source: &str, server: SocketAddr, said: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    let mut socket = socket.connect(server).await.unwrap();
    socket.write_all(said).await.unwrap();
    socket
}

/// What `/healthz` says to somebody at an address; nothing if the socket is closed.
async fn healthz(source: &str, server: SocketAddr) -> String {
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut socket = socket_from(source, server, request).await;
    let mut said = Vec::new();
    let _ = timeout(Duration::from_secs(10), socket.read_to_end(&mut said)).await.expect("an answer");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sockets_of_one_address_shut_nobody_out() {
    let server = InProcess::start(&["limits.handshake_timeout_ms=120000"]).await;
    let mut idle = Vec::new();
    for number in 0..4300 {
        // Some have said nothing, some a part of a request.
        let said: &[u8] = if number % 2 == 0 { b"" } else { b"GET /v1/agent" };
        idle.push(socket_from("127.0.0.2", server.address, said).await);
    }
    assert!(healthz("127.0.0.3", server.address).await.starts_with("HTTP/1.1 200"));
    assert!(healthz("127.0.0.2", server.address).await.starts_with("HTTP/1.1 200"), "not even that address");
    let gone = |socket: &TcpStream| matches!(socket.try_read(&mut [0]), Ok(0));
    let all_gone = async {
        // Its oldest ones were closed, and its newest were not.
        while idle.iter().filter(|socket| gone(socket)).count() < 4300 - 512 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), all_gone).await.expect("the oldest are closed");
    assert!(!gone(idle.last().unwrap()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sockets_of_many_addresses_shut_nobody_out() {
    let settings = ["limits.handshakes=40", "limits.handshakes_per_address=10"];
    let server = InProcess::start(&settings).await;
    let mut idle = Vec::new();
    for number in 0..200 {
        let source = format!("127.0.1.{}", number % 50 + 1);
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut socket = socket_from(&source, server.address, request).await;
        // Answered, and idle ever since.
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        idle.push(socket);
    }
    let mut peer = Peer::standard(server.address, ANN).await;
    assert_eq!(peer.turn(1, "echo fine").await.0, "fine");
    assert!(healthz("127.0.0.3", server.address).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let server = InProcess::start(&[]).await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let _ = socket.write_all(REQUEST).await;
    for number in 0..2_000 {
        let line = format!("X-More-{number}: {}\r\n", "y".repeat(60));
        if socket.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(30), socket.read_to_end(&mut answer)).await.expect("an end");
    let said = String::from_utf8_lossy(&answer);
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    let mut peer = Peer::standard(server.address, ANN).await;
    assert_eq!(peer.turn(1, "echo fine").await.0, "fine");
}

#[tokio::test]
async fn tls_handshakes_have_to_be_finished() {
    let keys = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (keys.path().join("cert.pem"), keys.path().join("key.pem"));
    std::fs::write(&cert, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let settings = [
        "limits.handshake_timeout_ms=600".to_owned(),
        format!("tls.cert={}", cert.display()),
        format!("tls.key={}", key.display()),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = InProcess::start(&settings).await;
    let (silent, started, plain) = tokio::join!(
        hung_up_on(server.address, vec![], Duration::ZERO),
        hung_up_on(server.address, vec![&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]], Duration::ZERO),
        hung_up_on(server.address, vec![REQUEST, b"\r\n"], Duration::ZERO),
    );
    for took in [silent, started, plain] {
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asp_049_a_slow_reader_gets_everything() {
    let server = InProcess::start(&[]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.invoke(1, "deltas 2000 of 1000").await;
    let mut bytes = 0;
    let end = loop {
        let frame = peer.wait(|frame| frame.id == 1).await;
        bytes += frame.text().map_or(0, str::len);
        if frame.is_terminal() {
            break frame;
        }
        if bytes % 100_000 == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!((bytes, end.outcome().as_str()), (2_000_000, "complete"));
}

/// Upgrades by hand and reads what comes, answering nothing.
async fn silent(address: SocketAddr, credential: &str, patience: Duration) -> (Vec<u8>, Duration) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(REQUEST).await.unwrap();
    socket.write_all(format!("Authorization: Bearer {credential}\r\n\r\n").as_bytes()).await.unwrap();
    let began = Instant::now();
    let mut answer = Vec::new();
    let _ = timeout(patience, socket.read_to_end(&mut answer)).await.expect("hung up");
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    (answer.split_off(head), began.elapsed())
}

#[tokio::test]
async fn asp_052_a_silent_peer_is_pinged_and_dropped() {
    let server = InProcess::start(&["asp.limits.heartbeat_s=5", "asp.limits.dead_s=6"]).await;
    let (frames, took) = silent(server.address, ANN.unwrap(), Duration::from_secs(12)).await;
    assert_eq!(frames.first(), Some(&0x89), "a ping: {frames:?}");
    let close = frames.windows(4).find(|window| window[0] == 0x88).expect("a close frame");
    assert_eq!(u16::from_be_bytes([close[2], close[3]]), 4408);
    assert!((5..=9).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test]
async fn a_silent_peer_does_not_outlive_its_token() {
    let server = InProcess::start(&[]).await;
    let (frames, took) = silent(server.address, &token("carol", 2), Duration::from_secs(8)).await;
    let close = frames.windows(4).rev().find(|window| window[0] == 0x88).expect("a close frame");
    assert_eq!(u16::from_be_bytes([close[2], close[3]]), 4401);
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test]
async fn asp_052_whoever_answers_pings_stays() {
    let server = InProcess::start(&["asp.limits.heartbeat_s=5", "asp.limits.dead_s=6"]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    // Reading is what answers a ping.
    assert_eq!(peer.over(Duration::from_secs(8)).await, Over::Late);
    assert_eq!(peer.turn(1, "echo here").await.0, "here");
}

#[tokio::test]
async fn a_lost_client_is_noticed_and_its_turn_goes_on() {
    let server = InProcess::start(&[]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.send(INVOKE, 1, &json!({ "input": "count 20 every 5" })).await;
    peer.wait(|frame| frame.text().is_some()).await;
    let accept = peer.accept.clone();
    drop(peer);
    sleep(Duration::from_secs(3)).await;
    let mut again = Peer::resume(server.address, ANN, &accept, &[(1, 0)].into()).await;
    let (text, end) = again.finish(1).await;
    let expected: String = (1..=20).map(|number| format!("{number} ")).collect();
    assert_eq!((text, end.outcome().as_str()), (expected, "complete"));
    assert!(end.flags & support::wire::REPLAY != 0, "it was over before the client came back");
}
