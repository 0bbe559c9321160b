//! What becomes of connections whose peers do not read, or are gone.

use super::probe::Probe;
use super::{Hosted, hosting, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_is_sent_away() {
    let server = Hosted::start(hosting(Probe::default()), &["limits.write_buffer_bytes=65536"]).await;
    let mut socket = server.socket(&[]).await.unwrap();
    // More than the network takes.
    socket.say("flood 30000").await;
    until(|| server.principals().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_follows_nothing_any_more() {
    let settings = ["limits.session_idle_ms=20", "agents.echo.kind=echo"];
    let server = Hosted::start(hosting(Probe::default()), &settings).await;
    let mut socket = server.socket(&[]).await.unwrap();
    socket.say("follow ses_probe").await;
    assert_eq!(socket.hear().await, "following");
    let sessions = &server.handle.door.gateway.sessions;
    assert_eq!(sessions.alive(), 1);
    drop(socket);
    until(|| sessions.alive() == 0).await;
}
