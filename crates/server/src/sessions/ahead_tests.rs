//! What agents are told before it is committed, and what becomes of it when it never is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use switchboard_agents::{Agent, AgentError, Recovery, Turn};
use switchboard_core::model::{CallEnd, CallKind, NewTurn, Origin, Output, TurnEnd, TurnRequest};
use switchboard_core::{
    Actor, AgentId, CallId, Event, Op, PrincipalId, Reject, SessionId, Timestamp, TurnId,
};
use switchboard_store::{Batch, Log, SqliteLog};
use tempfile::TempDir;

use super::Sessions;
use super::testing::sessions_in;
use crate::config::Config;

/// Asks something, and repeats the answer.
#[derive(Debug)]
struct Parrot {
    recovery: Recovery,
    at_once: bool,
    runs: Arc<AtomicUsize>,
}

#[async_trait]
impl Agent for Parrot {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let end = turn.ask("What shall I say?", None, Duration::from_secs(600)).await?;
        if let CallEnd::Done { output, .. } = end
            && let Value::String(words) = &*output
        {
            turn.text(words).await?;
        }
        Ok(TurnEnd::complete())
    }

    fn recovery(&self) -> Recovery {
        self.recovery
    }

    fn reacts_at_once(&self) -> bool {
        self.at_once
    }
}

/// Asks twice under the same name, and repeats the answers.
#[derive(Debug)]
struct Forgetful;

#[async_trait]
impl Agent for Forgetful {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        for text in ["First?", "Second?"] {
            let call = CallId::from("again");
            let kind = CallKind::Question { text: text.to_owned(), schema: None, approves: None };
            turn.request_as(call.clone(), kind, Duration::from_secs(600)).await?;
            if let CallEnd::Done { output, .. } = turn.answer(call).await
                && let Value::String(words) = &*output
            {
                turn.text(words).await?;
            }
        }
        Ok(TurnEnd::complete())
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replay
    }

    fn reacts_at_once(&self) -> bool {
        true
    }
}

struct World {
    sessions: Arc<Sessions>,
    log: Arc<SqliteLog>,
    runs: Arc<AtomicUsize>,
    _folder: TempDir,
}

impl World {
    /// A session in which a parrot has asked.
    async fn open(recovery: Recovery, at_once: bool) -> (Self, CallId) {
        let runs = Arc::new(AtomicUsize::new(0));
        let parrot = Arc::new(Parrot { recovery, at_once, runs: runs.clone() });
        Self::with(parrot, runs).await
    }

    /// A session in which an agent has asked.
    async fn with(agent: Arc<dyn Agent>, runs: Arc<AtomicUsize>) -> (Self, CallId) {
        let folder = tempfile::tempdir().unwrap();
        let agents = BTreeMap::from([(AgentId::from("parrot"), agent)]);
        let (sessions, log) = sessions_in(folder.path(), &Config::default(), Vec::new(), agents);
        let world = Self { sessions, log, runs, _folder: folder };
        world.ask(Op::Open { epoch: 1, agent: AgentId::from("parrot"), name: None }).await.unwrap();
        let origin = Origin::new(PrincipalId::from("ann"), "asp");
        let new = NewTurn::new(turn(), TurnRequest::chat("go".to_owned()), origin, Timestamp::NEVER);
        world.ask(Op::StartTurn(Box::new(new))).await.unwrap();
        let call = world
            .wait_for(|event| {
                let Event::CallRequested { call, .. } = event else { return None };
                Some(call.id.clone())
            })
            .await;
        (world, call)
    }

    async fn ask(&self, op: Op) -> Result<(), Reject> {
        self.sessions.ask(&session(), Actor::client(PrincipalId::from("ann")), op).await.map(drop)
    }

    async fn answer(&self, call: &CallId, words: String) -> Result<(), Reject> {
        let end = CallEnd::done(Value::from(words));
        self.ask(Op::Answer { turn: turn(), call: call.clone(), end }).await
    }

    async fn batches(&self) -> Vec<Arc<Batch>> {
        self.log.read(&session(), 0, 1_000).await.unwrap()
    }

    async fn wait_for<T>(&self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        for _ in 0..1_000 {
            let batches = self.batches().await;
            let mut events = batches.iter().flat_map(|batch| &batch.events);
            if let Some(found) = events.find_map(|committed| wanted(&committed.event)) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not happen: {:?}", self.batches().await);
    }

    /// What was said until the end of the turn.
    async fn said(&self) -> Vec<String> {
        self.wait_for(|event| matches!(event, Event::TurnEnded { .. }).then_some(())).await;
        let batches = self.batches().await;
        let events = batches.iter().flat_map(|batch| &batch.events);
        let said = events.filter_map(|committed| {
            let Event::TurnOutput { output: Output::Text(text), .. } = &committed.event else { return None };
            Some(text.clone())
        });
        said.collect()
    }
}

fn session() -> SessionId {
    SessionId::from("s")
}

fn turn() -> TurnId {
    TurnId::from("t")
}

/// Whether the batch that has the answer also has what the agent made of it.
async fn answered_at_once(recovery: Recovery, at_once: bool) -> bool {
    let (world, call) = World::open(recovery, at_once).await;
    world.answer(&call, "hello".into()).await.unwrap();
    assert_eq!(world.said().await, ["hello"]);
    let batches = world.batches().await;
    let has =
        |batch: &Batch, wanted: &str| batch.events.iter().any(|committed| committed.event.name() == wanted);
    let with_answer = batches.iter().find(|batch| has(batch, "call_ended")).unwrap();
    has(with_answer, "turn_output")
}

#[tokio::test]
async fn what_a_repeatable_agent_makes_of_an_answer_is_committed_with_it() {
    assert!(answered_at_once(Recovery::Replay, true).await);
}

#[tokio::test]
async fn other_agents_hear_of_an_answer_when_it_is_committed() {
    assert!(!answered_at_once(Recovery::Fail, true).await);
    assert!(!answered_at_once(Recovery::Replay, false).await);
}

#[tokio::test]
async fn an_agent_that_was_told_what_never_happened_begins_again_without_it() {
    let (world, call) = World::open(Recovery::Replay, true).await;
    world.log.set_max_pages(1).await.unwrap();
    let refused = world.answer(&call, "forgotten ".repeat(20_000)).await;
    assert!(matches!(refused, Err(Reject::Unavailable { .. })), "{refused:?}");
    world.log.set_max_pages(1 << 20).await.unwrap();
    // The first run knows the answer that nobody else does; the second one waits for it. It begins by itself.
    let begun = async {
        while world.runs.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), begun).await.expect("what was refused is tried again");
    world.answer(&call, "remembered".into()).await.unwrap();
    assert_eq!(world.said().await, ["remembered"]);
    assert_eq!(world.runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_answer_that_was_told_ahead_is_not_told_again() {
    let (world, call) = World::with(Arc::new(Forgetful), Arc::default()).await;
    world.answer(&call, "one".into()).await.unwrap();
    let asked_again = async |wanted: usize| {
        let requested = |batches: &[Arc<Batch>]| {
            let events = batches.iter().flat_map(|batch| &batch.events);
            events.filter(|committed| matches!(committed.event, Event::CallRequested { .. })).count()
        };
        while requested(&world.batches().await) < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asked_again(2)).await.expect("it asks again");
    world.answer(&call, "two".into()).await.unwrap();
    assert_eq!(world.said().await, ["one", "two"]);
}
