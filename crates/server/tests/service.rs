//! What the server as a whole promises: it does not start on nonsense, agents cannot take a turn
//! with them, and nobody gets into anybody else's session.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use switchboard_agents::{Agent, AgentError, Turn};
use switchboard_core::model::{FailureKind, Output, TurnEnd};
use switchboard_server::{Config, ServeError, Server};
use tokio::time::sleep;

use support::wire::{Frame, INTERRUPT, INVOKE, Over, Peer};
use support::{ANN, BOB, InProcess, config};

#[tokio::test]
async fn an_unknown_default_agent_is_refused_at_start() {
    let data = tempfile::tempdir().unwrap();
    let overrides = [format!("data_dir={}", data.path().display()), "agent=nobody".to_owned()];
    let refused = Config::load(None, [], overrides).unwrap_err().to_string();
    assert!(refused.contains("nobody"), "{refused}");
    let mut config = config(data.path(), &[]);
    config.agent = "nobody".into();
    let refused = Server::start(config).await.unwrap_err();
    assert!(matches!(&refused, ServeError::Config(why) if why.contains("nobody")), "{refused}");
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_refused_at_start() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("switchboard.db");
    std::fs::write(&file, b"this is no database, and it is long enough to be taken for one".repeat(100))
        .unwrap();
    let before = std::fs::read(&file).unwrap();
    let refused = Server::start(config(data.path(), &[])).await.unwrap_err();
    assert!(matches!(refused, ServeError::Store(_)), "{refused}");
    assert_eq!(std::fs::read(&file).unwrap(), before, "it was not touched");
}

#[test]
fn the_world_is_not_served_without_credentials() {
    for overrides in [vec!["listen=0.0.0.0:0"], vec!["listen=0.0.0.0:0", "auth.development=true"]] {
        let refused = Config::load(None, [], &overrides).unwrap_err().to_string();
        assert!(refused.contains("auth"), "{refused}");
    }
}

/// Does what its input says, as badly as it can.
#[derive(Debug, Default)]
struct Unruly {
    released: Mutex<bool>,
    release: Condvar,
}

impl Unruly {
    /// Lets go of what blocks.
    fn release(&self) {
        *self.released.lock().unwrap() = true;
        self.release.notify_all();
    }

    fn block(&self) {
        let held = self.released.lock().unwrap();
        drop(self.release.wait_timeout_while(held, Duration::from_secs(30), |released| !*released));
    }
}

