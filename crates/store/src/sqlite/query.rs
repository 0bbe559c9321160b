//! What is read from the file.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params};
use switchboard_core::{
    AgentId, Batch, Callsign, DeviceRow, Loaded, MessageId, MessageRow, MessageStatus, PrincipalId,
    RequestRow, Session, SessionId, SessionRow, Timestamp, TurnId, TurnRow,
};

use crate::encoding::{decode_batch, decode_snapshot, decode_value};
use crate::log::{DeviceFilter, OURS, SessionFilter, StoreError, Usage};
use crate::sqlite::statements::number;

pub(super) fn load(connection: &Connection, session: &SessionId) -> Result<Option<Loaded>, StoreError> {
    let mut known = connection.prepare_cached("SELECT id FROM streams WHERE session = ?1")?;
    let Some(stream) = known.query_row([session.as_str()], |row| row.get::<_, i64>(0)).optional()? else {
        return Ok(None);
    };
    let snapshot = snapshot(connection, session, stream)?;
    let seen = snapshot.as_ref().map_or(0, |snapshot| snapshot.head().seq);
    let batches = batches(connection, session, stream, seen, usize::MAX)?;
    Ok(Some(Loaded { snapshot, batches }))
}

/// The last snapshot, if this version can read it; otherwise the log is read from its start.
fn snapshot(
    connection: &Connection,
    session: &SessionId,
    stream: i64,
) -> Result<Option<Session>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq, state FROM snapshots WHERE stream = ?1")?;
    let found = statement
        .query_row([stream], |row| {
            let seq = unsigned(row, 0)?;
            Ok(decode_snapshot(row.get_ref(1)?.as_blob()?, session, seq))
        })
        .optional()?;
    if let Some(None) = found {
        tracing::warn!(session_id = %session, "the snapshot cannot be read; replaying the whole log");
    }
    Ok(found.flatten())
}

pub(super) fn read(
    connection: &Connection,
    session: &SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<Arc<Batch>>, StoreError> {
    let mut known = connection.prepare_cached("SELECT id FROM streams WHERE session = ?1")?;
    match known.query_row([session.as_str()], |row| row.get::<_, i64>(0)).optional()? {
        Some(stream) => batches(connection, session, stream, after, limit),
        None => Ok(Vec::new()),
    }
}

fn batches(
    connection: &Connection,
    session: &SessionId,
    stream: i64,
    after: u64,
    limit: usize,
) -> Result<Vec<Arc<Batch>>, StoreError> {
    let mut batches = Vec::new();
    let mut events = 0;
    if limit == 0 {
        return Ok(batches);
    }
    each_batch(connection, session, stream, after, |batch| {
        let batch = Batch::after(&Arc::new(batch), after);
        events += batch.events.len();
        batches.push(batch);
        if events < limit { Next::More } else { Next::Stop }
    })?;
    Ok(batches)
}

/// Whether to go on reading.
pub(super) enum Next {
    More,
    Stop,
}

/// Walks over the batches with events above `after`, and makes sure that none is missing.
pub(super) fn each_batch(
    connection: &Connection,
    session: &SessionId,
    stream: i64,
    after: u64,
    mut take: impl FnMut(Batch) -> Next,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT first_seq, last_seq, events FROM log WHERE stream = ?1 AND last_seq > ?2 ORDER BY last_seq",
    )?;
    let mut rows = statement.query(params![stream, number(after)])?;
    let mut last = after;
    while let Some(row) = rows.next()? {
        let (first_seq, last_seq) = (unsigned(row, 0)?, unsigned(row, 1)?);
        let bytes = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let batch = decode_batch(bytes)
            .filter(|batch| (batch.first(), batch.last()) == (first_seq, last_seq))
            .ok_or_else(|| {
                StoreError::Corrupt(format!("batch {first_seq} of session {session} cannot be decoded"))
            })?;
        if first_seq > last.saturating_add(1) {
            return Err(StoreError::Corrupt(format!(
                "events {} to {} of session {session} are missing",
                last + 1,
                first_seq - 1
            )));
        }
        last = last_seq;
        if let Next::Stop = take(batch) {
            break;
        }
    }
    Ok(())
}

