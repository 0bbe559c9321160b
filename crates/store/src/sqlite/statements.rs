//! The statements of the writer, one function each. All of them are prepared once.

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use switchboard_core::{Position, PrincipalId, RequestRow, SessionId, SessionRow, Timestamp, TurnRow};

use crate::log::{StoreError, Usage};
use crate::sqlite::prepared::{Prepared, PreparedDevice, PreparedEdit, PreparedMessage, PreparedRow};
use crate::sqlite::records::Records;

/// The number and the head of a session; none if nothing was ever appended.
pub(super) fn find_head(
    connection: &Connection,
    session: &SessionId,
) -> Result<Option<(i64, Position)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT streams.id, log.epoch, log.last_seq FROM streams JOIN log ON log.stream = streams.id
         WHERE streams.session = ?1 ORDER BY log.last_seq DESC LIMIT 1",
    )?;
    let found = statement
        .query_row([session.as_str()], |row| {
            Ok((row.get(0)?, Position { epoch: row.get(1)?, seq: row.get::<_, i64>(2)?.cast_unsigned() }))
        })
        .optional()?;
    Ok(found)
}

pub(super) fn insert_stream(connection: &Connection, session: &SessionId) -> Result<i64, StoreError> {
    connection.prepare_cached("INSERT INTO streams (session) VALUES (?1)")?.execute([session.as_str()])?;
    Ok(connection.last_insert_rowid())
}

/// For [`insert_batch`]: looked up once for all appends of a group.
pub(super) fn inserting(connection: &Connection) -> Result<CachedStatement<'_>, StoreError> {
    Ok(connection.prepare_cached(
        "INSERT INTO log (stream, epoch, first_seq, last_seq, events) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?)
}

pub(super) fn insert_batch(
    inserting: &mut CachedStatement<'_>,
    stream: i64,
    append: &Prepared,
) -> Result<(), StoreError> {
    inserting.execute(params![
        stream,
        append.last.epoch,
        number(append.first),
        number(append.last.seq),
        append.events
    ])?;
    Ok(())
}

pub(super) fn put_snapshot(
    connection: &Connection,
    stream: i64,
    seq: u64,
    state: &[u8],
) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO snapshots (stream, seq, state) VALUES (?1, ?2, ?3)")?
        .execute(params![stream, number(seq), state])?;
    Ok(())
}

/// Writes the row of a session, if it has changed; answers whether it had. `known` is how it was written last. While a
/// turn is under way little changes but the head, which is no part of the row; and between two turns nothing by which
/// sessions are found but its age.
pub(super) fn put_session(
    connection: &Connection,
    stream: i64,
    row: &SessionRow,
    known: Option<&SessionRow>,
) -> Result<bool, StoreError> {
    if let Some(known) = known.filter(|known| is_same_but_for_age(known, row)) {
        let aged = known.updated_at != row.updated_at || known.turns != row.turns;
        if aged {
            connection
                .prepare_cached("UPDATE sessions SET updated_at = ?2, turns = ?3 WHERE stream = ?1")?
                .execute(params![stream, time(row.updated_at), number(row.turns)])?;
        }
        return Ok(aged);
    }
    connection
        .prepare_cached(
            "INSERT INTO sessions
                (stream, session, owner, agent, name, epoch, opened_at, updated_at, turns, live)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (stream) DO UPDATE SET
                owner = excluded.owner, agent = excluded.agent, name = excluded.name,
                epoch = excluded.epoch, opened_at = excluded.opened_at,
                updated_at = excluded.updated_at, turns = excluded.turns, live = excluded.live",
        )?
        .execute(params![
            stream,
            row.session.as_str(),
            row.owner.as_str(),
            row.agent.as_str(),
            row.name,
            row.epoch,
            time(row.opened_at),
            time(row.updated_at),
            number(row.turns),
            row.live,
        ])?;
    Ok(true)
}

/// Adds to what a principal has stored.
pub(super) fn add_usage(
    connection: &Connection,
    principal: &PrincipalId,
    more: Usage,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO usage (principal, sessions, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (principal) DO UPDATE SET
                sessions = sessions + excluded.sessions, bytes = bytes + excluded.bytes",
        )?
        .execute(params![principal.as_str(), number(more.sessions), number(more.bytes)])?;
    Ok(())
}

/// Counts anew what everybody has stored.
pub(super) fn count_usage(connection: &Connection) -> Result<(), StoreError> {
    connection.execute("DELETE FROM usage", [])?;
    connection.execute(
        "INSERT INTO usage (principal, sessions, bytes)
         SELECT sessions.owner, count(*), coalesce(sum(stored.bytes), 0)
         FROM sessions
         LEFT JOIN (SELECT stream, sum(length(events)) AS bytes FROM log GROUP BY stream) AS stored
             ON stored.stream = sessions.stream
         GROUP BY sessions.owner",
        [],
    )?;
    Ok(())
}

