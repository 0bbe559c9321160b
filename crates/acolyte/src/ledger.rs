//! The tasks of this process (§7.1): what `task.status` and the counts of `status.get` tell of.
//!
//! Shared by all connections, since a task can be asked for on any of them; but only by whoever
//! started it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use switchboard_core::{Calendar, PrincipalId, SessionId, Timestamp};

use crate::message::TaskId;
use crate::state::TaskState;

/// What is told of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Which one.
    pub id: TaskId,
    /// Where it is.
    pub state: TaskState,
    /// When it was accepted, as ISO 8601 in UTC.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
}

/// Every task that is remembered.
#[derive(Debug)]
pub struct Ledger {
    records: Mutex<Records>,
    most: usize,
}

#[derive(Debug, Default)]
struct Records {
    tasks: BTreeMap<TaskId, Record>,
    /// Those that may be forgotten, oldest first: they are over, or the log knows of them.
    spent: BTreeSet<(Timestamp, u64, TaskId)>,
    accepted: u64,
}

#[derive(Clone, Debug)]
struct Record {
    principal: PrincipalId,
    session: SessionId,
    /// The order of acceptance, where times are equal.
    number: u64,
    state: TaskState,
    created: Timestamp,
    updated: Timestamp,
    /// Connections that tell what becomes of it; without one the log has to be asked.
    attendants: u32,
}

impl Record {
    /// Its place among those that may be forgotten.
    fn rank(&self, task: &TaskId) -> (Timestamp, u64, TaskId) {
        (self.created, self.number, task.clone())
    }

    const fn is_spent(&self) -> bool {
        self.state.is_terminal() || self.attendants == 0
    }
}

/// What is known of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// This.
    Task(Task),
    /// That it goes on by itself in this session.
    Unattended(SessionId),
    /// Nothing.
    Nothing,
}

/// How many tasks of a principal there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) total: usize,
    pub(crate) running: usize,
    pub(crate) queued: usize,
}

