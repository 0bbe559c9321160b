//! Looking things up in the tables of chronicles.

use std::collections::HashSet;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params_from_iter};
use switchboard_core::{Cell, Comparison, Condition, Found, Order, PrincipalId, Question, Table, Within};

use crate::log::StoreError;
use crate::sqlite::records::Bound;
use crate::sqlite::statements::number;
use crate::sqlite::tables::quoted;
use crate::tables::{Asked, wanted_words, words_name};

pub(super) fn look(
    connection: &Connection,
    asker: &PrincipalId,
    asked: &Asked,
) -> Result<Vec<Found>, StoreError> {
    let Some(query) = Query::of(asker, asked) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(&query.sql)?;
    let width = statement.column_count();
    let rows = statement.query_map(params_from_iter(query.values.iter().map(Bound)), |row| {
        (0..width).map(|column| cell(row, column)).collect::<rusqlite::Result<Found>>()
    })?;
    let mut rows: Vec<Found> = rows.collect::<Result<_, _>>()?;
    if let Question::Path { name, .. } = asked.lookup.question {
        end_circles(asked.table, name, &mut rows);
    }
    Ok(rows)
}

/// Leaves out rows that are there already: from there on a way only repeats itself.
fn end_circles(table: &Table, name: &str, rows: &mut Vec<Found>) {
    let text = |row: &Found, column| {
        let cell = table.column(column).and_then(|place| row.get(place));
        cell.and_then(Cell::as_text).map(ToOwned::to_owned)
    };
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert((text(row, table.session), text(row, name))));
}

fn cell(row: &Row<'_>, column: usize) -> rusqlite::Result<Cell> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        text @ ValueRef::Text(_) => Cell::Text(text.as_str()?.to_owned()),
        ValueRef::Blob(bytes) => Cell::Blob(bytes.to_vec().into()),
    })
}

/// A statement and what is put into it.
#[derive(Default)]
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) values: Vec<Cell>,
}

impl Query {
    /// None if there can be no answer.
    pub(super) fn of(asker: &PrincipalId, asked: &Asked) -> Option<Self> {
        let Asked { table, lookup } = asked;
        let mut query = Self::default();
        match &lookup.question {
            Question::Rows(order) => {
                let from = format!("SELECT {} FROM {} AS this WHERE ", columns(table), quoted(table.name));
                query.sql.push_str(&from);
                query.within(asker, asked);
                query.conditions(&lookup.conditions);
                query.sql.push_str(" ORDER BY ");
                // SQLite has no statistics, and would rather read a whole session in the order of its key
                // than sort the few rows that an index names.
                let plus = if is_narrow(table, &lookup.conditions) { "+" } else { "" };
                for (column, order) in order {
                    let direction = match order {
                        Order::Rising => "ASC",
                        Order::Falling => "DESC",
                    };
                    query.sql.push_str(&format!("{plus}{} {direction}, ", this(column)));
                }
                query.sql.push_str(&key(table, plus));
                query.limit(lookup.limit);
            }
            Question::Count => {
                query.sql.push_str(&format!("SELECT count(*) FROM {} AS this WHERE ", quoted(table.name)));
                query.within(asker, asked);
                query.conditions(&lookup.conditions);
            }
            Question::Path { name, before, from } => {
                let limit = lookup.limit.min(PATH_LIMIT);
                query.way(asker, asked, &Way { name, before, from, limit: Some(limit) });
                query.sql.push_str(&format!(
                    " SELECT {} FROM path CROSS JOIN {} AS this
                      ON {} = path.session AND {} = path.name ORDER BY path.depth, path.session",
                    columns(table),
                    quoted(table.name),
                    this(table.session),
                    this(name),
                ));
                query.limit(limit);
            }
            Question::PathLength { name, before, from } => {
                query.way(asker, asked, &Way { name, before, from, limit: None });
                query.sql.push_str(" SELECT count(*) FROM path");
            }
            Question::Words(text) => {
                // Each word is quoted, so that nothing in the text is taken for an operator.
                let words: Vec<String> =
                    wanted_words(text).iter().map(|word| format!("\"{word}\"")).collect();
                if words.is_empty() {
                    return None;
                }
                let index = quoted(&words_name(table));
                query.sql.push_str(&format!(
                    "SELECT {} FROM {index} CROSS JOIN {} AS this ON this.rowid = {index}.rowid
                     WHERE {index} MATCH ",
                    columns(table),
                    quoted(table.name),
                ));
                query.value(words.join(" OR ").into());
                query.sql.push_str(" AND ");
                query.within(asker, asked);
                query.conditions(&lookup.conditions);
                query.sql.push_str(&format!(" ORDER BY bm25({index}), {}", key(table, "")));
                query.limit(lookup.limit);
            }
        }
        Some(query)
    }

