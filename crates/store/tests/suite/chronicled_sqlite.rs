//! The tables of chronicles in a file: how they come about, and come about again.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use rusqlite::types::Value;
use switchboard_core::model::{Finish, TurnOutcome};
use switchboard_core::{
    Cell, Change, Column, ColumnKind, Lookup, Question, Record, Row, Session, SessionId, Table, Within,
};
use switchboard_store::{Log, SqliteLog, SqliteOptions, StoreError};

use crate::chronicled::{all, kept, look, named};
use crate::scribe::{Scribe, open, options, refusal, text};
use crate::tally::{self, COUNTS, ENTRIES, TABLES, Tally};

#[tokio::test]
async fn rebuilt_tables_equal_those_written_live() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    for number in 0..8 {
        let mut scribe = Scribe::new(&format!("s{number}"), ["ann", "bob"][number % 2]);
        log.append(scribe.open()).await.unwrap();
        for round in 0..6 {
            // The account is asked for early, late or never.
            if round == number {
                log.append(scribe.chronicle()).await.unwrap();
            }
            let turn = format!("t{round}");
            log.append(scribe.start(&turn, &format!("question {round} of {number}"), None)).await.unwrap();
            log.append(scribe.say(&turn, round + 1)).await.unwrap();
            log.append(scribe.end(&turn, TurnOutcome::Done(Finish::Complete))).await.unwrap();
        }
        log.append(scribe.edit("t1.in", &format!("corrected {number}"))).await.unwrap();
        log.append(scribe.edit("unknown", "nothing")).await.unwrap();
    }
    let live = tables(&log);
    assert_eq!(live.iter().filter(|row| row.starts_with(ENTRIES)).count(), 6 * 6, "of six sessions");
    let other = Connection::open(log.path()).unwrap();
    other
        .execute_batch(
            "DELETE FROM tally_entries WHERE seq % 3 = 0; UPDATE tally_entries SET body = 'wrong', weight = 9;
             UPDATE tally_counts SET total = 77; INSERT INTO tally_counts VALUES ('s7', 'x', 1)",
        )
        .unwrap();
    assert_ne!(tables(&log), live);

    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    log.rebuild_projections(move |done, total| seen.lock().unwrap().push((done, total))).await.unwrap();
    assert_eq!(tables(&log), live);
    let total = log.stats().appends;
    assert_eq!(reports.lock().unwrap().last(), Some(&(total, total)));
    assert_eq!(found(&log, "s3", "corrected").await, ["t1.in"]);
    assert!(found(&log, "s3", "wrong").await.is_empty());

    // The writer goes on, and keeps the words in step.
    let mut scribe = kept(&log, "new", "ann").await;
    log.append(scribe.tell("a", None, "something fresh")).await.unwrap();
    assert_eq!(found(&log, "new", "fresh").await, ["a"]);
    log.rebuild_projections(|_, _| {}).await.unwrap();
    assert_eq!(found(&log, "new", "fresh").await, ["a"]);
    check_words(&log);
}

#[tokio::test]
async fn a_long_session_is_followed_from_its_first_event() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.tell("first", None, "hello")).await.unwrap();
    for _ in 0..200 {
        let events = (0..500).map(|_| text("t", "w")).collect();
        log.append(scribe.write(events)).await.unwrap();
    }
    log.append(scribe.chronicle()).await.unwrap();
    let live = tables(&log);
    drop_by_hand(&log, &format!("DROP TABLE {COUNTS}; DROP TABLE {ENTRIES}"));
    log.rebuild_projections(|_, _| {}).await.unwrap();
    assert_eq!(tables(&log), live);
    assert!(live.iter().any(|row| row.contains("Integer(100000)")), "{live:?}");
    assert_eq!(found(&log, "s", "hello").await, ["first"]);
}

#[tokio::test]
async fn a_failed_rebuild_keeps_the_old_tables() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = kept(&log, "s", "ann").await;
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    log.append(scribe.tell("b", None, "hello")).await.unwrap();
    let live = tables(&log);
    drop_by_hand(&log, "UPDATE log SET events = x'01' WHERE first_seq = 4");
    let outcome = log.rebuild_projections(|_, _| {}).await;
    assert!(matches!(outcome, Err(StoreError::Corrupt(_))), "{outcome:?}");
    assert_eq!(tables(&log), live);
    log.append(scribe.tell("c", None, "hello")).await.unwrap();
    assert_eq!(found(&log, "s", "hello").await.len(), 3);
    check_words(&log);
}

