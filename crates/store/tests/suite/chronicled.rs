//! The tables of chronicles, the same for every store.

use switchboard_core::{
    Cell, Change, Comparison, Condition, Found, Lookup, Order, PrincipalId, Question, Record, Row, Within,
};
use switchboard_store::{Append, Log, MemoryLog, StoreError};

use crate::cases::for_every_store;
use crate::scribe::{Scribe, open};
use crate::tally::{self, COUNTS, ENTRIES};

for_every_store! {
    an_account_begins_with_the_session,
    records_change_what_they_name,
    records_that_do_not_fit_are_refused,
    a_batch_that_fails_leaves_nothing,
    rows_are_found_by_conditions,
    rows_come_in_order_and_within_limits,
    nobody_finds_rows_of_others,
    what_is_addressed_to_somebody_is_found_in_every_session,
    ways_lead_to_the_root,
    ways_end_where_conditions_do,
    ways_in_a_circle_end,
    words_are_found,
    words_are_no_operators,
    questions_about_nothing_are_refused,
}

async fn an_account_begins_with_the_session(log: &dyn Log) {
    let mut scribe = Scribe::new("s", "ann");
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    assert!(found(log, "s", COUNTS).await.is_empty(), "nobody has asked for it");
    log.append(scribe.chronicle()).await.unwrap();
    log.append(scribe.tell("b", Some("a"), "world")).await.unwrap();
    let row = |kind: &str, total: i64| -> Found { vec!["s".into(), kind.into(), total.into()] };
    let counts = [row("chronicle_begun", 1), row("message_added", 2), row("session_opened", 1)];
    assert_eq!(found(log, "s", COUNTS).await, counts);
    let entry = |name: &str, before: Option<&str>, seq: i64, body: &str| -> Found {
        let raw = bytes::Bytes::copy_from_slice(body.as_bytes());
        let weight = Cell::from(seq).as_real().into();
        vec!["s".into(), name.into(), before.into(), seq.into(), weight, body.into(), raw.into()]
    };
    assert_eq!(
        found(log, "s", ENTRIES).await,
        [entry("a", None, 2, "hello"), entry("b", Some("a"), 4, "world")]
    );
}

