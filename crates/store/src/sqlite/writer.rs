//! The writer: one transaction per group of appends.
//!
//! Whoever appends while few others do commits on the spot: to wake a thread for it, and to be woken by it, costs more
//! than the commit. Where many append, and where a commit waits for the disk, they leave it to a thread of the log,
//! which lets them gather.
//!
//! An append that conflicts is found out before anything of it is written, so it fails alone. A
//! fault of the storage rolls the whole group back; then each append is tried once more by itself,
//! so that one that is too large, or broken, does not take the others with it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use switchboard_core::{Chronicler, Position, PrincipalId, SessionId, SessionRow, Timestamp};
use tokio::sync::{mpsc, oneshot};

use crate::log::{PRUNE_EVERY, REQUEST_MEMORY, StoreError, Usage, admits};
use crate::sqlite::ahead::{WriteAhead, move_now, set_busy_timeout};
use crate::sqlite::bell::Bell;
use crate::sqlite::cache::{Heads, Known};
use crate::sqlite::counters::Counters;
use crate::sqlite::familiar::Familiar;
use crate::sqlite::pace::{COMPANY, GATHER, Gathering, LOOKS, Pace};
use crate::sqlite::prepared::{Prepared, PreparedRow};
use crate::sqlite::records::Records;
use crate::sqlite::schema::{Opened, set_max_pages};
use crate::sqlite::{SqliteOptions, rebuild, statements};

/// What the writer is asked to do. What can be waited for is answered, unless the log is closed first.
pub(super) enum Command {
    Append(Box<Prepared>, oneshot::Sender<Result<(), StoreError>>),
    /// Not answered.
    Release(SessionId),
    Rebuild(Box<dyn FnMut(u64, u64) + Send>, oneshot::Sender<Result<(), StoreError>>),
    MaxPages(u32, oneshot::Sender<Result<(), StoreError>>),
    /// Not answered either: whoever commits on the spot does not wait for the disk.
    Checkpoint,
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// Where commands wait for the writer, and what wakes it for them while it lingers.
pub(super) struct Queue {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) bell: Arc<Bell>,
}

/// The thread of the log: serves the queue until the log is closed or dropped.
pub(super) fn serve(mut queue: Queue, desk: &Desk) {
    let mut closing = None;
    while let Some(command) = queue.commands.blocking_recv() {
        let mut writer = desk.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(writer) = &mut *writer else { return };
        closing = writer.serve(command, &mut queue);
        if closing.is_some() {
            break;
        }
    }
    let writer = desk.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(queue);
    if let Some(writer) = writer {
        writer.finish(closing);
    }
}

/// Where the writer is, until the log is closed. Whoever commits on the spot only ever tries to lock it.
pub(super) type Desk = Mutex<Option<Writer>>;

pub(super) struct Writer {
    path: PathBuf,
    connection: Connection,
    lock: File,
    familiar: Arc<Familiar>,
    counters: Arc<Counters>,
    options: SqliteOptions,
    heads: Heads,
    /// Counts appends.
    appended: u64,
    /// How many there were before the last group.
    before_group: u64,
    /// How many sessions the last group had.
    company: usize,
    /// How many appends lie between two of the same session, on the average.
    spread: f64,
    ahead: WriteAhead,
    /// When keys were last forgotten, by the time of the events themselves.
    pruned_at: Timestamp,
    /// Whether the last transaction went through; a change is reported once.
    healthy: bool,
    pace: Pace,
    records: Records,
    chroniclers: Vec<Arc<dyn Chronicler>>,
    /// What was appended for each principal since that was last written into its row.
    unwritten: BTreeMap<PrincipalId, Usage>,
}

impl Writer {
    pub(super) fn new(
        opened: Opened,
        familiar: Arc<Familiar>,
        counters: Arc<Counters>,
        options: SqliteOptions,
        records: Records,
        chroniclers: Vec<Arc<dyn Chronicler>>,
    ) -> Result<Self, StoreError> {
        let Opened { path, mut connection, lock } = opened;
        let ahead = WriteAhead::watch(&mut connection, &path, &familiar, &options)?;
        Ok(Self {
            path,
            connection,
            lock,
            familiar,
            counters,
            heads: Heads::new(options.heads),
            appended: 0,
            before_group: 0,
            company: 0,
            spread: 0.0,
            ahead,
            pruned_at: Timestamp::default(),
            healthy: true,
            pace: Pace::default(),
            records,
            chroniclers,
            options,
            unwritten: BTreeMap::new(),
        })
    }