#[tokio::test]
async fn what_is_missing_is_there_again_after_opening() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = kept(&log, "s", "ann").await;
    log.append(scribe.tell("a", None, "green tea")).await.unwrap();
    let live = tables(&log);
    let schema = schema(&log);
    assert!(schema.len() >= 9, "{schema:?}");
    log.close().await.unwrap();
    for (number, (what, lost)) in [
        ("DROP TABLE tally_entries; DROP TABLE tally_counts", true),
        ("ALTER TABLE tally_counts DROP COLUMN total; ALTER TABLE tally_entries DROP COLUMN weight", true),
        ("DROP TABLE tally_counts; CREATE TABLE tally_counts (session INTEGER PRIMARY KEY, kind TEXT)", true),
        ("DROP INDEX tally_entries_by_name; DROP INDEX tally_entries_by_session_seq", false),
        ("DROP TABLE tally_entries_words", false),
        ("DROP TRIGGER tally_entries_words_changed; UPDATE tally_entries SET body = 'green tea!'", true),
        ("DROP TABLE tally_entries_words; DROP TRIGGER tally_entries_words_added", false),
        ("", false),
    ]
    .into_iter()
    .enumerate()
    {
        drop_by_hand(&log, what);
        let log = open(&folder);
        assert_eq!(tables(&log) != live, lost, "{what}");
        if lost {
            log.rebuild_projections(|_, _| {}).await.unwrap();
        }
        assert_eq!(tables(&log), live, "{what}");
        assert_eq!(found(&log, "s", "tea").await, ["a"], "{what}");
        let session = format!("new{number}");
        let mut scribe = kept(&log, &session, "ann").await;
        log.append(scribe.tell("b", None, "black coffee")).await.unwrap();
        assert_eq!(found(&log, &session, "coffee").await, ["b"], "{what}");
        check_words(&log);
        if !what.starts_with("ALTER") {
            assert_eq!(self::schema(&log), schema, "{what}");
        }
        drop_by_hand(&log, "DELETE FROM log WHERE stream > 1; DELETE FROM streams WHERE id > 1");
        log.rebuild_projections(|_, _| {}).await.unwrap();
        assert_eq!(tables(&log), live, "{what}");
        log.close().await.unwrap();
    }
}

#[tokio::test]
async fn anybody_can_read_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = kept(&log, "s", "ann").await;
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    let other = Connection::open(log.path()).unwrap();
    let row = other
        .query_row("SELECT * FROM tally_entries", [], |row| {
            let declared = TABLES[0].columns.iter().map(|column| column.name);
            assert!(row.as_ref().column_names().eq(declared));
            Ok((row.get::<_, String>("body")?, row.get::<_, f64>("weight")?, row.get::<_, i64>("seq")?))
        })
        .unwrap();
    assert_eq!(row, ("hello".into(), 3.0, 3));
}

#[tokio::test]
async fn words_outlive_a_vacuum() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = kept(&log, "s", "ann").await;
    for number in 0..20 {
        log.append(scribe.tell(&format!("m{number}"), None, &format!("word{number}"))).await.unwrap();
    }
    drop_by_hand(&log, "DELETE FROM tally_entries WHERE seq % 2 = 0; VACUUM");
    assert!(found(&log, "s", "word1").await.is_empty());
    assert_eq!(found(&log, "s", "word18").await, ["m18"]);
    check_words(&log);
}

#[tokio::test]
async fn no_space_leaves_no_half_of_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let limited = SqliteOptions { max_pages: Some(150), ..options() };
    let log = SqliteLog::open_with(folder.path().join("log.db"), limited, tally::chroniclers()).unwrap();
    let mut scribe = kept(&log, "s", "ann").await;
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    let live = tables(&log);
    let before: Session = scribe.session.clone();
    let mut append = scribe.say("t", 1);
    let cells = |name: &str, body: String| -> Vec<(&'static str, Cell)> {
        vec![("session", "s".into()), ("name", name.into()), ("body", body.into())]
    };
    for (change, cells) in [
        (Change::Set, cells("a", "changed".into())),
        (Change::Put, cells("b", "small".into())),
        (Change::Put, cells("c", "large ".repeat(1 << 18))),
    ] {
        append.rows.push(Row::Chronicled(Record { table: ENTRIES, change, cells }));
    }
    let outcome = log.append(append).await;
    assert!(matches!(outcome, Err(StoreError::Full)), "{outcome:?}");
    assert_eq!(tables(&log), live);
    assert!(found(&log, "s", "changed small large").await.is_empty());
    assert_eq!(log.session(before.id()).await.unwrap(), before.summary());
    check_words(&log);
}

#[tokio::test]
async fn a_log_without_the_chronicle_leaves_its_tables_alone() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(&folder);
    let mut scribe = kept(&log, "s", "ann").await;
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    let live = tables(&log);
    log.close().await.unwrap();

    let without = SqliteLog::open(log.path(), options()).unwrap();
    let outcome = without.append(scribe.tell("b", None, "world")).await;
    assert!(matches!(outcome, Err(StoreError::Failed(_))), "{outcome:?}");
    let outcome = without.look(&"ann".into(), &all("s", ENTRIES)).await;
    assert!(matches!(outcome, Err(StoreError::Failed(_))), "{outcome:?}");
    without.rebuild_projections(|_, _| {}).await.unwrap();
    without.close().await.unwrap();
    let log = open(&folder);
    assert_eq!(tables(&log), live);
}

