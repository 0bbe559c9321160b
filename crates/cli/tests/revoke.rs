//! A credential that is revoked ends the connections that were opened with it, at once and for good.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::time::Duration;

use support::wire::{Over, Peer};
use support::{ANN, BASIC, BOB, GENEROUS, Served};

#[tokio::test]
async fn asp_006_a_revoked_credential_ends_live_connections() {
    let data = tempfile::tempdir().unwrap();
    let revoked = data.path().join("revoked.json");
    let server = Served::start(data.path(), &[BASIC, GENEROUS]);
    let mut ann = Peer::standard(server.address, ANN).await;
    let mut bob = Peer::standard(server.address, BOB).await;
    let mut silent = Peer::open(server.address, BOB).await.unwrap();
    bob.invoke(1, "hang after 1").await;
    bob.wait(|frame| frame.text().is_some()).await;

    // A file that cannot be read changes nothing.
    std::fs::write(&revoked, "{").unwrap();
    server.reload();
    assert_eq!(ann.turn(1, "echo here").await.0, "here");
    assert_eq!(bob.over(Duration::from_millis(300)).await, Over::Late);

    std::fs::write(&revoked, r#"{"api_keys":["bob"]}"#).unwrap();
    server.reload();
    assert_eq!(bob.over(Duration::from_secs(5)).await, Over::Closed(4401));
    assert_eq!(silent.over(Duration::from_secs(5)).await, Over::Closed(4401));
    assert_eq!(Peer::open(server.address, BOB).await.err(), Some(401));
    assert_eq!(ann.turn(2, "echo still here").await.0, "still here");

    // It is remembered by the next process.
    server.kill();
    let server = Served::start(data.path(), &[BASIC, GENEROUS]);
    assert_eq!(Peer::open(server.address, BOB).await.err(), Some(401));
    assert!(Peer::open(server.address, ANN).await.is_ok());

    std::fs::remove_file(&revoked).unwrap();
    server.reload();
    let restored = async {
        while Peer::open(server.address, BOB).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), restored).await.expect("restored");
}
