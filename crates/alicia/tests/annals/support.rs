//! A real session whose events are folded, with rows kept as a store would keep them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use switchboard_alicia::annals::{Annals, Entry, Notice, Page, tables};
use switchboard_alicia::deed::{self, Deed, Luggage, Wishes};
use switchboard_alicia::{AliciaLimits, Body, Decoded, Dialect, Side, decode};
use switchboard_core::model::{
    Actor, CallEnd, CallKind, CallRequest, Executor, Names, NewTurn, Op, Origin, Output, Parent, Part, Place,
    TurnEnd, TurnRequest,
};
use switchboard_core::{
    Cell, Change, Committed, Event, MessageId, Position, Record, Session, SessionLimits, Timestamp, TurnId,
    WorkerId,
};

/// A session, its annals, and everything that they have said.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) annals: Annals,
    pub(crate) now: Timestamp,
    pub(crate) events: Vec<Committed>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) rows: Rows,
    fences: BTreeMap<TurnId, u32>,
}

/// Tables as maps from key to row.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Rows(BTreeMap<&'static str, BTreeMap<Vec<String>, BTreeMap<&'static str, Cell>>>);

impl Rows {
    pub(crate) fn apply(&mut self, record: &Record) {
        let table = tables::TABLES.iter().find(|table| table.name == record.table).expect("a known table");
        for (column, _) in &record.cells {
            assert!(table.column(column).is_some(), "{}.{column} exists", table.name);
        }
        let cell = |name: &&str| record.cells.iter().find(|(column, _)| column == name);
        let key =
            table.key.iter().map(|name| format!("{:?}", cell(name).expect("the whole key").1)).collect();
        let rows = self.0.entry(table.name).or_default();
        match record.change {
            Change::Put => rows.entry(key).or_default().extend(record.cells.iter().cloned()),
            Change::Set => {
                if let Some(row) = rows.get_mut(&key) {
                    row.extend(record.cells.iter().cloned());
                }
            }
        }
    }

    /// The rows of a table in which a column holds this text.
    pub(crate) fn of(&self, table: &str, column: &str, text: &str) -> Vec<&BTreeMap<&'static str, Cell>> {
        let rows = self.0.get(table).into_iter().flat_map(BTreeMap::values);
        rows.filter(|row| row.get(column).and_then(Cell::as_text) == Some(text)).collect()
    }

    /// The one row of a table in which a column holds this text.
    #[track_caller]
    pub(crate) fn one(&self, table: &str, column: &str, text: &str) -> &BTreeMap<&'static str, Cell> {
        let rows = self.of(table, column, text);
        assert_eq!(rows.len(), 1, "{table} where {column} = {text}");
        rows[0]
    }

    pub(crate) fn message(&self, id: &str) -> &BTreeMap<&'static str, Cell> {
        self.one("alicia_messages", "id", id)
    }

    pub(crate) fn conversation(&self) -> &BTreeMap<&'static str, Cell> {
        self.one("alicia_conversations", "id", CONVERSATION)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text in a column.
#[track_caller]
pub(crate) fn text<'a>(row: &'a BTreeMap<&'static str, Cell>, column: &str) -> &'a str {
    row.get(column)
        .and_then(Cell::as_text)
        .unwrap_or_else(|| panic!("text in {column}: {:?}", row.get(column)))
}

/// The number in a column.
#[track_caller]
pub(crate) fn number(row: &BTreeMap<&'static str, Cell>, column: &str) -> i64 {
    row.get(column).and_then(Cell::as_integer).unwrap_or_else(|| panic!("a number in {column}"))
}

/// Whether a column holds nothing.
pub(crate) fn is_null(row: &BTreeMap<&'static str, Cell>, column: &str) -> bool {
    row.get(column).is_none_or(|cell| *cell == Cell::Null)
}