async fn records_change_what_they_name(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    let key = |name: &'static str| [("session", Cell::from("s")), ("name", name.into())];
    let mut write = async |changes: Vec<(Change, Vec<(&'static str, Cell)>)>| {
        log.append(with(scribe.say("t", 1), ENTRIES, changes)).await.unwrap();
        found(log, "s", ENTRIES).await
    };
    let set = vec![(Change::Set, [&key("a")[..], &[("body", "never".into())]].concat())];
    assert!(write(set).await.is_empty(), "what is not there cannot change");
    let put = vec![
        (Change::Put, key("a").to_vec()),
        (Change::Put, [&[("body", "said".into()), ("seq", 7_i64.into())][..], &key("a")].concat()),
        (Change::Set, [&key("a")[..], &[("weight", 2_i64.into())]].concat()),
        (Change::Put, key("a").to_vec()),
        (Change::Set, key("a").to_vec()),
    ];
    let row = |seq: Cell, weight: Cell| -> Found {
        vec!["s".into(), "a".into(), Cell::Null, seq, weight, "said".into(), Cell::Null]
    };
    assert_eq!(write(put).await, [row(7_i64.into(), 2.0.into())]);
    let undone = vec![
        (Change::Set, [&key("a")[..], &[("seq", Cell::Null)]].concat()),
        (Change::Put, [&key("a")[..], &[("weight", f64::NAN.into())]].concat()),
    ];
    assert_eq!(write(undone).await, [row(Cell::Null, Cell::Null)], "what is no number is nothing");
}

async fn records_that_do_not_fit_are_refused(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    let before = found(log, "s", ENTRIES).await;
    let good: Vec<(&'static str, Cell)> =
        vec![("session", "s".into()), ("name", "a".into()), ("body", "other".into())];
    let change = |place: usize, cell: (&'static str, Cell)| {
        let mut cells = good.clone();
        cells[place] = cell;
        cells
    };
    let bad = [
        ("tally_unknown", good.clone()),
        ("sessions", good.clone()),
        (ENTRIES, change(2, ("unknown", "x".into()))),
        (ENTRIES, change(2, ("body", 1_i64.into()))),
        (ENTRIES, change(2, ("seq", 1.5.into()))),
        (ENTRIES, change(2, ("raw", "x".into()))),
        (ENTRIES, change(2, ("name", "b".into()))),
        (ENTRIES, change(1, ("name", Cell::Null))),
        (ENTRIES, change(1, ("seq", 1_i64.into()))),
        (ENTRIES, change(0, ("session", "z".into()))),
    ];
    for (table, cells) in bad {
        let mut rival = Scribe::resume(log, "s", "ann").await;
        let append = with(rival.say("t", 1), table, vec![(Change::Put, cells)]);
        let outcome = log.append(append).await;
        assert!(matches!(outcome, Err(StoreError::Failed(_))), "{table}: {outcome:?}");
    }
    assert_eq!(found(log, "s", ENTRIES).await, before);
    assert_eq!(log.session(scribe.id()).await.unwrap(), scribe.session.summary());
}

async fn a_batch_that_fails_leaves_nothing(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    let mut rival = Scribe::resume(log, "s", "ann").await;
    log.append(scribe.tell("b", None, "world")).await.unwrap();
    let before = (found(log, "s", ENTRIES).await, found(log, "s", COUNTS).await);
    let cells = |name: &str| -> Vec<(&'static str, Cell)> {
        vec![("session", "s".into()), ("name", name.into()), ("body", "never".into())]
    };
    let changes = vec![(Change::Put, cells("c")), (Change::Set, cells("a"))];
    let late = log.append(with(rival.say("t", 1), ENTRIES, changes.clone())).await;
    assert!(matches!(late, Err(StoreError::Conflict { .. })), "{late:?}");
    let mut broken = with(Scribe::resume(log, "s", "ann").await.say("t", 1), ENTRIES, changes);
    broken.rows.push(Row::Chronicled(Record { table: ENTRIES, change: Change::Set, cells: Vec::new() }));
    let broken = log.append(broken).await;
    assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
    assert_eq!((found(log, "s", ENTRIES).await, found(log, "s", COUNTS).await), before);
    assert!(names(log, "s", Question::Words("never".into())).await.is_empty());
}

async fn rows_are_found_by_conditions(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    for (name, before) in [("a", None), ("b", Some("a")), ("c", Some("a")), ("d", Some("c"))] {
        log.append(scribe.tell(name, before, name)).await.unwrap();
    }
    // They have the numbers 3 to 6.
    type Is = (&'static str, Comparison, Cell);
    let cases: [(&[Is], &[&str]); 14] = [
        (&[("seq", Comparison::Equal, Cell::Integer(4))], &["b"]),
        (&[("seq", Comparison::Unequal, Cell::Integer(4))], &["a", "c", "d"]),
        (&[("seq", Comparison::Above, Cell::Integer(4))], &["c", "d"]),
        (&[("seq", Comparison::Below, Cell::Integer(4))], &["a"]),
        (&[("before", Comparison::Equal, Cell::Null)], &["a"]),
        (&[("before", Comparison::Unequal, Cell::Null)], &["b", "c", "d"]),
        (&[("before", Comparison::Unequal, Cell::Text("a".into()))], &["a", "d"]),
        (&[("before", Comparison::Above, Cell::Null)], &[]),
        (&[("before", Comparison::Below, Cell::Null)], &[]),
        (&[("before", Comparison::Below, Cell::Text("b".into()))], &["b", "c"]),
        (&[("weight", Comparison::Above, Cell::Integer(4)), ("name", Comparison::Below, "d".into())], &["c"]),
        (&[("weight", Comparison::Above, Cell::Real(4.5))], &["c", "d"]),
        (&[("raw", Comparison::Equal, Cell::Blob(bytes::Bytes::from_static(b"d")))], &["d"]),
        (
            &[("seq", Comparison::Above, Cell::Integer(3)), ("seq", Comparison::Below, Cell::Integer(6))],
            &["b", "c"],
        ),
    ];
    for (conditions, expected) in cases {
        let conditions: Vec<Condition> = conditions
            .iter()
            .map(|(column, is, value)| Condition { column, is: *is, value: value.clone() })
            .collect();
        let rows = Lookup { conditions: conditions.clone(), ..all("s", ENTRIES) };
        assert_eq!(named(&look(log, &rows).await), expected, "{conditions:?}");
        let count = Lookup { question: Question::Count, limit: 0, ..rows };
        assert_eq!(look(log, &count).await, [[Cell::Integer(expected.len() as i64)]], "{conditions:?}");
    }
}

async fn rows_come_in_order_and_within_limits(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    for (name, before) in [("b", None), ("Z", Some("b")), ("é", None), ("a", Some("b")), ("c", Some("a"))] {
        log.append(scribe.tell(name, before, name)).await.unwrap();
    }
    let ordered = async |order: &[(&'static str, Order)], limit| {
        let lookup = Lookup { question: Question::Rows(order.to_vec()), limit, ..all("s", ENTRIES) };
        named(&look(log, &lookup).await)
    };
    assert_eq!(ordered(&[], 9).await, ["Z", "a", "b", "c", "é"]);
    assert_eq!(ordered(&[("name", Order::Falling)], 9).await, ["é", "c", "b", "a", "Z"]);
    assert_eq!(ordered(&[("seq", Order::Falling)], 2).await, ["c", "a"]);
    assert_eq!(ordered(&[("before", Order::Rising)], 9).await, ["b", "é", "c", "Z", "a"]);
    let both = [("before", Order::Falling), ("seq", Order::Falling)];
    assert_eq!(ordered(&both, 9).await, ["a", "Z", "c", "é", "b"]);
    assert_eq!(ordered(&[("weight", Order::Rising)], usize::MAX).await, ["b", "Z", "é", "a", "c"]);
    assert!(ordered(&[], 0).await.is_empty());
}

async fn nobody_finds_rows_of_others(log: &dyn Log) {
    for (session, owner) in [("s1", "ann"), ("s2", "bob"), ("s3", "ann"), ("s4", "eve")] {
        let mut scribe = kept(log, session, owner).await;
        log.append(scribe.tell("root", None, "green tea")).await.unwrap();
        log.append(scribe.tell("leaf", Some("root"), "black tea")).await.unwrap();
    }
    let way = |from: &str| Question::Path { name: "name", before: "before", from: from.into() };
    let length = Question::PathLength { name: "name", before: "before", from: "leaf".into() };
    let questions = [Question::Rows(Vec::new()), Question::Words("tea".into()), way("leaf")];
    for (asker, own) in [("ann", &["s1", "s3"][..]), ("bob", &["s2"]), ("nobody", &[])] {
        let asker = PrincipalId::from(asker);
        let lookup = Lookup { within: Within::Own, ..all("s1", ENTRIES) };
        for question in questions.clone() {
            let rows = log.look(&asker, &Lookup { question, ..lookup.clone() }).await.unwrap();
            let mut sessions: Vec<&str> = rows.iter().filter_map(|row| row[0].as_text()).collect();
            sessions.sort_unstable();
            let twice: Vec<&str> = own.iter().flat_map(|session| [*session, *session]).collect();
            assert_eq!(sessions, twice);
        }
        for question in [Question::Count, length.clone()] {
            let count = log.look(&asker, &Lookup { question, ..lookup.clone() }).await.unwrap();
            assert_eq!(count, [[Cell::Integer(2 * own.len() as i64)]]);
        }
        // Within one session its rows are found, and no others.
        for question in questions.clone() {
            let rows = log.look(&asker, &Lookup { question, ..all("s2", ENTRIES) }).await.unwrap();
            assert!(rows.len() == 2 && rows.iter().all(|row| row[0] == "s2".into()));
        }
    }
    let side_by_side = Lookup { within: Within::Own, question: way("leaf"), limit: 3, ..all("s1", ENTRIES) };
    let rows = log.look(&"ann".into(), &side_by_side).await.unwrap();
    let places: Vec<_> =
        rows.iter().map(|row| (row[0].as_text().unwrap(), row[1].as_text().unwrap())).collect();
    assert_eq!(places, [("s1", "leaf"), ("s3", "leaf"), ("s1", "root")]);
}

async fn what_is_addressed_to_somebody_is_found_in_every_session(log: &dyn Log) {
    for (session, owner) in [("s1", "ann"), ("s2", "bob")] {
        let mut scribe = kept(log, session, owner).await;
        log.append(scribe.tell("eve", None, "green tea")).await.unwrap();
        log.append(scribe.tell("ann", Some("eve"), "black tea")).await.unwrap();
    }
    let addressed = Lookup { within: Within::Addressed("name"), ..all("s1", ENTRIES) };
    let way = Question::Path { name: "name", before: "before", from: "ann".into() };
    let rows = Question::Rows(Vec::new());
    for (asker, question, count) in [
        ("eve", rows.clone(), 2),
        ("eve", Question::Words("tea".into()), 2),
        ("bob", rows, 0),
        // The way leads on to what is another's.
        ("ann", way.clone(), 2),
        ("eve", way, 0),
    ] {
        let lookup = Lookup { question, ..addressed.clone() };
        let found = log.look(&asker.into(), &lookup).await.unwrap();
        assert_eq!(found.len(), count, "{asker}: {lookup:?}");
        assert!(found.iter().all(|row| row[1] == asker.into()), "{found:?}");
    }
    let unknown = Lookup { within: Within::Addressed("nobody"), ..addressed };
    assert!(log.look(&"eve".into(), &unknown).await.is_err(), "there is no such column");
}

async fn ways_lead_to_the_root(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    let mut other = kept(log, "z", "ann").await;
    for scribe in [&mut scribe, &mut other] {
        for (name, before) in
            [("a", None), ("b", Some("a")), ("x", Some("a")), ("c", Some("b")), ("d", Some("c"))]
        {
            log.append(scribe.tell(name, before, name)).await.unwrap();
        }
    }
    log.append(scribe.tell("lost", Some("unknown"), "?")).await.unwrap();
    assert_eq!(way(log, "d", usize::MAX).await, ["d", "c", "b", "a"]);
    assert_eq!(way(log, "d", 2).await, ["d", "c"]);
    assert_eq!(way(log, "x", 9).await, ["x", "a"]);
    assert_eq!(way(log, "lost", 9).await, ["lost"]);
    assert!(way(log, "unknown", 9).await.is_empty());
    assert!(way(log, "d", 0).await.is_empty());
    for (from, expected) in [("d", 4), ("a", 1), ("unknown", 0)] {
        assert_eq!(length(log, from, Vec::new()).await, expected);
    }
}

async fn ways_end_where_conditions_do(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    for (name, before) in [("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("c"))] {
        log.append(scribe.tell(name, before, name)).await.unwrap();
    }
    // The rows have the numbers 3 to 6.
    let is_not = |seq: i64| vec![Condition { column: "seq", is: Comparison::Unequal, value: seq.into() }];
    let question = Question::Path { name: "name", before: "before", from: "d".into() };
    for (seq, expected) in [(4, &["d", "c"][..]), (3, &["d", "c", "b"]), (6, &[]), (9, &["d", "c", "b", "a"])]
    {
        let lookup = Lookup { question: question.clone(), conditions: is_not(seq), ..all("s", ENTRIES) };
        assert_eq!(named(&look(log, &lookup).await), expected);
        assert_eq!(length(log, "d", is_not(seq)).await, expected.len());
    }
}

async fn ways_in_a_circle_end(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    for (name, before) in [("a", "c"), ("b", "a"), ("c", "b"), ("self", "self"), ("in", "b")] {
        log.append(scribe.tell(name, Some(before), name)).await.unwrap();
    }
    assert_eq!(way(log, "a", 100).await, ["a", "c", "b"]);
    assert_eq!(way(log, "self", 100).await, ["self"]);
    assert_eq!(way(log, "in", 100).await, ["in", "b", "a", "c"]);
    assert_eq!(length(log, "in", Vec::new()).await, 4);
    assert_eq!(length(log, "self", Vec::new()).await, 1);
}

async fn words_are_found(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    let mut other = kept(log, "z", "ann").await;
    for (name, said) in [
        ("tea", "Green tea in the morning"),
        ("coffee", "coffee in the evening, never tea"),
        ("cat", "the cat is called Ünal"),
        ("empty", ""),
    ] {
        log.append(scribe.tell(name, None, said)).await.unwrap();
        log.append(other.tell(name, None, "green tea in the morning")).await.unwrap();
    }
    let words = async |text: &str| names(log, "s", Question::Words(text.into())).await;
    assert_eq!(words("What about GREEN tea, in the morning?").await.first().unwrap(), "tea");
    assert_eq!(words("evening").await, ["coffee"]);
    assert_eq!(words("ünal").await, ["cat"]);
    let mut both = words("tea").await;
    both.sort_unstable();
    assert_eq!(both, ["coffee", "tea"]);
    assert!(words("zebra").await.is_empty());

    // What is said from now on counts, and what was said no longer does.
    log.append(scribe.edit("coffee", "nothing but water")).await.unwrap();
    assert_eq!(words("tea").await, ["tea"]);
    assert_eq!(words("water evening").await, ["coffee"]);
    let conditions = vec![Condition { column: "name", is: Comparison::Unequal, value: "tea".into() }];
    let lookup = Lookup { question: Question::Words("tea water".into()), ..all("s", ENTRIES) };
    assert_eq!(named(&look(log, &Lookup { conditions, ..lookup.clone() }).await), ["coffee"]);
    assert_eq!(look(log, &Lookup { limit: 1, ..lookup.clone() }).await.len(), 1);
    assert!(look(log, &Lookup { limit: 0, ..lookup }).await.is_empty());
}

async fn words_are_no_operators(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    log.append(scribe.tell("one", None, "it's \"one\" OR nothing AND body:two* 🍵")).await.unwrap();
    log.append(scribe.tell("two", None, "two")).await.unwrap();
    let words = async |text: &str| names(log, "s", Question::Words(text.into())).await;
    for text in ["", "  ", "\"", "\"\"", "*", "🍵", "( ) ^ - + : , .", "'';--", "\0", "NOT", "NEAR(", "{x}:"]
    {
        assert!(words(text).await.is_empty(), "{text:?}");
    }
    for text in
        ["\"one", "one\"", "one*", "one AND zebra", "one NOT one", "NEAR(one zebra, 2)", "-one", "^one 🍵"]
    {
        assert_eq!(words(text).await, ["one"], "{text:?}");
    }
    for text in ["name:two", "body : two", "{two}", "zebra OR two", "two\0"] {
        assert!(words(text).await.contains(&"two".to_owned()), "{text:?}");
    }
    let endless: String = (0..100_000).map(|number| format!("w{number} ")).collect();
    assert!(words(&endless).await.is_empty());
}

async fn questions_about_nothing_are_refused(log: &dyn Log) {
    let mut scribe = kept(log, "s", "ann").await;
    log.append(scribe.tell("a", None, "hello")).await.unwrap();
    let condition = |column, value| Condition { column, is: Comparison::Equal, value };
    let way = |name, before| Question::Path { name, before, from: "a".into() };
    let entries = || all("s", ENTRIES);
    let counted = Question::PathLength { name: "seq", before: "before", from: "a".into() };
    let bad = [
        all("s", "tally_unknown"),
        all("s", "sessions"),
        Lookup { conditions: vec![condition("unknown", Cell::Null)], ..entries() },
        Lookup { conditions: vec![condition("seq", "3".into())], ..entries() },
        Lookup { conditions: vec![condition("name", 3_i64.into())], ..entries() },
        Lookup { question: Question::Rows(vec![("unknown", Order::Rising)]), ..entries() },
        Lookup { question: Question::Words("hello".into()), ..all("s", COUNTS) },
        Lookup { question: way("unknown", "before"), ..entries() },
        Lookup { question: way("name", "unknown"), ..entries() },
        Lookup { question: way("name", "seq"), ..entries() },
        Lookup { question: way("body", "before"), ..entries() },
        Lookup { question: way("session", "before"), ..entries() },
        Lookup { question: counted, ..entries() },
    ];
    for lookup in bad {
        let outcome = log.look(&"ann".into(), &lookup).await;
        assert!(matches!(outcome, Err(StoreError::Failed(_))), "{lookup:?}: {outcome:?}");
    }
    assert!(look(log, &all("unknown", ENTRIES)).await.is_empty());
    log.close().await.unwrap();
    assert!(matches!(log.look(&"ann".into(), &entries()).await, Err(StoreError::Closed)));
}

/// A session of which an account is kept.
pub(crate) async fn kept(log: &dyn Log, session: &str, owner: &str) -> Scribe {
    let mut scribe = Scribe::new(session, owner);
    log.append(scribe.open()).await.unwrap();
    log.append(scribe.chronicle()).await.unwrap();
    scribe
}

/// An append with these changes of a table instead of those that its events lead to.
fn with(
    mut append: Append,
    table: &'static str,
    changes: Vec<(Change, Vec<(&'static str, Cell)>)>,
) -> Append {
    let records = changes.into_iter().map(|(change, cells)| Record { table, change, cells });
    append.rows = records.map(Row::Chronicled).collect();
    append
}

/// All rows of a table in a session.
pub(crate) fn all(session: &str, table: &'static str) -> Lookup {
    Lookup {
        table,
        within: Within::Session(session.into()),
        conditions: Vec::new(),
        question: Question::Rows(Vec::new()),
        limit: 1000,
    }
}

pub(crate) async fn look(log: &dyn Log, lookup: &Lookup) -> Vec<Found> {
    log.look(&PrincipalId::from("ann"), lookup).await.unwrap()
}

async fn found(log: &dyn Log, session: &str, table: &'static str) -> Vec<Found> {
    look(log, &all(session, table)).await
}

async fn way(log: &dyn Log, from: &str, limit: usize) -> Vec<String> {
    let question = Question::Path { name: "name", before: "before", from: from.into() };
    named(&look(log, &Lookup { question, limit, ..all("s", ENTRIES) }).await)
}

async fn length(log: &dyn Log, from: &str, conditions: Vec<Condition>) -> usize {
    let question = Question::PathLength { name: "name", before: "before", from: from.into() };
    let rows = look(log, &Lookup { question, conditions, limit: 0, ..all("s", ENTRIES) }).await;
    assert!(rows.len() == 1 && rows[0].len() == 1, "{rows:?}");
    usize::try_from(rows[0][0].as_integer().unwrap()).unwrap()
}

async fn names(log: &dyn Log, session: &str, question: Question) -> Vec<String> {
    named(&look(log, &Lookup { question, ..all(session, ENTRIES) }).await)
}

/// The names of entries.
pub(crate) fn named(rows: &[Found]) -> Vec<String> {
    rows.iter().map(|row| row[1].as_text().unwrap().to_owned()).collect()
}