impl Ledger {
    /// An empty one, which remembers so many tasks, and all that live.
    pub fn new(most: usize) -> Self {
        Self { records: Mutex::default(), most }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a new task.
    pub(crate) fn accept(&self, task: TaskId, principal: PrincipalId, session: SessionId, now: Timestamp) {
        let mut records = self.records();
        records.accepted += 1;
        let record = Record {
            principal,
            session,
            number: records.accepted,
            state: TaskState::Accepted,
            created: now,
            updated: now,
            attendants: 1,
        };
        records.tasks.insert(task, record);
        self.evict(&mut records);
    }

    /// Moves a task on; refused moves change nothing.
    pub(crate) fn advance(&self, task: &TaskId, next: TaskState, now: Timestamp) -> bool {
        self.change(task, |record| {
            let may = record.state.may_become(next);
            if may {
                record.state = next;
                record.updated = record.updated.max(now);
            }
            may
        })
    }

    /// Takes in a task that runs already, of an earlier connection or an earlier process.
    pub(crate) fn adopt(&self, task: &TaskId, principal: &PrincipalId, session: &SessionId, now: Timestamp) {
        let attend = |record: &mut Record| {
            record.attendants += 1;
            true
        };
        if !self.change(task, attend) {
            self.accept(task.clone(), principal.clone(), session.clone(), now);
        }
    }

    /// A connection does not look after a task any more; the task goes on.
    pub(crate) fn leave(&self, task: &TaskId) {
        self.change(task, |record| {
            record.attendants = record.attendants.saturating_sub(1);
            true
        });
    }

    /// When a task was accepted, where the log says that this was earlier than here.
    pub(crate) fn accepted_at(&self, task: &TaskId, at: Timestamp) {
        self.change(task, |record| {
            record.created = record.created.min(at);
            true
        });
    }

    /// Changes a record, if there is one; answers what the change does.
    fn change(&self, task: &TaskId, change: impl FnOnce(&mut Record) -> bool) -> bool {
        let mut records = self.records();
        let Records { tasks, spent, .. } = &mut *records;
        let Some(record) = tasks.get_mut(task) else { return false };
        spent.remove(&record.rank(task));
        let changed = change(record);
        if record.is_spent() {
            spent.insert(record.rank(task));
        }
        self.evict(&mut records);
        changed
    }

    /// What is known of a task of the principal's; those of others look like none.
    pub(crate) fn find(&self, principal: &PrincipalId, task: &TaskId) -> Known {
        let records = self.records();
        match records.tasks.get(task).filter(|record| record.principal == *principal) {
            None => Known::Nothing,
            Some(record) if record.attendants == 0 && !record.state.is_terminal() => {
                Known::Unattended(record.session.clone())
            }
            Some(record) => Known::Task(told(task, record.state, record.created, record.updated)),
        }
    }

    pub(crate) fn counts(&self, principal: &PrincipalId) -> Counts {
        let mut counts = Counts::default();
        for record in self.records().tasks.values().filter(|record| record.principal == *principal) {
            let attended = record.attendants > 0;
            counts.total += 1;
            counts.running += usize::from(attended && record.state == TaskState::Running);
            counts.queued += usize::from(attended && record.state == TaskState::Queued);
        }
        counts
    }

    /// Forgets the oldest tasks of those that may be forgotten.
    fn evict(&self, records: &mut Records) {
        while records.tasks.len() > self.most
            && let Some((_, _, oldest)) = records.spent.pop_first()
        {
            records.tasks.remove(&oldest);
        }
    }
}

/// A task in the words of the wire.
pub(crate) fn told(task: &TaskId, state: TaskState, created: Timestamp, updated: Timestamp) -> Task {
    Task { id: task.clone(), state, created_at: iso(created), updated_at: iso(updated) }
}

/// ISO 8601 in UTC with milliseconds.
fn iso(at: Timestamp) -> String {
    let Calendar { year, month, day, hour, minute, second } = at.calendar();
    let millis = at.as_millis() % 1_000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn task(number: usize) -> TaskId {
        TaskId::parse(&format!("task_{number}")).unwrap()
    }

    fn ledger(most: usize, tasks: usize) -> Ledger {
        let ledger = Ledger::new(most);
        for number in 0..tasks {
            ledger.accept(task(number), "ann".into(), "ses_1".into(), at(number as u64));
        }
        ledger
    }

    #[test]
    fn ac_052_times_are_written_in_utc_with_milliseconds() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_772_236_801_250, "2026-02-28T00:00:01.250Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(at(millis)), text);
        }
    }

    #[test]
    fn ac_051_the_time_of_acceptance_stays_and_that_of_change_only_grows() {
        let ledger = ledger(10, 1);
        assert!(ledger.advance(&task(0), TaskState::Running, at(50)));
        assert!(ledger.advance(&task(0), TaskState::Running, at(20)), "to stay is no move");
        let Known::Task(told) = ledger.find(&"ann".into(), &task(0)) else { panic!() };
        assert_eq!(told.created_at, iso(at(0)));
        assert_eq!(told.updated_at, iso(at(50)));
    }

    #[test]
    fn ac_054_nothing_leaves_a_terminal_state() {
        let ledger = ledger(10, 1);
        assert!(!ledger.advance(&task(0), TaskState::Completed, at(1)), "it never ran");
        assert!(ledger.advance(&task(0), TaskState::Running, at(1)));
        assert!(ledger.advance(&task(0), TaskState::Cancelled, at(2)));
        for next in [TaskState::Running, TaskState::Completed, TaskState::Failed, TaskState::Accepted] {
            assert!(!ledger.advance(&task(0), next, at(3)));
        }
        let Known::Task(told) = ledger.find(&"ann".into(), &task(0)) else { panic!() };
        assert_eq!((told.state, told.updated_at), (TaskState::Cancelled, iso(at(2))));
    }

    #[test]
    fn ac_058_only_what_is_over_is_forgotten_and_the_oldest_first() {
        let ledger = ledger(3, 5);
        assert_eq!(ledger.counts(&"ann".into()).total, 5, "all of them live");
        for number in [4, 1, 3] {
            ledger.advance(&task(number), TaskState::Running, at(100));
            ledger.advance(&task(number), TaskState::Completed, at(100));
        }
        let known = |number| ledger.find(&"ann".into(), &task(number)) != Known::Nothing;
        assert_eq!([0, 1, 2, 3, 4].map(known), [true, false, true, true, false]);
        ledger.accept(task(9), "ann".into(), "ses_1".into(), at(200));
        assert_eq!([0, 2, 3, 9].map(known), [true, true, false, true]);
        ledger.accept(task(10), "ann".into(), "ses_1".into(), at(200));
        assert_eq!(ledger.counts(&"ann".into()).total, 4, "more than fit, but all of them live");
    }

    #[test]
    fn a_task_that_is_looked_after_again_is_not_forgotten() {
        let ledger = ledger(2, 1);
        ledger.leave(&task(0));
        ledger.adopt(&task(0), &"ann".into(), &"ses_1".into(), at(5));
        for number in 1..9 {
            ledger.accept(task(number), "ann".into(), "ses_1".into(), at(10));
            ledger.advance(&task(number), TaskState::Cancelled, at(10));
        }
        assert!(matches!(ledger.find(&"ann".into(), &task(0)), Known::Task(_)));
        ledger.leave(&task(0));
        ledger.accept(task(9), "ann".into(), "ses_1".into(), at(20));
        assert_eq!(ledger.find(&"ann".into(), &task(0)), Known::Nothing);
    }

    #[test]
    fn tasks_of_others_are_neither_found_nor_counted() {
        let ledger = ledger(10, 2);
        assert_eq!(ledger.find(&"bob".into(), &task(0)), Known::Nothing);
        assert_eq!(ledger.counts(&"bob".into()), Counts::default());
    }

    #[test]
    fn of_a_task_that_nobody_looks_after_only_its_session_is_known() {
        let ledger = ledger(10, 1);
        ledger.advance(&task(0), TaskState::Running, at(1));
        ledger.leave(&task(0));
        assert_eq!(ledger.find(&"ann".into(), &task(0)), Known::Unattended("ses_1".into()));
        ledger.advance(&task(0), TaskState::Completed, at(2));
        assert!(matches!(ledger.find(&"ann".into(), &task(0)), Known::Task(_)));
    }
}