impl World {
    pub(crate) fn named(name: Option<&str>) -> Self {
        let session = Session::new(CONVERSATION.into(), SessionLimits::default());
        let mut world = Self {
            annals: Annals::new(&CONVERSATION.into()),
            session,
            now: Timestamp::from_millis(BEGIN),
            events: Vec::new(),
            entries: Vec::new(),
            notices: Vec::new(),
            rows: Rows::default(),
            fences: BTreeMap::new(),
        };
        world.ask(Op::Open { epoch: 1, agent: "agent".into(), name: name.map(str::to_owned) });
        world.ask(Op::Chronicle { chronicle: deed::CHRONICLE.into() });
        world
    }

    pub(crate) fn new() -> Self {
        Self::named(Some("Title"))
    }

    pub(crate) fn ask(&mut self, op: Op) {
        self.ask_as(&Actor::client("ann".into()), op);
    }

    #[track_caller]
    pub(crate) fn ask_as(&mut self, actor: &Actor, op: Op) {
        let decision = self.session.decide(actor, &op, self.now);
        let decision = decision.unwrap_or_else(|reject| panic!("{op:?}: {reject}"));
        for event in decision.events {
            self.commit(event);
        }
    }

    /// Asks what may be refused.
    pub(crate) fn try_ask(&mut self, actor: &Actor, op: &Op) {
        if let Ok(decision) = self.session.decide(actor, op, self.now) {
            for event in decision.events {
                self.commit(event);
            }
        }
    }

    pub(crate) fn commit(&mut self, event: Event) {
        let position = match event {
            Event::SessionOpened { epoch, .. } => Position { epoch, seq: 1 },
            _ => self.session.head().next(),
        };
        if let Event::TurnStarted { turn, claim } = &event {
            self.fences.insert(turn.clone(), claim.fence);
        }
        let committed = Committed { position, at: self.now, event };
        self.session.apply(&committed);
        let Page { entries, notices, records } = self.annals.take(&committed);
        records.iter().for_each(|record| self.rows.apply(record));
        self.entries.extend(entries);
        self.notices.extend(notices);
        self.events.push(committed);
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
    }

    pub(crate) fn record(&mut self, deed: &Deed) {
        self.ask(Op::Record { chronicle: deed::CHRONICLE.into(), record: deed.to_record() });
    }

    /// Starts a turn as Alicia does: named messages, superseding whatever runs.
    pub(crate) fn say(&mut self, turn: &str, content: &str, wishes: &Wishes) {
        self.start(turn, content, wishes, Names { again: false, ..names(turn) }, Luggage::default());
    }

    pub(crate) fn start(
        &mut self,
        turn: &str,
        content: &str,
        wishes: &Wishes,
        names: Names,
        luggage: Luggage,
    ) {
        let place = Place { parent: Parent::Tip, names, meta: luggage.to_meta(), supersedes: true };
        let mut new = chat(turn, content, place);
        new.origin.options = wishes.to_options();
        self.ask(Op::StartTurn(Box::new(new)));
    }

    pub(crate) fn claim(&mut self, turn: &str) {
        self.ask_as(&worker(), Op::Claim { turn: turn.into(), relayed: false });
    }

    /// Starts a streamed turn that somebody works on.
    pub(crate) fn run(&mut self, turn: &str) {
        self.say(turn, "question", &Wishes::default());
        self.claim(turn);
    }

    pub(crate) fn fence(&self, turn: &str) -> u32 {
        self.fences.get(&turn.into()).copied().unwrap_or_default()
    }

    pub(crate) fn emit(&mut self, turn: &str, output: Output) {
        self.ask_as(&worker(), Op::Emit { turn: turn.into(), fence: self.fence(turn), output });
    }

    pub(crate) fn tell(&mut self, turn: &str, text: &str) {
        self.emit(turn, Output::Text(text.to_owned()));
    }

    pub(crate) fn call(&mut self, turn: &str, call: &str, kind: CallKind, executor: Executor) {
        let deadline = self.now.after(Duration::from_secs(30));
        let request = CallRequest {
            id: call.into(),
            kind,
            executor: Some(executor),
            deadline,
            batch: None,
            options: Value::Null.into(),
        };
        let fence = self.fence(turn);
        self.ask_as(&worker(), Op::Request { turn: turn.into(), fence, calls: vec![request] });
    }

