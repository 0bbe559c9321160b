//! The tables of chronicles in the file: made where they are missing, and brought up to what is
//! declared. What they hold is derived from the log, so a table that no longer fits is made anew.
//!
//! The words of a table are in a full-text index of their own, which points into the table and is
//! kept in step by triggers, so that whoever changes the table changes the index with it. SQLite
//! keeps the row numbers that it points to even in a `VACUUM`, since such a table has an index.

use rusqlite::{Connection, OptionalExtension};
use switchboard_core::{Column, ColumnKind, Table};

use crate::log::StoreError;
use crate::tables::{Tables, words_name};

/// Sees to it that all tables, their indexes and the indexes of their words are there.
pub(super) fn ensure(connection: &mut Connection, tables: &Tables) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    let mut changed = Vec::new();
    for table in tables.iter() {
        if ensure_table(&transaction, table)? {
            changed.push(table.name);
        }
        ensure_indexes(&transaction, table)?;
    }
    transaction.commit()?;
    if !changed.is_empty() {
        tracing::info!(tables = ?changed, "made or widened; rebuilding the projections fills in what was before");
    }
    Ok(())
}

/// Throws all tables away and makes them anew, without anything that would slow down filling them.
pub(super) fn clear(connection: &Connection, tables: &Tables) -> Result<(), StoreError> {
    for table in tables.iter() {
        drop_table(connection, table)?;
        create_table(connection, table)?;
    }
    Ok(())
}

/// Makes the indexes of a table and of its words.
pub(super) fn ensure_indexes(connection: &Connection, table: &Table) -> Result<(), StoreError> {
    for columns in table.indexes {
        let name = quoted(&format!("{}_by_{}", table.name, columns.join("_")));
        let (on, columns) = (quoted(table.name), list(columns));
        connection.execute_batch(&format!("CREATE INDEX IF NOT EXISTS {name} ON {on} ({columns})"))?;
    }
    match table.words {
        Some(words) => ensure_words(connection, table, words),
        None => Ok(()),
    }
}

/// Answers whether anything had to be done.
fn ensure_table(connection: &Connection, table: &Table) -> Result<bool, StoreError> {
    let found = Shape::of(connection, table)?;
    if !found.fits(table) {
        drop_table(connection, table)?;
        create_table(connection, table)?;
        return Ok(true);
    }
    let missing: Vec<&Column> =
        table.columns.iter().filter(|column| found.kind(column.name).is_none()).collect();
    for column in &missing {
        let (on, column) = (quoted(table.name), declaration(column));
        connection.execute_batch(&format!("ALTER TABLE {on} ADD COLUMN {column}"))?;
    }
    Ok(!missing.is_empty())
}