pub(super) fn sessions(
    connection: &Connection,
    filter: &SessionFilter,
) -> Result<Vec<SessionRow>, StoreError> {
    // Live ones are few, and may lie anywhere in the list.
    let source =
        if filter.live && filter.owner.is_none() { "sessions INDEXED BY sessions_live" } else { "sessions" };
    let mut sql = format!("SELECT {SESSION_COLUMNS} FROM {source} WHERE 1");
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if let Some(owner) = &filter.owner {
        sql.push_str(" AND owner = ?");
        values.push(Box::new(owner.as_str().to_owned()));
    }
    if filter.live {
        sql.push_str(" AND live = 1");
    }
    if filter.used {
        sql.push_str(" AND turns > 0");
    }
    if filter.without_homes {
        sql.push_str(" AND (turns > 0 OR name IS NOT NULL OR substr(session, 1, length(?)) <> ?)");
        values.extend([OURS, OURS].map(|ours| Box::new(ours) as Box<dyn ToSql>));
    }
    if let Some((at, session)) = &filter.before {
        sql.push_str(" AND (updated_at, session) < (?, ?)");
        values.push(Box::new(number(*at)));
        values.push(Box::new(session.as_str().to_owned()));
    }
    sql.push_str(" ORDER BY updated_at DESC, session DESC LIMIT ?");
    values.push(Box::new(number(filter.limit as u64)));
    collect(connection, &sql, rusqlite::params_from_iter(values), session_row)
}

pub(super) fn session(
    connection: &Connection,
    session: &SessionId,
) -> Result<Option<SessionRow>, StoreError> {
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM sessions WHERE stream = (SELECT id FROM streams WHERE session = ?1)"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row([session.as_str()], session_row).optional()?)
}

