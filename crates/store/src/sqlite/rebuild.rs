//! Deriving all rows from the log again.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::Connection;
use switchboard_core::{Chronicler, Committed, Event, Session, SessionId, SessionLimits, Timestamp, rows};

use crate::log::{REQUEST_MEMORY, StoreError};
use crate::sqlite::prepared::PreparedRow;
use crate::sqlite::query::{Next, each_batch};
use crate::sqlite::records::Records;
use crate::sqlite::{statements, tables};

/// Replays every session in one transaction. What a session leads to depends on its events only,
/// so sessions are replayed one after another, and only one is in memory.
pub(super) fn rebuild(
    connection: &mut Connection,
    records: &mut Records,
    chroniclers: &[Arc<dyn Chronicler>],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for table in ["sessions", "turns", "messages", "requests", "devices"] {
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
    }
    tables::clear(&transaction, records.tables())?;
    let total = transaction.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0))?;
    let total = total.cast_unsigned();
    let mut done = 0;
    progress(done, total);
    let mut statement = transaction.prepare("SELECT id, session FROM streams ORDER BY id")?;
    let mut streams = statement.query([])?;
    while let Some(row) = streams.next()? {
        let (stream, session): (i64, String) = (row.get(0)?, row.get(1)?);
        let session = SessionId::new(session);
        let begun = replay(&transaction, records, stream, &session, || {
            done += 1;
            if done % REPORT_EVERY == 0 {
                progress(done, total);
            }
        })?;
        for chronicler in chroniclers.iter().filter(|chronicler| begun.contains(chronicler.name())) {
            follow(&transaction, records, stream, &session, &**chronicler)?;
        }
    }
    drop(streams);
    drop(statement);
    for table in records.tables().iter() {
        tables::ensure_indexes(&transaction, table)?;
    }
    forget_old_keys(&transaction)?;
    statements::count_usage(&transaction)?;
    transaction.commit()?;
    progress(done, total);
    Ok(())
}

/// Derives the rows of a session; answers which chronicles it has.
fn replay(
    connection: &Connection,
    records: &mut Records,
    stream: i64,
    id: &SessionId,
    mut batch_done: impl FnMut(),
) -> Result<BTreeSet<Box<str>>, StoreError> {
    let mut session = Session::new(id.clone(), SessionLimits::default());
    let mut begun = BTreeSet::new();
    each_event(connection, stream, id, &mut batch_done, |committed| {
        for row in rows(&session, committed) {
            statements::put_row(connection, records, stream, &PreparedRow::new(row)?)?;
        }
        if let Event::ChronicleBegun { chronicle } = &committed.event {
            begun.insert(chronicle.clone());
        }
        session.apply(committed);
        Ok(())
    })?;
    if let Some(summary) = session.summary() {
        statements::put_session(connection, stream, &summary, None)?;
    }
    Ok(begun)
}

/// Follows a chronicle from the beginning of the session. That the session has one may be said
/// anywhere in its log, so those that have are read once more, rather than keeping records of all
/// in memory until it is known.
fn follow(
    connection: &Connection,
    records: &mut Records,
    stream: i64,
    id: &SessionId,
    chronicler: &dyn Chronicler,
) -> Result<(), StoreError> {
    let mut chronicle = chronicler.begin(id);
    each_event(
        connection,
        stream,
        id,
        || {},
        |committed| {
            for mut record in chronicle.take(committed) {
                records.tables().fit(id, &mut record)?;
                records.put(connection, &record)?;
            }
            Ok(())
        },
    )
}

fn each_event(
    connection: &Connection,
    stream: i64,
    id: &SessionId,
    mut batch_done: impl FnMut(),
    mut take: impl FnMut(&Committed) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    each_batch(connection, id, stream, 0, |batch| {
        outcome = batch.events.iter().try_for_each(&mut take);
        if outcome.is_err() {
            return Next::Stop;
        }
        batch_done();
        Next::More
    })?;
    outcome
}

fn forget_old_keys(connection: &Connection) -> Result<(), StoreError> {
    let newest =
        connection.query_row("SELECT max(at) FROM requests", [], |row| row.get::<_, Option<i64>>(0))?;
    let Some(newest) = newest else { return Ok(()) };
    let memory = i64::try_from(REQUEST_MEMORY.as_micros()).unwrap_or(i64::MAX);
    let horizon = Timestamp::from_micros(newest.saturating_sub(memory).max(0).cast_unsigned());
    statements::prune_requests(connection, horizon, u32::MAX)?;
    Ok(())
}

const REPORT_EVERY: u64 = 1000;
