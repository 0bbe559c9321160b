//! The accounts that real chroniclers keep of a session, with their tables in memory and look-ups that do
//! the same as those of a store, plainly.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use switchboard_core::{
    Cell, Change, Chronicle, Chronicler, Committed, Comparison, Event, Found, Lookup, Order, Question,
    Record, SessionId, Table,
};

/// The accounts of one session.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    kept: BTreeMap<Box<str>, Box<dyn Chronicle>>,
    tables: BTreeMap<&'static str, (&'static Table, BTreeMap<String, Found>)>,
}

impl Accounts {
    /// Those that follow from everything that has happened.
    pub(crate) fn of(
        chroniclers: &[Arc<dyn Chronicler>],
        session: &SessionId,
        log: &[Arc<Committed>],
    ) -> Self {
        let mut accounts = Self::default();
        for (place, committed) in log.iter().enumerate() {
            accounts.take(chroniclers, session, log.get(..place).unwrap_or_default(), committed);
        }
        accounts
    }

    /// Takes in the next event; an account that begins with it begins with what was `before`. Answers what was written.
    pub(crate) fn take(
        &mut self,
        chroniclers: &[Arc<dyn Chronicler>],
        session: &SessionId,
        before: &[Arc<Committed>],
        committed: &Committed,
    ) -> Vec<Record> {
        let mut written = Vec::new();
        if let Event::ChronicleBegun { chronicle } = &committed.event
            && let Some(chronicler) = chroniclers.iter().find(|known| known.name() == &**chronicle)
        {
            for table in chronicler.tables() {
                self.tables.insert(table.name, (table, BTreeMap::new()));
            }
            let mut account = chronicler.begin(session);
            for committed in before {
                let records = account.take(committed);
                written.extend(records.iter().cloned());
                self.write(session, records);
            }
            self.kept.insert(chronicle.clone(), account);
        }
        let mut records = Vec::new();
        for account in self.kept.values_mut() {
            records.extend(account.take(committed));
        }
        written.extend(records.iter().cloned());
        self.write(session, records);
        written
    }

    /// What they remember.
    pub(crate) fn states(&self) -> BTreeMap<Box<str>, Bytes> {
        self.kept.iter().map(|(name, account)| (name.clone(), account.state())).collect()
    }

    /// Every row of every table.
    pub(crate) fn rows(&self) -> Vec<(&'static str, &Found)> {
        let tables = self.tables.iter();
        tables.flat_map(|(name, (_, rows))| rows.values().map(|row| (*name, row))).collect()
    }

    fn write(&mut self, session: &SessionId, records: Vec<Record>) {
        for Record { table, change, cells } in records {
            let Some((table, rows)) = self.tables.get_mut(table) else { panic!("there is no table {table}") };
            let cell = |name: &str| cells.iter().find(|(column, _)| *column == name).map(|(_, cell)| cell);
            let key: Vec<&Cell> = table.key.iter().filter_map(|column| cell(column)).collect();
            assert_eq!(key.len(), table.key.len(), "the key of a row of {} is whole", table.name);
            let own = cell(table.session).and_then(Cell::as_text);
            assert_eq!(own, Some(session.as_str()), "a row of {} is of its session", table.name);
            let key = format!("{key:?}");
            let row = match change {
                Change::Put => rows.entry(key).or_insert_with(|| vec![Cell::Null; table.columns.len()]),
                Change::Set => match rows.get_mut(&key) {
                    Some(row) => row,
                    None => continue,
                },
            };
            for (column, cell) in cells {
                let place = table.column(column).and_then(|place| row.get_mut(place));
                let Some(place) = place else { panic!("there is no column {column} in {}", table.name) };
                *place = cell;
            }
        }
    }

