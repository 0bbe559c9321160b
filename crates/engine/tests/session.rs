//! What a session worker does with a log that answers late, refuses, or does not know what it has done.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and looks at what it needs only"
)]

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::model::{NewTurn, Origin, Tool, TurnRequest};
use switchboard_core::{
    Actor, AgentId, Append, Batch, Chronicler, Op, PrincipalId, Reject, Reply, Right, Session, SessionLimits,
    Timestamp, TurnState, WorkerId,
};
use switchboard_engine::{
    AppendFailed, Command, Node, Notice, ReadFailed, ReplyTo, Reserved, RingBounds, SessionInput as Input,
    SessionOutput as Output, SessionSettings, SessionWorker, Shared, Submission,
};

#[derive(Debug)]
struct Bare {
    shared: Shared,
    workers: Cell<u32>,
}

impl Node for Bare {
    type Waiter = u32;
    type Hold = ();
    type Slot = ();

    fn shared(&self) -> &Shared {
        &self.shared
    }
    fn prepare(&self, _: &Session, _: &mut Op) {}
    fn check_arguments(&self, _: &Value, _: &Value) -> Result<(), String> {
        Ok(())
    }
    fn admit(&self, _: &Session, _: &Actor, _: &Op, _: Timestamp) -> Result<(), Reject> {
        Ok(())
    }
    fn absent(&self, _: &Actor) -> Reject {
        Reject::NotFound
    }
    fn tools(&self, _: &AgentId) -> Vec<Tool> {
        Vec::new()
    }
    fn continues(&self, _: &AgentId) -> bool {
        true
    }
    fn hears_ahead(&self, _: &AgentId) -> bool {
        false
    }
    fn reserve(&self, _: &TurnState) -> Option<Reserved<()>> {
        Some(Reserved { worker: self.worker(), relayed: false, slot: () })
    }
    fn worker(&self) -> WorkerId {
        self.workers.set(self.workers.get() + 1);
        WorkerId::new(format!("w{}", self.workers.get()))
    }
    fn projector(&self, _: &str) -> Option<Arc<dyn Chronicler>> {
        None
    }
    fn is_crowded(&self) -> bool {
        false
    }
    fn refused(&self, _: &PrincipalId, _: Right) {}
    fn decided(&self, _: &Session, _: &Actor, _: &Op) {}
}

/// A worker, and everything that it has wanted done but what it has asked of the log.
struct Stage {
    worker: SessionWorker<Bare>,
    node: Bare,
    now: Timestamp,
    /// What the log holds.
    stored: Vec<Arc<Batch>>,
    told: Vec<Output<Bare>>,
    wake: Option<Timestamp>,
}

impl Stage {
    fn new() -> Self {
        let limits = SessionLimits::default();
        let settings = SessionSettings {
            limits: limits.clone(),
            ring: RingBounds { events: 10, bytes: 1 << 20 },
            snapshot_every: u64::MAX,
            idle: Duration::from_secs(60),
            lease: Duration::from_secs(30),
        };
        let now = Timestamp::from_secs(1_000);
        let mut stage = Self {
            worker: SessionWorker::new("s".into(), Arc::new(settings), now),
            node: Bare { shared: Shared::new(limits.request_memory, 10), workers: Cell::new(0) },
            now,
            stored: Vec::new(),
            told: Vec::new(),
            wake: None,
        };
        assert!(stage.work().is_none());
        stage.submit(0, Op::Open { epoch: 1, agent: "a".into(), name: None });
        stage.append();
        stage.told.clear();
        stage
    }

    fn hand_in(&mut self, input: Input<Bare>) {
        self.worker.handle(input, &self.node, self.now);
    }

    fn submit(&mut self, waiter: u32, op: Op) {
        let (actor, reply) = (Actor::client("ann".into()), ReplyTo::Waiter(waiter));
        let submission = Submission { actor, op, reply, hold: None };
        self.hand_in(Input::Command(Command::Submit(Box::new(submission))));
    }

