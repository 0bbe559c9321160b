//! `switchboard record log`: the events of a session, from a server or from its files.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use switchboard_core::{Committed, Event, SessionId};
use switchboard_store::{Log as _, SessionFilter, SqliteLog, SqliteOptions, StoreError};

use super::destination;
use crate::clock;
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::recording::state::outcome;
use crate::recording::{FORMAT, Header, Kind};
use crate::remote::RemoteArgs;
use crate::sessions::to_json;

/// Arguments of `record log`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The id of the session, or what you call it
    #[arg(value_name = "SESSION")]
    session: String,
    /// Where to write; the output unless given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read the log in this folder, while no server runs, instead of asking a server
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `record log`.
pub(super) async fn run(args: &Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let (session, origin, events) = match &args.data {
        Some(folder) => from_files(folder, &args.session).await?,
        None => from_server(args, environment).await?,
    };
    let outcome = outcome(&session, &events).map_err(Failure::failed)?;
    let header = Header {
        recording: FORMAT,
        kind: Kind::Log,
        protocol: protocol_of(&events),
        origin,
        recorded_at: clock::utc(clock::now()),
        session: Some(session.clone()),
    };
    let mut out = destination(args.output.as_deref())?;
    line(&mut *out, &header)?;
    for event in &events {
        line(&mut *out, event)?;
    }
    line(&mut *out, &outcome)?;
    out.flush()?;
    let (count, hash) = (events.len(), outcome.sha256.get(..12).unwrap_or_default());
    console.note(&format!("{count} events of {session}, which lead to state {hash}…"));
    Ok(())
}

fn line(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    out.write_all(to_json(value)?.as_bytes())?;
    Ok(out.write_all(b"\n")?)
}

async fn from_server(
    args: &Args,
    environment: &Environment,
) -> Result<(SessionId, String, Vec<Committed>), Failure> {
    let remote = args.remote.remote(environment)?;
    let admin = remote.admin()?;
    let row = remote.session(&admin, &args.session).await?;
    let mut events: Vec<Committed> = Vec::new();
    loop {
        let after = events.last().map_or_else(|| "0".to_owned(), |event| event.position.to_string());
        let page = admin.events(&row.session, Some(&after), Some(PAGE)).await;
        let page = page.map_err(|error| remote.refused(&error))?;
        let none = page.events.is_empty();
        events.extend(page.events);
        bounded(events.len())?;
        if none || page.next.is_none() {
            return Ok((row.session, remote.url.clone(), events));
        }
    }
}

async fn from_files(folder: &Path, name: &str) -> Result<(SessionId, String, Vec<Committed>), Failure> {
    let path = folder.join("switchboard.db");
    if !path.is_file() {
        return Err(Failure::usage(format!(
            "there is no log at {}; --data names the data folder of a server",
            path.display()
        )));
    }
    let log = SqliteLog::open(&path, SqliteOptions::default()).map_err(refused)?;
    let read = read(&log, name).await;
    let closed = log.close().await.map_err(refused);
    let (session, events) = read?;
    closed?;
    Ok((session, "files".to_owned(), events))
}

async fn read(log: &SqliteLog, name: &str) -> Result<(SessionId, Vec<Committed>), Failure> {
    let session = find(log, name).await?;
    let mut events: Vec<Committed> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.position.seq);
        let batches = log.read(&session, after, PAGE).await.map_err(refused)?;
        if batches.is_empty() {
            return Ok((session, events));
        }
        events.extend(batches.iter().flat_map(|batch| batch.events.iter().cloned()));
        bounded(events.len())?;
    }
}

/// The session with this id, or the one that is called so.
async fn find(log: &SqliteLog, name: &str) -> Result<SessionId, Failure> {
    let id = SessionId::from(name);
    if log.session(&id).await.map_err(refused)?.is_some() {
        return Ok(id);
    }
    let filter = SessionFilter { limit: MAX_SESSIONS, ..SessionFilter::default() };
    let rows = log.sessions(&filter).await.map_err(refused)?;
    let mut called = rows.into_iter().filter(|row| row.name.as_deref() == Some(name));
    match (called.next(), called.next()) {
        (Some(row), None) => Ok(row.session),
        (Some(_), Some(_)) => {
            Err(Failure::usage(format!("several sessions are called {name}; name one by its id")))
        }
        (None, _) => Err(Failure::failed(format!("there is no session {name} in this log"))),
    }
}

/// The protocol through which the first turn came.
fn protocol_of(events: &[Committed]) -> String {
    let protocol = events.iter().find_map(|event| {
        let Event::TurnAccepted { origin, .. } = &event.event else { return None };
        Some(origin.protocol.clone())
    });
    protocol.unwrap_or_else(|| "none".to_owned())
}

fn bounded(events: usize) -> Result<(), Failure> {
    if events > MAX_EVENTS {
        return Err(Failure::failed(format!("the session has more than {MAX_EVENTS} events")));
    }
    Ok(())
}

fn refused(error: StoreError) -> Failure {
    Failure::failed(error.to_string())
}

const PAGE: usize = 500;
const MAX_EVENTS: usize = 1_000_000;
/// A name is looked for among so many sessions; beyond that an id is needed.
const MAX_SESSIONS: usize = 20_000;
