//! Writing the records of chronicles. There are few kinds of them, so the text of each is made once.

use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use switchboard_core::{Cell, Change, Record, Table};

use crate::log::StoreError;
use crate::sqlite::tables::{list, quoted};
use crate::tables::Tables;

/// Writes records that fit their tables.
#[derive(Debug)]
pub(super) struct Records {
    tables: Arc<Tables>,
    texts: Vec<Text>,
}

/// The statement for all records of a kind.
#[derive(Debug)]
struct Text {
    table: &'static str,
    change: Change,
    columns: Vec<&'static str>,
    /// None if such records change nothing.
    sql: Option<String>,
}

impl Text {
    fn is_for(&self, record: &Record) -> bool {
        self.table == record.table
            && self.change == record.change
            && self.columns.iter().eq(record.cells.iter().map(|(name, _)| name))
    }
}

impl Records {
    pub(super) const fn new(tables: Arc<Tables>) -> Self {
        Self { tables, texts: Vec::new() }
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(super) fn put(&mut self, connection: &Connection, record: &Record) -> Result<(), StoreError> {
        let text = match self.texts.iter().position(|text| text.is_for(record)) {
            Some(place) => self.texts.get(place),
            None => {
                let columns: Vec<&'static str> = record.cells.iter().map(|(name, _)| *name).collect();
                let sql = sql(self.tables.get(record.table)?, record.change, &columns);
                if self.texts.len() >= TEXTS {
                    self.texts.clear();
                }
                self.texts.push(Text { table: record.table, change: record.change, columns, sql });
                self.texts.last()
            }
        };
        if let Some(sql) = text.and_then(|text| text.sql.as_ref()) {
            let cells = record.cells.iter().map(|(_, cell)| Bound(cell));
            connection.prepare_cached(sql)?.execute(params_from_iter(cells))?;
        }
        Ok(())
    }
}

/// The statement that makes a change with the values of these columns, in their order.
fn sql(table: &Table, change: Change, columns: &[&'static str]) -> Option<String> {
    let name = quoted(table.name);
    let numbered = (1..).zip(columns);
    let (key, rest): (Vec<_>, Vec<_>) = numbered.partition(|(_, column)| table.key.contains(column));
    let equations = |columns: &[(usize, &&str)], between: &str| {
        let each = columns.iter().map(|(number, column)| format!("{} = ?{number}", quoted(column)));
        each.collect::<Vec<_>>().join(between)
    };
    match change {
        Change::Put => {
            let values = (1..=columns.len()).map(|number| format!("?{number}")).collect::<Vec<_>>();
            let update = match equations(&rest, ", ") {
                none if none.is_empty() => "NOTHING".to_owned(),
                equations => format!("UPDATE SET {equations}"),
            };
            let (columns, values, key) = (list(columns), values.join(", "), list(table.key));
            Some(format!("INSERT INTO {name} ({columns}) VALUES ({values}) ON CONFLICT ({key}) DO {update}"))
        }
        Change::Set if rest.is_empty() => None,
        Change::Set => {
            let (values, key) = (equations(&rest, ", "), equations(&key, " AND "));
            Some(format!("UPDATE {name} SET {values} WHERE {key}"))
        }
    }
}

/// A value as a parameter of a statement.
pub(super) struct Bound<'a>(pub(super) &'a Cell);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Integer(number) => ValueRef::Integer(*number),
            Cell::Real(number) => ValueRef::Real(*number),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// So many kinds of records are known by heart; chronicles have fewer.
const TEXTS: usize = 256;
