//! The tables of chronicles in memory, in the order and with the comparisons of SQLite.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use switchboard_core::{
    Cell, Change, Comparison, Condition, Found, Order, Question, Record, SessionId, Table,
};

use crate::tables::{Asked, value, wanted_words, words};

/// All rows of all tables.
#[derive(Default)]
pub(super) struct Shelves {
    rows: BTreeMap<&'static str, BTreeMap<SessionId, Rows>>,
}

type Rows = BTreeMap<Key, Found>;

impl Shelves {
    /// Writes a record that fits.
    pub(super) fn put(&mut self, table: &Table, session: &SessionId, record: Record) {
        let key = Key(table.key.iter().filter_map(|name| value(&record, name).cloned()).collect());
        let rows = self.rows.entry(table.name).or_default().entry(session.clone()).or_default();
        let row = match record.change {
            Change::Put => rows.entry(key).or_insert_with(|| vec![Cell::Null; table.columns.len()]),
            Change::Set => match rows.get_mut(&key) {
                Some(row) => row,
                None => return,
            },
        };
        for (name, cell) in record.cells {
            if let Some(place) = table.column(name).and_then(|place| row.get_mut(place)) {
                *place = cell;
            }
        }
    }

    /// Answers a question about some sessions.
    pub(super) fn look(&self, asked: &Asked, sessions: &[&SessionId]) -> Vec<Found> {
        let Asked { table, lookup } = asked;
        let all = self.rows.get(table.name);
        let part = |session| Some((session, all?.get(session)?));
        let parts: Vec<(&SessionId, &Rows)> = sessions.iter().copied().filter_map(part).collect();
        let passing = || {
            let rows = parts.iter().flat_map(|(_, rows)| rows.iter());
            rows.filter(|(_, row)| holds(table, &lookup.conditions, row))
        };
        let found: Vec<&Found> = match &lookup.question {
            Question::Rows(order) => {
                let mut rows: Vec<_> = passing().collect();
                rows.sort_by(|a, b| by(table, order, a.1, b.1).then_with(|| a.0.cmp(b.0)));
                rows.into_iter().map(|(_, row)| row).collect()
            }
            Question::Count => return count(passing().count()),
            Question::Path { name, before, from } => way(asked, &parts, name, before, from),
            Question::PathLength { name, before, from } => {
                return count(way(asked, &parts, name, before, from).len());
            }
            // Words count as they are: stems, and how rare a word is, matter where there are many rows.
            Question::Words(text) => {
                let wanted = wanted_words(text);
                let shared = |row: &Found| {
                    let body = table.words.map(|column| cell(table, row, column));
                    let have: HashSet<String> =
                        words(body.and_then(Cell::as_text).unwrap_or_default()).collect();
                    wanted.iter().filter(|word| have.contains(*word)).count()
                };
                let mut rows: Vec<_> = passing().map(|(key, row)| (shared(row), key, row)).collect();
                rows.retain(|(shared, _, _)| *shared > 0);
                rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
                rows.into_iter().map(|(_, _, row)| row).collect()
            }
        };
        found.into_iter().take(lookup.limit).cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}

/// Tells how much there is, not what.
impl fmt::Debug for Shelves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes =
            self.rows.iter().map(|(name, parts)| (name, parts.values().map(Rows::len).sum::<usize>()));
        f.debug_map().entries(sizes).finish()
    }
}

/// The rows on the way to the root, nearest first; those of several sessions side by side.
fn way<'a>(
    asked: &Asked,
    parts: &[(&SessionId, &'a Rows)],
    name: &str,
    before: &str,
    from: &str,
) -> Vec<&'a Found> {
    let Asked { table, lookup } = asked;
    let mut found: Vec<(usize, &Key, &Found)> = Vec::new();
    for (session, rows) in parts {
        let row = |text: &str| {
            let cells = table.key.iter().map(|column| if *column == name { text } else { session.as_str() });
            rows.get_key_value(&Key(cells.map(Cell::from).collect()))
        };
        let mut seen = BTreeSet::new();
        let mut next = row(from);
        while let Some((key, here)) = next {
            if !holds(table, &lookup.conditions, here) || !seen.insert(key) {
                break;
            }
            found.push((seen.len(), key, here));
            next = cell(table, here, before).as_text().and_then(row);
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
    found.into_iter().map(|(_, _, row)| row).collect()
}

fn count(rows: usize) -> Vec<Found> {
    vec![vec![Cell::Integer(i64::try_from(rows).unwrap_or(i64::MAX))]]
}

fn holds(table: &Table, conditions: &[Condition], row: &Found) -> bool {
    conditions.iter().all(|condition| {
        let here = cell(table, row, condition.column);
        let order = compare(here, &condition.value);
        let both = *here != Cell::Null && condition.value != Cell::Null;
        match condition.is {
            Comparison::Equal => order.is_eq(),
            Comparison::Unequal => order.is_ne(),
            Comparison::Above => both && order.is_gt(),
            Comparison::Below => both && order.is_lt(),
        }
    })
}

fn by(table: &Table, order: &[(&'static str, Order)], a: &Found, b: &Found) -> Ordering {
    order.iter().fold(Ordering::Equal, |so_far, (column, order)| {
        so_far.then_with(|| {
            let rising = compare(cell(table, a, column), cell(table, b, column));
            match order {
                Order::Rising => rising,
                Order::Falling => rising.reverse(),
            }
        })
    })
}

fn cell<'a>(table: &Table, row: &'a Found, column: &str) -> &'a Cell {
    table.column(column).and_then(|place| row.get(place)).unwrap_or(&Cell::Null)
}

/// Nothing comes first, then numbers, text and bytes.
fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Integer(a), Cell::Integer(b)) => a.cmp(b),
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        (Cell::Blob(a), Cell::Blob(b)) => a.cmp(b),
        (a, b) => match (a.as_real(), b.as_real()) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (_, _) => rank(a).cmp(&rank(b)),
        },
    }
}

const fn rank(cell: &Cell) -> u8 {
    match cell {
        Cell::Null => 0,
        Cell::Integer(_) | Cell::Real(_) => 1,
        Cell::Text(_) => 2,
        Cell::Blob(_) => 3,
    }
}

/// What tells a row apart.
struct Key(Vec<Cell>);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.0.iter().zip(&other.0);
        pairs.fold(Ordering::Equal, |so_far, (a, b)| so_far.then_with(|| compare(a, b)))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}
