//! How fast the SQLite log takes in events, how many share a commit, and how fast it reads.
//!
//! `cargo run --release -p switchboard-store --example store_bench [folder]`
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first fault")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use switchboard_core::model::Output;
use switchboard_core::{
    AgentId, Committed, Event, Position, PrincipalId, Session, SessionId, SessionLimits, Timestamp, TurnId,
};
use switchboard_store::{Append, Batch, Log, SqliteLog, SqliteOptions, StoreStats, Synchronous};

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir_in(std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from));
    let folder = folder.unwrap();
    let mut number = 0;
    let mut open = |options: SqliteOptions| {
        number += 1;
        Arc::new(SqliteLog::open(folder.path().join(format!("{number}.db")), options).unwrap())
    };

    println!("as fast as possible, each session waits for its own append");
    println!("  synchronous  sessions  events/append   events/s  appends/s  events/commit  appends/commit");
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        for sessions in [1, 64] {
            for batch in [1, 64] {
                let log = open(SqliteOptions { synchronous, ..SqliteOptions::default() });
                let took = closed_loop(&log, sessions, batch).await;
                let stats = log.stats();
                let per_second = |count: u64| count as f64 / took.as_secs_f64();
                println!(
                    "  {:<11}  {sessions:>8}  {batch:>13}  {:>9.0}  {:>9.0}  {:>13.1}  {:>14.1}",
                    format!("{synchronous:?}"),
                    per_second(stats.events),
                    per_second(stats.appends),
                    stats.events as f64 / stats.commits as f64,
                    stats.appends as f64 / stats.commits as f64,
                );
            }
        }
    }

    println!("10 000 single events/s offered");
    println!("  synchronous  sessions  linger   events/s  events/commit  append p50   p99");
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        for sessions in [64, 1000] {
            for linger in [0, 2, 5] {
                let linger = Duration::from_millis(linger);
                let log = open(SqliteOptions { synchronous, linger, ..SqliteOptions::default() });
                let (took, latencies, stats) = open_loop(&log, sessions).await;
                println!(
                    "  {:<11}  {sessions:>8}  {:>6}  {:>9.0}  {:>13.1}  {:>10.2?} {:>10.2?}",
                    format!("{synchronous:?}"),
                    format!("{linger:?}"),
                    stats.events as f64 / took.as_secs_f64(),
                    stats.events as f64 / stats.commits as f64,
                    latencies[latencies.len() / 2],
                    latencies[latencies.len() * 99 / 100],
                );
            }
        }
    }

    println!("reading, among 64 sessions of 20 000 events each, written alternately in batches of 4");
    let log = open(SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() });
    let writers = fill(&log).await;
    let (mut reads, mut loads) = (Vec::new(), Vec::new());
    for round in 0..400_u64 {
        let id = &writers[round as usize % writers.len()].0;
        let began = Instant::now();
        let batches = log.read(id, 1 + round * 37, 500).await.unwrap();
        reads.push(began.elapsed());
        assert!(batches.iter().map(|batch| batch.events.len()).sum::<usize>() >= 500);
        let began = Instant::now();
        log.load(id).await.unwrap().unwrap();
        loads.push(began.elapsed());
    }
    for (what, mut times) in [("read 500 missed events", reads), ("load from a snapshot", loads)] {
        times.sort_unstable();
        println!("  {what:<24} p50 {:.2?}, p99 {:.2?}", times[200], times[396]);
    }
    log.close().await.unwrap();
    let bytes = std::fs::metadata(log.path()).unwrap().len();
    println!("  {} bytes per event on disk", bytes / (64 * 20_000));
}