fn create_table(connection: &Connection, table: &Table) -> Result<(), StoreError> {
    let columns = table.columns.iter().map(|column| {
        let mut text = declaration(column);
        if table.key.contains(&column.name) {
            text.push_str(" NOT NULL");
        }
        text
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (name, key) = (quoted(table.name), list(table.key));
    let layout = if is_clustered(table) { "STRICT, WITHOUT ROWID" } else { "STRICT" };
    connection.execute_batch(&format!("CREATE TABLE {name} ({columns}, PRIMARY KEY ({key})) {layout}"))?;
    Ok(())
}

fn drop_table(connection: &Connection, table: &Table) -> Result<(), StoreError> {
    let (words, name) = (quoted(&words_name(table)), quoted(table.name));
    connection.execute_batch(&format!("DROP TABLE IF EXISTS {words}; DROP TABLE IF EXISTS {name}"))?;
    Ok(())
}

/// Whether rows lie in the tree of their keys. That saves a second tree where rows are short, and
/// costs more than it saves where they are long.
fn is_clustered(table: &Table) -> bool {
    let is_short = |column: &Column| matches!(column.kind, ColumnKind::Integer | ColumnKind::Real);
    let rest = table.columns.iter().filter(|column| !table.key.contains(&column.name));
    table.words.is_none() && rest.into_iter().all(is_short)
}

fn ensure_words(connection: &Connection, table: &Table, words: &str) -> Result<(), StoreError> {
    let parts = words_parts(table, words);
    let mut find = connection.prepare_cached("SELECT sql FROM sqlite_schema WHERE name = ?1")?;
    let mut whole = true;
    for (_, name, sql) in &parts {
        let found: Option<String> = find.query_row([name], |row| row.get(0)).optional()?;
        whole &= found.as_ref() == Some(sql);
    }
    if whole {
        return Ok(());
    }
    for (kind, name, _) in &parts {
        connection.execute_batch(&format!("DROP {kind} IF EXISTS {}", quoted(name)))?;
    }
    for (_, _, sql) in &parts {
        connection.execute_batch(sql)?;
    }
    let name = quoted(&words_name(table));
    connection.execute_batch(&format!("INSERT INTO {name} ({name}) VALUES ('rebuild')"))?;
    Ok(())
}

/// The index of the words of a table, and what keeps it in step: kind, name and text of each.
fn words_parts(table: &Table, words: &str) -> [(&'static str, String, String); 4] {
    let name = words_name(table);
    let (on, index, column) = (quoted(table.name), quoted(&name), quoted(words));
    let add = format!("INSERT INTO {index} (rowid, {column}) VALUES (new.rowid, new.{column});");
    let remove =
        format!("INSERT INTO {index} ({index}, rowid, {column}) VALUES ('delete', old.rowid, old.{column});");
    let trigger = |what: &str, when: &str, work: &str| {
        let name = format!("{name}_{what}");
        let sql = format!("CREATE TRIGGER {} AFTER {when} BEGIN {work} END", quoted(&name));
        ("TRIGGER", name, sql)
    };
    let changed = format!("UPDATE OF {column} ON {on} WHEN old.{column} IS NOT new.{column}");
    let sql = format!(
        "CREATE VIRTUAL TABLE {index} USING fts5({column}, content={on}, \
         tokenize='porter unicode61 remove_diacritics 2')"
    );
    [
        trigger("added", &format!("INSERT ON {on}"), &add),
        trigger("gone", &format!("DELETE ON {on}"), &remove),
        trigger("changed", &changed, &format!("{remove} {add}")),
        ("TABLE", name, sql),
    ]
}

/// A table as it is in the file.
struct Shape {
    columns: Vec<(String, String)>,
    key: Vec<String>,
    clustered: bool,
}

impl Shape {
    fn of(connection: &Connection, table: &Table) -> Result<Self, StoreError> {
        let mut info = connection.prepare_cached("SELECT name, type, pk FROM pragma_table_info(?1)")?;
        let columns = info.query_map([table.name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let columns: Vec<(String, String, i64)> = columns.collect::<Result<_, _>>()?;
        let mut key: Vec<_> = columns.iter().filter(|(_, _, place)| *place > 0).collect();
        key.sort_by_key(|(_, _, place)| *place);
        let key = key.into_iter().map(|(name, _, _)| name.clone()).collect();
        let mut layout =
            connection.prepare_cached("SELECT wr FROM pragma_table_list(?1) WHERE schema = 'main'")?;
        let clustered = layout.query_row([table.name], |row| row.get(0)).optional()?.unwrap_or(false);
        let columns = columns.into_iter().map(|(name, kind, _)| (name, kind)).collect();
        Ok(Self { columns, key, clustered })
    }

    fn kind(&self, column: &str) -> Option<&str> {
        self.columns.iter().find(|(name, _)| name == column).map(|(_, kind)| kind.as_str())
    }

    /// Whether it is there, and can become what is declared without losing anything.
    fn fits(&self, table: &Table) -> bool {
        let same = |column: &Column| self.kind(column.name).is_none_or(|kind| kind == type_of(column));
        self.key == table.key && table.columns.iter().all(same) && (table.words.is_none() || !self.clustered)
    }
}

fn declaration(column: &Column) -> String {
    format!("{} {}", quoted(column.name), type_of(column))
}

const fn type_of(column: &Column) -> &'static str {
    match column.kind {
        ColumnKind::Text => "TEXT",
        ColumnKind::Integer => "INTEGER",
        ColumnKind::Real => "REAL",
        ColumnKind::Blob => "BLOB",
    }
}

/// Names as SQL takes them, one after another.
pub(super) fn list(names: &[&str]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

/// A name as SQL takes it, whatever it is.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
