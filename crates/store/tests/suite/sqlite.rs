//! What only SQLite has to prove.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use serde_json::json;
use switchboard_core::model::{Finish, TurnOutcome};
use switchboard_core::{MessageId, PrincipalId, Timestamp, TurnId};
use switchboard_store::{
    Append, DeviceFilter, Log, SessionFilter, SqliteLog, SqliteOptions, StoreError, Synchronous,
};

use tokio::task::JoinSet;

use crate::scribe::{Scribe, all, open, options, text};

#[tokio::test]
async fn it_opens_again_after_being_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut scribe = Scribe::new("s", "ann");
    let log = open(&folder);
    log.append(scribe.open()).await.unwrap();
    for round in 0..10 {
        log.append(scribe.say("t", 10)).await.unwrap();
        if round == 5 {
            log.append(scribe.write_with_snapshot(vec![text("t", "x")])).await.unwrap();
        }
    }
    drop(log);
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        let options = SqliteOptions { synchronous, ..options() };
        let log = SqliteLog::open(folder.path().join("log.db"), options).unwrap();
        assert_eq!(Scribe::resume(&log, "s", "ann").await.session, scribe.session);
        log.append(scribe.say("t", 1)).await.unwrap();
        log.close().await.unwrap();
    }
    assert_eq!(all(&open(&folder), scribe.id()).await.len(), 104);
}

/// What the log answers before anybody else had a chance to do anything.
async fn at_once(log: &SqliteLog, append: Append) -> Option<Result<(), StoreError>> {
    let mut append = std::pin::pin!(log.append(append));
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match append.as_mut().poll(context) {
            std::task::Poll::Ready(outcome) => Some(outcome),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn what_is_queued_when_it_is_dropped_is_committed() {
    let folder = tempfile::tempdir().unwrap();
    let mut scribe = Scribe::new("s", "ann");
    let options = SqliteOptions { synchronous: Synchronous::Full, ..options() };
    let log = SqliteLog::open(folder.path().join("log.db"), options).unwrap();
    // Asked once and given up: it is in the queue.
    at_once(&log, scribe.open()).await;
    drop(log);
    assert_eq!(all(&open(&folder), scribe.id()).await.len(), 1);
}

#[tokio::test]
async fn whoever_appends_alone_commits_on_the_spot() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    assert!(matches!(at_once(&log, scribe.open()).await, Some(Ok(()))));
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(matches!(at_once(&log, scribe.say("t", 3)).await, Some(Ok(()))));
    }
    tokio::task::yield_now().await;
    let stale = Scribe::new("s", "ann").open();
    assert!(matches!(at_once(&log, stale).await, Some(Err(StoreError::Conflict { .. }))));
    // Too large to keep others waiting here.
    log.append(scribe.write(vec![text("t", &"x".repeat(100_000))])).await.unwrap();
    log.close().await.unwrap();
    assert!(matches!(log.append(scribe.say("t", 1)).await, Err(StoreError::Closed)));
    assert_eq!(all(&open(&folder), scribe.id()).await.len(), 302);
}

#[tokio::test]
async fn nobody_waits_on_the_spot_for_a_file_that_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    let other = Connection::open(log.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(at_once(&log, scribe.say("t", 1)).await.is_none(), "the file is in use");
    other.execute_batch("ROLLBACK").unwrap();
    while log.stats().appends < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    log.append(scribe.say("t", 1)).await.unwrap();
    assert_eq!(all(&log, scribe.id()).await.len(), 3);
}

#[tokio::test]
async fn whoever_never_waits_leaves_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::new(open(&folder));
    let mut tasks = JoinSet::new();
    for name in ["s", "t"] {
        let log = log.clone();
        tasks.spawn(async move {
            let mut scribe = Scribe::new(name, "ann");
            log.append(scribe.open()).await.unwrap();
            for _ in 0..1000 {
                log.append(scribe.say("t", 1)).await.unwrap();
            }
        });
    }
    tasks.spawn(async move {
        while log.load(&"t".into()).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let first = log.session(&"s".into()).await.unwrap().unwrap();
        assert!(first.head < 1001, "it was done before the other one began");
    });
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap();
    }
}

