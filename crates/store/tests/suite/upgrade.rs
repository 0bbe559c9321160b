//! Files of earlier versions are brought up to date, and lose nothing.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::json;
use switchboard_core::SessionId;
use switchboard_core::model::{Finish, TurnOutcome};
use switchboard_store::{DeviceFilter, Log, SqliteLog};

use crate::scribe::{Scribe, open, options, text};
use crate::sqlite::everything;

#[tokio::test]
async fn a_log_from_before_devices() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("t", "hello", Some("key1"))).await.unwrap();
    log.append(scribe.say("t", 3)).await.unwrap();
    log.append(scribe.end("t", TurnOutcome::Done(Finish::Complete))).await.unwrap();
    log.append(scribe.write_with_snapshot(vec![text("t", "late")])).await.unwrap();
    let rows = everything(&log).await;
    log.close().await.unwrap();
    let old = earlier(&folder.path().join("old.db"), log.path());

    let log = SqliteLog::open(&old, options()).unwrap();
    assert_eq!(everything(&log).await, rows);
    assert_eq!(Scribe::resume(&log, "s", "ann").await.session, scribe.session);
    let all = DeviceFilter { limit: 10, ..DeviceFilter::default() };
    assert!(log.devices(&all).await.unwrap().is_empty());
    log.append(scribe.join("lab-7", json!({ "cpu_count": 8 }))).await.unwrap();
    assert_eq!(log.devices(&all).await.unwrap().len(), 1);
    let rows = everything(&log).await;
    log.close().await.unwrap();

    // Once is enough: the next start finds it as it was left.
    let log = SqliteLog::open(&old, options()).unwrap();
    assert_eq!(everything(&log).await, rows);
    log.rebuild_projections(|_, _| {}).await.unwrap();
    assert_eq!(everything(&log).await, rows);
}

#[tokio::test]
async fn bytes_of_an_earlier_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let old = first_version(&path);
    old.execute("INSERT INTO streams (id, session) VALUES (1, 's')", []).unwrap();
    let events = include_bytes!("../golden/batch_v1.bin").as_slice();
    let insert = "INSERT INTO log (stream, epoch, first_seq, last_seq, events) VALUES (1, 3, 1, 28, ?1)";
    old.execute(insert, [events]).unwrap();
    drop(old);

    let log = SqliteLog::open(&path, options()).unwrap();
    let batches = log.read(&SessionId::from("s"), 0, 100).await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.events.len()).sum::<usize>(), 28);
    log.rebuild_projections(|_, _| {}).await.unwrap();
    assert_eq!(log.session(&SessionId::from("s")).await.unwrap().unwrap().head, 28);
}

/// A file as the version before devices would have left it, with the rows of `from`.
fn earlier(path: &Path, from: &Path) -> PathBuf {
    let old = first_version(path);
    old.execute("ATTACH ?1 AS new", [from.to_str().unwrap()]).unwrap();
    for table in ["streams", "log", "snapshots", "turns", "messages", "requests"] {
        old.execute(&format!("INSERT INTO main.{table} SELECT * FROM new.{table}"), []).unwrap();
    }
    // The head of a session stood in its row, too.
    let rows = "SELECT stream, session, owner, agent, name, epoch,
                    (SELECT max(last_seq) FROM new.log WHERE log.stream = sessions.stream),
                    opened_at, updated_at, turns, live FROM new.sessions";
    old.execute(&format!("INSERT INTO main.sessions {rows}"), []).unwrap();
    path.to_owned()
}

/// An empty file of the first version.
fn first_version(path: &Path) -> Connection {
    let old = Connection::open(path).unwrap();
    old.execute_batch(include_str!("../../migrations/0001_initial.sql")).unwrap();
    old.pragma_update(None, "application_id", 0x5357_4244).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old
}
