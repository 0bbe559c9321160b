//! Executors that fall silent: what becomes of their turns, and of what they say afterwards.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use switchboard_agents::{Agent, AgentError, Turn};
use switchboard_core::model::{Output, TurnEnd};
use tokio::time::sleep;

use crate::setup::{frames_of, text_of};
use crate::support::rpc::http;
use crate::support::wire::{Frame, INVOKE, Peer};
use crate::support::{ADMIN, ANN, InProcess};

/// Much shorter than what an agent of these tests blocks for.
const LEASE: &str = "limits.lease_ms=600";
const BLOCKED: Duration = Duration::from_secs(3);

/// Blocks its thread, and with it every sign of life, as often as it is told to; then it goes on as if
/// nothing had happened.
#[derive(Debug, Default)]
struct Blocking {
    runs: AtomicU32,
    woken: Arc<AtomicU32>,
}

#[async_trait]
impl Agent for Blocking {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        let asked = turn.request().text();
        let (spoken, times) = match asked.as_str() {
            "speak, then block" => (true, 1),
            "block once" => (false, 1),
            "block always" => (false, u32::MAX),
            _ => (false, 0),
        };
        if spoken {
            turn.emit(Output::Text("before ".into())).await?;
            turn.settled().await;
        }
        if run <= times {
            tokio::task::block_in_place(|| std::thread::sleep(BLOCKED));
            self.woken.fetch_add(1, Ordering::SeqCst);
            // Without looking whether anybody still listens.
            let _ = turn.emit(Output::Text("zombie".into())).await;
            return Ok(TurnEnd::complete());
        }
        turn.emit(Output::Text(format!("run {run}"))).await?;
        Ok(TurnEnd::complete())
    }
}

/// Everything that is stored, as text.
async fn log(address: SocketAddr) -> String {
    let sessions = http(address, "GET /admin/v1/sessions", ADMIN, &[], "").await;
    let sessions: Value = serde_json::from_str(&sessions.body).unwrap();
    let mut all = String::new();
    for session in sessions["sessions"].as_array().unwrap() {
        let id = session["session"].as_str().expect("an id");
        let events =
            http(address, &format!("GET /admin/v1/sessions/{id}/events?limit=1000"), ADMIN, &[], "").await;
        assert_eq!(events.status, 200, "{}", events.body);
        all.push_str(&events.body);
    }
    all
}

/// A turn of an agent that blocks, and what is left of it when the agent is awake again.
async fn blocked(input: &str, blocks: u32) -> (Vec<Frame>, String) {
    let agent = Arc::new(Blocking::default());
    let woken = agent.woken.clone();
    let server = InProcess::with_agent(agent, &[LEASE]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.send(INVOKE, 1, &serde_json::json!({ "input": input })).await;
    let mut frames = frames_of(&mut peer, 1).await;
    for _ in 0..400 {
        if woken.load(Ordering::SeqCst) >= blocks {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(woken.load(Ordering::SeqCst), blocks, "the agent never woke up");
    // The session works, and nothing of the zombie comes before or after.
    peer.invoke(2, "hi").await;
    let rest = frames_of(&mut peer, 2).await;
    assert_eq!(rest.last().unwrap().outcome(), "complete");
    let stored = log(server.address).await;
    let accept = peer.accept.clone();
    drop(peer);
    let mut again = Peer::resume(server.address, ANN, &accept, &[(1, 0)].into()).await;
    let replayed = frames_of(&mut again, 1).await;
    assert_eq!(text_of(&replayed), text_of(&frames));
    frames.extend(rest);
    (frames, stored)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asp_074_a_turn_without_output_is_offered_again_when_its_lease_runs_out() {
    let (frames, stored) = blocked("block once", 1).await;
    assert!(frames.iter().any(|frame| frame.id == 1 && frame.value["state"] == "retrying"), "{frames:?}");
    let of_first: Vec<Frame> = frames.into_iter().filter(|frame| frame.id == 1).collect();
    assert_eq!(
        (text_of(&of_first).as_str(), of_first.last().unwrap().outcome().as_str()),
        ("run 2", "complete")
    );
    assert!(stored.contains("run 2"), "{stored}");
    assert!(!stored.contains("zombie"), "what a lost executor says is refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asp_074_a_turn_with_output_ends_when_its_lease_runs_out() {
    let (frames, _) = blocked("speak, then block", 1).await;
    let of_first: Vec<Frame> = frames.into_iter().filter(|frame| frame.id == 1).collect();
    let last = of_first.last().unwrap();
    assert_eq!((text_of(&of_first).as_str(), last.outcome().as_str()), ("before ", "2504"));
    assert_eq!((&last.value["name"], &last.value["retry"]), (&"WORKER_LOST".into(), &false.into()));
    assert!(of_first.iter().all(|frame| frame.value["state"] != "retrying"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asp_072_what_a_lost_executor_says_is_not_stored() {
    let (_, stored) = blocked("speak, then block", 1).await;
    assert!(stored.contains("before "), "{stored}");
    assert!(!stored.contains("zombie"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn asp_074_a_turn_is_not_offered_for_ever() {
    let (frames, stored) = blocked("block always", 3).await;
    let of_first: Vec<Frame> = frames.into_iter().filter(|frame| frame.id == 1).collect();
    let last = of_first.last().unwrap();
    assert_eq!((text_of(&of_first).as_str(), last.outcome().as_str()), ("", "2500"));
    assert_eq!(of_first.iter().filter(|frame| frame.value["state"] == "retrying").count(), 2);
    assert!(!stored.contains("zombie"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asp_074_whoever_gives_signs_of_life_keeps_its_turn() {
    /// Takes long, and lets others work meanwhile.
    #[derive(Debug)]
    struct Slow;
    #[async_trait]
    impl Agent for Slow {
        async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
            sleep(BLOCKED).await;
            turn.emit(Output::Text("slow".into())).await?;
            Ok(TurnEnd::complete())
        }
    }
    let server = InProcess::with_agent(Arc::new(Slow), &["limits.lease_ms=1500"]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.invoke(1, "hi").await;
    let frames = frames_of(&mut peer, 1).await;
    assert_eq!((text_of(&frames).as_str(), frames.last().unwrap().outcome().as_str()), ("slow", "complete"));
    assert!(frames.iter().all(|frame| frame.value["state"] != "retrying"));
}
