//! What crowds that say nothing and readers that do not read cost, in memory and for others.

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
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use support::wire::{INVOKE, Over, Peer};
use support::{ANN, InProcess, file_limit, resident_bytes};

/// Memory is measured for the whole process, so one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_connections_are_nothing() {
    let _alone = ALONE.lock().await;
    let server = InProcess::start(&["store.kind=memory"]).await;
    // Both ends of each connection live in this process.
    let count = 1_000.min(file_limit().saturating_sub(200) / 2);
    let before = resident_bytes();
    let mut crowd = Vec::new();
    for _ in 0..count {
        crowd.push(Peer::open(server.address, ANN).await.expect("upgrade"));
    }
    let mut busy = Peer::standard(server.address, ANN).await;
    assert_eq!(busy.turn(1, "count 5").await.0, "1 2 3 4 5 ");
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        let each = after.saturating_sub(before) / count;
        assert!(each < 128 << 10, "{each} bytes for both ends of an idle connection");
    }
    // All of them are still there, and of use.
    for peer in &mut crowd {
        peer.raw(support::wire::frame(INVOKE, 1, b"echo here")).await;
    }
    for peer in &mut crowd {
        let said = peer.wait(|frame| frame.id == 1).await;
        assert_eq!(said.payload, b"here");
    }
}

/// Asks for `turns` answers of 2 MB, one after another, and does not read them for a while; others are
/// served meanwhile.
async fn ignore(address: SocketAddr, turns: u16) -> Peer {
    let mut stuck = Peer::standard(address, ANN).await;
    let mut other = Peer::standard(address, ANN).await;
    for id in 1..=turns {
        stuck.send(INVOKE, id, &json!({ "input": "deltas 2000 of 1000", "session": "ignored" })).await;
    }
    let mut slowest = Duration::ZERO;
    for id in 1..60 {
        let began = Instant::now();
        assert_eq!(other.turn(id, "echo meanwhile").await.0, "meanwhile");
        slowest = slowest.max(began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    assert!(slowest < Duration::from_secs(2), "another connection waited {slowest:?}");
    other.close().await;
    stuck
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asp_049_a_reader_that_does_not_read_costs_little_and_harms_nobody() {
    let _alone = ALONE.lock().await;
    let server = InProcess::start(&[]).await;
    // The first one warms up what is there once for all.
    ignore(server.address, 5).await.close().await;
    let before = resident_bytes();
    let mut stuck = ignore(server.address, 15).await;
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        let grown = after.saturating_sub(before);
        assert!(grown < 24 << 20, "{} KiB more for 30 MB that nobody reads", grown >> 10);
    }
    // When it reads at last, it learns what became of its requests.
    let mut read = [0; 16];
    let mut open = 15;
    while open > 0 {
        match stuck.next().await {
            Ok(frame) if frame.is_terminal() => {
                open -= 1;
                let (bytes, outcome) = (read[usize::from(frame.id)], frame.outcome());
                assert!(
                    outcome == "2204" || (outcome == "complete" && bytes == 2_000_000),
                    "{outcome}, {bytes}"
                );
            }
            Ok(frame) => read[usize::from(frame.id)] += frame.text().map_or(0, str::len),
            Err(over) => {
                assert_eq!(over, Over::Closed(4408));
                break;
            }
        }
    }
    let mut other = Peer::standard(server.address, ANN).await;
    assert_eq!(other.turn(1, "echo after").await.0, "after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asp_049_whoever_reads_gets_everything_however_fast_the_agent_is() {
    let _alone = ALONE.lock().await;
    let server =
        InProcess::start(&["session.answer_bytes=67108864", "limits.outgoing_message_bytes=500000000"]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.invoke(1, "deltas 400 of 65536").await;
    let mut read = 0;
    let end = loop {
        let frame = peer.wait(|frame| frame.id == 1).await;
        read += frame.text().map_or(0, str::len);
        if frame.is_terminal() {
            break frame;
        }
    };
    assert_eq!((end.outcome().as_str(), read), ("complete", 400 << 16), "{end:?}");
}
