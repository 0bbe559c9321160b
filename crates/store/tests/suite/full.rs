//! No space left: nothing acknowledged is lost, and service goes on when there is space again.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use switchboard_core::SessionId;
use switchboard_store::{Log, SqliteLog, SqliteOptions, StoreError};

use crate::scribe::{Scribe, all, options, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bounded_file_refuses_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let log = SqliteLog::open(&path, SqliteOptions { max_pages: Some(120), ..options() }).unwrap();
    let log = Arc::new(log);
    let scribes = fill(&log).await;
    assert!(log.stats().failures >= 8);

    log.set_max_pages(100_000).await.unwrap();
    let scribes = go_on(&log, scribes).await;
    drop(log);
    verify(&SqliteLog::open(&path, options()).unwrap(), &scribes).await;
}

#[tokio::test]
async fn one_append_too_large_does_not_take_others_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let log = SqliteLog::open(&path, SqliteOptions { max_pages: Some(120), ..options() }).unwrap();
    let (mut small, mut large) = (Scribe::new("small", "ann"), Scribe::new("large", "ann"));
    log.append(small.open()).await.unwrap();
    log.append(large.open()).await.unwrap();
    let too_large = large.write(vec![text("t", &"x".repeat(1 << 20))]);
    // Queued together, so that they share a transaction at first.
    let (first, second, third) =
        tokio::join!(log.append(small.say("t", 1)), log.append(too_large), log.append(small.say("t", 2)));
    assert!(first.is_ok() && third.is_ok(), "{first:?} {third:?}");
    assert!(matches!(second, Err(StoreError::Full)), "{second:?}");
    assert_eq!(all(&log, small.id()).await.len(), 4);
    assert_eq!(all(&log, large.id()).await.len(), 1);
    assert_eq!(log.stats().failures, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, vec![0; 3 << 20]).unwrap();
    let path = folder.path().join("log.db");
    let log = SqliteLog::open(&path, SqliteOptions { checkpoint_pages: 64, ..options() }).unwrap();
    let log = Arc::new(log);
    let scribes = fill(&log).await;
    assert!(log.stats().failures >= 8);

    std::fs::remove_file(&ballast).unwrap();
    let scribes = go_on(&log, scribes).await;
    drop(log);
    let log = SqliteLog::open(&path, options()).unwrap();
    verify(&log, &scribes).await;
    drop(log);
    drop(disk);
}

/// Eight sessions are written to until each was told that there is no space.
async fn fill(log: &Arc<SqliteLog>) -> Vec<Scribe> {
    let mut scribes: Vec<_> = (0..8).map(|number| Scribe::new(&format!("s{number}"), "ann")).collect();
    for scribe in &mut scribes {
        log.append(scribe.open()).await.unwrap();
    }
    let tasks: Vec<_> = scribes
        .into_iter()
        .map(|mut scribe| {
            let log = Arc::clone(log);
            tokio::spawn(async move {
                for _ in 0..100_000 {
                    let before = scribe.session.clone();
                    match log.append(scribe.write(vec![text("t", &"word ".repeat(100))])).await {
                        Ok(()) => {}
                        Err(StoreError::Full) => {
                            scribe.session = before;
                            return scribe;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                panic!("the disk is not small");
            })
        })
        .collect();
    let mut scribes = Vec::new();
    for task in tasks {
        scribes.push(task.await.unwrap());
    }
    verify(log, &scribes).await;
    scribes
}

/// The same handle goes on.
async fn go_on(log: &SqliteLog, mut scribes: Vec<Scribe>) -> Vec<Scribe> {
    for scribe in &mut scribes {
        for _ in 0..20 {
            log.append(scribe.write(vec![text("t", &"word ".repeat(100))])).await.unwrap();
        }
    }
    verify(log, &scribes).await;
    scribes
}

/// What was acknowledged is there, and nothing else.
async fn verify(log: &SqliteLog, scribes: &[Scribe]) {
    for scribe in scribes {
        let id: &SessionId = scribe.id();
        assert_eq!(all(log, id).await.len() as u64, scribe.session.head().seq);
        assert_eq!(log.session(id).await.unwrap(), scribe.session.summary());
    }
}

/// A file system of four megabytes.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path) -> Option<Self> {
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(path).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path)),
            other => {
                skipped(&format!("cannot mount a small disk here: {other:?}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0).status().unwrap();
    }
}

#[expect(clippy::print_stderr, reason = "a test that proves nothing has to say so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
