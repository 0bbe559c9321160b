//! Many writers at once.

use std::sync::Arc;

use switchboard_core::Event;
use switchboard_core::model::Output;
use switchboard_store::{Log, MemoryLog, StoreError};

use crate::scribe::{Scribe, all, open, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_keeps_order_and_density() {
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new());
    many_sessions(&log).await;
    rivals(&log).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_keeps_order_and_density() {
    let folder = tempfile::tempdir().unwrap();
    let log: Arc<dyn Log> = Arc::new(open(&folder));
    many_sessions(&log).await;
    let stats = log.stats();
    assert!(stats.commits < stats.appends, "appends share commits: {stats:?}");
    rivals(&log).await;
}

/// Each session has one writer, and all of them write at the same time.
async fn many_sessions(log: &Arc<dyn Log>) {
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let log = Arc::clone(log);
            tokio::spawn(async move {
                let mut scribe = Scribe::new(&format!("own{number}"), "ann");
                log.append(scribe.open()).await.unwrap();
                log.append(scribe.start("t", "hello", None)).await.unwrap();
                for round in 0..40 {
                    log.append(scribe.say("t", round % 5 + 1)).await.unwrap();
                    if round % 10 == 0 {
                        log.append(scribe.write_with_snapshot(vec![text("t", "x")])).await.unwrap();
                    }
                }
                scribe
            })
        })
        .collect();
    for task in tasks {
        let scribe = task.await.unwrap();
        assert_eq!(all(&**log, scribe.id()).await.len() as u64, scribe.session.head().seq);
        let stored = Scribe::resume(&**log, scribe.id().as_str(), "ann").await;
        assert_eq!(stored.session, scribe.session);
        assert_eq!(log.session(scribe.id()).await.unwrap(), scribe.session.summary());
    }
}

/// All write to the same session; whoever was too late looks again.
async fn rivals(log: &Arc<dyn Log>) {
    log.append(Scribe::new("shared", "ann").open()).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|writer| {
            let log = Arc::clone(log);
            tokio::spawn(async move {
                for round in 0..20 {
                    let word = format!("{writer}:{round}");
                    loop {
                        let mut scribe = Scribe::resume(&*log, "shared", "ann").await;
                        match log.append(scribe.write(vec![text("t", &word)])).await {
                            Ok(()) => break,
                            Err(StoreError::Conflict { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let events = all(&**log, Scribe::new("shared", "ann").id()).await;
    assert_eq!(events.len(), 161);
    // What each has written is there once, and in its order.
    for writer in 0..8 {
        let own = format!("{writer}:");
        let words: Vec<String> = events
            .iter()
            .filter_map(|event| {
                let Event::TurnOutput { output: Output::Text(word), .. } = &event.event else { return None };
                Some(word.clone())
            })
            .filter(|word| word.starts_with(&own))
            .collect();
        assert_eq!(words, (0..20).map(|round| format!("{writer}:{round}")).collect::<Vec<_>>());
    }
}
