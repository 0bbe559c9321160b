//! The ledger of tasks: what came of them, for whoever asked for them to read over HTTP (A17).
//!
//! It is a fold over the events of a session, and what it says stands in a table, so that a result can be read
//! after a restart of the server too.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::{
    Cell, Change, Chronicle, Chronicler, Column, ColumnKind, Committed, Comparison, Condition, Found, Lookup,
    Order, PrincipalId, Question, Record, SessionId, Table, Timestamp, TurnId, Within,
};

use crate::codec;
use crate::map::{Course, Names, PROTOCOL, Seen};
use crate::message::ServerMessage;

/// The name of the ledger in events.
pub const CHRONICLE: &str = "aip.ledger";

/// Tasks that are over. Moments are whole microseconds since the Unix epoch, results are JSON.
pub const RESULTS: Table = Table {
    name: "aip_results",
    columns: &[
        Column { name: "session_id", kind: ColumnKind::Text },
        Column { name: "turn_id", kind: ColumnKind::Text },
        Column { name: READER, kind: ColumnKind::Text },
        Column { name: TASK_NAME, kind: ColumnKind::Text },
        Column { name: ENDED_AT, kind: ColumnKind::Integer },
        Column { name: RESULT, kind: ColumnKind::Text },
    ],
    key: &["session_id", "turn_id"],
    session: "session_id",
    indexes: &[&[TASK_NAME, READER]],
    words: None,
};

/// Keeps the ledger of sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bookkeeper;

impl Chronicler for Bookkeeper {
    fn name(&self) -> &'static str {
        CHRONICLE
    }

    fn tables(&self) -> &'static [Table] {
        &[RESULTS]
    }

    fn begin(&self, session: &SessionId) -> Box<dyn Chronicle> {
        Box::new(Ledger { session: session.clone(), tasks: BTreeMap::new() })
    }

    fn resume(&self, session: &SessionId, state: &[u8]) -> Option<Box<dyn Chronicle>> {
        let (version, tasks) = state.split_first()?;
        let tasks = (*version == VERSION).then(|| serde_json::from_slice(tasks).ok()).flatten()?;
        Some(Box::new(Ledger { session: session.clone(), tasks }))
    }
}

/// The result of a task.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TaskResult {
    /// As JSON.
    pub(crate) json: String,
    pub(crate) at: Timestamp,
}

/// Without what it says.
impl fmt::Debug for TaskResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskResult").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Asks for the last result of a task of this name that the asker may read, if it is younger than a moment.
pub(crate) fn last_result(task_name: &str, after: Timestamp) -> Lookup {
    Lookup {
        table: RESULTS.name,
        within: Within::Addressed(READER),
        conditions: vec![
            Condition { column: TASK_NAME, is: Comparison::Equal, value: task_name.into() },
            Condition { column: ENDED_AT, is: Comparison::Above, value: micros(after) },
        ],
        question: Question::Rows(vec![(ENDED_AT, Order::Falling)]),
        limit: 1,
    }
}

/// What was found when it was asked for.
pub(crate) fn found(rows: &[Found]) -> Option<TaskResult> {
    let cell = |name: &str| rows.first()?.get(RESULTS.column(name)?);
    let at = cell(ENDED_AT)?.as_integer()?;
    let at = Timestamp::from_micros(at.try_into().ok()?);
    Some(TaskResult { json: cell(RESULT)?.as_text()?.to_owned(), at })
}

/// The tasks of one session that are not over.
struct Ledger {
    session: SessionId,
    tasks: BTreeMap<TurnId, Task>,
}

#[derive(Serialize, Deserialize)]
struct Task {
    reader: PrincipalId,
    task_name: String,
    course: Course,
}

impl Chronicle for Ledger {
    fn take(&mut self, committed: &Committed) -> Vec<Record> {
        match Seen::of(&committed.event) {
            Seen::Accepted { turn, origin, request, .. } => {
                if origin.protocol == PROTOCOL
                    && let Some(task_name) = Names::of(origin, &self.session).task_name
                {
                    let named = origin.options.get(READER).and_then(Value::as_str);
                    let reader = named.map_or_else(|| origin.principal.clone(), PrincipalId::from);
                    let task = Task { reader, task_name, course: Course::new(request.text()) };
                    self.tasks.insert(turn.clone(), task);
                }
            }
            Seen::Text(turn, text) => {
                if let Some(task) = self.tasks.get_mut(turn) {
                    task.course.say(text);
                }
            }
            Seen::Stopped(turn, reason) => {
                if let Some(task) = self.tasks.get_mut(turn) {
                    task.course.stop(reason);
                }
            }
            Seen::Ended(turn, end) => {
                let Some(task) = self.tasks.remove(turn) else { return Vec::new() };
                let Task { reader, task_name, course } = task;
                let told = course.end(turn, &Names::canonical(&self.session), end);
                return vec![Record {
                    table: RESULTS.name,
                    change: Change::Put,
                    cells: vec![
                        ("session_id", self.session.as_str().into()),
                        ("turn_id", turn.as_str().into()),
                        (READER, reader.as_str().into()),
                        (TASK_NAME, task_name.into()),
                        (ENDED_AT, micros(committed.at)),
                        (RESULT, result(&told).into()),
                    ],
                }];
            }
            Seen::Asked(..) | Seen::Answered(..) | Seen::Nothing => {}
        }
        Vec::new()
    }

