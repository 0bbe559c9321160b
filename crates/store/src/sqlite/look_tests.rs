//! What questions cost: how SQLite goes about them, not how long it takes.

use std::sync::Arc;

use rusqlite::{Connection, StatementStatus, params_from_iter};
use switchboard_core::{
    Chronicle, Chronicler, Column, ColumnKind, Comparison, Condition, Lookup, Order, PrincipalId, Question,
    SessionId, Table, Within,
};

use crate::sqlite::look::{Query, look};
use crate::sqlite::records::Bound;
use crate::tables::Tables;
use crate::{SqliteLog, SqliteOptions};

#[test]
fn a_way_costs_what_it_returns() {
    let chain = Chain::new(100_000);
    for within in [Within::Session("s7".into()), Within::Own] {
        let far = Lookup { within, question: path("m5000"), limit: 50, ..rows() };
        assert_eq!(chain.run(&far), 50);
        let plan = chain.plan(&far);
        let steps = plan.iter().filter(|step| step.starts_with("SEARCH this USING"));
        assert_eq!(steps.count(), 3, "{plan:#?}");
        assert!(!plan.iter().any(|step| step.starts_with("SCAN this")), "{plan:#?}");
        let (near, nearer) = (chain.cost(&far), chain.cost(&Lookup { limit: 25, ..far.clone() }));
        // In all sessions of an owner, each of them has such a way.
        assert!(near < 50_000 && near < 3 * nearer, "{near} and {nearer} steps");
    }
    let in_session = Lookup { within: Within::Session("s7".into()), ..rows() };
    let whole = Lookup { question: path("m9999"), limit: usize::MAX, ..in_session };
    assert_eq!(chain.run(&whole), 10_000);
    let ends = Condition { column: "number", is: Comparison::Above, value: 4990_i64.into() };
    let short = Lookup { conditions: vec![ends], ..Lookup { question: path("m5000"), ..whole } };
    assert_eq!(chain.run(&short), 10);
    assert!(chain.cost(&short) < 5000);
    let length = Question::PathLength { name: "name", before: "before", from: "m5000".into() };
    let length = Lookup { question: length, ..short };
    assert!(chain.cost(&length) < 5000);
}

#[test]
fn the_end_of_a_session_costs_what_it_returns() {
    let chain = Chain::new(10_000);
    let last = Question::Rows(vec![("number", Order::Falling)]);
    let last = Lookup { within: Within::Session("s7".into()), question: last, limit: 10, ..rows() };
    assert_eq!(chain.run(&last), 10);
    let plan = chain.plan(&last);
    assert!(plan.iter().any(|step| step.contains("chain_by_session_number (session=?)")), "{plan:#?}");
    assert!(chain.cost(&last) < 2000, "{} steps", chain.cost(&last));
    let one = Condition { column: "name", is: Comparison::Equal, value: "m77".into() };
    let one = Lookup { conditions: vec![one], question: Question::Rows(Vec::new()), ..last };
    assert!(chain.plan(&one).iter().any(|step| step.contains("(session=? AND name=?)")));
    let own = Lookup { within: Within::Own, ..one };
    assert_eq!(chain.run(&own), SESSIONS);
    assert!(!chain.plan(&own).iter().any(|step| step.starts_with("SCAN this")), "{:#?}", chain.plan(&own));
}

#[test]
fn a_value_with_an_index_costs_what_it_returns() {
    let chain = Chain::new(10_000);
    let some = Condition { column: "number", is: Comparison::Equal, value: 77_i64.into() };
    let question = Question::Rows(Vec::new());
    let within = Within::Session("s7".into());
    let one = Lookup { within, conditions: vec![some], question, limit: 1, ..rows() };
    assert_eq!(chain.run(&one), 1);
    assert!(chain.cost(&one) < 2000, "{} steps: {:#?}", chain.cost(&one), chain.plan(&one));
}

#[test]
fn words_lead_to_rows() {
    let chain = Chain::new(10_000);
    for within in [Within::Session("s7".into()), Within::Own] {
        let rare = Lookup { within, question: Question::Words("word500".into()), ..rows() };
        assert!(chain.run(&rare) >= 1);
        let plan = chain.plan(&rare);
        assert!(plan.iter().any(|step| step.starts_with("SCAN chain_words VIRTUAL TABLE")), "{plan:#?}");
        let by_number = "SEARCH this USING INTEGER PRIMARY KEY (rowid=?)";
        assert!(plan.iter().any(|step| step == by_number), "{plan:#?}");
        assert!(chain.cost(&rare) < 5000, "{} steps", chain.cost(&rare));
    }
}

