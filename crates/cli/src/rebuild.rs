//! `switchboard rebuild`: every table that is derived from the log, derived again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use switchboard_core::Chronicler;
use switchboard_server::config::StoreKind;
use switchboard_server::{Config, chroniclers};
use switchboard_store::{Log as _, SqliteLog, StoreError};
use tokio::time::Instant;

use crate::config::{ConfigArgs, load};
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::progress::Bar;

/// Arguments of `rebuild`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  switchboard rebuild
  switchboard rebuild --config switchboard.toml
  switchboard rebuild --data-dir /var/lib/switchboard

Lists of sessions, turns and messages, and the tables of Alicia and VIP, are derived from the log,
which alone is what happened. This throws them away and derives them again: after one was
damaged, or to have old conversations told as a new version tells them.

The server must not be running. All of it happens in one transaction: if it is interrupted, or fails,
everything stays as it was.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Where everything is kept. Same as --set data_dir=FOLDER
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// Runs `rebuild`.
pub(crate) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let data_dir = args.data_dir.as_ref().map(|folder| format!("data_dir={}", folder.display()));
    let config = load(&args.config, environment, data_dir)?;
    let path = log_of(&config)?;
    let chroniclers = chroniclers();
    let began = Instant::now();
    let log = SqliteLog::open_with(&path, config.store.options(), chroniclers.clone()).map_err(refused)?;
    let mut bar = Bar::new();
    let rebuilt = log
        .rebuild_projections(move |done, total| {
            bar.show(done, total, || format!("{done} of {total} batches"))
        })
        .await;
    let closed = log.close().await;
    rebuilt.and(closed).map_err(refused)?;
    let counts = count(&path, &chroniclers).map_err(|error| Failure::failed(error.to_string()))?;
    let seconds = began.elapsed().as_secs_f64();
    let Counts { sessions, rows } = counts;
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    console.line(&format!(
        "rebuilt {rows} row{} of {sessions} session{} in {seconds:.1} s",
        plural(rows),
        plural(sessions)
    ))
}

/// The file of the log, which has to be there.
fn log_of(config: &Config) -> Result<PathBuf, Failure> {
    if config.store.kind == StoreKind::Memory {
        return Err(Failure::usage("store.kind is memory: nothing is kept that could be rebuilt"));
    }
    let path = config.data_dir.join("switchboard.db");
    if path.is_file() {
        return Ok(path);
    }
    let advice = "name the folder with --data-dir, or the configuration with --config";
    Err(Failure::usage(format!("there is no log at {}; {advice}", path.display())))
}

fn refused(error: StoreError) -> Failure {
    if let StoreError::Refused(reason) = error {
        return Failure::failed(reason);
    }
    Failure::failed(format!("{error}; everything is as it was"))
}

/// How much there is now.
#[derive(Clone, Copy, Debug)]
struct Counts {
    sessions: u64,
    rows: u64,
}

fn count(path: &Path, chroniclers: &[Arc<dyn Chronicler>]) -> rusqlite::Result<Counts> {
    let file = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let rows_of = |table: &str| {
        let question = format!("SELECT count(*) FROM {table}");
        file.query_row(&question, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
    };
    let declared = chroniclers.iter().flat_map(|chronicler| chronicler.tables()).map(|table| table.name);
    let rows = PROJECTIONS.iter().copied().chain(declared).map(rows_of).sum::<rusqlite::Result<u64>>()?;
    Ok(Counts { sessions: rows_of("sessions")?, rows })
}

/// Tables of the server itself that are derived from the log.
const PROJECTIONS: &[&str] = &["sessions", "turns", "messages", "requests", "devices"];