pub(super) fn turns(
    connection: &Connection,
    session: &SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<TurnRow>, StoreError> {
    let sql = format!("{SELECT_TURNS} AND accepted > ?2 ORDER BY accepted LIMIT ?3");
    let parameters = params![session.as_str(), number(after), number(limit as u64)];
    collect(connection, &sql, parameters, |row| turn_row(session, row))
}

pub(super) fn turn(
    connection: &Connection,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Option<TurnRow>, StoreError> {
    // Who asks for a turn mostly asks for a late one.
    let sql = format!("{SELECT_TURNS} AND turn = ?2 ORDER BY accepted DESC LIMIT 1");
    let parameters = params![session.as_str(), turn.as_str()];
    Ok(collect(connection, &sql, parameters, |row| turn_row(session, row))?.pop())
}

const SELECT_TURNS: &str =
    "SELECT turn, agent, principal, protocol, status, accepted, accepted_at, started_at, ended, ended_at
     FROM turns WHERE stream = (SELECT id FROM streams WHERE session = ?1)";

fn turn_row(session: &SessionId, row: &Row<'_>) -> rusqlite::Result<TurnRow> {
    Ok(TurnRow {
        session: session.clone(),
        turn: TurnId::from(text(row, 0)?),
        agent: AgentId::from(text(row, 1)?),
        principal: PrincipalId::from(text(row, 2)?),
        protocol: row.get(3)?,
        status: row.get(4)?,
        accepted: unsigned(row, 5)?,
        accepted_at: time(row, 6)?,
        started_at: optional_unsigned(row, 7)?.map(Timestamp::from_micros),
        ended: optional_unsigned(row, 8)?,
        ended_at: optional_unsigned(row, 9)?.map(Timestamp::from_micros),
    })
}

pub(super) fn history(
    connection: &Connection,
    session: &SessionId,
    tip: &MessageId,
    limit: usize,
) -> Result<Vec<MessageRow>, StoreError> {
    // The walk carries numbers only, and its depth is bounded even if parents formed a ring.
    let sql = "WITH RECURSIVE
            home(stream) AS (SELECT id FROM streams WHERE session = ?1),
            path(id, parent, depth) AS (
                SELECT messages.id, messages.parent, 1 FROM home
                CROSS JOIN messages ON messages.stream = home.stream AND messages.message = ?2
                UNION ALL
                SELECT messages.id, messages.parent, path.depth + 1 FROM path
                CROSS JOIN home
                CROSS JOIN messages ON messages.stream = home.stream AND messages.message = path.parent
                WHERE path.depth < ?3)
         SELECT message, messages.parent, turn, author, parts, seq, at, complete
         FROM path CROSS JOIN messages ON messages.id = path.id ORDER BY path.depth";
    let limit = limit.min(HISTORY_LIMIT);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let parameters = params![session.as_str(), tip.as_str(), number(limit as u64)];
    let mut path = collect(connection, sql, parameters, |row| {
        let message = MessageId::from(text(row, 0)?);
        let (author, parts) = (row.get_ref(3)?.as_blob()?, row.get_ref(4)?.as_blob()?);
        let status = if row.get::<_, bool>(7)? { MessageStatus::Complete } else { MessageStatus::Partial };
        let parent: Option<String> = row.get(1)?;
        let turn = TurnId::from(text(row, 2)?);
        let (seq, at) = (unsigned(row, 5)?, time(row, 6)?);
        let decoded = decode_value(author).zip(decode_value(parts));
        Ok(decoded.map(|(author, parts)| MessageRow {
            session: session.clone(),
            message,
            parent: parent.map(MessageId::new),
            turn,
            author,
            parts,
            seq,
            at,
            status,
        }))
    })?
    .into_iter()
    .collect::<Option<Vec<MessageRow>>>()
    .ok_or_else(|| {
        StoreError::Corrupt(format!(
            "a message row of session {session} cannot be decoded; rebuild the projections"
        ))
    })?;
    let mut seen = HashSet::new();
    let ring = path.iter().position(|row| !seen.insert(row.message.clone()));
    path.truncate(ring.unwrap_or(path.len()));
    Ok(path)
}

pub(super) fn request(
    connection: &Connection,
    principal: &PrincipalId,
    key: &str,
) -> Result<Option<RequestRow>, StoreError> {
    let sql = format!("SELECT {REQUEST_COLUMNS} FROM requests WHERE principal = ?1 AND key = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row(params![principal.as_str(), key], request_row).optional()?)
}

pub(super) fn requests(
    connection: &Connection,
    since: Timestamp,
    limit: usize,
) -> Result<Vec<RequestRow>, StoreError> {
    let sql =
        format!("SELECT {REQUEST_COLUMNS} FROM requests WHERE at >= ?1 ORDER BY at DESC, turn DESC LIMIT ?2");
    collect(connection, &sql, params![number(since.as_micros()), number(limit as u64)], request_row)
}

pub(super) fn devices(connection: &Connection, filter: &DeviceFilter) -> Result<Vec<DeviceRow>, StoreError> {
    let mut sql = format!("SELECT {DEVICE_COLUMNS} FROM devices WHERE 1");
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if let Some(principal) = &filter.principal {
        sql.push_str(" AND principal = ?");
        values.push(Box::new(principal.as_str().to_owned()));
    }
    match filter.online {
        Some(true) => sql.push_str(" AND left_at IS NULL"),
        Some(false) => sql.push_str(" AND left_at IS NOT NULL"),
        None => {}
    }
    if let Some((device, principal)) = &filter.after {
        sql.push_str(" AND (device, principal) > (?, ?)");
        values.push(Box::new(device.as_str().to_owned()));
        values.push(Box::new(principal.as_str().to_owned()));
    }
    sql.push_str(" ORDER BY device, principal LIMIT ?");
    values.push(Box::new(number(filter.limit as u64)));
    device_rows(connection, &sql, rusqlite::params_from_iter(values))
}

pub(super) fn device(connection: &Connection, device: &Callsign) -> Result<Vec<DeviceRow>, StoreError> {
    let sql = format!("SELECT {DEVICE_COLUMNS} FROM devices WHERE device = ?1 ORDER BY principal");
    device_rows(connection, &sql, [device.as_str()])
}

fn device_rows(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
) -> Result<Vec<DeviceRow>, StoreError> {
    let rows = collect(connection, sql, parameters, device_row)?;
    rows.into_iter().collect::<Option<_>>().ok_or_else(|| {
        StoreError::Corrupt("the row of a device cannot be decoded; rebuild the projections".into())
    })
}

/// The device; none if what it says of itself cannot be decoded.
fn device_row(row: &Row<'_>) -> Result<Option<DeviceRow>, rusqlite::Error> {
    let decoded = decode_value(row.get_ref(5)?.as_blob()?).zip(decode_value(row.get_ref(6)?.as_blob()?));
    let Some((facts, profile)) = decoded else { return Ok(None) };
    Ok(Some(DeviceRow {
        device: Callsign::from(text(row, 0)?),
        principal: PrincipalId::from(text(row, 1)?),
        session: SessionId::from(text(row, 2)?),
        protocol: row.get(3)?,
        platform: row.get(4)?,
        facts,
        profile,
        joined_at: time(row, 7)?,
        reported_at: time(row, 8)?,
        left_at: optional_unsigned(row, 9)?.map(Timestamp::from_micros),
        released_at: optional_unsigned(row, 10)?.map(Timestamp::from_micros),
    }))
}

fn collect<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, rusqlite::Error>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn session_row(row: &Row<'_>) -> Result<SessionRow, rusqlite::Error> {
    Ok(SessionRow {
        session: SessionId::from(text(row, 0)?),
        owner: PrincipalId::from(text(row, 1)?),
        agent: AgentId::from(text(row, 2)?),
        name: row.get(3)?,
        epoch: row.get(4)?,
        head: unsigned(row, 5)?,
        opened_at: time(row, 6)?,
        updated_at: time(row, 7)?,
        turns: unsigned(row, 8)?,
        live: row.get(9)?,
    })
}

fn request_row(row: &Row<'_>) -> Result<RequestRow, rusqlite::Error> {
    Ok(RequestRow {
        principal: PrincipalId::from(text(row, 0)?),
        key: row.get(1)?,
        digest: row.get(2)?,
        session: SessionId::from(text(row, 3)?),
        turn: TurnId::from(text(row, 4)?),
        epoch: row.get(5)?,
        accepted: unsigned(row, 6)?,
        at: time(row, 7)?,
    })
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, rusqlite::Error> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn optional_unsigned(row: &Row<'_>, column: usize) -> Result<Option<u64>, rusqlite::Error> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}

fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, rusqlite::Error> {
    unsigned(row, column).map(Timestamp::from_micros)
}

const SESSION_COLUMNS: &str = "session, owner, agent, name, epoch,
    (SELECT max(last_seq) FROM log WHERE log.stream = sessions.stream), opened_at, updated_at, turns, live";
const REQUEST_COLUMNS: &str = "principal, key, digest, session, turn, epoch, accepted, at";
const DEVICE_COLUMNS: &str = "device, principal, session, protocol, platform, facts, profile, joined_at, reported_at, left_at, released_at";

/// Messages that one walk returns at most.
const HISTORY_LIMIT: usize = 65_536;

/// What a principal has stored.
pub(super) fn usage(connection: &Connection, principal: &PrincipalId) -> Result<Usage, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT sessions, bytes FROM usage WHERE principal = ?1")?;
    let found = statement.query_row([principal.as_str()], |row| {
        let (sessions, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(Usage { sessions: sessions.max(0).cast_unsigned(), bytes: bytes.max(0).cast_unsigned() })
    });
    Ok(found.optional()?.unwrap_or_default())
}