#[tokio::test]
async fn declarations_that_make_no_sense_are_refused() {
    const NAMED_LIKE_OURS: &[Table] = &[Table { name: "log", ..TABLES[1] }];
    const TWICE: &[Table] = &[TABLES[1], TABLES[1]];
    const NAMED_LIKE_WORDS: &[Table] = &[TABLES[0], Table { name: "tally_entries_words", ..TABLES[1] }];
    const WITHOUT_SESSION: &[Table] = &[Table { key: &["kind"], ..TABLES[1] }];
    const WRONG_KEY: &[Table] = &[Table { key: &["session", "unknown"], ..TABLES[1] }];
    const WRONG_INDEX: &[Table] = &[Table { indexes: &[&["unknown"]], ..TABLES[1] }];
    const WORDS_OF_NUMBERS: &[Table] = &[Table { words: Some("total"), ..TABLES[1] }];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    for tables in
        [NAMED_LIKE_OURS, NAMED_LIKE_WORDS, TWICE, WITHOUT_SESSION, WRONG_KEY, WRONG_INDEX, WORDS_OF_NUMBERS]
    {
        let outcome = SqliteLog::open_with(&path, options(), vec![Arc::new(Tally(tables))]);
        assert!(matches!(outcome, Err(StoreError::Failed(_))), "{tables:?}: {outcome:?}");
    }
    assert!(!path.exists());
    std::fs::write(&path, "my diary").unwrap();
    refusal(SqliteLog::open_with(&path, options(), tally::chroniclers()));
    assert_eq!(std::fs::read(&path).unwrap(), b"my diary");
}

#[tokio::test]
async fn names_may_be_anything() {
    const ODD: &[Table] = &[Table {
        name: "select \"from\" where",
        columns: &[
            Column { name: "group", kind: ColumnKind::Text },
            Column { name: "it's; --", kind: ColumnKind::Text },
            Column { name: "a \"b\"", kind: ColumnKind::Text },
        ],
        key: &["group", "it's; --"],
        session: "group",
        indexes: &[&["a \"b\"", "group"]],
        words: Some("a \"b\""),
    }];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let log = SqliteLog::open_with(&path, options(), vec![Arc::new(Tally(ODD))]).unwrap();
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    for (name, body) in [("x", "first"), ("y", "second"), ("y", "third")] {
        let cells = vec![("group", "s".into()), ("it's; --", name.into()), ("a \"b\"", body.into())];
        let mut append = scribe.say("t", 1);
        append.rows.push(Row::Chronicled(Record { table: ODD[0].name, change: Change::Put, cells }));
        log.append(append).await.unwrap();
    }
    let path = Question::Path { name: "it's; --", before: "a \"b\"", from: "y".into() };
    for (question, expected) in [
        (Question::Rows(Vec::new()), &["x", "y"][..]),
        (Question::Words("second third".into()), &["y"]),
        (path, &["y"]),
    ] {
        for within in [Within::Own, Within::Session(SessionId::from("s"))] {
            let lookup = Lookup { question: question.clone(), within, ..all("s", ODD[0].name) };
            assert_eq!(named(&look(&log, &lookup).await), expected, "{lookup:?}");
        }
    }
}

/// Everything that the tables hold, by plain SQL, in the order of their keys.
fn tables(log: &SqliteLog) -> Vec<String> {
    let other = Connection::open(log.path()).unwrap();
    let mut found = Vec::new();
    for table in TABLES {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let sql =
            format!("SELECT {} FROM {} ORDER BY {}", columns.join(", "), table.name, table.key.join(", "));
        let mut statement = other.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| {
            let values: Vec<Value> =
                (0..columns.len()).map(|column| row.get(column)).collect::<Result<_, _>>()?;
            Ok(format!("{} {values:?}", table.name))
        });
        found.extend(rows.unwrap().map(Result::unwrap));
    }
    found
}

/// What the file says of the tables and all that belongs to them.
fn schema(log: &SqliteLog) -> Vec<String> {
    let other = Connection::open(log.path()).unwrap();
    let mut statement = other
        .prepare("SELECT type || ' ' || name || ' ' || ifnull(sql, '') FROM sqlite_schema WHERE name LIKE 'tally%' ORDER BY 1")
        .unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The index of the words says what the table says.
fn check_words(log: &SqliteLog) {
    let other = Connection::open(log.path()).unwrap();
    other
        .execute_batch(
            "INSERT INTO tally_entries_words (tally_entries_words, rank) VALUES ('integrity-check', 1)",
        )
        .unwrap();
}

fn drop_by_hand(log: &SqliteLog, sql: &str) {
    Connection::open(log.path()).unwrap().execute_batch(sql).unwrap();
}

async fn found(log: &SqliteLog, session: &str, words: &str) -> Vec<String> {
    let question = Question::Words(words.into());
    named(&look(log, &Lookup { question, ..all(session, ENTRIES) }).await)
}
