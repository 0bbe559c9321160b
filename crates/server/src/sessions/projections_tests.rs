//! Projections through the whole life of sessions, in a log of their own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use switchboard_core::model::{Import, Parent, Standing, Voice};
use switchboard_core::{
    Actor, AgentId, Cell, Change, Chronicle, Chronicler, Column, ColumnKind, Committed, Found, Lookup,
    MessageId, Op, Order, PrincipalId, Question, Record, Reject, Reply, RequestId, Role, SessionId, Table,
    Within,
};
use switchboard_engine::{AttachRequest, Attached, Delivery, Inbox};
use switchboard_store::{Log, SqliteLog};
use tempfile::TempDir;

use super::testing::sessions_in;
use super::*;
use crate::config::Config;
use crate::gateway::look;

/// Writes every event down, with the number of events before it: whoever misses one, or takes one in
/// twice, is found out by every row that follows.
#[derive(Debug, Default)]
struct Tally {
    begun: AtomicUsize,
    /// Whether it can read what an earlier one has left.
    forgetful: bool,
}

#[derive(Debug)]
struct Count {
    session: SessionId,
    events: u64,
}

impl Chronicler for Tally {
    fn name(&self) -> &'static str {
        "tally"
    }

    fn tables(&self) -> &'static [Table] {
        const TEXT: ColumnKind = ColumnKind::Text;
        const INTEGER: ColumnKind = ColumnKind::Integer;
        &[Table {
            name: "tally",
            columns: &[
                Column { name: "session", kind: TEXT },
                Column { name: "seq", kind: INTEGER },
                Column { name: "before", kind: INTEGER },
                Column { name: "event", kind: TEXT },
            ],
            key: &["session", "seq"],
            session: "session",
            indexes: &[],
            words: None,
        }]
    }

    fn begin(&self, session: &SessionId) -> Box<dyn Chronicle> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Box::new(Count { session: session.clone(), events: 0 })
    }

    fn resume(&self, session: &SessionId, state: &[u8]) -> Option<Box<dyn Chronicle>> {
        let events = u64::from_be_bytes(state.try_into().ok()?);
        (!self.forgetful).then(|| Box::new(Count { session: session.clone(), events }) as Box<dyn Chronicle>)
    }
}

impl Chronicle for Count {
    fn take(&mut self, committed: &Committed) -> Vec<Record> {
        let before = self.events.cast_signed();
        self.events += 1;
        vec![Record {
            table: "tally",
            change: Change::Put,
            cells: vec![
                ("session", self.session.as_str().into()),
                ("seq", committed.position.seq.cast_signed().into()),
                ("before", before.into()),
                ("event", committed.event.name().into()),
            ],
        }]
    }

    fn state(&self) -> Bytes {
        self.events.to_be_bytes().to_vec().into()
    }
}

struct World {
    sessions: Arc<Sessions>,
    log: Arc<SqliteLog>,
    tally: Arc<Tally>,
}

impl World {
    fn open(folder: &TempDir) -> Self {
        Self::open_with(folder.path(), Tally::default())
    }

    fn open_with(folder: &Path, tally: Tally) -> Self {
        let tally = Arc::new(tally);
        let (sessions, log) = sessions_in(folder, &Config::default(), vec![tally.clone()], BTreeMap::new());
        Self { sessions, log, tally }
    }

    /// The same log, in another process.
    async fn restart(self, folder: &TempDir, tally: Tally) -> Self {
        self.log.close().await.unwrap();
        drop(self);
        Self::open_with(folder.path(), tally)
    }

    async fn ask(&self, who: &str, op: Op) -> Result<Reply, Reject> {
        self.sessions.ask(&session(), client(who), op).await
    }

    /// Asks for all of it before any of it is answered.
    async fn ask_together(&self, ops: Vec<Op>) {
        let mut answers = Vec::new();
        for op in ops {
            let (reply, answer) = oneshot::channel();
            let reply = ReplyTo::Waiter(reply);
            let submission = Submission { actor: client("ann"), op, reply, hold: None };
            self.sessions.send(&session(), Command::Submit(Box::new(submission))).unwrap();
            answers.push(answer);
        }
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
    }