#[async_trait]
impl Agent for Unruly {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        turn.emit(Output::Text("begun".into())).await?;
        match turn.request().text().as_str() {
            "panic" => panic!("a panic with a text"),
            "panic oddly" => std::panic::panic_any(7u8),
            "hang" => std::future::pending().await,
            // Cannot be stopped from outside, since it never lets go.
            "block" => tokio::task::block_in_place(|| self.block()),
            "fail" => return Err(AgentError::failed(FailureKind::ModelUnavailable, "no model")),
            "over" => return Err(AgentError::Over),
            "flood" => loop {
                turn.emit(Output::Text("x".repeat(1 << 10))).await?;
            },
            "spawn" => {
                // What it leaves behind is nobody's business.
                tokio::spawn(async { panic!("a panic in a task of its own") });
            }
            _ => {}
        }
        Ok(TurnEnd::complete())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn agents_cannot_take_a_turn_with_them() {
    let server = InProcess::with_agent(Arc::new(Unruly::default()), &["session.answer_bytes=1000000"]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    let table = [
        ("panic", "2400"),
        ("panic oddly", "2400"),
        ("fail", "2402"),
        ("over", "interrupted"),
        ("flood", "length"),
        ("spawn", "complete"),
        ("nothing", "complete"),
    ];
    for (id, (input, expected)) in (1..).zip(table) {
        let (text, outcome) = peer.turn(id, input).await;
        assert!(text.starts_with("begun"), "{input}: {text}");
        assert_eq!(outcome, expected, "{input}");
    }
    // The session is free again after each of them.
    for (id, input) in (20..).zip(["panic", "nothing"]) {
        peer.send(INVOKE, id, &json!({ "input": input, "session": "s" })).await;
        peer.finish(id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asp_092_an_answer_that_is_too_long_ends_with_what_there_is_of_it() {
    let server = InProcess::with_agent(Arc::new(Unruly::default()), &["session.answer_bytes=100000"]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    let (text, outcome) = peer.turn(1, "flood").await;
    assert_eq!(outcome, "length");
    assert!((100_000 - (1 << 10)..=100_000).contains(&text.len()), "{}", text.len());
    // The same in one piece.
    peer.send(INVOKE, 2, &json!({ "input": "flood", "stream": false })).await;
    let end = peer.wait(|frame| frame.id == 2 && frame.is_terminal()).await;
    assert_eq!(end.value["finish"], "length", "{end:?}");
    assert_eq!(end.value["output"].as_str().map(str::len), Some(text.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asp_046_a_hanging_agent_meets_its_deadline() {
    let agent = Arc::new(Unruly::default());
    let server = InProcess::with_agent(agent.clone(), &[]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    for (id, input) in [(1, "hang"), (2, "block")] {
        peer.send(INVOKE, id, &json!({ "input": input, "deadline_ms": 1000 })).await;
        let (_, end) = peer.finish(id).await;
        assert_eq!(end.outcome(), "2405", "{input}");
    }
    // Both have ended while the agent is still at it.
    agent.release();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asp_036_an_agent_that_does_not_listen_is_left_behind() {
    let agent = Arc::new(Unruly::default());
    let server = InProcess::with_agent(agent.clone(), &[]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    for (id, input, abandoned) in [(1, "hang", false), (2, "block", true)] {
        peer.invoke(id, input).await;
        peer.wait(|frame| frame.id == id && frame.text().is_some()).await;
        peer.send(INTERRUPT, id, &json!({})).await;
        let (_, end) = peer.finish(id).await;
        assert_eq!(end.outcome(), "interrupted", "{input}");
        assert_eq!(end.value["abandoned"].as_bool().unwrap_or(false), abandoned, "{input}");
    }
    // Nothing of it comes when it lets go at last.
    agent.release();
    assert_eq!(peer.over(Duration::from_millis(500)).await, Over::Late);
}

/// Where a turn ran, and for whom.
async fn who(peer: &mut Peer, id: u16, session: &str) -> Value {
    peer.send(INVOKE, id, &json!({ "input": "who", "session": session })).await;
    peer.finish(id).await.1.value["output"].clone()
}

#[tokio::test]
async fn a_session_of_somebody_else_is_no_session() {
    let server = InProcess::start(&[]).await;
    let mut ann = Peer::standard(server.address, ANN).await;
    let mut bob = Peer::standard(server.address, BOB).await;
    let hers = who(&mut ann, 1, "notes").await;
    let identifier = hers["session"].as_str().unwrap().to_owned();
    // She is busy in it; he must not even notice.
    ann.send(INVOKE, 2, &json!({ "input": "hang after 1", "session": "notes" })).await;
    ann.wait(|frame| frame.id == 2 && frame.text().is_some()).await;
    let absent = format!("ses_{}", "0".repeat(identifier.len() - 4));
    let mut seen: Vec<Vec<Value>> = Vec::new();
    for (id, session) in [(1, identifier.as_str()), (2, absent.as_str())] {
        bob.send(INVOKE, id, &json!({ "input": "who", "session": session, "want": [] })).await;
        let mut frames: Vec<Frame> = Vec::new();
        while !frames.last().is_some_and(Frame::is_terminal) {
            frames.push(bob.wait(|frame| frame.id == id).await);
        }
        let output = frames.last().unwrap().value["output"].clone();
        assert_ne!(output["session"], hers["session"]);
        assert_eq!(output["principal"], "bob");
        let shapes = frames.into_iter().map(|frame| {
            let mut value = frame.value;
            for secret in ["run", "metrics"] {
                value.as_object_mut().unwrap().remove(secret);
            }
            if let Some(output) = value["output"].as_object_mut() {
                output.retain(|name, _| name == "principal" || name == "agent" || name == "meta");
            }
            value
        });
        seen.push(shapes.collect());
    }
    assert_eq!(seen[0], seen[1], "somebody else's session and none at all");
    // His turn is not in hers.
    ann.send(INTERRUPT, 2, &json!({})).await;
    ann.finish(2).await;
    assert_eq!(who(&mut ann, 3, &identifier).await["session"], hers["session"]);
    assert_ne!(who(&mut bob, 3, "notes").await["session"], hers["session"], "names are everybody's own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_come_and_go() {
    let server = InProcess::start(&["limits.session_idle_ms=50"]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    let mut sessions = Vec::new();
    // More than one connection may follow at the same time.
    for number in 0..150u16 {
        let found = who(&mut peer, number + 1, &format!("session {number}")).await;
        sessions.push(found["session"].as_str().unwrap().to_owned());
    }
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), 150);
    // Each of them has left memory meanwhile, and is still the same.
    sleep(Duration::from_millis(300)).await;
    let mut other = Peer::standard(server.address, ANN).await;
    for number in (0..150u16).step_by(10) {
        let found = who(&mut other, number + 1, &format!("session {number}")).await;
        assert!(sessions.binary_search(&found["session"].as_str().unwrap().to_owned()).is_ok());
    }
}

#[tokio::test]
async fn asp_078_shutdown_is_orderly() {
    let server = InProcess::start(&["drain.retry_ms=10", "drain.spread_ms=10"]).await;
    let mut peer = Peer::standard(server.address, ANN).await;
    peer.invoke(1, "count 20 every 20").await;
    peer.wait(|frame| frame.text().is_some()).await;
    let reader = tokio::spawn(async move {
        let (text, end) = peer.finish(1).await;
        (text, end.outcome(), peer.over(Duration::from_secs(5)).await)
    });
    server.stop().await;
    let (text, outcome, over) = reader.await.unwrap();
    assert!(text.ends_with("19 20 "), "{text}");
    assert_eq!((outcome.as_str(), over), ("complete", Over::Closed(1012)));
}