    /// Commits one append on the spot, unless it is better left to the thread; then it is handed back. Also answers
    /// whether the thread has something to do now.
    pub(super) fn commit_alone(
        &mut self,
        append: Box<Prepared>,
    ) -> Result<(Result<(), StoreError>, bool), Box<Prepared>> {
        if self.is_crowded() || append.size() > SMALL_APPEND {
            return Err(append);
        }
        set_busy_timeout(&self.connection, Duration::ZERO);
        let outcomes = self.attempt(std::slice::from_ref(&*append));
        set_busy_timeout(&self.connection, self.options.busy_timeout);
        // Whatever is in the way, the thread can wait for it, and tells of it.
        let Some(outcome) = outcomes.ok().and_then(|mut outcomes| outcomes.pop()) else { return Err(append) };
        self.pace.note(1);
        Ok((outcome, self.ahead.is_due()))
    }

    /// Forgets what it knows of a session in which nothing goes on.
    pub(super) fn release(&mut self, session: &SessionId) {
        self.heads.remove(session);
    }

    /// Does what it is asked to, and what comes after it for as long as something does. Answers who has closed the log.
    fn serve(
        &mut self,
        first: Command,
        queue: &mut Queue,
    ) -> Option<oneshot::Sender<Result<(), StoreError>>> {
        let mut group = Group::default();
        let mut held = Some(first);
        loop {
            match held.take() {
                Some(Command::Append(append, reply)) => {
                    group.push(*append, reply);
                    held = self.gather(&mut group, queue);
                }
                Some(Command::Release(session)) => self.release(&session),
                Some(Command::Rebuild(mut progress, reply)) => {
                    self.heads.clear();
                    let Self { connection, records, chroniclers, .. } = self;
                    let rebuilt = rebuild::rebuild(connection, records, chroniclers, &mut *progress);
                    if rebuilt.is_ok() {
                        // It was counted with the rest.
                        self.unwritten.clear();
                    }
                    answer(reply, rebuilt);
                    self.ahead.move_if_due(&self.connection, self.healthy);
                }
                Some(Command::MaxPages(pages, reply)) => {
                    answer(reply, set_max_pages(&self.connection, pages));
                }
                Some(Command::Checkpoint) => self.ahead.move_if_due(&self.connection, self.healthy),
                Some(Command::Close(reply)) => return Some(reply),
                None => match queue.commands.try_recv() {
                    Ok(command) => held = Some(command),
                    Err(_) => return None,
                },
            }
            while !group.appends.is_empty() {
                let Group { appends, replies, .. } = std::mem::take(&mut group);
                let outcomes = self.commit(&appends);
                for (reply, outcome) in replies.into_iter().zip(outcomes) {
                    answer(reply, outcome);
                }
                self.ahead.move_if_due(&self.connection, self.healthy);
                self.pace.note(appends.len());
                if held.is_none() && self.is_crowded() {
                    let pause = self.pace.pause(self.options.linger);
                    held = self.linger(&mut group, queue, pause);
                }
            }
        }
    }

    /// Whether so many sessions append so often that it pays to let them gather.
    fn is_crowded(&self) -> bool {
        self.spread >= COMPANY as f64 && self.pace.per_second > f64::from(self.options.linger_above)
    }

    /// Lets others join the next group for a while. What cannot join is handed back.
    fn linger(&mut self, group: &mut Group, queue: &mut Queue, pause: Duration) -> Option<Command> {
        let look = pause / LOOKS;
        let mut gathering = Gathering::after(self.company);
        for _ in 0..LOOKS {
            let before = group.appends.len();
            let Queue { commands, bell } = &*queue;
            bell.wait(gathering.missing(), look, || commands.len());
            let held = self.gather(group, queue);
            let new = group.appends.iter().skip(before);
            let back = new.filter(|append| self.was_in_last_group(&append.session)).count();
            if held.is_some() || gathering.is_over(group.appends.len() - before, back) {
                return held;
            }
        }
        None
    }

    fn was_in_last_group(&self, session: &SessionId) -> bool {
        self.heads.get(session).is_some_and(|known| known.appended > self.before_group)
    }

    /// Takes in what is ready, within bounds. What cannot join the group is handed back.
    fn gather(&mut self, group: &mut Group, queue: &mut Queue) -> Option<Command> {
        while group.appends.len() < self.options.group_appends && group.bytes < self.options.group_bytes {
            match queue.commands.try_recv() {
                Ok(Command::Append(append, reply)) => group.push(*append, reply),
                Ok(Command::Release(session)) => self.release(&session),
                Ok(other) => return Some(other),
                Err(_) => break,
            }
        }
        None
    }