    async fn rename(&self, range: std::ops::Range<u32>) {
        self.ask_together(range.map(rename).collect()).await;
    }

    async fn look(&self, who: &str, within: Within) -> Result<Vec<Found>, Reject> {
        let order = vec![("seq", Order::Rising)];
        let question = Question::Rows(order);
        let lookup = Lookup { table: "tally", within, conditions: Vec::new(), question, limit: 100_000 };
        let reply = look(&self.sessions, PrincipalId::from(who), &lookup).await?;
        let Reply::Rows(rows) = reply else { panic!("{reply:?}") };
        Ok(rows)
    }

    async fn rows(&self) -> Vec<Found> {
        self.look("ann", Within::Session(session())).await.unwrap()
    }

    async fn attach(&self, who: &str) -> Option<Box<Attached>> {
        let inbox = Arc::new(Inbox::default());
        let request = RequestId(1);
        let attach = AttachRequest { actor: client(who), from: None, request, inbox: inbox.clone() };
        self.sessions.send(&session(), Command::Attach(Box::new(attach))).unwrap();
        loop {
            std::future::poll_fn(|context| inbox.poll_woken(context)).await;
            match inbox.take().pop() {
                Some(Delivery::Attached(_, attached)) => return Some(attached),
                Some(Delivery::Rejected(..)) => return None,
                other => assert!(other.is_none(), "{other:?}"),
            }
        }
    }

    /// Everything in the table is what following the log from the beginning gives, and the state is
    /// that after the last event.
    async fn check(&self) {
        let mut count = Count { session: session(), events: 0 };
        let mut expected = Vec::new();
        for batch in self.log.read(&session(), 0, usize::MAX).await.unwrap() {
            for record in batch.events.iter().flat_map(|committed| count.take(committed)) {
                expected.push(record.cells.into_iter().map(|(_, cell)| cell).collect::<Vec<Cell>>());
            }
        }
        let head = expected.len() as u64;
        assert_eq!(self.rows().await, expected);
        let view = self.attach("ann").await.unwrap().view;
        assert_eq!(view.head.seq, head);
        assert_eq!(view.chronicles, BTreeMap::from([("tally".into(), count.state())]));
    }
}

fn session() -> SessionId {
    SessionId::from("s")
}

fn client(who: &str) -> Actor {
    Actor::client(PrincipalId::from(who))
}

fn open() -> Op {
    Op::Open { epoch: 1, agent: AgentId::from("nobody"), name: None }
}

fn chronicle(name: &str) -> Op {
    Op::Chronicle { chronicle: name.into() }
}

fn rename(number: u32) -> Op {
    Op::Rename { name: format!("name {number}") }
}

#[tokio::test]
async fn an_account_that_begins_in_mid_life_equals_one_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    world.ask("ann", open()).await.unwrap();
    // More than is read at once.
    world.rename(0..2500).await;
    assert!(world.rows().await.is_empty(), "nobody has asked for it yet");
    assert!(world.attach("ann").await.unwrap().view.chronicles.is_empty());
    world.ask("ann", chronicle("tally")).await.unwrap();
    world.check().await;
    world.rename(3000..3010).await;
    world.ask("ann", chronicle("tally")).await.unwrap();
    world.check().await;
    assert_eq!(world.tally.begun.load(Ordering::Relaxed), 1, "asking again begins nothing");
}

#[tokio::test]
async fn an_account_takes_in_what_is_decided_with_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    world.ask_together(vec![open(), rename(1), chronicle("tally"), rename(2)]).await;
    world.check().await;
    assert_eq!(world.rows().await.len(), 4);
}

#[tokio::test]
async fn accounts_go_on_after_a_restart_from_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    world.ask("ann", open()).await.unwrap();
    world.ask("ann", chronicle("tally")).await.unwrap();
    for number in 0..10 {
        world.ask("ann", rename(number)).await.unwrap();
    }
    let world = world.restart(&folder, Tally::default()).await;
    world.check().await;
    world.rename(20..22).await;
    world.check().await;
    assert_eq!(world.tally.begun.load(Ordering::Relaxed), 0, "the snapshot knows where it was");
}

