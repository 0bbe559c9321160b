//! The tables that chronicles declare: what may be written into them, and what may be asked.
//!
//! Every store checks the same things in the same words before it does anything, so that a record
//! or a question that one of them takes is taken by all.

use std::collections::HashSet;
use std::mem::take;
use std::sync::Arc;

use switchboard_core::{
    Cell, Chronicler, ColumnKind, Lookup, PrincipalId, Question, Record, SessionId, Table,
};

use crate::log::StoreError;

/// The tables of all chroniclers of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    tables: Vec<&'static Table>,
}

impl Tables {
    pub(crate) fn of(chroniclers: &[Arc<dyn Chronicler>]) -> Self {
        Self { tables: chroniclers.iter().flat_map(|chronicler| chronicler.tables()).collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Table> {
        self.tables.iter().copied()
    }

    pub(crate) fn get(&self, name: &str) -> Result<&'static Table, StoreError> {
        let found = self.iter().find(|table| table.name == name);
        found.ok_or_else(|| StoreError::Failed(format!("there is no table {name}")))
    }

    /// Refuses declarations that contradict themselves, each other, or the tables of the store.
    pub(crate) fn check(&self, reserved: &[&str]) -> Result<(), StoreError> {
        let mut names: HashSet<String> = reserved.iter().map(|name| (*name).to_owned()).collect();
        for table in self.iter() {
            let malformed =
                |what: &str| Err(StoreError::Failed(format!("malformed table {}: {what}", table.name)));
            let index = table.words.map(|_| words_name(table));
            if !index.into_iter().chain([table.name.to_owned()]).all(|name| names.insert(name)) {
                return malformed("there is another of this name");
            }
            let mut columns = HashSet::new();
            if !table.columns.iter().all(|column| columns.insert(column.name)) {
                return malformed("two columns have the same name");
            }
            if !table.key.contains(&table.session) {
                return malformed("its key does not name the session");
            }
            let named = table.key.iter().chain(table.indexes.iter().copied().flatten());
            if !named.chain(&table.words).all(|name| columns.contains(name)) {
                return malformed("it names a column that it does not have");
            }
            let is_text = |name: &&str| matches!(kind(table, name), Ok(ColumnKind::Text));
            if !table.words.iter().chain([&table.session]).all(is_text) {
                return malformed("its session or its words are no text");
            }
        }
        Ok(())
    }

    /// Refuses a record that does not belong to the session or does not fit its table, and brings its
    /// values into the form in which they are kept.
    pub(crate) fn fit(&self, session: &SessionId, record: &mut Record) -> Result<(), StoreError> {
        let table = self.get(record.table)?;
        let malformed =
            |what: &str| StoreError::Failed(format!("malformed record of {}: {what}", table.name));
        let mut columns: Vec<&str> = Vec::with_capacity(record.cells.len());
        for (name, cell) in &mut record.cells {
            if columns.contains(name) {
                return Err(malformed("it names a column twice"));
            }
            columns.push(name);
            *cell = kept(table, name, take(cell))?;
        }
        for key in table.key {
            let cell = value(record, key).ok_or_else(|| malformed("its key is not whole"))?;
            if *key == table.session && cell.as_text() != Some(session.as_str()) {
                return Err(malformed("it is of another session"));
            }
        }
        Ok(())
    }

    /// Refuses a question that names what is not there, and brings its values into the form in which
    /// they are kept.
    pub(crate) fn resolve(&self, asker: &PrincipalId, lookup: &Lookup) -> Result<Asked, StoreError> {
        let table = self.get(lookup.table)?;
        let mut lookup = lookup.on_behalf_of(asker);
        for condition in &mut lookup.conditions {
            condition.value = kept(table, condition.column, take(&mut condition.value))?;
        }
        match &lookup.question {
            Question::Rows(order) => {
                for (column, _) in order {
                    kind(table, column)?;
                }
            }
            Question::Path { name, before, .. } | Question::PathLength { name, before, .. } => {
                check_way(table, name, before)?;
            }
            Question::Words(_) if table.words.is_none() => {
                return Err(StoreError::Failed(format!("no words can be searched in {}", table.name)));
            }
            Question::Words(_) | Question::Count => {}
        }
        Ok(Asked { table, lookup })
    }
}

/// A question that can be answered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) table: &'static Table,
    pub(crate) lookup: Lookup,
}

/// The name of the index of the words of a table.
pub(crate) fn words_name(table: &Table) -> String {
    format!("{}_words", table.name)
}

/// What a record says of a column, if it says anything.
pub(crate) fn value<'a>(record: &'a Record, column: &str) -> Option<&'a Cell> {
    let found = record.cells.iter().find(|(name, _)| *name == column);
    found.map(|(_, cell)| cell).filter(|cell| **cell != Cell::Null)
}

/// A way can be followed where the name of a row leads to it, and to no other.
fn check_way(table: &Table, name: &str, before: &str) -> Result<(), StoreError> {
    let text = kind(table, name)? == ColumnKind::Text && kind(table, before)? == ColumnKind::Text;
    let named = table.key.len() == 2 && name != table.session && table.key.contains(&name);
    if text && named {
        return Ok(());
    }
    Err(StoreError::Failed(format!("{name} does not name the rows of a session in {}", table.name)))
}

fn kind(table: &Table, name: &str) -> Result<ColumnKind, StoreError> {
    let column = table.columns.iter().find(|column| column.name == name);
    let missing = || StoreError::Failed(format!("there is no column {name} in {}", table.name));
    column.map(|column| column.kind).ok_or_else(missing)
}

/// A value as a column keeps it.
fn kept(table: &Table, name: &str, cell: Cell) -> Result<Cell, StoreError> {
    match (kind(table, name)?, cell) {
        (_, Cell::Null) => Ok(Cell::Null),
        // Nothing is what SQLite makes of it, too.
        (ColumnKind::Real, Cell::Real(number)) if number.is_nan() => Ok(Cell::Null),
        (ColumnKind::Real, cell @ Cell::Integer(_)) => Ok(cell.as_real().into()),
        (ColumnKind::Text, cell @ Cell::Text(_))
        | (ColumnKind::Integer, cell @ Cell::Integer(_))
        | (ColumnKind::Real, cell @ Cell::Real(_))
        | (ColumnKind::Blob, cell @ Cell::Blob(_)) => Ok(cell),
        (_, Cell::Text(_) | Cell::Integer(_) | Cell::Real(_) | Cell::Blob(_)) => {
            Err(StoreError::Failed(format!("{name} in {} holds something else", table.name)))
        }
    }
}

/// The words of a text in lower case.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|char: char| !char.is_alphanumeric() && !is_accent(char));
    parts.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// The words of a question, each once, and no more than a question may have.
pub(crate) fn wanted_words(text: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    words(text).filter(|word| seen.insert(word.clone())).take(WANTED_WORDS).collect()
}

/// Whether a character belongs to the letter before it.
fn is_accent(char: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&char)
}

const WANTED_WORDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_lies_between_everything_else() {
        let text = "Tea, \"tea\" AND (NEAR* coffee):^-x2 🍵 cafe\u{301}s";
        assert_eq!(wanted_words(text), ["tea", "and", "near", "coffee", "x2", "cafe\u{301}s"]);
        assert!(wanted_words(" \"*\" 🍵 - ").is_empty());
        let many: String = (0..1000).map(|number| format!("w{number} ")).collect();
        assert_eq!(wanted_words(&many).len(), WANTED_WORDS);
    }
}