#[tokio::test]
async fn where_many_append_they_gather() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { linger_above: 0, ..options() };
    let log = Arc::new(SqliteLog::open(folder.path().join("log.db"), options).unwrap());
    let mut scribes: Vec<Scribe> = (0..20).map(|number| Scribe::new(&format!("s{number}"), "ann")).collect();
    for scribe in &mut scribes {
        log.append(scribe.open()).await.unwrap();
    }
    for _ in 0..3 {
        for scribe in &mut scribes {
            log.append(scribe.say("t", 1)).await.unwrap();
        }
    }
    let before = log.stats().commits;
    let appends = scribes.iter_mut().map(|scribe| (log.clone(), scribe.say("t", 1)));
    let mut appends: JoinSet<_> =
        appends.map(|(log, append)| async move { log.append(append).await }).collect();
    while let Some(outcome) = appends.join_next().await {
        outcome.unwrap().unwrap();
    }
    let commits = log.stats().commits - before;
    assert!(commits < 10, "{commits} commits for 20 appends");
    // Where only one is left, it does not wait for others for ever.
    let scribe = &mut scribes[0];
    for _ in 0..500 {
        log.append(scribe.say("t", 1)).await.unwrap();
    }
    tokio::task::yield_now().await;
    assert!(matches!(at_once(&log, scribe.say("t", 1)).await, Some(Ok(()))));
}

#[tokio::test]
async fn sessions_are_found_however_new_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let log = open(&folder);
        for number in 0..round * 10 {
            let known = Scribe::resume(&log, &format!("s{number}"), "ann").await;
            assert_eq!(known.session.head().seq, 1, "s{number}");
        }
        for number in round * 10..(round + 1) * 10 {
            let mut scribe = Scribe::new(&format!("s{number}"), "ann");
            assert!(log.load(scribe.id()).await.unwrap().is_none());
            log.append(scribe.open()).await.unwrap();
            assert!(log.load(scribe.id()).await.unwrap().is_some());
        }
        log.close().await.unwrap();
        assert!(log.load(&"nobody".into()).await.is_err(), "it is closed");
    }
}

#[tokio::test]
async fn a_long_session_is_opened_from_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    for _ in 0..200 {
        let events = (0..500).map(|_| text("t", "w")).collect();
        log.append(scribe.write_with_snapshot(events)).await.unwrap();
    }
    let snapshot = scribe.session.head().seq;
    assert!(snapshot > 100_000);
    log.append(scribe.say("t", 10)).await.unwrap();
    log.close().await.unwrap();

    // Without the old batches nothing but the snapshot can bring the session back.
    let other = Connection::open(log.path()).unwrap();
    let gone = other.execute("DELETE FROM log WHERE last_seq <= ?1", [snapshot.cast_signed()]).unwrap();
    assert_eq!(gone, 201);
    drop(other);
    let log = open(&folder);
    let loaded = log.load(scribe.id()).await.unwrap().unwrap();
    assert_eq!(loaded.batches.iter().map(|batch| batch.events.len()).sum::<usize>(), 10);
    assert_eq!(Scribe::resume(&log, "s", "ann").await.session, scribe.session);
    log.append(scribe.say("t", 1)).await.unwrap();

    // And a reader is told that the rest is missing, instead of being given a gap.
    let gap = log.read(scribe.id(), 0, 10).await;
    assert!(matches!(gap, Err(StoreError::Corrupt(_))), "{gap:?}");
}

