//! The binary is killed, told to leave, and deprived of its disk in the middle of its work: nothing
//! that was acknowledged is lost, nothing is doubled, and every turn has exactly one end.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use support::wire::{ERROR, Frame, HELLO, INVOKE, Over, Peer, STREAM};
use support::{ANN, BASIC, GENEROUS, Served};

const CONNECTIONS: u16 = 10;
const TURNS: u16 = 20;
const WORDS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);

/// An echo that takes its time, so that a kill always finds it in the middle.
const PACED: &[&str] = &[
    "agent=paced",
    "agents.paced.kind=echo",
    "agents.paced.delay_ms=75",
    "asp.limits.max_inflight=64",
    "drain.retry_ms=0",
    "drain.spread_ms=10",
];

/// One client, what it has of each of its requests, and what it needs to come back.
struct Client {
    number: u16,
    accept: Value,
    seen: BTreeMap<u16, Vec<Frame>>,
}

impl Client {
    /// Connects and starts its turns: half of them in sessions of their own, half without one.
    async fn start(number: u16, address: SocketAddr) -> (Self, Peer) {
        let mut peer = Peer::standard(address, ANN).await;
        for id in 1..=TURNS {
            let mut invoke = json!({ "input": input(number, id), "want": ["text"] });
            if id % 2 == 0 {
                invoke["session"] = format!("s{number}-{id}").into();
            }
            peer.send(INVOKE, id, &invoke).await;
        }
        let accept = peer.accept.clone();
        (Self { number, accept, seen: (1..=TURNS).map(|id| (id, Vec::new())).collect() }, peer)
    }

    /// Comes back and asks for what it does not have yet.
    async fn resume(mut self, address: SocketAddr) -> (Self, Peer) {
        let next = self
            .seen
            .iter()
            .filter(|(_, frames)| !frames.last().is_some_and(Frame::is_terminal))
            .map(|(id, frames)| (*id, frames.iter().rev().find_map(Frame::number).map_or(0, |n| n + 1)))
            .collect();
        let peer = Peer::resume(address, ANN, &self.accept, &next).await;
        assert_eq!(peer.accept["resumed"], true, "client {}: {}", self.number, peer.accept);
        assert_eq!(peer.accept["lost"], json!([]), "client {}", self.number);
        self.accept = peer.accept.clone();
        (self, peer)
    }

    /// Reads until everything has ended or the connection is gone, and tells of every turn that begins or goes on.
    async fn read(mut self, mut peer: Peer, begun: mpsc::UnboundedSender<()>) -> Self {
        let mut silent: BTreeSet<u16> = self.seen.keys().copied().collect();
        while self.seen.values().any(|frames| !frames.last().is_some_and(Frame::is_terminal)) {
            match peer.next().await {
                Ok(frame) if frame.id != 0 && matches!(frame.opcode, STREAM | ERROR) => {
                    if (frame.text().is_some() || frame.is_terminal()) && silent.remove(&frame.id) {
                        begun.send(()).ok();
                    }
                    self.seen.get_mut(&frame.id).expect("an id that was used").push(frame);
                }
                Ok(_) => {}
                Err(Over::Late) => panic!("client {}: nothing comes any more", self.number),
                Err(Over::Lost | Over::Closed(_)) => return self,
            }
        }
        peer.close().await;
        self
    }

    /// Nothing lost, nothing doubled, order kept, exactly one end each.
    fn verify(&self) {
        for (id, frames) in &self.seen {
            let at = format!("client {}, request {id}", self.number);
            let text: String = frames.iter().filter_map(Frame::text).collect();
            assert_eq!(text, input(self.number, *id), "{at}");
            let ends = frames.iter().filter(|frame| frame.is_terminal()).count();
            let last = frames.last().unwrap();
            assert_eq!((ends, last.outcome().as_str()), (1, "complete"), "{at}: {last:?}");
            // Merged deltas carry the highest index they contain, so there may be jumps.
            let numbers: Vec<u64> = frames.iter().filter_map(Frame::number).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{at}: {numbers:?}");
        }
    }
}

fn input(client: u16, id: u16) -> String {
    (0..WORDS).map(|word| format!("c{client}r{id}w{word} ")).collect::<String>().trim_end().to_owned()
}

/// Waits until so many turns have begun, or gone on.
async fn all_begin(begun: &mut mpsc::UnboundedReceiver<()>, turns: usize) {
    for _ in 0..turns {
        timeout(PATIENCE, begun.recv()).await.expect("every turn begins, or goes on");
    }
}

