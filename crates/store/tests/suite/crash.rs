//! What was acknowledged survives a killed process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use switchboard_core::SessionId;
use switchboard_store::{Log, SqliteLog};

use crate::scribe::{Scribe, all, options, text};

#[tokio::test]
async fn a_killed_writer_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    // Killed again and again, at different moments, on the same file.
    for round in 1..=4_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child_that_appends_until_killed", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{}", path.display()).unwrap();
        let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut count = 0;
        for line in lines.by_ref().filter(|line| line.starts_with("ack ")) {
            note(&mut acknowledged, &line);
            count += 1;
            // Whoever does not have to wait goes on for a while before it lets the others.
            if acknowledged.len() == 4 && count >= 150 * round {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts as well; its last line may be torn.
        let rest: Vec<String> = lines.filter(|line| line.starts_with("ack ")).collect();
        for line in rest.iter().rev().skip(1) {
            note(&mut acknowledged, line);
        }
        let log = SqliteLog::open(&path, options()).unwrap();
        assert_eq!(acknowledged.len(), 4);
        for (session, seq) in acknowledged {
            let stored = all(&log, &SessionId::from(session.as_str())).await;
            assert!(stored.len() as u64 >= seq, "{session}: {} of {seq}", stored.len());
            let scribe = Scribe::resume(&log, &session, "ann").await;
            assert_eq!(log.session(scribe.id()).await.unwrap(), scribe.session.summary());
        }
    }
}

fn note(acknowledged: &mut BTreeMap<String, u64>, line: &str) {
    let mut words = line.split(' ').skip(1);
    if let (Some(session), Some(Ok(seq))) = (words.next(), words.next().map(str::parse::<u64>)) {
        let known = acknowledged.entry(session.to_owned()).or_default();
        *known = seq.max(*known);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test above, in a process of its own"]
async fn child_that_appends_until_killed() {
    let mut path = String::new();
    std::io::stdin().read_line(&mut path).unwrap();
    println!();
    let log = Arc::new(SqliteLog::open(path.trim(), options()).unwrap());
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let session = format!("s{number}");
                let mut scribe = Scribe::resume(&*log, &session, "ann").await;
                if scribe.session.owner().is_none() {
                    log.append(scribe.open()).await.unwrap();
                }
                for round in 0_u64.. {
                    let append = match round % 50 {
                        0 => scribe.write_with_snapshot(vec![text("t", "word")]),
                        _ => scribe.say("t", 3),
                    };
                    log.append(append).await.unwrap();
                    println!("ack {session} {}", scribe.session.head().seq);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