#[tokio::test]
async fn an_unreadable_snapshot_costs_time_only() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("t", "hello", None)).await.unwrap();
    log.append(scribe.write_with_snapshot(vec![text("t", "x")])).await.unwrap();
    log.append(scribe.say("t", 3)).await.unwrap();
    let other = Connection::open(log.path()).unwrap();
    for state in ["x''", "x'00'", "x'0180'", "x'02' || substr(state, 2)", "substr(state, 1, 40)"] {
        other.execute_batch(&format!("UPDATE snapshots SET state = CAST({state} AS BLOB)")).unwrap();
        let loaded = log.load(scribe.id()).await.unwrap().unwrap();
        assert!(loaded.snapshot.is_none(), "{state}");
        assert_eq!(Scribe::resume(&log, "s", "ann").await.session, scribe.session);
    }
}

#[tokio::test]
async fn an_unreadable_batch_is_named_and_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("t", "secret", None)).await.unwrap();
    let other = Connection::open(log.path()).unwrap();
    other
        .execute_batch("UPDATE log SET events = substr(events, 1, length(events) - 9) WHERE first_seq = 2")
        .unwrap();
    let outcome = log.load(scribe.id()).await;
    let Err(StoreError::Corrupt(why)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(why, "batch 2 of session s cannot be decoded");
}

#[tokio::test]
async fn rebuilt_rows_equal_those_written_live() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    for number in 0..12 {
        let mut scribe = Scribe::new(&format!("s{number}"), ["ann", "bob"][number % 2]);
        scribe.clock += number as u64 * 7;
        log.append(scribe.open()).await.unwrap();
        // The same devices in several sessions, which they left in part.
        let device = format!("lab-{}", number % 5);
        log.append(scribe.join(&device, json!({ "number": number }))).await.unwrap();
        log.append(scribe.report(&device, json!({ "report": number }))).await.unwrap();
        if number % 3 == 0 {
            log.append(scribe.leave(&device)).await.unwrap();
        }
        for (round, turn) in ["a", "b", "c", "d"].into_iter().enumerate() {
            // The same keys in several sessions, so that the order of replay must not matter.
            let key = format!("key{}", (number + round) % 5);
            log.append(scribe.start(turn, "question", Some(&key))).await.unwrap();
            log.append(scribe.say(turn, round + 1)).await.unwrap();
            let outcome = match round {
                0 => TurnOutcome::Done(Finish::Complete),
                1 => TurnOutcome::Expired,
                2 => TurnOutcome::Interrupted { abandoned: true },
                _ => continue,
            };
            log.append(scribe.end(turn, outcome)).await.unwrap();
        }
    }
    let live = everything(&log).await;
    let other = Connection::open(log.path()).unwrap();
    other
        .execute_batch(
            "DELETE FROM turns WHERE accepted > 5; UPDATE sessions SET turns = 99, name = 'wrong';
             DELETE FROM messages WHERE seq % 2 = 0; UPDATE requests SET turn = 'zzz';
             DELETE FROM devices WHERE device = 'lab-1'; UPDATE devices SET joined_at = 9e15, session = 'zzz'",
        )
        .unwrap();
    assert_ne!(everything(&log).await, live);

    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    log.rebuild_projections(move |done, total| seen.lock().unwrap().push((done, total))).await.unwrap();
    assert_eq!(everything(&log).await, live);
    let total = log.stats().appends;
    assert_eq!(reports.lock().unwrap().last(), Some(&(total, total)));

    // The writer knows that the rows are new.
    let mut scribe = Scribe::resume(&log, "s3", "bob").await;
    log.append(scribe.say("d", 1)).await.unwrap();
    assert_eq!(log.session(scribe.id()).await.unwrap(), scribe.session.summary());
}

#[tokio::test]
async fn an_unreadable_device_is_told_from_an_unknown_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.join("lab-7", json!({ "secret": 1 }))).await.unwrap();
    let live = everything(&log).await;
    let other = Connection::open(log.path()).unwrap();
    other.execute_batch("UPDATE devices SET facts = x'FF'").unwrap();
    let outcome = log.device(&"lab-7".into()).await;
    assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}");
    log.rebuild_projections(|_, _| {}).await.unwrap();
    assert_eq!(everything(&log).await, live);
}

