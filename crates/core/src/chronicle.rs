//! Chronicles: accounts of sessions that a protocol keeps in tables of its own.
//!
//! Like any projection a chronicle is derived from events, is written in the same transaction, and
//! can be thrown away and made again. Unlike the projections of this crate it has a memory: what an
//! event leads to depends on what came before. Only sessions in which somebody asked for it
//! ([`Op::Chronicle`](crate::Op::Chronicle)) have one, so that nobody else pays for it.
//!
//! The store knows how to keep such tables and to look things up in them, but not what they mean.

use std::fmt::Debug;

use bytes::Bytes;

use crate::id::{PrincipalId, SessionId};
use crate::model::Committed;

/// What a protocol brings along to keep an account of sessions.
pub trait Chronicler: Debug + Send + Sync {
    /// Its name in events and snapshots.
    fn name(&self) -> &'static str;

    /// The tables in which it writes.
    fn tables(&self) -> &'static [Table];

    /// The account of a session of which nothing has happened yet.
    fn begin(&self, session: &SessionId) -> Box<dyn Chronicle>;

    /// The account as it was left; none if the state is of another version, and the account has to be
    /// followed from the beginning once more.
    fn resume(&self, session: &SessionId, state: &[u8]) -> Option<Box<dyn Chronicle>>;
}

/// The account of one session: a fold over its events.
pub trait Chronicle: Debug + Send {
    /// Takes in the next event; answers what changes in the tables, in order.
    fn take(&mut self, committed: &Committed) -> Vec<Record>;

    /// What it has to remember to go on from here. Bounded, however long the session is.
    fn state(&self) -> Bytes;

    /// What a connection is told that begins to follow the session: the same, unless no connection cares.
    fn shown(&self) -> Option<Bytes> {
        Some(self.state())
    }
}

/// A table of a chronicle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
    /// The columns that tell its rows apart; the one that names the session is among them.
    pub key: &'static [&'static str],
    /// The column that names the session.
    pub session: &'static str,
    /// Groups of columns by which it is looked up.
    pub indexes: &'static [&'static [&'static str]],
    /// The column whose words can be searched.
    pub words: Option<&'static str>,
}

impl Table {
    /// The place of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnKind,
}

/// What a column holds; any of them may hold nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// Whole numbers.
    Integer,
    /// Other numbers.
    Real,
    /// Bytes.
    Blob,
}

/// One value of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// Nothing.
    #[default]
    Null,
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Bytes),
}

impl Cell {
    /// The text that it holds.
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The whole number that it holds.
    pub const fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }

    /// The number that it holds.
    #[expect(clippy::cast_precision_loss, reason = "who asks for a real number expects one")]
    pub const fn as_real(&self) -> Option<f64> {
        match self {
            Self::Real(number) => Some(*number),
            Self::Integer(number) => Some(*number as f64),
            Self::Null | Self::Text(_) | Self::Blob(_) => None,
        }
    }

    /// The bytes that it holds.
    pub const fn as_blob(&self) -> Option<&Bytes> {
        if let Self::Blob(bytes) = self { Some(bytes) } else { None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<Bytes> for Cell {
    fn from(bytes: Bytes) -> Self {
        Self::Blob(bytes)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The table.
    pub table: &'static str,
    /// What happens to the row.
    pub change: Change,
    /// The key, and what the row holds from now on; other columns stay as they are, or empty.
    pub cells: Vec<(&'static str, Cell)>,
}

/// What happens to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there from now on, if it was not before.
    Put,
    /// It changes if it is there.
    Set,
}

/// Something to look up in a table of a chronicle.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// The table.
    pub table: &'static str,
    /// In which sessions.
    pub within: Within,
    /// What the rows have to fulfil, all of it.
    pub conditions: Vec<Condition>,
    /// What is asked.
    pub question: Question,
    /// At most so many rows.
    pub limit: usize,
}

impl Lookup {
    /// The same, with what it takes for a row to be there for this asker among the conditions.
    #[must_use]
    pub fn on_behalf_of(&self, asker: &PrincipalId) -> Self {
        let mut lookup = self.clone();
        if let Within::Addressed(column) = lookup.within {
            lookup.conditions.push(Condition { column, is: Comparison::Equal, value: asker.as_str().into() });
        }
        lookup
    }
}

/// In which sessions something is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    /// In this one, if the asker takes part in it.
    Session(SessionId),
    /// In all that the asker owns.
    Own,
    /// In all of them, where this column names the asker.
    Addressed(&'static str),
}

/// A condition on a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The column.
    pub column: &'static str,
    /// How its value stands to the other.
    pub is: Comparison,
    /// The other.
    pub value: Cell,
}

/// How one value stands to another; nothing is equal to nothing, and not above or below anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same.
    Equal,
    /// Another.
    Unequal,
    /// Greater.
    Above,
    /// Smaller.
    Below,
}

/// What is asked of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The rows, in this order.
    Rows(Vec<(&'static str, Order)>),
    /// How many rows there are, as the only cell of the only row; no limit holds.
    Count,
    /// The rows on the way from one row to its root, nearest first, for as long as the conditions
    /// hold.
    Path {
        /// The column that names a row within its session.
        name: &'static str,
        /// The column that names the row before it.
        before: &'static str,
        /// The name of the first.
        from: String,
    },
    /// How many rows lie on such a way, as the only cell of the only row; no limit holds.
    PathLength {
        /// The column that names a row within its session.
        name: &'static str,
        /// The column that names the row before it.
        before: &'static str,
        /// The name of the first.
        from: String,
    },
    /// The rows that share words with this text, those that share most first.
    Words(String),
}

/// In which order rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smallest first.
    Rising,
    /// The greatest first.
    Falling,
}

/// A row that was found: its cells, in the order of the table's columns.
pub type Found = Vec<Cell>;
