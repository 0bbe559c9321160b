//! What one event adds to the annals.

use std::fmt;

use bytes::Bytes;
use switchboard_core::{Cell, Change, Pii, Record, Table, Timestamp, TurnId};

use crate::error::Code;
use crate::id::Id;
use crate::message::Envelope;

/// What one event adds.
#[derive(Default)]
pub struct Page {
    /// What goes to everybody who follows the conversation, in order.
    pub entries: Vec<Entry>,
    /// What they are told besides.
    pub notices: Vec<Notice>,
    /// What changes in the tables; nothing if it was not asked for.
    pub records: Vec<Record>,
}

// Records hold what people say.
impl fmt::Debug for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Page")
            .field("entries", &self.entries)
            .field("notices", &self.notices)
            .field("records", &self.records.len())
            .finish()
    }
}

/// An envelope of the server log: a stanza, or a side entry behind one (§6.1).
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// The stanza that it is, or behind which it stands; 0 before the first.
    pub stanza: i32,
    /// 0 for the stanza itself, 1 and more for side entries.
    pub ordinal: u32,
    /// What it says.
    pub envelope: Envelope,
    /// Its canonical encoding: exactly what is stored and sent.
    pub bytes: Bytes,
}

impl Entry {
    /// Whether it stands behind a stanza, without being one.
    pub fn is_aside(&self) -> bool {
        self.ordinal > 0
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Entry")
            .field("stanza", &self.stanza)
            .field("ordinal", &self.ordinal)
            .field("envelope", &self.envelope)
            .finish_non_exhaustive()
    }
}

/// What followers of a conversation are told besides, unsequenced; each connection renders it by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// An answer has its last word: nothing more of it follows.
    Settled(Box<Settled>),
    /// A turn has ended: SessionStats (27).
    TurnOver {
        /// Which turn.
        turn: TurnId,
    },
    /// Title or status changed: ConversationUpdate (28).
    Updated,
    /// The reply to the HTTP request that posted a message was written: lite peers are told of the answer.
    Replied {
        /// The turn that answers the message.
        turn: TurnId,
    },
    /// Weights or elite changed: EliteOptions (31).
    Elites,
}

/// How an answer came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The turn.
    pub turn: TurnId,
    /// The answer.
    pub answer: Id,
    /// What it answers.
    pub question: Id,
    /// Whether it came as StartAnswer and sentences; otherwise whole, or not at all.
    pub streamed: bool,
    /// All of its text.
    pub contents: Pii<String>,
    /// Whether it is stored as complete, although perhaps cut short; otherwise it failed, or was stopped before
    /// there was any of it.
    pub complete: bool,
    /// What went wrong.
    pub failure: Option<Code>,
    /// When.
    pub at: Timestamp,
}

/// A page that is being written.
pub(super) struct Desk {
    pub(super) page: Page,
    pub(super) at: Timestamp,
    /// Whether the tip or the server log of the conversation has moved on.
    pub(super) moved: bool,
    /// Whether somebody wants to know what changes in the tables.
    recording: bool,
}

impl Desk {
    pub(super) fn new(at: Timestamp, recording: bool) -> Self {
        Self { page: Page::default(), at, moved: false, recording }
    }

    /// A row is there from now on.
    pub(super) fn put(&mut self, table: &Table, cells: impl FnOnce() -> Cells) {
        self.record(table, Change::Put, cells);
    }

    /// The same for a row that comes to be at this moment.
    pub(super) fn make(&mut self, table: &Table, cells: impl FnOnce() -> Cells) {
        let now = millis(self.at);
        self.record(table, Change::Put, || {
            let mut cells = cells();
            cells.extend([("created_at", now.into()), ("updated_at", now.into())]);
            cells
        });
    }

    /// A row changes, at this moment.
    pub(super) fn set(&mut self, table: &Table, cells: impl FnOnce() -> Cells) {
        let now = millis(self.at);
        self.record(table, Change::Set, || {
            let mut cells = cells();
            cells.push(("updated_at", now.into()));
            cells
        });
    }

    fn record(&mut self, table: &Table, change: Change, cells: impl FnOnce() -> Cells) {
        if self.recording {
            self.page.records.push(Record { table: table.name, change, cells: cells() });
        }
    }
}

/// Columns and what they hold.
pub(super) type Cells = Vec<(&'static str, Cell)>;

/// A moment, as a column holds it.
pub(super) fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}
