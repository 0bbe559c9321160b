//! Whatever is written and asked, every store gives the same answer.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use switchboard_core::{
    Cell, Change, Comparison, Condition, Lookup, Order, Question, Record, Row, SessionId, Within,
};
use switchboard_store::{Log, MemoryLog, SqliteLog};

use crate::scribe::{Scribe, options};
use crate::tally::{self, ENTRIES};

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stores_answer_alike(
        batches in vec((select(SESSIONS), vec(record(), 0..8)), 1..12),
        lookups in vec(lookup(), 60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let alike = runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log.db");
            let sqlite = SqliteLog::open_with(path, options(), tally::chroniclers()).unwrap();
            let memory = MemoryLog::with_chroniclers(tally::chroniclers());
            let mut scribes: Vec<Scribe> = Vec::new();
            for (session, owner) in SESSIONS.iter().zip(["ann", "bob", "ann"]) {
                let mut scribe = Scribe::new(session, owner);
                let opened = scribe.open();
                memory.append(opened.clone()).await.unwrap();
                sqlite.append(opened).await.unwrap();
                scribes.push(scribe);
            }
            for (session, records) in batches {
                let scribe = scribes.iter_mut().find(|scribe| scribe.id().as_str() == session).unwrap();
                let mut append = scribe.say("t", 1);
                append.rows = records.into_iter().map(|record| of_session(session, record)).collect();
                memory.append(append.clone()).await.unwrap();
                sqlite.append(append).await.unwrap();
            }
            for lookup in lookups {
                let left = memory.look(&"ann".into(), &lookup).await.unwrap();
                let right = sqlite.look(&"ann".into(), &lookup).await.unwrap();
                prop_assert_eq!(left, right, "{:?}", lookup);
            }
            Ok(())
        });
        alike?;
    }
}

const SESSIONS: &[&str] = &["s1", "s2", "s3"];
const NAMES: &[&str] = &["a", "b", "c", "d", "é"];
const VALUES: &[&str] = &["before", "seq", "weight", "body", "raw"];

/// A change of a row, not yet of any session.
fn record() -> impl Strategy<Value = Record> {
    let change = prop_oneof![3 => Just(Change::Put), 1 => Just(Change::Set)];
    let cells = vec(select(VALUES).prop_flat_map(|column| (Just(column), cell(column))), 0..5);
    (change, select(NAMES), cells).prop_map(|(change, name, mut cells)| {
        cells.sort_by_key(|(column, _)| *column);
        cells.dedup_by_key(|(column, _)| *column);
        cells.push(("name", name.into()));
        Record { table: ENTRIES, change, cells }
    })
}

fn of_session(session: &str, mut record: Record) -> Row {
    record.cells.push(("session", session.into()));
    Row::Chronicled(record)
}

/// Something that fits a column; few things, so that they meet.
fn cell(column: &'static str) -> BoxedStrategy<Cell> {
    let numbers = || select(&[i64::MIN, -1, 0, 1, 2, i64::MAX][..]);
    let reals = || select(&[f64::NEG_INFINITY, -0.5, -0.0, 0.0, 1.0, 1e300, f64::NAN][..]);
    match column {
        "seq" => option::of(numbers()).prop_map(Cell::from).boxed(),
        "weight" => prop_oneof![reals().prop_map(Cell::from), numbers().prop_map(Cell::from)].boxed(),
        "raw" => option::of(select(&["", "a", "\u{ff}"][..]))
            .prop_map(|text| text.map(|text| bytes::Bytes::from_static(text.as_bytes())).into())
            .boxed(),
        "body" => option::of(select(&["", "A", "a", "a b", "\0", "日本"][..])).prop_map(Cell::from).boxed(),
        _ => option::of(select(NAMES)).prop_map(Cell::from).boxed(),
    }
}

fn lookup() -> impl Strategy<Value = Lookup> {
    let within = prop_oneof![
        Just(Within::Own),
        select(SESSIONS).prop_map(|session| Within::Session(SessionId::from(session)))
    ];
    let comparison =
        select(&[Comparison::Equal, Comparison::Unequal, Comparison::Above, Comparison::Below][..]);
    let column = || prop_oneof![select(VALUES), Just("name")];
    let condition = (column(), comparison)
        .prop_flat_map(|(column, is)| cell(column).prop_map(move |value| Condition { column, is, value }));
    let order = vec((column(), select(&[Order::Rising, Order::Falling][..])), 0..3);
    let question = prop_oneof![
        order.prop_map(Question::Rows),
        Just(Question::Count),
        select(NAMES).prop_map(|from| Question::Path { name: "name", before: "before", from: from.into() }),
        select(NAMES).prop_map(|from| Question::PathLength {
            name: "name",
            before: "before",
            from: from.into()
        }),
    ];
    let limit = select(&[0, 1, 3, 100, usize::MAX][..]);
    (within, vec(condition, 0..3), question, limit).prop_map(|(within, conditions, question, limit)| Lookup {
        table: ENTRIES,
        within,
        conditions,
        question,
        limit,
    })
}