    /// Commits appends together; if that fails, each by itself. Answers what became of each.
    fn commit(&mut self, appends: &[Prepared]) -> Vec<Result<(), StoreError>> {
        let outcomes = match self.attempt(appends) {
            Ok(outcomes) => outcomes,
            Err(StoreError::Full) => {
                // Pages that move into the database make room in the write-ahead log.
                move_now(&self.connection, self.healthy);
                self.attempt_each(appends)
            }
            Err(error) if appends.len() == 1 => vec![Err(error)],
            Err(_) => self.attempt_each(appends),
        };
        let fault = outcomes.iter().find_map(|outcome| match outcome {
            Ok(()) | Err(StoreError::Conflict { .. }) => None,
            Err(error) => Some(error.to_string()),
        });
        match (&fault, self.healthy) {
            (Some(error), true) => tracing::error!(%error, "the log cannot be written"),
            (None, false) => tracing::info!("the log can be written again"),
            (Some(_), false) | (None, true) => {}
        }
        self.healthy = fault.is_none();
        for outcome in &outcomes {
            if !matches!(outcome, Ok(()) | Err(StoreError::Conflict { .. })) {
                self.counters.failed();
            }
        }
        outcomes
    }

    /// Each append in a transaction of its own.
    fn attempt_each(&mut self, appends: &[Prepared]) -> Vec<Result<(), StoreError>> {
        let alone = |append| self.attempt(std::slice::from_ref(append))?.into_iter().collect();
        appends.iter().map(alone).collect()
    }

