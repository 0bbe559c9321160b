//! What is looked up in the tables of the annals, and how rows are read.

use std::fmt;

use switchboard_core::{
    Cell, Comparison, Condition, Found, Lookup, Order, Question, SessionId, Table, Timestamp, Within,
};

use crate::annals::{digest, tables};
use crate::id::Id;
use crate::message::{MessageResponse, Role, Superset};
use crate::moment::rfc3339;

/// A row of a table, read by the names of its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    table: &'static Table,
    cells: &'a Found,
}

impl<'a> Row<'a> {
    pub(crate) const fn new(table: &'static Table, cells: &'a Found) -> Self {
        Self { table, cells }
    }

    fn cell(&self, column: &str) -> Option<&'a Cell> {
        self.cells.get(self.table.column(column)?)
    }

    pub(crate) fn text(&self, column: &str) -> Option<&'a str> {
        self.cell(column)?.as_text()
    }

    pub(crate) fn integer(&self, column: &str) -> Option<i64> {
        self.cell(column)?.as_integer()
    }

    pub(crate) fn real(&self, column: &str) -> Option<f64> {
        self.cell(column)?.as_real()
    }

    pub(crate) fn blob(&self, column: &str) -> Option<&'a bytes::Bytes> {
        self.cell(column)?.as_blob()
    }

    pub(crate) fn id(&self, column: &str) -> Option<Id> {
        Id::new(self.text(column)?).ok()
    }

    /// Whether it said this when it was made; one that does not know is judged by what it says now.
    pub(crate) fn was_made_with(&self, content: &str) -> bool {
        match self.text("created_digest") {
            Some(made) => made == digest(content),
            None => self.text("content") == Some(content),
        }
    }

    /// Whether it was deleted, as far as its table knows.
    pub(crate) fn is_deleted(&self) -> bool {
        self.integer("deleted_at").is_some()
    }
}

/// A stored message.
#[derive(Clone, PartialEq)]
pub(crate) struct StoredMessage {
    pub(crate) id: Id,
    pub(crate) conversation: Id,
    pub(crate) previous: Option<Id>,
    pub(crate) role: Role,
    pub(crate) contents: String,
    pub(crate) number: i64,
    /// How many messages had followed the same one before it.
    pub(crate) branch: i64,
    pub(crate) status: String,
    pub(crate) sync_status: String,
    pub(crate) local_id: Option<String>,
    pub(crate) server_id: Option<String>,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
}

// What people say is not for logs.
impl fmt::Debug for StoredMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StoredMessage").field("id", &self.id).finish_non_exhaustive()
    }
}

impl StoredMessage {
    pub(crate) fn read(cells: &Found) -> Option<Self> {
        let row = Row::new(&tables::MESSAGES, cells);
        Some(Self {
            id: row.id("id")?,
            conversation: row.id("conversation_id")?,
            previous: row.id("previous_id"),
            role: Role::from_name(row.text("message_role")?)?,
            contents: row.text("contents").unwrap_or_default().to_owned(),
            number: row.integer("sequence_number").unwrap_or_default(),
            branch: row.integer("branch_index").unwrap_or_default(),
            status: row.text("completion_status").unwrap_or_default().to_owned(),
            sync_status: row.text("sync_status").unwrap_or_default().to_owned(),
            local_id: row.text("local_id").map(str::to_owned),
            server_id: row.text("server_id").map(str::to_owned),
            created_ms: row.integer("created_at").unwrap_or_default(),
            updated_ms: row.integer("updated_at").unwrap_or_default(),
        })
    }

    /// As it is sent on a socket besides (§8.5).
    pub(crate) fn superset(&self) -> Superset {
        Superset {
            role: self.role.into(),
            sequence_number: self.number,
            created_at: moment(self.created_ms),
            updated_at: moment(self.updated_ms),
            local_id: self.local_id.clone(),
            server_id: self.server_id.clone(),
        }
    }

    /// As it is answered (§4.17).
    pub(crate) fn response(&self) -> MessageResponse {
        MessageResponse {
            id: self.id.clone(),
            conversation_id: self.conversation.clone(),
            sequence_number: self.number,
            previous_id: self.previous.clone(),
            role: self.role.into(),
            contents: switchboard_core::Pii(self.contents.clone()),
            local_id: self.local_id.clone(),
            server_id: self.server_id.clone(),
            tool_uses: None,
            created_at: moment(self.created_ms),
            updated_at: moment(self.updated_ms),
        }
    }
}

/// A moment of a row, as text.
pub(crate) fn moment(millis: i64) -> String {
    rfc3339(Timestamp::from_millis(millis.max(0).cast_unsigned()))
}

/// The number that a question for one was answered with.
pub(crate) fn count(rows: &[Found]) -> i64 {
    rows.first().and_then(|row| row.first()).and_then(Cell::as_integer).unwrap_or_default()
}

/// The messages among these rows.
pub(crate) fn messages(rows: &[Found]) -> Vec<StoredMessage> {
    rows.iter().filter_map(StoredMessage::read).collect()
}

/// Rows of a table with this value in a column, at most `limit`.
pub(crate) fn where_equal(
    table: &'static Table,
    within: Within,
    column: &'static str,
    value: &str,
    limit: usize,
) -> Lookup {
    let condition = Condition { column, is: Comparison::Equal, value: value.into() };
    Lookup {
        table: table.name,
        within,
        conditions: vec![condition],
        question: Question::Rows(Vec::new()),
        limit,
    }
}

/// The row with this id.
pub(crate) fn by_id(table: &'static Table, within: Within, id: &Id) -> Lookup {
    where_equal(table, within, "id", id.as_str(), 2)
}

/// The messages on the way from `tip` back to the one with this number, which is not among them.
pub(crate) fn path(session: &SessionId, tip: &str, above: i64, limit: usize) -> Lookup {
    let (name, before, from) = ("id", "previous_id", tip.to_owned());
    on_path(session, above, Question::Path { name, before, from }, limit)
}

/// How many messages lie on that way.
pub(crate) fn path_length(session: &SessionId, tip: &str, above: i64) -> Lookup {
    let (name, before, from) = ("id", "previous_id", tip.to_owned());
    on_path(session, above, Question::PathLength { name, before, from }, 1)
}

fn on_path(session: &SessionId, above: i64, question: Question, limit: usize) -> Lookup {
    let condition = Condition { column: "sequence_number", is: Comparison::Above, value: above.into() };
    Lookup {
        table: tables::MESSAGES.name,
        within: Within::Session(session.clone()),
        conditions: vec![condition],
        question,
        limit,
    }
}

/// The entries of the server log from a stanza on, that one included, oldest first.
pub(crate) fn server_log(session: &SessionId, from: i32, limit: usize) -> Lookup {
    let value = i64::from(from).saturating_add(1).into();
    let condition = Condition { column: "stanza_id", is: Comparison::Below, value };
    Lookup {
        table: tables::SERVER_LOG.name,
        within: Within::Session(session.clone()),
        conditions: vec![condition],
        question: Question::Rows(vec![("stanza_id", Order::Falling), ("ordinal", Order::Rising)]),
        limit,
    }
}