    /// The rows on a way, as a table `path`. It carries names only, and each step is one look into
    /// the tree of the keys.
    fn way(&mut self, asker: &PrincipalId, asked: &Asked, way: &Way<'_>) {
        let Asked { table, lookup } = asked;
        let (on, session, name, before) =
            (quoted(table.name), this(table.session), this(way.name), this(way.before));
        // Without a depth, rows that are there already are not taken in again, which ends circles.
        let (columns, first, next, union) = match way.limit {
            Some(_) => (", depth", ", 1", ", path.depth + 1", "UNION ALL"),
            None => ("", "", "", "UNION"),
        };
        self.sql.push_str(&format!(
            "WITH RECURSIVE path(session, name, before{columns}) AS (
                SELECT {session}, {name}, {before}{first} FROM {on} AS this WHERE {name} = "
        ));
        self.value(way.from.into());
        self.sql.push_str(" AND ");
        self.within(asker, asked);
        self.conditions(&lookup.conditions);
        self.sql.push_str(&format!(
            " {union} SELECT {session}, {name}, {before}{next} FROM path
                CROSS JOIN {on} AS this ON {session} = path.session AND {name} = path.before WHERE "
        ));
        match way.limit {
            Some(limit) => {
                self.sql.push_str("path.depth < ");
                self.value(Cell::Integer(number(limit as u64)));
            }
            None => self.sql.push('1'),
        }
        self.conditions(&lookup.conditions);
        self.sql.push(')');
    }

    fn within(&mut self, asker: &PrincipalId, asked: &Asked) {
        let column = this(asked.table.session);
        match &asked.lookup.within {
            Within::Session(session) => {
                self.sql.push_str(&format!("{column} = "));
                self.value(session.as_str().into());
            }
            Within::Own => {
                self.sql.push_str(&format!("{column} IN (SELECT session FROM sessions WHERE owner = "));
                self.value(asker.as_str().into());
                self.sql.push(')');
            }
            // To whom a row is addressed is among the conditions.
            Within::Addressed(_) => self.sql.push('1'),
        }
    }

    fn conditions(&mut self, conditions: &[Condition]) {
        for condition in conditions {
            let is = match condition.is {
                Comparison::Equal => "IS",
                Comparison::Unequal => "IS NOT",
                Comparison::Above => ">",
                Comparison::Below => "<",
            };
            self.sql.push_str(&format!(" AND {} {is} ", this(condition.column)));
            self.value(condition.value.clone());
        }
    }

    fn limit(&mut self, limit: usize) {
        self.sql.push_str(" LIMIT ");
        self.value(Cell::Integer(number(limit as u64)));
    }

    fn value(&mut self, value: Cell) {
        self.values.push(value);
        self.sql.push_str(&format!("?{}", self.values.len()));
    }
}

/// From where to the root, and how far.
struct Way<'a> {
    name: &'a str,
    before: &'a str,
    from: &'a str,
    limit: Option<usize>,
}

fn columns(table: &Table) -> String {
    table.columns.iter().map(|column| this(column.name)).collect::<Vec<_>>().join(", ")
}

fn key(table: &Table, plus: &str) -> String {
    table.key.iter().map(|column| format!("{plus}{}", this(column))).collect::<Vec<_>>().join(", ")
}

/// Whether an index names the few rows that have this value.
fn is_narrow(table: &Table, conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| {
        let names = |index: &&[&str]| {
            let of = index.iter().position(|column| *column == condition.column);
            of.is_some_and(|place| index.iter().take(place).all(|before| *before == table.session))
        };
        condition.is == Comparison::Equal && condition.value != Cell::Null && table.indexes.iter().any(names)
    })
}

/// A column of the table that is asked.
fn this(column: &str) -> String {
    format!("this.{}", quoted(column))
}

/// Rows that one walk returns at most.
const PATH_LIMIT: usize = 1 << 17;
