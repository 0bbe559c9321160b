//! Writes what a session would: events, the rows they change, and the session afterwards.

use std::sync::Arc;

use serde_json::Value;
use switchboard_core::model::{
    Author, Claim, Device, Message, Origin, Output, Part, RequestKey, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{
    AgentId, Callsign, Chronicle, Chronicler, Committed, Event, MessageId, Position, PrincipalId, Record,
    Row, Session, SessionId, SessionLimits, Timestamp, TurnId, WorkerId, rows,
};
use switchboard_store::{Append, Batch, Log, SqliteLog, SqliteOptions, StoreError, Synchronous};

use crate::tally::{self, Tally};

pub(crate) struct Scribe {
    pub(crate) session: Session,
    owner: PrincipalId,
    /// Time of the next event, in microseconds.
    pub(crate) clock: u64,
    account: Account,
}

impl Scribe {
    pub(crate) fn new(session: &str, owner: &str) -> Self {
        let id = SessionId::from(session);
        Self {
            account: Account { chronicle: Tally(tally::TABLES).begin(&id), waiting: Some(Vec::new()) },
            session: Session::new(id, SessionLimits::default()),
            owner: PrincipalId::from(owner),
            clock: 1_700_000_000_000_000,
        }
    }

    /// Goes on where a stored session is.
    pub(crate) async fn resume(log: &dyn Log, session: &str, owner: &str) -> Self {
        let id = SessionId::from(session);
        let mut scribe = Self::new(session, owner);
        if let Some(loaded) = log.load(&id).await.unwrap() {
            scribe.session = loaded.snapshot.unwrap_or(scribe.session);
            for committed in loaded.batches.iter().flat_map(|batch| &batch.events) {
                scribe.session.apply(committed);
            }
            scribe.clock = scribe.session.updated_at().as_micros() + 1;
        }
        scribe
    }

    pub(crate) fn id(&self) -> &SessionId {
        self.session.id()
    }

    /// The append that these events make, as if it had succeeded.
    pub(crate) fn write(&mut self, events: Vec<Event>) -> Append {
        let after = self.session.head();
        let epoch = if after.seq == 0 { EPOCH } else { after.epoch };
        let (mut changed, mut committed) = (Vec::new(), Vec::new());
        for (seq, event) in (after.seq + 1..).zip(events) {
            let at = Timestamp::from_micros(self.clock);
            self.clock += 1;
            let event = Committed { position: Position { epoch, seq }, at, event };
            changed.extend(rows(&self.session, &event));
            changed.extend(self.account.take(&event).into_iter().map(Row::Chronicled));
            self.session.apply(&event);
            committed.push(event);
        }
        Append {
            session: self.id().clone(),
            after,
            batch: Arc::new(Batch { events: committed }),
            rows: changed,
            summary: self.session.summary().unwrap(),
            snapshot: None,
        }
    }

    /// The same, with a snapshot.
    pub(crate) fn write_with_snapshot(&mut self, events: Vec<Event>) -> Append {
        let append = self.write(events);
        Append { snapshot: Some(Arc::new(self.session.clone())), ..append }
    }

    pub(crate) fn open(&mut self) -> Append {
        let opened = Event::SessionOpened {
            owner: self.owner.clone(),
            epoch: EPOCH,
            agent: AgentId::from("echo"),
            name: None,
        };
        self.write(vec![opened])
    }

    /// A turn is accepted, with an input and perhaps a key, and starts.
    pub(crate) fn start(&mut self, turn: &str, input: &str, key: Option<&str>) -> Append {
        let turn = TurnId::from(turn);
        let parts = vec![Part::Text(input.into())];
        let message = Message {
            id: MessageId::input_of(&turn),
            parent: self.tip(),
            author: Author::User(self.owner.clone()),
            parts: parts.clone(),
            turn: turn.clone(),
            meta: Value::Null,
        };
        let accepted = Event::TurnAccepted {
            turn: turn.clone(),
            request: Box::new(TurnRequest::Chat { parts }),
            agent: AgentId::from("echo"),
            device: None,
            origin: Box::new(Origin {
                principal: self.owner.clone(),
                protocol: "asp".into(),
                attachment: None,
                handle: None,
                bound: false,
                options: Value::Null,
            }),
            serial: false,
            held: false,
            once: false,
            setting: None,
            deadline: Timestamp::NEVER,
            parent: None,
            names: None,
            recall: None,
            workspace: None,
            key: key.map(|key| Box::new(RequestKey { key: key.into(), digest: format!("digest of {key}") })),
            meta: Box::new(Value::Null),
        };
        let claim = Claim { worker: WorkerId::from("worker"), fence: 1, relayed: false };
        let started = Event::TurnStarted { turn, claim };
        self.write(vec![Event::MessageAdded { message: Box::new(message) }, accepted, started])
    }

    pub(crate) fn end(&mut self, turn: &str, outcome: TurnOutcome) -> Append {
        self.write(vec![Event::TurnEnded { turn: TurnId::from(turn), end: Box::new(TurnEnd::new(outcome)) }])
    }

    /// Some pieces of the answer of a turn.
    pub(crate) fn say(&mut self, turn: &str, pieces: usize) -> Append {
        let events = (0..pieces).map(|_| text(turn, "piece ")).collect();
        self.write(events)
    }

    /// A device of the owner enrols.
    pub(crate) fn join(&mut self, device: &str, facts: Value) -> Append {
        let device = Device {
            callsign: Callsign::from(device),
            protocol: "aip".into(),
            platform: "linux".into(),
            facts,
            profile: serde_json::json!({ "since": [1, null, -0.5] }),
        };
        self.write(vec![Event::DeviceJoined { principal: self.owner.clone(), device: Box::new(device) }])
    }

    /// A device has news of itself.
    pub(crate) fn report(&mut self, device: &str, facts: Value) -> Append {
        self.write(vec![Event::DeviceReported { device: Callsign::from(device), facts: Box::new(facts) }])
    }

    /// The connection of a device is gone.
    pub(crate) fn leave(&mut self, device: &str) -> Append {
        self.write(vec![Event::DeviceLeft { device: Callsign::from(device) }])
    }

    /// The name of a device is free for others.
    pub(crate) fn release(&mut self, device: &str) -> Append {
        self.write(vec![Event::DeviceReleased { device: Callsign::from(device), by: "root".into() }])
    }

    /// A message is put into the tree, as somebody else has written it.
    pub(crate) fn tell(&mut self, name: &str, parent: Option<&str>, said: &str) -> Append {
        let message = Message {
            id: MessageId::from(name),
            parent: parent.map(MessageId::from),
            author: Author::User(self.owner.clone()),
            parts: vec![Part::Text(said.into())],
            turn: TurnId::from(name),
            meta: Value::Null,
        };
        self.write(vec![Event::MessageAdded { message: Box::new(message) }])
    }

    /// What a message says is put right.
    pub(crate) fn edit(&mut self, name: &str, said: &str) -> Append {
        let parts = vec![Part::Text(said.into())];
        self.write(vec![Event::MessageEdited { message: MessageId::from(name), parts }])
    }

    /// The account of the session is asked for.
    pub(crate) fn chronicle(&mut self) -> Append {
        self.write(vec![Event::ChronicleBegun { chronicle: tally::NAME.into() }])
    }

    fn tip(&self) -> Option<MessageId> {
        let json = serde_json::to_value(&self.session).unwrap();
        json["tip"].as_str().map(MessageId::from)
    }
}

/// The account of a session. What it says before anybody has asked for it is written then.
struct Account {
    chronicle: Box<dyn Chronicle>,
    waiting: Option<Vec<Record>>,
}

impl Account {
    fn take(&mut self, committed: &Committed) -> Vec<Record> {
        let records = self.chronicle.take(committed);
        let Some(waiting) = &mut self.waiting else { return records };
        waiting.extend(records);
        let begun =
            matches!(&committed.event, Event::ChronicleBegun { chronicle } if **chronicle == *tally::NAME);
        if begun { self.waiting.take().unwrap_or_default() } else { Vec::new() }
    }
}

pub(crate) fn text(turn: &str, piece: &str) -> Event {
    Event::TurnOutput { turn: TurnId::from(turn), output: Output::Text(piece.into()) }
}

/// All events of a session, which must be dense.
pub(crate) async fn all(log: &dyn Log, session: &SessionId) -> Vec<Committed> {
    let mut events: Vec<Committed> = Vec::new();
    loop {
        let batches = log.read(session, events.len() as u64, 100).await.unwrap();
        if batches.is_empty() {
            break;
        }
        events.extend(batches.iter().flat_map(|batch| batch.events.clone()));
    }
    for (seq, event) in (1..).zip(&events) {
        assert_eq!(event.position, Position { epoch: EPOCH, seq });
    }
    events
}

pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Refused(why)) => why,
        other => panic!("not refused: {other:?}"),
    }
}

/// Quick to open, and as safe as a test needs.
pub(crate) fn options() -> SqliteOptions {
    SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() }
}

/// With the chronicle of tests.
pub(crate) fn open(folder: &tempfile::TempDir) -> SqliteLog {
    SqliteLog::open_with(folder.path().join("log.db"), options(), tally::chroniclers()).unwrap()
}

pub(crate) const EPOCH: u32 = 7;