#[tokio::test]
async fn accounts_whose_state_cannot_be_read_are_followed_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    world.ask("ann", open()).await.unwrap();
    world.ask("ann", chronicle("tally")).await.unwrap();
    world.rename(0..10).await;
    let written = world.log.stats().appends;
    let world = world.restart(&folder, Tally { forgetful: true, ..Tally::default() }).await;
    world.check().await;
    assert_eq!(world.tally.begun.load(Ordering::Relaxed), 1);
    assert_eq!(world.log.stats().appends, 0, "nothing is written for it; {written} were before");
    world.rename(20..22).await;
    world.check().await;
}

#[tokio::test]
async fn what_the_log_did_not_take_is_in_no_account() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    world.ask("ann", open()).await.unwrap();
    world.ask("ann", rename(1)).await.unwrap();
    world.log.set_max_pages(1).await.unwrap();
    let large = |number: u32| Op::Rename { name: format!("{number}{}", "x".repeat(200_000)) };
    assert!(matches!(world.ask("ann", large(1)).await, Err(Reject::Unavailable { .. })));
    world.log.set_max_pages(1 << 20).await.unwrap();
    world.ask("ann", chronicle("tally")).await.unwrap();
    world.check().await;
    world.log.set_max_pages(1).await.unwrap();
    assert!(matches!(world.ask("ann", large(2)).await, Err(Reject::Unavailable { .. })));
    world.log.set_max_pages(1 << 20).await.unwrap();
    world.ask("ann", rename(2)).await.unwrap();
    world.check().await;
}

#[tokio::test]
async fn an_account_that_nobody_keeps_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    assert_eq!(world.ask("ann", chronicle("tally")).await, Err(Reject::NotFound));
    world.ask("ann", open()).await.unwrap();
    assert!(matches!(world.ask("ann", chronicle("novel")).await, Err(Reject::Invalid(_))));
    assert_eq!(world.ask("bob", chronicle("novel")).await, Err(Reject::NotFound));
    assert_eq!(world.attach("ann").await.unwrap().view.head.seq, 1, "nothing has happened");
}

#[tokio::test]
async fn only_who_takes_part_can_look_into_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    let here = || Within::Session(session());
    assert_eq!(world.look("ann", here()).await, Err(Reject::NotFound));
    world.ask_together(vec![open(), chronicle("tally")]).await;
    assert_eq!(world.look("ann", here()).await.unwrap().len(), 2);
    assert_eq!(world.look("bob", here()).await, Err(Reject::NotFound));
    assert_eq!(world.look("bob", Within::Own).await, Ok(Vec::new()));
    let admit = |role| Op::Admit { principal: "bob".into(), role };
    world.ask("ann", admit(Some(Role::Observer))).await.unwrap();
    assert_eq!(world.look("bob", here()).await.unwrap().len(), 3);
    assert_eq!(world.look("bob", Within::Own).await, Ok(Vec::new()), "not its own");
    world.ask("ann", admit(None)).await.unwrap();
    assert_eq!(world.look("bob", here()).await, Err(Reject::NotFound));
    world.ask("ann", Op::Stand(Standing::Deleted)).await.unwrap();
    assert_eq!(world.look("ann", here()).await, Err(Reject::NotFound), "gone, for its owner too");
}

#[tokio::test]
async fn a_message_that_the_session_has_forgotten_is_found_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(&folder);
    world.ask("ann", open()).await.unwrap();
    let import = |number: u32| {
        Op::Import(Box::new(Import {
            id: MessageId::from(format!("m{number}").as_str()),
            parent: Parent::Tip,
            voice: Voice::User,
            text: "hello".into(),
            meta: serde_json::Value::Null,
        }))
    };
    world.ask_together((0..1100).map(import).collect()).await;
    let tip = |message: &str| Op::MoveTip { tip: MessageId::from(message) };
    assert!(matches!(world.ask("ann", tip("m3")).await, Ok(Reply::Applied { .. })));
    assert_eq!(world.ask("ann", tip("m1100")).await, Err(Reject::UnknownMessage("m1100".into())));
    assert_eq!(world.ask("bob", tip("m3")).await, Err(Reject::NotFound));
}