    /// One transaction. Either it fails as a whole and nothing has changed, or the answer says for
    /// each append whether it is committed.
    fn attempt(&mut self, group: &[Prepared]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        self.rollback();
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut changes = Changes::default();
        let outcomes = match self.write(group, &mut changes) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.rollback();
                return Err(error);
            }
        };
        if changes.appends == 0 {
            self.rollback();
            return Ok(outcomes);
        }
        if let Err(error) = self.connection.prepare_cached("COMMIT")?.execute([]) {
            self.rollback();
            return Err(error.into());
        }
        self.counters.committed(changes.appends, changes.events);
        self.pruned_at = changes.pruned_at.unwrap_or(self.pruned_at);
        self.before_group = self.appended;
        self.appended += changes.appends;
        self.company = changes.sessions.len();
        for (principal, more) in changes.usage {
            match more {
                Counted::Written => drop(self.unwritten.remove(principal)),
                Counted::Not(more) => self.unwritten.entry(principal.clone()).or_default().add(more),
            }
        }
        for (session, change) in changes.sessions {
            if let Some(stream) = change.stream {
                let Change { head, written: summary, before, .. } = change;
                if let Some(before) = before {
                    #[expect(clippy::cast_precision_loss, reason = "what is beyond that is as good as far")]
                    let between = (self.appended - before) as f64;
                    self.spread += (between.min(GATHER) - self.spread) / SPREAD_MEMORY;
                }
                self.heads.insert(session, Known { stream, head, summary, appended: self.appended });
            }
        }
        Ok(outcomes)
    }

    fn write<'a>(
        &mut self,
        group: &'a [Prepared],
        changes: &mut Changes<'a>,
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let mut outcomes = Vec::with_capacity(group.len());
        let mut newest_key = None;
        let mut inserting = statements::inserting(&self.connection)?;
        for append in group {
            let change = self.change(changes, &append.session)?;
            if !admits(change.head, append.after) {
                outcomes.push(Err(StoreError::Conflict { head: change.head }));
                continue;
            }
            let stream = match change.stream {
                Some(stream) => stream,
                None => {
                    self.familiar.note(&append.session);
                    *change.stream.insert(statements::insert_stream(&self.connection, &append.session)?)
                }
            };
            statements::insert_batch(&mut inserting, stream, append)?;
            for row in &append.rows {
                statements::put_row(&self.connection, &mut self.records, stream, row)?;
                if let PreparedRow::Request(row) = row {
                    newest_key = newest_key.max(Some(row.at));
                }
            }
            if let Some(state) = &append.snapshot {
                statements::put_snapshot(&self.connection, stream, append.last.seq, state)?;
            }
            change.head = append.last;
            change.summary = Some(&append.summary);
            let more =
                Usage { sessions: u64::from(append.after.seq == 0), bytes: append.events.len() as u64 };
            match changes.usage.entry(&append.summary.owner).or_insert_with(|| Counted::Not(Usage::default()))
            {
                Counted::Not(known) => known.add(more),
                Counted::Written => {}
            }
            changes.appends += 1;
            changes.events += append.events();
            outcomes.push(Ok(()));
        }
        for change in changes.sessions.values_mut() {
            if let (Some(stream), Some(summary)) = (change.stream, change.summary)
                && statements::put_session(&self.connection, stream, summary, change.written.as_deref())?
            {
                change.written = Some(Arc::new(summary.clone()));
            }
        }
        self.write_usage(changes)?;
        if let Some(now) = newest_key.filter(|now| now.since(self.pruned_at) >= PRUNE_EVERY) {
            let horizon = Timestamp::from_micros(now.as_micros().saturating_sub(REQUEST_MICROS));
            let gone = statements::prune_requests(&self.connection, horizon, PRUNE_LIMIT)?;
            // If there may be more, the next group goes on.
            if gone < PRUNE_LIMIT as usize {
                changes.pruned_at = Some(now);
            }
        }
        Ok(outcomes)
    }

    /// Writes what principals have stored. Not with every append, which would write a page more each time: where a
    /// session is new, and where it is a lot by now. A process that is killed forgets a little.
    fn write_usage(&self, changes: &mut Changes<'_>) -> Result<(), StoreError> {
        for (principal, counted) in &mut changes.usage {
            let Counted::Not(more) = counted else { continue };
            let mut all = *more;
            all.add(self.unwritten.get(*principal).copied().unwrap_or_default());
            if all.sessions > 0 || all.bytes >= UNWRITTEN_BYTES || self.unwritten.len() >= MOST_UNWRITTEN {
                statements::add_usage(&self.connection, principal, all)?;
                *counted = Counted::Written;
            }
        }
        Ok(())
    }

    /// What is known of a session within the transaction.
    fn change<'c, 'a>(
        &self,
        changes: &'c mut Changes<'a>,
        session: &'a SessionId,
    ) -> Result<&'c mut Change<'a>, StoreError> {
        match changes.sessions.entry(session) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(match self.heads.get(session) {
                Some(known) => Change {
                    stream: Some(known.stream),
                    head: known.head,
                    written: known.summary.clone(),
                    summary: None,
                    before: Some(known.appended),
                },
                None => {
                    let found = match self.familiar.may_have(session) {
                        true => statements::find_head(&self.connection, session)?,
                        false => None,
                    };
                    let (stream, head) = found.map(|(stream, head)| (Some(stream), head)).unwrap_or_default();
                    Change { stream, head, written: None, summary: None, before: None }
                }
            })),
        }
    }

    /// Leaves a transaction that failed; SQLite may have left it by itself.
    fn rollback(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back");
        }
    }

    /// Tidies up, frees the file, and only then says so.
    fn finish(self, closing: Option<oneshot::Sender<Result<(), StoreError>>>) {
        let Self { path, connection, lock, counters, ahead, unwritten, .. } = self;
        for (principal, more) in unwritten {
            if let Err(error) = statements::add_usage(&connection, &principal, more) {
                tracing::warn!(%error, "what was stored last is not counted");
            }
        }
        // Its thread has the file open too.
        drop(ahead);
        let tidied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = tidied {
            // The write-ahead log stays beside the file and is read again on the next start.
            tracing::warn!(%error, "checkpoint failed");
        }
        let closed = connection.close().map_err(|(_, error)| StoreError::from(error));
        drop(lock);
        let stats = counters.stats();
        tracing::debug!(path = %path.display(), commits = stats.commits, events = stats.events, "log closed");
        if let Some(reply) = closing {
            answer(reply, closed);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Appends that are committed together.
#[derive(Default)]
struct Group {
    appends: Vec<Prepared>,
    replies: Vec<oneshot::Sender<Result<(), StoreError>>>,
    bytes: usize,
}

impl Group {
    fn push(&mut self, append: Prepared, reply: oneshot::Sender<Result<(), StoreError>>) {
        self.bytes += append.size();
        self.appends.push(append);
        self.replies.push(reply);
    }
}

/// What a transaction changes; taken over once it is committed, forgotten if it is not.
#[derive(Default)]
struct Changes<'a> {
    sessions: BTreeMap<&'a SessionId, Change<'a>>,
    appends: u64,
    events: u64,
    pruned_at: Option<Timestamp>,
    /// What is appended for each principal.
    usage: BTreeMap<&'a PrincipalId, Counted>,
}

/// Whether what was appended is written into the row of its principal.
enum Counted {
    Written,
    Not(Usage),
}

struct Change<'a> {
    /// The session's number; none before its first append.
    stream: Option<i64>,
    head: Position,
    /// Its row as it was before.
    written: Option<Arc<SessionRow>>,
    /// Its row as it becomes, written once per transaction.
    summary: Option<&'a SessionRow>,
    /// How many appends there were when it appended before; none if that is not known.
    before: Option<u64>,
}

fn answer(reply: oneshot::Sender<Result<(), StoreError>>, outcome: Result<(), StoreError>) {
    // Whoever asked may be gone; that changes nothing.
    reply.send(outcome).ok();
}

/// Over how many appends it is averaged how far those of one session are apart.
const SPREAD_MEMORY: f64 = 32.0;
/// Bytes up to which an append is committed on the spot.
const SMALL_APPEND: usize = 64 << 10;
const REQUEST_MICROS: u64 = REQUEST_MEMORY.as_secs() * 1_000_000;
const PRUNE_LIMIT: u32 = 1000;
/// Bytes of one principal after which they are written into its row.
const UNWRITTEN_BYTES: u64 = 256 << 10;
/// Principals of which something is not written.
const MOST_UNWRITTEN: usize = 4096;