/// Every session appends batch after batch for a second.
async fn closed_loop(log: &Arc<SqliteLog>, sessions: usize, batch: usize) -> Duration {
    let began = Instant::now();
    let tasks: Vec<_> = (0..sessions)
        .map(|number| {
            let log = Arc::clone(log);
            tokio::spawn(async move {
                let mut writer = Writer::new(number);
                log.append(writer.open()).await.unwrap();
                while began.elapsed() < Duration::from_secs(1) {
                    log.append(writer.say(batch)).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    began.elapsed()
}

/// Sessions that each produce an event now and then, 10 000 per second together; what comes while
/// an append is under way goes into the next one, as a session of the server does.
async fn open_loop(log: &Arc<SqliteLog>, sessions: usize) -> (Duration, Vec<Duration>, StoreStats) {
    let mut writers: Vec<Writer> = (0..sessions).map(Writer::new).collect();
    for writer in &mut writers {
        log.append(writer.open()).await.unwrap();
    }
    let before = log.stats();
    let period = Duration::from_micros(100 * sessions as u64);
    let began = Instant::now();
    let tasks = writers.into_iter().enumerate().map(|(number, mut writer)| {
        let log = Arc::clone(log);
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            let offset = period.mul_f64(number as f64 / sessions as f64);
            let mut next = began + offset;
            while began.elapsed() < Duration::from_millis(1500) {
                tokio::time::sleep_until(next.into()).await;
                let mut due = 0;
                while next <= Instant::now() {
                    next += period;
                    due += 1;
                }
                let asked = Instant::now();
                log.append(writer.say(due.max(1))).await.unwrap();
                latencies.push(asked.elapsed());
            }
            latencies
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap());
    }
    latencies.sort_unstable();
    let took = began.elapsed();
    let after = log.stats();
    let stats = StoreStats {
        commits: after.commits - before.commits,
        appends: after.appends - before.appends,
        events: after.events - before.events,
        failures: after.failures - before.failures,
    };
    (took, latencies, stats)
}

async fn fill(log: &Arc<SqliteLog>) -> Vec<(SessionId, Writer)> {
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let log = Arc::clone(log);
            tokio::spawn(async move {
                let mut writer = Writer::new(number);
                log.append(writer.open()).await.unwrap();
                for round in 0..5000 {
                    let mut append = writer.say(4);
                    if round % 64 == 0 {
                        append.snapshot = Some(Arc::new(writer.session.clone()));
                    }
                    log.append(append).await.unwrap();
                }
                (writer.session.id().clone(), writer)
            })
        })
        .collect();
    let mut writers = Vec::new();
    for task in tasks {
        writers.push(task.await.unwrap());
    }
    writers
}

/// One session with a turn that talks and talks.
struct Writer {
    session: Session,
    clock: u64,
}

impl Writer {
    fn new(number: usize) -> Self {
        let id = SessionId::new(format!("ses_{number:026}"));
        Self { session: Session::new(id, SessionLimits::default()), clock: 1_700_000_000_000_000 }
    }

    fn open(&mut self) -> Append {
        self.write([Event::SessionOpened {
            owner: PrincipalId::from("owner"),
            epoch: 1,
            agent: AgentId::from("echo"),
            name: None,
        }])
    }

    fn say(&mut self, pieces: usize) -> Append {
        let turn = TurnId::from("inv_0123456789abcdefghjkmnpqrs");
        let piece = Event::TurnOutput { turn, output: Output::Text("about a token or so".into()) };
        self.write(std::iter::repeat_n(piece, pieces))
    }

    fn write(&mut self, events: impl IntoIterator<Item = Event>) -> Append {
        let after = self.session.head();
        let mut committed = Vec::new();
        for (seq, event) in (after.seq + 1..).zip(events) {
            self.clock += 100;
            let at = Timestamp::from_micros(self.clock);
            let event = Committed { position: Position { epoch: 1, seq }, at, event };
            self.session.apply(&event);
            committed.push(event);
        }
        Append {
            session: self.session.id().clone(),
            after,
            batch: Arc::new(Batch { events: committed }),
            rows: Vec::new(),
            summary: self.session.summary().unwrap(),
            snapshot: None,
        }
    }
}