    pub(crate) fn answer(&mut self, turn: &str, call: &str, end: CallEnd, by: &Actor) {
        self.ask_as(by, Op::Answer { turn: turn.into(), call: call.into(), end });
    }

    pub(crate) fn interrupt(&mut self, turn: &str, reason: Option<&str>) {
        self.ask(Op::Interrupt { turn: turn.into(), reason: reason.map(str::to_owned) });
    }

    pub(crate) fn finish(&mut self, turn: &str, end: TurnEnd) {
        self.ask_as(&worker(), Op::Finish { turn: turn.into(), fence: self.fence(turn), end });
    }

    pub(crate) fn complete(&mut self, turn: &str) {
        self.finish(turn, TurnEnd::complete());
    }

    /// What was sent since the last time, and what else was told, after checking what holds for all of it.
    pub(crate) fn drain(&mut self) -> (Vec<Body>, Vec<Notice>) {
        let entries = std::mem::take(&mut self.entries);
        entries.iter().for_each(well_formed);
        let bodies = entries.into_iter().map(|entry| entry.envelope.body).collect();
        (bodies, std::mem::take(&mut self.notices))
    }

    pub(crate) fn bodies(&mut self) -> Vec<Body> {
        self.drain().0
    }
}

/// Every entry can be read by a client, and says what its bytes say.
#[track_caller]
pub(crate) fn well_formed(entry: &Entry) {
    let decoded = decode(&entry.bytes, Side::Server, Dialect::Full, &AliciaLimits::default());
    let [Ok(Decoded::Full { envelope, .. })] = decoded.as_slice() else { panic!("{decoded:?}") };
    assert_eq!(**envelope, entry.envelope);
    assert_eq!(entry.envelope.stanza_id, if entry.is_aside() { 0 } else { entry.stanza });
    assert_eq!(entry.envelope.conversation_id.as_ref().map(|id| id.as_str()), Some(CONVERSATION));
}

/// A turn with nothing special about it.
pub(crate) fn chat(turn: &str, content: &str, place: Place) -> NewTurn {
    NewTurn {
        turn: turn.into(),
        request: TurnRequest::Chat { parts: vec![Part::Text(content.to_owned())] },
        agent: None,
        device: None,
        origin: Origin {
            principal: "ann".into(),
            protocol: "alicia".into(),
            attachment: None,
            handle: None,
            bound: false,
            options: Value::Null,
        },
        place,
        history: None,
        workspace: None,
        serial: true,
        held: false,
        once: false,
        setting: None,
        deadline: Timestamp::from_millis(BEGIN + 300_000),
        key: None,
        meta: Value::Null,
    }
}

/// The names of the messages of a turn.
pub(crate) fn names(turn: &str) -> Names {
    let name = |role: &str| Some(MessageId::new(format!("am_{turn}_{role}")));
    Names { input: name("in"), answer: name("out"), again: false }
}

pub(crate) fn worker() -> Actor {
    Actor::worker(WorkerId::from("worker"))
}

/// The kinds of what was sent, as numbers.
pub(crate) fn kinds(bodies: &[Body]) -> Vec<u16> {
    bodies.iter().map(Body::number).collect()
}

/// The texts of sentences, with whether they are final.
pub(crate) fn sentences(bodies: &[Body]) -> Vec<(u32, &str, bool)> {
    bodies
        .iter()
        .filter_map(|body| match body {
            Body::AssistantSentence(sentence) => {
                Some((sentence.sequence, sentence.text.0.as_str(), sentence.is_final))
            }
            _ => None,
        })
        .collect()
}

pub(crate) const CONVERSATION: &str = "ac_0123456789abcdefghijk";
pub(crate) const BEGIN: u64 = 1_767_225_600_000;