fn is_same_but_for_age(known: &SessionRow, row: &SessionRow) -> bool {
    known.live == row.live
        && known.epoch == row.epoch
        && known.opened_at == row.opened_at
        && known.owner == row.owner
        && known.agent == row.agent
        && known.name == row.name
}

pub(super) fn put_row(
    connection: &Connection,
    records: &mut Records,
    stream: i64,
    row: &PreparedRow,
) -> Result<(), StoreError> {
    match row {
        PreparedRow::Turn(row) => put_turn(connection, stream, row),
        PreparedRow::Message(message) => put_message(connection, stream, message),
        PreparedRow::Request(row) => put_request(connection, row),
        PreparedRow::Device(device) => put_device(connection, device),
        PreparedRow::Edited(edit) => edit_message(connection, stream, edit),
        PreparedRow::Chronicled(record) => records.put(connection, record),
    }
}

fn put_turn(connection: &Connection, stream: i64, row: &TurnRow) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO turns
                (stream, accepted, turn, agent, principal, protocol, status, accepted_at, started_at, ended,
                 ended_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            stream,
            number(row.accepted),
            row.turn.as_str(),
            row.agent.as_str(),
            row.principal.as_str(),
            row.protocol,
            row.status,
            time(row.accepted_at),
            row.started_at.map(time),
            row.ended.map(number),
            row.ended_at.map(time),
        ])?;
    Ok(())
}

fn put_message(connection: &Connection, stream: i64, message: &PreparedMessage) -> Result<(), StoreError> {
    let PreparedMessage { row, author, parts, complete } = message;
    connection
        .prepare_cached(
            "INSERT INTO messages (stream, message, parent, turn, author, parts, seq, at, complete)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (stream, message) DO UPDATE SET
                parent = excluded.parent, turn = excluded.turn, author = excluded.author,
                parts = excluded.parts, seq = excluded.seq, at = excluded.at, complete = excluded.complete",
        )?
        .execute(params![
            stream,
            row.message.as_str(),
            row.parent.as_ref().map(|parent| parent.as_str()),
            row.turn.as_str(),
            author,
            parts,
            number(row.seq),
            time(row.at),
            complete,
        ])?;
    Ok(())
}

fn edit_message(connection: &Connection, stream: i64, edit: &PreparedEdit) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE messages SET parts = ?3 WHERE stream = ?1 AND message = ?2")?
        .execute(params![stream, edit.message.as_str(), edit.parts])?;
    Ok(())
}

/// Keeps the most recent use of a key, whatever the order in which the rows come.
fn put_request(connection: &Connection, row: &RequestRow) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO requests (principal, key, digest, session, turn, epoch, accepted, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (principal, key) DO UPDATE SET
                digest = excluded.digest, session = excluded.session, turn = excluded.turn,
                epoch = excluded.epoch, accepted = excluded.accepted, at = excluded.at
             WHERE (excluded.at, excluded.turn) >= (requests.at, requests.turn)",
        )?
        .execute(params![
            row.principal.as_str(),
            row.key,
            row.digest,
            row.session.as_str(),
            row.turn.as_str(),
            row.epoch,
            number(row.accepted),
            time(row.at),
        ])?;
    Ok(())
}

/// Keeps what the session in which the device enrolled last says of it, whatever the order in which
/// the rows of several sessions come.
fn put_device(connection: &Connection, device: &PreparedDevice) -> Result<(), StoreError> {
    let PreparedDevice { row, facts, profile } = device;
    connection
        .prepare_cached(
            "INSERT INTO devices
                (device, principal, session, protocol, platform, facts, profile, joined_at, reported_at,
                 left_at, released_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (device, principal) DO UPDATE SET
                session = excluded.session, protocol = excluded.protocol, platform = excluded.platform,
                facts = excluded.facts, profile = excluded.profile, joined_at = excluded.joined_at,
                reported_at = excluded.reported_at, left_at = excluded.left_at,
                released_at = excluded.released_at
             WHERE (excluded.joined_at, excluded.session) >= (devices.joined_at, devices.session)",
        )?
        .execute(params![
            row.device.as_str(),
            row.principal.as_str(),
            row.session.as_str(),
            row.protocol,
            row.platform,
            facts,
            profile,
            time(row.joined_at),
            time(row.reported_at),
            row.left_at.map(time),
            row.released_at.map(time),
        ])?;
    Ok(())
}

/// Forgets keys used before `horizon`, at most so many at once.
pub(super) fn prune_requests(
    connection: &Connection,
    horizon: Timestamp,
    limit: u32,
) -> Result<usize, StoreError> {
    let gone = connection
        .prepare_cached(
            "DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE at < ?1 ORDER BY at LIMIT ?2)",
        )?
        .execute(params![time(horizon), limit])?;
    Ok(gone)
}

/// A number as SQLite keeps it; what is beyond its reach becomes the largest.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn time(value: Timestamp) -> i64 {
    number(value.as_micros())
}
