//! Opening the file: whose it is, which version, and how connections are set up.
//!
//! Nothing here ever resets a file. What is not ours, damaged, of a newer version or in use is
//! refused, with words for an operator.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::encoding::decode_batch;
use crate::log::StoreError;
use crate::sqlite::{SqliteOptions, Synchronous};

/// The file, opened for its only writer.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    /// Keeps other processes out for as long as it is open.
    pub(super) lock: File,
}

/// Opens the file for writing, and brings it to the current version.
pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<Opened, StoreError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| cannot("create the folder of", path, &error))?;
    }
    create(path)?;
    // One file has one lock, by whatever name it is opened.
    let path = std::fs::canonicalize(path).map_err(|error| cannot("open", path, &error))?;
    let lock = lock(&path)?;
    let connection = inspect(&path, options)?;
    configure(&connection, &path, options)?;
    Ok(Opened { path, connection, lock })
}

/// A connection that can only read.
pub(super) fn open_reader(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -i64::from(options.cache_kib / 4))?;
    keep_prepared(&connection)?;
    Ok(connection)
}

/// Makes an empty file, readable by nobody else, if there is none.
fn create(path: &Path) -> Result<(), StoreError> {
    let mut file = OpenOptions::new();
    file.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path).map_err(|error| cannot("open", path, &error)).map(drop)
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let lock_path = beside(path, ".lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(|error| cannot("open the lock of", path, &error))?;
    // Whoever was killed a moment ago may still be on its way out, and a program that is being started holds copies of
    // our own files for a moment.
    let mut outcome = file.try_lock();
    for _ in 0..LOCK_LOOKS {
        if !matches!(outcome, Err(TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(LOCK_LOOK_EVERY);
        outcome = file.try_lock();
    }
    match outcome {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let holder = match file.read_to_string(&mut holder) {
                Ok(_) if !holder.trim().is_empty() => format!("process {}", holder.trim()),
                Ok(_) | Err(_) => "another process".to_owned(),
            };
            return Err(StoreError::Refused(format!(
                "{} is in use by {holder}; stop it, or choose another file",
                path.display()
            )));
        }
        Err(TryLockError::Error(error)) => return Err(cannot("lock", path, &error)),
    }
    // Only a hint for the message above; nothing depends on it.
    let noted = file
        .set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| file.write_all(std::process::id().to_string().as_bytes()));
    if let Err(error) = noted {
        tracing::debug!(%error, "cannot note the process in the lock file");
    }
    Ok(file)
}

/// Makes sure that the file is ours before anything in it is changed.
fn inspect(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let header = header(path).map_err(|error| cannot("read", path, &error))?;
    // A journal beside the file means that its first page may be half written; SQLite mends that.
    if !header.is_empty() && !header.starts_with(MAGIC) && !beside(path, "-journal").exists() {
        return Err(foreign(path));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|error| damaged(path, error))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(options.busy_timeout)?;
    let number = |sql: &str| {
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| damaged(path, error))
    };
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let fresh = application == 0 && version == 0 && tables == 0;
    if !fresh && application != i64::from(APPLICATION) {
        return Err(foreign(path));
    }
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if version > known {
        return Err(StoreError::Refused(format!(
            "{} was written by a newer version of Switchboard (schema {version}, this one knows up to \
             {known}); run that version, or choose another file",
            path.display()
        )));
    }
    migrate(&mut connection, version, path)?;
    probe(&connection, path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection, version: i64, path: &Path) -> Result<(), StoreError> {
    let done = usize::try_from(version).unwrap_or(0);
    for (number, sql) in (1_i64..).zip(MIGRATIONS).skip(done) {
        migrate_to(connection, number, sql).map_err(|error| damaged(path, error))?;
        tracing::info!(schema = number, "the log has a new schema");
    }
    Ok(())
}

fn migrate_to(connection: &mut Connection, number: i64, sql: &str) -> Result<(), rusqlite::Error> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", number)?;
    transaction.commit()
}

/// Reads a little of every table, and the last batch, so that gross damage is found at once.
fn probe(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    for table in TABLES {
        let found = connection.query_row(
            &format!("SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1)"),
            [],
            |row| row.get::<_, i64>(0),
        );
        found.map_err(|error| damaged(path, error))?;
    }
    let last = connection.query_row("SELECT events FROM log ORDER BY id DESC LIMIT 1", [], |row| {
        Ok(decode_batch(row.get_ref(0)?.as_blob()?).is_some())
    });
    match last {
        Ok(true) | Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
        Ok(false) => Err(StoreError::Refused(format!(
            "the last batch in {} cannot be read; restore a backup, or run the version that wrote it",
            path.display()
        ))),
        Err(error) => Err(damaged(path, error)),
    }
}

fn configure(connection: &Connection, path: &Path, options: &SqliteOptions) -> Result<(), StoreError> {
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(|error| damaged(path, error))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::Refused(format!(
            "{} lies where SQLite cannot keep a write-ahead log; choose a local disk",
            path.display()
        )));
    }
    let synchronous = match options.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -i64::from(options.cache_kib))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // The writer decides itself when to checkpoint; afterwards the file shrinks to this.
    connection.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
    let wal_bytes = i64::from(options.checkpoint_pages) * 2 * PAGE_BYTES;
    connection.query_row(&format!("PRAGMA journal_size_limit = {wal_bytes}"), [], |_| Ok(()))?;
    if let Some(pages) = options.max_pages {
        set_max_pages(connection, pages)?;
    }
    keep_prepared(connection)?;
    Ok(())
}

/// Prepares each statement once. Without the guarantee of stable plans, SQLite would prepare one anew whenever what is
/// bound to it could lead to another plan: with a new session or position, each time.
fn keep_prepared(connection: &Connection) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Bounds the size of the database; it never shrinks below what is used.
pub(super) fn set_max_pages(connection: &Connection, pages: u32) -> Result<(), StoreError> {
    connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
    Ok(())
}

fn header(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(MAGIC.len());
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut header)?;
    Ok(header)
}

/// A path with something appended to its last part.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Refused(format!("cannot {what} {}: {error}", path.display()))
}

fn foreign(path: &Path) -> StoreError {
    StoreError::Refused(format!(
        "{} is not a log of Switchboard; it was left untouched, choose another file",
        path.display()
    ))
}

fn damaged(path: &Path, error: rusqlite::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Full => StoreError::Full,
        StoreError::Conflict { .. } | StoreError::Closed => foreign(path),
        StoreError::Refused(what) | StoreError::Corrupt(what) | StoreError::Failed(what) => {
            StoreError::Refused(format!(
                "{} cannot be opened ({what}); it was not reset: restore a backup, try the `.recover` \
                 command of sqlite3 on a copy, or choose another file",
                path.display()
            ))
        }
    }
}

/// One file per version, in order.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_initial.sql"),
    include_str!("../../migrations/0002_devices.sql"),
    include_str!("../../migrations/0003_heads.sql"),
    include_str!("../../migrations/0004_released.sql"),
    include_str!("../../migrations/0005_usage.sql"),
];
/// What every log has, whatever chronicles it keeps besides.
pub(super) const TABLES: &[&str] =
    &["streams", "log", "snapshots", "sessions", "turns", "messages", "requests", "devices", "usage"];

/// Marks the file as ours: `SWBD`.
const APPLICATION: i32 = 0x5357_4244;
const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGE_BYTES: i64 = 4096;
const STATEMENTS: usize = 128;
/// How often it is tried to get hold of a file that is in use, and after how long each time.
const LOCK_LOOKS: u32 = 40;
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(25);