    fn start(&mut self, turn: &str) {
        let origin = Origin::new("ann".into(), "asp");
        let request = TurnRequest::chat("go".to_owned());
        let new = NewTurn::new(turn.into(), request, origin, Timestamp::NEVER);
        self.submit(1, Op::StartTurn(Box::new(new)));
    }

    /// Carries out what is wanted, until an append is.
    fn work(&mut self) -> Option<Box<Append>> {
        loop {
            match self.worker.poll_output(&self.node, self.now) {
                Output::Load => {
                    let batches = self.stored.clone();
                    let loaded = switchboard_core::Loaded { snapshot: None, batches };
                    let some = !loaded.batches.is_empty();
                    self.hand_in(Input::Loaded(Ok(some.then(|| Box::new(loaded)))));
                }
                Output::Read { after, .. } => {
                    let page = self.stored.iter().filter(|batch| batch.last() > after).cloned().collect();
                    self.hand_in(Input::Page(Ok(page)));
                }
                Output::Append(append) => return Some(append),
                Output::Idle { wake } => {
                    self.wake = wake;
                    return None;
                }
                other => self.told.push(other),
            }
        }
    }

    /// Lets the log take what the worker wants appended.
    fn append(&mut self) {
        let append = self.work().unwrap();
        self.stored.push(append.batch);
        self.hand_in(Input::Appended(Ok(())));
        assert!(self.work().is_none());
    }

    fn answers(&self) -> Vec<&Result<Reply, Reject>> {
        let answer = |output: &'_ Output<Bare>| matches!(output, Output::Answer(..));
        let told = self.told.iter().filter(|output| answer(output));
        told.filter_map(|output| if let Output::Answer(_, answer) = output { Some(answer) } else { None })
            .collect()
    }

    fn published(&self) -> usize {
        self.told.iter().filter(|output| matches!(output, Output::Publish { .. })).count()
    }
}

#[test]
fn nobody_is_told_before_the_commit_and_the_asker_first() {
    let mut stage = Stage::new();
    stage.start("t");
    let append = stage.work().unwrap();
    assert!(stage.told.is_empty(), "{:?}", stage.told);
    assert!(!stage.worker.takes_commands());
    stage.stored.push(append.batch);
    stage.hand_in(Input::Appended(Ok(())));
    assert!(stage.work().is_none());
    let [Output::Answer(_, Ok(_)), Output::Publish { .. }, Output::Start(start)] = &stage.told[..] else {
        panic!("{:?}", stage.told)
    };
    assert_eq!((start.turn.as_str(), start.slot), ("t", Some(())), "claimed with its acceptance");
}

#[test]
fn a_batch_that_the_log_has_after_all_is_told_once() {
    let mut stage = Stage::new();
    stage.start("t");
    let append = stage.work().unwrap();
    stage.stored.push(append.batch);
    stage.hand_in(Input::Appended(Err(AppendFailed::Unknown("who knows".into()))));
    assert!(stage.work().is_none(), "nothing is appended again");
    assert!(matches!(stage.answers()[..], [Ok(Reply::Turn { .. })]), "{:?}", stage.told);
    assert_eq!(stage.published(), 1);
}

#[test]
fn a_batch_that_the_log_does_not_have_is_refused_to_clients() {
    let mut stage = Stage::new();
    stage.start("t");
    stage.work().unwrap();
    stage.hand_in(Input::Appended(Err(AppendFailed::Unknown("who knows".into()))));
    assert!(stage.work().is_none());
    assert!(matches!(stage.answers()[..], [Err(Reject::Unavailable { .. })]), "{:?}", stage.told);
    assert_eq!((stage.published(), stage.worker.session().turns().count()), (0, 0), "it has not happened");
}

