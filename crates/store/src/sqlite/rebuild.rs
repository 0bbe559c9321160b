//! Deriving all rows from the log again.

use rusqlite::Connection;
use switchboard_core::{Session, SessionId, SessionLimits, Timestamp, rows};

use crate::log::{REQUEST_MEMORY, StoreError};
use crate::sqlite::prepared::PreparedRow;
use crate::sqlite::query::{Next, each_batch};
use crate::sqlite::statements;

/// Replays every session in one transaction. What a session leads to depends on its events only,
/// so sessions are replayed one after another, and only one is in memory.
pub(super) fn rebuild(
    connection: &mut Connection,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for table in ["sessions", "turns", "messages", "requests", "devices"] {
        transaction.execute(&format!("DELETE FROM {table}"), [])?;
    }
    let total = transaction.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0))?;
    let total = total.cast_unsigned();
    let mut done = 0;
    progress(done, total);
    let mut statement = transaction.prepare("SELECT id, session FROM streams ORDER BY id")?;
    let mut streams = statement.query([])?;
    while let Some(row) = streams.next()? {
        let (stream, session): (i64, String) = (row.get(0)?, row.get(1)?);
        replay(&transaction, stream, &SessionId::new(session), || {
            done += 1;
            if done % REPORT_EVERY == 0 {
                progress(done, total);
            }
        })?;
    }
    drop(streams);
    drop(statement);
    forget_old_keys(&transaction)?;
    transaction.commit()?;
    progress(done, total);
    Ok(())
}

fn replay(
    connection: &Connection,
    stream: i64,
    id: &SessionId,
    mut batch_done: impl FnMut(),
) -> Result<(), StoreError> {
    let mut session = Session::new(id.clone(), SessionLimits::default());
    let mut outcome = Ok(());
    each_batch(connection, id, stream, 0, |batch| {
        for committed in &batch.events {
            for row in rows(&session, committed) {
                let written =
                    PreparedRow::new(row).and_then(|row| statements::put_row(connection, stream, &row));
                if written.is_err() {
                    outcome = written;
                    return Next::Stop;
                }
            }
            session.apply(committed);
        }
        batch_done();
        Next::More
    })?;
    outcome?;
    match session.summary() {
        Some(summary) => statements::put_session(connection, stream, &summary, None),
        None => Ok(()),
    }
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