    /// Answers a question about several sessions.
    pub(crate) fn look_into<'a>(all: impl Iterator<Item = &'a Self>, lookup: &Lookup) -> Vec<Found> {
        let (mut table, mut found) = (None, Vec::new());
        for accounts in all {
            table = table.or_else(|| accounts.tables.get(lookup.table).map(|(table, _)| *table));
            found.extend(accounts.look(lookup));
        }
        if let (Question::Rows(order), Some(table)) = (&lookup.question, table) {
            found.sort_by(|a, b| by(table, order, a, b));
        }
        found.truncate(lookup.limit);
        found
    }

    /// Answers a question about this session.
    pub(crate) fn look(&self, lookup: &Lookup) -> Vec<Found> {
        let Some((table, rows)) = self.tables.get(lookup.table) else { return Vec::new() };
        let passing = || rows.values().filter(|row| holds(table, lookup, row));
        let found: Vec<&Found> = match &lookup.question {
            Question::Rows(order) => {
                let mut rows: Vec<&Found> = passing().collect();
                rows.sort_by(|a, b| by(table, order, a, b));
                rows
            }
            Question::Count => return number(passing().count()),
            Question::Path { name, before, from } => way(table, lookup, rows, (name, before), from),
            Question::PathLength { name, before, from } => {
                return number(way(table, lookup, rows, (name, before), from).len());
            }
            Question::Words(text) => {
                let shares = |row: &&Found| {
                    let words = table.words.and_then(|column| cell(table, row, column).as_text());
                    text.split_whitespace().any(|word| words.is_some_and(|words| words.contains(word)))
                };
                passing().filter(shares).collect()
            }
        };
        found.into_iter().take(lookup.limit).cloned().collect()
    }
}

/// The rows on the way to the root, nearest first.
fn way<'a>(
    table: &Table,
    lookup: &Lookup,
    rows: &'a BTreeMap<String, Found>,
    (name, before): (&str, &str),
    from: &str,
) -> Vec<&'a Found> {
    let named = |wanted: &str| rows.values().find(|row| cell(table, row, name).as_text() == Some(wanted));
    let (mut seen, mut way) = (BTreeSet::new(), Vec::new());
    let mut next = Some(from);
    while let Some(row) = next.filter(|name| seen.insert(*name)).and_then(named) {
        if !holds(table, lookup, row) {
            break;
        }
        way.push(row);
        next = cell(table, row, before).as_text();
    }
    way
}

fn number(count: usize) -> Vec<Found> {
    vec![vec![Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX))]]
}

fn holds(table: &Table, lookup: &Lookup, row: &Found) -> bool {
    lookup.conditions.iter().all(|condition| {
        let here = cell(table, row, condition.column);
        let both = *here != Cell::Null && condition.value != Cell::Null;
        let order = compare(here, &condition.value);
        match condition.is {
            Comparison::Equal => *here == condition.value,
            Comparison::Unequal => *here != condition.value,
            Comparison::Above => both && order.is_gt(),
            Comparison::Below => both && order.is_lt(),
        }
    })
}

fn by(table: &Table, order: &[(&'static str, Order)], a: &Found, b: &Found) -> Ordering {
    order.iter().fold(Ordering::Equal, |so_far, (column, order)| {
        let rising = compare(cell(table, a, column), cell(table, b, column));
        so_far.then(match order {
            Order::Rising => rising,
            Order::Falling => rising.reverse(),
        })
    })
}

fn cell<'a>(table: &Table, row: &'a Found, column: &str) -> &'a Cell {
    table.column(column).and_then(|place| row.get(place)).unwrap_or(&Cell::Null)
}

/// Nothing comes before everything else; a column holds values of one kind only.
fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Integer(a), Cell::Integer(b)) => a.cmp(b),
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        (Cell::Blob(a), Cell::Blob(b)) => a.cmp(b),
        (Cell::Null, Cell::Null) => Ordering::Equal,
        (Cell::Null, _) => Ordering::Less,
        (_, Cell::Null) => Ordering::Greater,
        (a, b) => a.as_real().partial_cmp(&b.as_real()).unwrap_or(Ordering::Equal),
    }
}