#[test]
fn what_an_executor_says_is_kept_until_the_log_takes_it() {
    let mut stage = Stage::new();
    stage.start("t");
    stage.append();
    let output = switchboard_core::model::Output::Text("word".into());
    let emit = Op::Emit { turn: "t".into(), fence: 1, output };
    let (actor, reply) = (Actor::worker("w1".into()), ReplyTo::Nobody);
    let submission = Submission { actor, op: emit, reply, hold: None };
    stage.hand_in(Input::Command(Command::Submit(Box::new(submission))));
    for attempt in 1..=3_u32 {
        stage.work().unwrap();
        stage.hand_in(Input::Appended(Err(AppendFailed::Refused("full".into()))));
        assert!(stage.work().is_none());
        let wake = stage.wake.unwrap();
        assert!(wake > stage.now, "attempt {attempt} is not followed by another one at once");
        stage.now = wake;
        stage.hand_in(Input::Timeout);
    }
    stage.told.clear();
    stage.append();
    assert_eq!(stage.published(), 1);
    let text = &stage.worker.session().turns().next().unwrap().text;
    assert_eq!(text, "word", "once");
}

#[test]
fn what_is_retained_and_leads_to_nothing_does_not_keep_the_worker_busy() {
    let mut stage = Stage::new();
    stage.start("t");
    stage.append();
    let finish = Op::Finish { turn: "t".into(), fence: 1, end: switchboard_core::model::TurnEnd::complete() };
    let submission = || Submission {
        actor: Actor::worker("w1".into()),
        op: finish.clone(),
        reply: ReplyTo::Nobody,
        hold: None,
    };
    stage.hand_in(Input::Command(Command::Submit(Box::new(submission()))));
    let append = stage.work().unwrap();
    // Another process has done the same.
    stage.stored.push(append.batch);
    stage.hand_in(Input::Appended(Err(AppendFailed::Conflict)));
    assert!(stage.work().is_none());
    stage.hand_in(Input::Timeout);
    assert!(stage.work().is_none(), "there is nothing left to append");
    assert!(stage.wake.is_none_or(|wake| wake > stage.now), "{:?}", stage.wake);
}

#[test]
fn a_session_that_cannot_be_read_is_read_again() {
    let mut stage = Stage::new();
    let settings = Arc::new(SessionSettings {
        limits: SessionLimits::default(),
        ring: RingBounds { events: 10, bytes: 1 << 20 },
        snapshot_every: u64::MAX,
        idle: Duration::from_secs(60),
        lease: Duration::from_secs(30),
    });
    stage.worker = SessionWorker::new("s".into(), settings, stage.now);
    assert!(matches!(stage.worker.poll_output(&stage.node, stage.now), Output::Load));
    stage.hand_in(Input::Loaded(Err(ReadFailed("broken".into()))));
    stage.start("t");
    assert!(stage.work().is_none());
    assert!(matches!(stage.answers()[..], [Err(Reject::Unavailable { .. })]), "{:?}", stage.told);
    stage.now = stage.wake.unwrap();
    stage.hand_in(Input::Timeout);
    assert!(stage.work().is_none());
    assert!(stage.worker.session().owner().is_some(), "it is there now");
}

#[test]
fn an_executor_that_gives_no_sign_of_life_loses_its_turn() {
    let mut stage = Stage::new();
    stage.start("t");
    stage.append();
    stage.told.clear();
    for _ in 0..2 {
        stage.now = stage.wake.unwrap();
        stage.hand_in(Input::Timeout);
        if let Some(append) = stage.work() {
            stage.stored.push(append.batch);
            stage.hand_in(Input::Appended(Ok(())));
            assert!(stage.work().is_none());
        }
    }
    let over = |output: &Output<Bare>| matches!(output, Output::Notify(_, Notice::Over(None)));
    assert!(stage.told.iter().any(over), "{:?}", stage.told);
    assert!(stage.told.iter().any(|output| matches!(output, Output::Start(_))), "another one begins");
}