#[tokio::test]
async fn a_failed_rebuild_keeps_the_old_rows() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.start("t", "hello", Some("key"))).await.unwrap();
    log.append(scribe.say("t", 1)).await.unwrap();
    let live = everything(&log).await;
    let other = Connection::open(log.path()).unwrap();
    other.execute_batch("UPDATE log SET events = x'01' WHERE first_seq = 5").unwrap();
    let outcome = log.rebuild_projections(|_, _| {}).await;
    assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}");
    assert_eq!(everything(&log).await, live);
    log.append(scribe.say("t", 1)).await.unwrap();
}

#[tokio::test]
async fn heads_beyond_the_cache_are_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { heads: 4, ..options() };
    let log = SqliteLog::open(folder.path().join("log.db"), options).unwrap();
    let mut scribes: Vec<Scribe> = (0..20).map(|number| Scribe::new(&format!("s{number}"), "ann")).collect();
    for scribe in &mut scribes {
        log.append(scribe.open()).await.unwrap();
    }
    for _ in 0..3 {
        for scribe in &mut scribes {
            log.append(scribe.say("t", 2)).await.unwrap();
            let stale = Scribe::new(scribe.id().as_str(), "ann").open();
            assert!(matches!(log.append(stale).await, Err(StoreError::Conflict { .. })));
        }
    }
    for scribe in &scribes {
        assert_eq!(all(&log, scribe.id()).await.len(), 7);
        assert_eq!(log.session(scribe.id()).await.unwrap(), scribe.session.summary());
    }
}

#[tokio::test]
async fn the_write_ahead_log_stays_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { checkpoint_pages: 64, ..options() };
    let log = SqliteLog::open(folder.path().join("log.db"), options).unwrap();
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    let mut largest = 0;
    for _ in 0..1000 {
        log.append(scribe.write(vec![text("t", &"word ".repeat(4000))])).await.unwrap();
        log.read(scribe.id(), scribe.session.head().seq - 1, 1).await.unwrap();
        largest = largest.max(std::fs::metadata(folder.path().join("log.db-wal")).unwrap().len());
    }
    // How far it gets beyond the checkpoint depends on how busy the machine is.
    assert!(largest < 1024 * 4096, "{largest} bytes of {} written", 1000 * 20_000);
    log.close().await.unwrap();
    assert!(!folder.path().join("log.db-wal").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let log = SqliteLog::open(folder.path().join("new/folder/log.db"), options()).unwrap();
    log.append(Scribe::new("s", "ann").open()).await.unwrap();
    for name in ["log.db", "log.db-wal", "log.db-shm"] {
        let mode =
            std::fs::metadata(folder.path().join("new/folder").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
}

/// Every row that can be asked for.
pub(crate) async fn everything(log: &SqliteLog) -> Vec<String> {
    let mut rows = Vec::new();
    let filter = SessionFilter { limit: 1000, ..SessionFilter::default() };
    for session in log.sessions(&filter).await.unwrap() {
        rows.push(format!("{session:?}"));
        for turn in log.turns(&session.session, 0, 1000).await.unwrap() {
            rows.push(format!("{turn:?}"));
            for message in [MessageId::input_of(&turn.turn), MessageId::answer_of(&turn.turn)] {
                let path = log.history(&session.session, &message, 1000).await.unwrap();
                rows.push(format!("{path:?}"));
            }
        }
        let messages =
            log.history(&session.session, &MessageId::input_of(&TurnId::from("d")), 99).await.unwrap();
        rows.push(format!("{messages:?}"));
    }
    rows.push(format!("{:?}", log.requests(Timestamp::default(), 1000).await.unwrap()));
    let filter = DeviceFilter { limit: 1000, ..DeviceFilter::default() };
    rows.extend(log.devices(&filter).await.unwrap().iter().map(|row| format!("{row:?}")));
    rows.push(format!("{:?}", log.request(&PrincipalId::from("ann"), "key1").await.unwrap()));
    rows
}