/// Runs 200 turns at the same time over several connections, and kills the server `kills` times.
async fn survive(kills: usize) {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[BASIC, GENEROUS, PACED];
    let mut server = Served::start(data.path(), settings);
    let mut readers = Vec::new();
    let (begun, mut all) = mpsc::unbounded_channel();
    for number in 0..CONNECTIONS {
        let (client, peer) = Client::start(number, server.address).await;
        readers.push(tokio::spawn(client.read(peer, begun.clone())));
    }
    let mut open = usize::from(CONNECTIONS * TURNS);
    for kill in 0..kills {
        all_begin(&mut all, open).await;
        server.kill();
        let mut clients = Vec::new();
        for reader in readers.drain(..) {
            clients.push(reader.await.unwrap());
        }
        let turns = clients.iter().flat_map(|client| client.seen.values());
        open = turns.filter(|frames| !frames.last().is_some_and(Frame::is_terminal)).count();
        assert!(open >= 100, "only {open} turns were cut by kill {kill}");
        server = Served::start(data.path(), settings);
        for client in clients {
            let (client, peer) = client.resume(server.address).await;
            readers.push(tokio::spawn(client.read(peer, begun.clone())));
        }
    }
    for reader in readers {
        reader.await.unwrap().verify();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asp_053_kill_9_during_200_turns_loses_and_doubles_nothing() {
    survive(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asp_053_kill_9_twice_loses_and_doubles_nothing() {
    survive(2).await;
}

#[tokio::test]
async fn asp_047_idempotency_keys_survive_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[BASIC, GENEROUS];
    let server = Served::start(data.path(), settings);
    let mut peer = Peer::standard(server.address, ANN).await;
    let run = async |peer: &mut Peer, text: &str| {
        peer.send(INVOKE, 1, &json!({ "input": text, "idem": "only once" })).await;
        let start = peer.wait(|frame| frame.id == 1 && (frame.value["t"] == "start" || frame.is_terminal()));
        let start = start.await;
        if start.is_terminal() {
            return (start.outcome(), String::new());
        }
        let (text, _) = peer.finish(1).await;
        (start.value["run"].to_string(), text)
    };
    let first = run(&mut peer, "count 5").await;
    assert_eq!(first.1, "1 2 3 4 5 ");
    server.kill();
    let server = Served::start(data.path(), settings);
    let mut peer = Peer::standard(server.address, ANN).await;
    assert_eq!(run(&mut peer, "count 5").await, first, "the same run, not a second one");
    assert_eq!(run(&mut peer, "count 6").await.0, "2305");
}

#[tokio::test]
async fn asp_045_a_call_can_be_answered_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[BASIC, GENEROUS];
    let tools = json!([{ "name": "add", "input_schema": { "type": "object" } }]);
    let features = json!(["flags", "events", "resume", "client_tools"]);
    let server = Served::start(data.path(), settings);
    let mut peer = Peer::with(server.address, ANN, json!({ "features": features, "tools": tools })).await;
    peer.invoke(1, "call add {\"a\": 1}").await;
    let call = peer.wait(|frame| frame.value["t"] == "call").await;
    let accept = peer.accept.clone();
    server.kill();
    let server = Served::start(data.path(), settings);
    let next = json!({ "1": call.number().unwrap() });
    let resume = json!({ "cid": accept["cid"], "token": accept["resume"]["token"], "next": next });
    let hello = json!({ "features": features, "tools": tools, "resume": resume });
    let mut peer = Peer::with(server.address, ANN, hello).await;
    let again = peer.wait(|frame| frame.value["t"] == "call").await;
    assert_eq!(again.value["call_id"], call.value["call_id"], "what was missed comes first");
    // The agent may ask again, under another name; then the first answer is too late.
    let mut open = again;
    for id in 2.. {
        let call_id = &open.value["call_id"];
        let result = json!({ "kind": "result", "parent": 1, "call_id": call_id, "ok": true, "output": 7 });
        peer.send(INVOKE, id, &result).await;
        let mut calls = Vec::new();
        let end = loop {
            let frame = peer.wait(|frame| frame.id == id || frame.value["t"] == "call").await;
            if frame.id == id {
                break frame;
            }
            calls.push(frame);
        };
        if end.outcome() == "accepted" {
            break;
        }
        assert_eq!((end.outcome().as_str(), id), ("2303", 2), "the second answer is taken");
        open = match calls.pop() {
            Some(call) => call,
            None => peer.wait(|frame| frame.value["t"] == "call").await,
        };
        assert_eq!(open.value["args"], json!({ "a": 1 }));
    }
    let (text, end) = peer.finish(1).await;
    assert_eq!((text.as_str(), end.outcome().as_str()), ("result: 7", "complete"));
}

#[tokio::test]
async fn asp_078_sigterm_lets_turns_finish() {
    let data = tempfile::tempdir().unwrap();
    let server = Served::start(data.path(), &[BASIC, GENEROUS, PACED]);
    let mut peers = Vec::new();
    for _ in 0..5 {
        let mut peer = Peer::standard(server.address, ANN).await;
        peer.invoke(1, &input(0, 1)).await;
        peer.wait(|frame| frame.text().is_some()).await;
        peers.push(peer);
    }
    let mut idle = Peer::standard(server.address, ANN).await;
    server.terminate();
    let goaway = idle.wait(|frame| frame.opcode == HELLO).await;
    assert_eq!(goaway.value["op"], "goaway");
    assert!(goaway.value["retry_ms"].is_u64());
    assert_eq!(idle.over(Duration::from_secs(5)).await, Over::Closed(1012), "nothing keeps an idle one");
    assert_eq!(Peer::open(server.address, ANN).await.err(), Some(503), "nobody is let in any more");
    for peer in &mut peers {
        let goaway = peer.wait(|frame| frame.opcode == HELLO).await;
        assert_eq!(goaway.value["op"], "goaway");
        peer.invoke(2, "too late").await;
    }
    for mut peer in peers {
        let refused = peer.wait(|frame| frame.id == 2).await;
        assert_eq!((refused.outcome().as_str(), &refused.value["retry"]), ("2501", &json!(true)));
        let (text, end) = peer.finish(1).await;
        assert_eq!(end.outcome(), "complete", "what runs may finish");
        assert!(text.ends_with(&format!("w{}", WORDS - 1)));
        assert_eq!(peer.over(Duration::from_secs(5)).await, Over::Closed(1012));
    }
    let (status, said) = server.wait(Duration::from_secs(10));
    assert_eq!(status.code(), Some(0), "{said}");
}

#[tokio::test]
async fn asp_078_sigterm_parks_what_takes_too_long() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[BASIC, GENEROUS, PACED, &["drain.timeout_ms=300"]];
    let server = Served::start(data.path(), settings);
    let (client, peer) = Client::start(0, server.address).await;
    let (begun, mut all) = mpsc::unbounded_channel();
    let reader = tokio::spawn(client.read(peer, begun.clone()));
    all_begin(&mut all, usize::from(TURNS)).await;
    server.terminate();
    let (status, said) = server.wait(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{said}");
    let client = reader.await.unwrap();
    let server = Served::start(data.path(), settings);
    let (client, peer) = client.resume(server.address).await;
    client.read(peer, begun).await.verify();
}

/// A file system of a few megabytes, for the time of a test.
struct SmallDisk<'a> {
    path: &'a Path,
}

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path) -> Option<Self> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(path).output().ok()?;
        mounted.status.success().then_some(Self { path })
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path).output();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let data = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(data.path()) else {
        println!("skipped: a tmpfs cannot be mounted here (it takes root)");
        return;
    };
    let server = Served::start(data.path(), &[BASIC, GENEROUS]);
    let mut peer = Peer::standard(server.address, ANN).await;
    assert_eq!(peer.turn(1, "echo before").await.0, "before");
    // A turn that is at work while the disk fills up, and is not over before there is room again.
    peer.invoke(2, "count 100 every 50").await;
    peer.wait(|frame| frame.id == 2 && frame.text().is_some()).await;
    let ballast = data.path().join("ballast");
    let _ = std::fs::write(&ballast, vec![0u8; 16 << 20]);
    // Sooner or later nothing more can be appended, and a client is told so.
    let mut other = Peer::open(server.address, ANN).await.unwrap();
    other.hello(json!({ "features": ["flags", "events"] })).await;
    let began = Instant::now();
    let mut id = 0;
    let refused = loop {
        id += 1;
        other.invoke(id, &format!("echo {}", "x".repeat(60_000))).await;
        let (_, end) = other.finish(id).await;
        if end.opcode == ERROR {
            break end;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the disk is never full");
    };
    assert_eq!((refused.outcome().as_str(), &refused.value["retry"]), ("2406", &json!(true)), "{refused:?}");
    assert!(!refused.value["msg"].as_str().unwrap().contains(data.path().to_str().unwrap()));
    // There is room again: service resumes, and the turn that was cut off goes on without a hole.
    std::fs::remove_file(&ballast).unwrap();
    let began = Instant::now();
    loop {
        id += 1;
        let (text, end) = other.turn(id, "echo after").await;
        if text == "after" && end == "complete" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "service does not resume: {end}");
        sleep(Duration::from_millis(100)).await;
    }
    let (text, end) = peer.finish(2).await;
    assert_eq!(end.outcome(), "complete", "{end:?}");
    let expected: String = (2..=100).map(|number| format!("{number} ")).collect();
    assert_eq!(text, expected, "no hole, nothing twice");
    // What was acknowledged is in the log, also for the next process.
    let accept = peer.accept.clone();
    server.kill();
    let server = Served::start(data.path(), &[BASIC, GENEROUS]);
    let mut peer = Peer::resume(server.address, ANN, &accept, &BTreeMap::from([(1, 0), (2, 0)])).await;
    assert_eq!(peer.finish(1).await.0, "before");
    assert_eq!(peer.finish(2).await.0, format!("1 {expected}"));
}
