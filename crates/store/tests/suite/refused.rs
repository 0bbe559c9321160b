//! Files that must not be opened, and must not be reset.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use switchboard_store::{Log, SqliteLog};

use crate::scribe::{Scribe, all, open, options, refusal};

#[tokio::test]
async fn a_file_that_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    std::fs::write(&path, "my diary, which nobody may overwrite").unwrap();
    let why = untouched(&path);
    assert!(why.contains("not a log of Switchboard") && why.contains("another file"), "{why}");
}

#[tokio::test]
async fn the_database_of_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE log (id INTEGER PRIMARY KEY); INSERT INTO log VALUES (1)").unwrap();
    drop(other);
    let why = untouched(&path);
    assert!(why.contains("not a log of Switchboard"), "{why}");
}

#[tokio::test]
async fn a_log_of_a_newer_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA user_version = 99").unwrap();
    drop(newer);
    let why = untouched(&path);
    assert!(why.contains("newer version") && why.contains("99"), "{why}");
}

#[tokio::test]
async fn a_damaged_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let whole = std::fs::read(&path).unwrap();

    // The first page is noise behind an intact magic.
    let mut bytes = whole.clone();
    bytes[40..4096].fill(0xAA);
    std::fs::write(&path, bytes).unwrap();
    untouched(&path);

    // The schema is noise.
    let mut bytes = whole.clone();
    bytes[100..4096].fill(0x55);
    std::fs::write(&path, bytes).unwrap();
    let why = untouched(&path);
    assert!(why.contains("restore a backup") && why.contains("not reset"), "{why}");

    // The file was cut.
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    untouched(&path);

    // The file as it was still opens.
    std::fs::write(&path, whole).unwrap();
    let log = SqliteLog::open(&path, options()).unwrap();
    assert_eq!(all(&log, Scribe::new("s", "ann").id()).await.len(), 104);
}

#[tokio::test]
async fn a_last_batch_that_nobody_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch(
            "PRAGMA journal_mode = DELETE;
             UPDATE log SET events = x'FF00' WHERE id = (SELECT max(id) FROM log)",
        )
        .unwrap();
    drop(other);
    let why = untouched(&path);
    assert!(why.contains("last batch"), "{why}");
}

#[tokio::test]
async fn a_log_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let why = refusal(SqliteLog::open(log.path(), options()));
    assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
    #[cfg(unix)]
    {
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(log.path(), &link).unwrap();
        assert!(refusal(SqliteLog::open(&link, options())).contains("in use"));
    }
    log.append(Scribe::new("s", "ann").open()).await.unwrap();
    log.close().await.unwrap();
    SqliteLog::open(log.path(), options()).unwrap();
}

#[tokio::test]
async fn a_log_that_is_being_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let lock = File::open(folder.path().join("log.db.lock")).unwrap();
    lock.lock().unwrap();
    let leaving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(lock);
    });
    SqliteLog::open(&path, options()).unwrap();
    leaving.join().unwrap();
}

#[tokio::test]
async fn a_folder() {
    let folder = tempfile::tempdir().unwrap();
    refusal(SqliteLog::open(folder.path(), options()));
}

/// A log with a few pages, closed.
async fn filled(folder: &tempfile::TempDir) -> std::path::PathBuf {
    let log = open(folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("t", &"long ".repeat(5000), None)).await.unwrap();
    log.append(scribe.say("t", 100)).await.unwrap();
    log.close().await.unwrap();
    log.path().to_owned()
}

/// Opening is refused, and not one byte of the file has changed.
fn untouched(path: &Path) -> String {
    let before = std::fs::read(path).unwrap();
    let why = refusal(SqliteLog::open(path, options()));
    assert_eq!(std::fs::read(path).unwrap(), before);
    assert!(why.contains(path.file_name().unwrap().to_str().unwrap()), "{why}");
    why
}