/// Rows in a few sessions; in each of them a single way leads through all of its rows.
struct Chain {
    connection: Connection,
    tables: Tables,
    _log: SqliteLog,
    _folder: tempfile::TempDir,
}

impl Chain {
    fn new(rows: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let chroniclers: Vec<Arc<dyn Chronicler>> = vec![Arc::new(Chains)];
        let tables = Tables::of(&chroniclers);
        let path = folder.path().join("log.db");
        let log = SqliteLog::open_with(&path, SqliteOptions::default(), chroniclers).unwrap();
        let connection = Connection::open(&path).unwrap();
        let fill = format!(
            "BEGIN;
             WITH RECURSIVE sessions_of(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM sessions_of WHERE n < {last})
             INSERT INTO sessions SELECT n + 1, 's' || n, 'ann', 'echo', NULL, 1, 1, n, 1, 0 FROM sessions_of;
             WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows} - 1)
             INSERT INTO chain (session, name, before, number, body)
             SELECT 's' || (n % 10), 'm' || (n / 10), 'm' || (n / 10 - 1), n / 10, 'word' || (n / 10) FROM numbers;
             COMMIT",
            last = SESSIONS - 1,
        );
        connection.execute_batch(&fill).unwrap();
        Self { connection, tables, _log: log, _folder: folder }
    }

    fn query(&self, lookup: &Lookup) -> Query {
        Query::of(&"ann".into(), &self.tables.resolve(&"ann".into(), lookup).unwrap()).unwrap()
    }

    /// How many rows are found.
    fn run(&self, lookup: &Lookup) -> usize {
        let asked = self.tables.resolve(&"ann".into(), lookup).unwrap();
        look(&self.connection, &PrincipalId::from("ann"), &asked).unwrap().len()
    }

    /// How SQLite goes about it.
    fn plan(&self, lookup: &Lookup) -> Vec<String> {
        let query = self.query(lookup);
        let mut statement = self.connection.prepare(&format!("EXPLAIN QUERY PLAN {}", query.sql)).unwrap();
        let values = params_from_iter(query.values.iter().map(Bound));
        let steps = statement.query_map(values, |row| row.get("detail")).unwrap();
        steps.map(Result::unwrap).collect()
    }

    /// How many steps its machine takes.
    fn cost(&self, lookup: &Lookup) -> i32 {
        let query = self.query(lookup);
        let mut statement = self.connection.prepare(&query.sql).unwrap();
        let mut rows = statement.query(params_from_iter(query.values.iter().map(Bound))).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        statement.get_status(StatementStatus::VmStep)
    }
}

const SESSIONS: usize = 10;

fn path(from: &str) -> Question {
    Question::Path { name: "name", before: "before", from: from.into() }
}

fn rows() -> Lookup {
    Lookup {
        table: "chain",
        within: Within::Own,
        conditions: Vec::new(),
        question: Question::Rows(Vec::new()),
        limit: 1000,
    }
}

#[derive(Debug)]
struct Chains;

impl Chronicler for Chains {
    fn name(&self) -> &'static str {
        "chains"
    }

    fn tables(&self) -> &'static [Table] {
        const TEXT: ColumnKind = ColumnKind::Text;
        &[Table {
            name: "chain",
            columns: &[
                Column { name: "session", kind: TEXT },
                Column { name: "name", kind: TEXT },
                Column { name: "before", kind: TEXT },
                Column { name: "number", kind: ColumnKind::Integer },
                Column { name: "body", kind: TEXT },
            ],
            key: &["session", "name"],
            session: "session",
            indexes: &[&["session", "number"]],
            words: Some("body"),
        }]
    }

    fn begin(&self, session: &SessionId) -> Box<dyn Chronicle> {
        panic!("nobody asks for the account of {session}")
    }

    fn resume(&self, _session: &SessionId, _state: &[u8]) -> Option<Box<dyn Chronicle>> {
        None
    }
}