    fn state(&self) -> Bytes {
        let mut state = vec![VERSION];
        match serde_json::to_writer(&mut state, &self.tasks) {
            Ok(()) => state.into(),
            // Maps of text cannot fail; if they did, the account would be made again.
            Err(_) => Bytes::new(),
        }
    }

    /// It is read over HTTP, when tasks are over.
    fn shown(&self) -> Option<Bytes> {
        None
    }
}

/// Without what people asked and were answered.
impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A moment as the table has it.
fn micros(at: Timestamp) -> Cell {
    Cell::Integer(i64::try_from(at.as_micros()).unwrap_or(i64::MAX))
}

/// What the end of a task says came of it, as JSON.
fn result(end: &ServerMessage) -> String {
    match (&end.result, &end.error) {
        (Some(result), _) if !result.is_null() => codec::json(result),
        (_, Some(error)) => json!({ "error": error }).to_string(),
        (_, None) => Value::Null.to_string(),
    }
}

/// Who may read the result of a turn, in the options of its origin; whoever it came from if that is silent.
pub(crate) const READER: &str = "reader";
const TASK_NAME: &str = "task_name";
const ENDED_AT: &str = "ended_at";
const RESULT: &str = "result";
/// Of the state.
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use switchboard_core::model::{Finish, Origin, Output, TurnEnd, TurnOutcome, TurnRequest};
    use switchboard_core::{Event, Position};

    use super::*;

    fn committed(event: Event) -> Committed {
        Committed { position: Position::default(), at: Timestamp::from_secs(7), event }
    }

    fn accepted(turn: &str, protocol: &str, options: Value) -> Committed {
        committed(Event::TurnAccepted {
            turn: turn.into(),
            request: Box::new(TurnRequest::chat("count")),
            agent: "planner".into(),
            device: None,
            origin: Box::new(Origin { options, ..Origin::new("ann".into(), protocol) }),
            serial: true,
            held: false,
            once: false,
            setting: None,
            deadline: Timestamp::default(),
            parent: None,
            names: None,
            recall: None,
            workspace: None,
            key: None,
            meta: Box::default(),
        })
    }

    fn said(turn: &str, text: &str) -> Committed {
        committed(Event::TurnOutput { turn: turn.into(), output: Output::Text(text.into()) })
    }

    fn ended(turn: &str) -> Committed {
        committed(Event::TurnEnded {
            turn: turn.into(),
            end: Box::new(TurnEnd::new(TurnOutcome::Done(Finish::Complete))),
        })
    }

    #[test]
    fn it_goes_on_from_what_it_remembers() {
        let session = SessionId::from("s");
        let mut ledger = Bookkeeper.begin(&session);
        let options = json!({ "session_id": "x", "task_name": "t", "reader": "bob" });
        assert_eq!(ledger.take(&accepted("one", PROTOCOL, options)), []);
        assert_eq!(ledger.take(&said("one", "for")), []);
        let state = ledger.state();
        assert!(Bookkeeper.resume(&session, b"").is_none());
        assert!(Bookkeeper.resume(&session, &[&[2], &state[1..]].concat()).is_none(), "of another version");
        let mut ledger = Bookkeeper.resume(&session, &state).unwrap();
        ledger.take(&said("one", "ty"));
        let records = ledger.take(&ended("one"));
        let value = |name: &str| {
            let (_, cell) = records[0].cells.iter().find(|(known, _)| *known == name).unwrap();
            cell.clone()
        };
        let row: Found = RESULTS.columns.iter().map(|column| value(column.name)).collect();
        assert_eq!((value(READER), value(TASK_NAME)), ("bob".into(), "t".into()));
        let result = found(&[row]).unwrap();
        assert_eq!(result.json, r#"[{"request":"count","result":"forty"}]"#);
        assert_eq!(result.at, Timestamp::from_secs(7));
        assert_eq!(ledger.take(&ended("one")), [], "once");
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn turns_of_others_are_not_entered() {
        let mut ledger = Bookkeeper.begin(&"s".into());
        let options = json!({ "session_id": "x", "task_name": "t" });
        ledger.take(&accepted("one", "asp", options));
        ledger.take(&accepted("two", PROTOCOL, json!({ "session_id": "x", "task_name": null })));
        assert_eq!((ledger.take(&ended("one")), ledger.take(&ended("two"))), (Vec::new(), Vec::new()));
    }
}
