//! A chronicle for tests: it counts events by kind, and enters messages as rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use switchboard_core::model::Part;
use switchboard_core::{
    Cell, Change, Chronicle, Chronicler, Column, ColumnKind, Committed, Event, Record, SessionId, Table,
};

pub(crate) const NAME: &str = "tally";
pub(crate) const ENTRIES: &str = "tally_entries";
pub(crate) const COUNTS: &str = "tally_counts";

pub(crate) fn chroniclers() -> Vec<Arc<dyn Chronicler>> {
    vec![Arc::new(Tally(TABLES))]
}

/// The chronicler, with the tables that it says it has.
#[derive(Debug)]
pub(crate) struct Tally(pub(crate) &'static [Table]);

impl Chronicler for Tally {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tables(&self) -> &'static [Table] {
        self.0
    }

    fn begin(&self, session: &SessionId) -> Box<dyn Chronicle> {
        Box::new(Account { session: session.clone(), counts: BTreeMap::new() })
    }

    fn resume(&self, _session: &SessionId, _state: &[u8]) -> Option<Box<dyn Chronicle>> {
        None
    }
}

#[derive(Debug)]
struct Account {
    session: SessionId,
    counts: BTreeMap<&'static str, i64>,
}

impl Chronicle for Account {
    fn take(&mut self, committed: &Committed) -> Vec<Record> {
        let kind = committed.event.name();
        let total = self.counts.entry(kind).or_default();
        *total += 1;
        let session = || ("session", Cell::from(self.session.as_str()));
        let count = Record {
            table: COUNTS,
            change: Change::Put,
            cells: vec![session(), ("kind", kind.into()), ("total", (*total).into())],
        };
        let seq = committed.position.seq.cast_signed();
        let entry = if let Event::MessageAdded { message } = &committed.event {
            let body = text(&message.parts);
            let cells = vec![
                session(),
                ("name", message.id.as_str().into()),
                ("before", message.parent.as_ref().map(|parent| parent.as_str()).into()),
                ("seq", seq.into()),
                // A whole number where others may be kept.
                ("weight", seq.into()),
                ("raw", Bytes::from(body.clone().into_bytes()).into()),
                ("body", body.into()),
            ];
            Some((Change::Put, cells))
        } else if let Event::TurnEnded { turn, .. } = &committed.event {
            // The turn need not have said anything.
            let name = format!("{turn}.in");
            Some((Change::Set, vec![("weight", 0.5.into()), session(), ("name", name.into())]))
        } else if let Event::MessageEdited { message, parts } = &committed.event {
            let cells = vec![session(), ("name", message.as_str().into()), ("body", text(parts).into())];
            Some((Change::Set, cells))
        } else {
            None
        };
        let entry = entry.map(|(change, cells)| Record { table: ENTRIES, change, cells });
        [Some(count), entry].into_iter().flatten().collect()
    }

    fn state(&self) -> Bytes {
        Bytes::new()
    }
}

fn text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None });
    texts.map(|text| text.to_string()).collect()
}

const fn column(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind }
}

pub(crate) const TABLES: &[Table] = &[
    Table {
        name: ENTRIES,
        columns: &[
            column("session", ColumnKind::Text),
            column("name", ColumnKind::Text),
            column("before", ColumnKind::Text),
            column("seq", ColumnKind::Integer),
            column("weight", ColumnKind::Real),
            column("body", ColumnKind::Text),
            column("raw", ColumnKind::Blob),
        ],
        key: &["session", "name"],
        session: "session",
        indexes: &[&["name"], &["session", "seq"]],
        words: Some("body"),
    },
    Table {
        name: COUNTS,
        columns: &[
            column("session", ColumnKind::Text),
            column("kind", ColumnKind::Text),
            column("total", ColumnKind::Integer),
        ],
        key: &["session", "kind"],
        session: "session",
        indexes: &[],
        words: None,
    },
];
