//! The log in one SQLite file.
//!
//! ```text
//! append ─ encode ─┬─ few append ──▶ a transaction on the spot
//!                  └─ many append ─▶ queue ─▶ writer thread ─▶ one transaction per group ─▶ answers
//! load, read, lists ───────────────▶ read-only connections, on the blocking pool
//! ```
//!
//! Batches are encoded by whoever appends; the writer only checks heads and runs statements. Where
//! few append, the transaction is theirs, and no thread is woken. Otherwise, and wherever a commit
//! waits for the disk, appends gather in the queue while the thread commits and form the next group,
//! so the cost of a commit is shared by all sessions. In WAL mode readers and the writer never wait
//! for each other.
//!
//! # Layout
//!
//! The log has one row per batch, in the order of commits, and an index by session. Clustering the
//! rows by session instead was measured with a variant of `examples/store_bench.rs` (that schema,
//! NORMAL, two runs each, alternating, on two shared cores; the ranges are the two runs):
//!
//! | | by commit + index | clustered by session |
//! |---|---|---|
//! | 64 sessions, batches of 1 | 34 – 53 k events/s | 29 – 32 k |
//! | 64 sessions, batches of 16 | 400 – 500 k events/s | 203 – 205 k |
//! | 1000 sessions, batches of 1 | 63 – 81 k events/s | 46 k |
//! | 1000 sessions, batches of 16 | 504 – 568 k events/s | 232 – 234 k |
//! | read 500 events in batches of 4, median | 0.36 – 0.38 ms | 0.26 ms |
//! | bytes per event | 117 | 124 – 125 |
//!
//! Appending happens once per event and reading back only after a cut, so appending decides; both
//! read far faster than a client can take in.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use switchboard_core::{
    Append, Batch, Callsign, Chronicler, DeviceRow, Found, Loaded, Lookup, MessageId, MessageRow,
    PrincipalId, RequestRow, SessionId, SessionRow, Timestamp, TurnId, TurnRow,
};
use tokio::sync::{mpsc, oneshot};

use crate::log::{DeviceFilter, Log, SessionFilter, StoreError, StoreStats, Usage};
use crate::tables::Tables;

mod ahead;
mod bell;
mod cache;
mod checkpointer;
mod counters;
mod error;
mod familiar;
mod look;
mod pace;
mod prepared;
mod query;
mod readers;
mod rebuild;
mod records;
mod schema;
mod statements;
mod tables;
mod writer;

#[cfg(test)]
mod look_tests;

use bell::Bell;
use counters::Counters;
use familiar::Familiar;
use prepared::Prepared;
use readers::Readers;
use records::Records;
use writer::{Command, Desk, Queue, Writer};

/// A [`Log`] in one SQLite file, which it holds for itself until it is closed or dropped.
///
/// Dropping a future of [`Log::append`] does not take the append back: once it is queued, it will
/// be committed.
#[derive(Debug)]
pub struct SqliteLog {
    path: PathBuf,
    commands: mpsc::Sender<Command>,
    bell: Arc<Bell>,
    /// The writer, where it does not wait for the disk: there whoever appends may use it, too.
    desk: Option<Arc<Desk>>,
    readers: Arc<Readers>,
    familiar: Arc<Familiar>,
    counters: Arc<Counters>,
    tables: Arc<Tables>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SqliteLog {
    /// Opens the log at `path`, and makes an empty one if there is no file.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the file is not a log of ours, is damaged, was written by a newer
    /// version, or is in use. The file is then left as it was.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::open_with(path, options, Vec::new())
    }

    /// The same, with chronicles whose tables are kept, and made where they are missing. Tables of
    /// other chronicles stay as they are.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`StoreError::Failed`] if the declaration of a table makes no
    /// sense.
    pub fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
        chroniclers: Vec<Arc<dyn Chronicler>>,
    ) -> Result<Self, StoreError> {
        let tables = Arc::new(Tables::of(&chroniclers));
        tables.check(schema::TABLES)?;
        let mut opened = schema::open(path.as_ref(), &options)?;
        tables::ensure(&mut opened.connection, &tables)?;
        let path = opened.path.clone();
        let readers = Readers::new(path.clone(), &options)?;
        let counters = Arc::new(Counters::default());
        let (commands, queue) = mpsc::channel(options.queue.max(1));
        let bell = Arc::new(Bell::new());
        let queue = Queue { commands: queue, bell: Arc::clone(&bell) };
        let records = Records::new(Arc::clone(&tables));
        let familiar = Arc::new(Familiar::new(&opened.connection)?);
        let on_the_spot = options.synchronous == Synchronous::Normal;
        let writer =
            Writer::new(opened, Arc::clone(&familiar), Arc::clone(&counters), options, records, chroniclers)?;
        let desk = Arc::new(Desk::new(Some(writer)));
        let of_thread = Arc::clone(&desk);
        let thread = std::thread::Builder::new()
            .name("switchboard-log".into())
            .spawn(move || writer::serve(queue, &of_thread))
            .map_err(|error| StoreError::Failed(format!("cannot start the writer: {error}")))?;
        let desk = on_the_spot.then_some(desk);
        let thread = Mutex::new(Some(thread));
        Ok(Self { path, commands, bell, desk, readers, familiar, counters, tables, thread })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Throws away every row that is derived from the log and derives it again. `progress` is told
    /// how many batches are done, and of how many. Appends wait meanwhile; readers see the old rows
    /// until all new ones are there.
    ///
    /// # Errors
    /// The old rows are kept if a batch cannot be read or there is no space for the new rows.
    pub async fn rebuild_projections(
        &self,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<(), StoreError> {
        self.command(|reply| Command::Rebuild(Box::new(progress), reply)).await
    }

    /// Changes the bound on the size of the file; see [`SqliteOptions::max_pages`].
    ///
    /// # Errors
    /// The storage failed, or the log was closed.
    pub async fn set_max_pages(&self, pages: u32) -> Result<(), StoreError> {
        self.command(|reply| Command::MaxPages(pages, reply)).await
    }

    /// The writer, if nobody is at it and nobody waits. Whoever is at it is not waited for, since others wait for the
    /// thread that asks.
    fn idle_writer(&self) -> Option<MutexGuard<'_, Option<Writer>>> {
        let nobody_waits = self.commands.capacity() == self.commands.max_capacity();
        self.desk.as_ref().filter(|_| nobody_waits)?.try_lock().ok()
    }

    /// Commits on the spot, if it can be and is worth it; otherwise hands back.
    fn commit_alone(&self, append: Box<Prepared>) -> Result<Result<(), StoreError>, Box<Prepared>> {
        let Some(mut writer) = self.idle_writer() else { return Err(append) };
        let Some(writer) = &mut *writer else { return Err(append) };
        let (outcome, is_checkpoint_due) = writer.commit_alone(append)?;
        if is_checkpoint_due {
            // A thread that has more to do than it can looks at it by itself.
            self.commands.try_send(Command::Checkpoint).ok();
        }
        Ok(outcome)
    }

    async fn command(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), StoreError>>) -> Command + Send,
    ) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| StoreError::Closed)?;
        self.bell.ring(self.commands.max_capacity() - self.commands.capacity());
        // The writer answers everything that it takes in; what it does not take in is not done.
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

#[async_trait]
impl Log for SqliteLog {
    async fn append(&self, append: Append) -> Result<(), StoreError> {
        let prepared = Box::new(Prepared::new(append, &self.tables)?);
        // Whoever appends again and again without ever having to wait lets others have their turn.
        for _ in 0..STEPS_OF_A_COMMIT {
            tokio::task::consume_budget().await;
        }
        match self.commit_alone(prepared) {
            Ok(outcome) => outcome,
            Err(prepared) => self.command(|reply| Command::Append(prepared, reply)).await,
        }
    }

    fn release(&self, session: &SessionId) {
        if let Some(Some(writer)) = self.idle_writer().as_deref_mut() {
            return writer.release(session);
        }
        // A writer that has too much to do, or is gone, keeps it for a while longer.
        self.commands.try_send(Command::Release(session.clone())).ok();
    }

    async fn load(&self, session: &SessionId) -> Result<Option<Loaded>, StoreError> {
        if !self.familiar.may_have(session) && !self.readers.are_closed() {
            return Ok(None);
        }
        let session = session.clone();
        self.readers.run(move |connection| query::load(connection, &session)).await
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Batch>>, StoreError> {
        let session = session.clone();
        self.readers.run(move |connection| query::read(connection, &session, after, limit)).await
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        let filter = filter.clone();
        self.readers.run(move |connection| query::sessions(connection, &filter)).await
    }

    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        let session = session.clone();
        self.readers.run(move |connection| query::session(connection, &session)).await
    }

    async fn turns(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<TurnRow>, StoreError> {
        let session = session.clone();
        self.readers.run(move |connection| query::turns(connection, &session, after, limit)).await
    }

    async fn turn(&self, session: &SessionId, turn: &TurnId) -> Result<Option<TurnRow>, StoreError> {
        let (session, turn) = (session.clone(), turn.clone());
        self.readers.run(move |connection| query::turn(connection, &session, &turn)).await
    }

    async fn history(
        &self,
        session: &SessionId,
        tip: &MessageId,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let (session, tip) = (session.clone(), tip.clone());
        self.readers.run(move |connection| query::history(connection, &session, &tip, limit)).await
    }

    async fn request(&self, principal: &PrincipalId, key: &str) -> Result<Option<RequestRow>, StoreError> {
        let (principal, key) = (principal.clone(), key.to_owned());
        self.readers.run(move |connection| query::request(connection, &principal, &key)).await
    }

    async fn requests(&self, since: Timestamp, limit: usize) -> Result<Vec<RequestRow>, StoreError> {
        self.readers.run(move |connection| query::requests(connection, since, limit)).await
    }

    async fn devices(&self, filter: &DeviceFilter) -> Result<Vec<DeviceRow>, StoreError> {
        let filter = filter.clone();
        self.readers.run(move |connection| query::devices(connection, &filter)).await
    }

    async fn device(&self, device: &Callsign) -> Result<Vec<DeviceRow>, StoreError> {
        let device = device.clone();
        self.readers.run(move |connection| query::device(connection, &device)).await
    }

    async fn usage(&self, principal: &PrincipalId) -> Result<Usage, StoreError> {
        let principal = principal.clone();
        self.readers.run(move |connection| query::usage(connection, &principal)).await
    }

    async fn look(&self, asker: &PrincipalId, lookup: &Lookup) -> Result<Vec<Found>, StoreError> {
        let (asker, asked) = (asker.clone(), self.tables.resolve(asker, lookup)?);
        self.readers.run(move |connection| look::look(connection, &asker, &asked)).await
    }

    fn stats(&self) -> StoreStats {
        self.counters.stats()
    }

    async fn close(&self) -> Result<(), StoreError> {
        // Readers first: the last connection to close is the writer's, which tidies up.
        self.readers.close().await;
        match self.command(Command::Close).await {
            Err(StoreError::Closed) => Ok(()),
            other => other,
        }
    }
}

impl Drop for SqliteLog {
    /// Waits until what was queued is committed and the file is free again.
    fn drop(&mut self) {
        self.readers.close_now();
        let (closed, _) = mpsc::channel(1);
        drop(std::mem::replace(&mut self.commands, closed));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the writer of the log panicked");
        }
    }
}

/// How many of the steps after which the runtime lets others have their turn a commit counts for: it takes longer than
/// most.
const STEPS_OF_A_COMMIT: u32 = 8;

/// How a [`SqliteLog`] behaves.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// What an acknowledged append survives.
    pub synchronous: Synchronous,
    /// Appends that may wait for the writer before callers have to wait themselves.
    pub queue: usize,
    /// Appends that one transaction takes in at most.
    pub group_appends: usize,
    /// Encoded bytes after which a transaction takes in no further append.
    pub group_bytes: usize,
    /// How long the writer lets appends gather between two commits while many come; see
    /// `linger_above`. Zero commits as soon as anything waits.
    pub linger: Duration,
    /// Appends per second above which the writer lingers. Below it nobody ever waits for others.
    pub linger_above: u32,
    /// Sessions whose heads the writer knows by heart.
    pub heads: usize,
    /// Connections that read at the same time.
    pub readers: usize,
    /// How long a statement waits for a lock of the database.
    pub busy_timeout: Duration,
    /// Kibibytes of pages that the writer keeps in memory; a reader keeps a quarter of it.
    pub cache_kib: u32,
    /// Pages in the write-ahead log after which they are moved into the database.
    pub checkpoint_pages: u32,
    /// Pages that the database may have at most; none for no bound but the disk.
    pub max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            queue: 4096,
            group_appends: 1024,
            group_bytes: 4 << 20,
            linger: Duration::from_millis(5),
            linger_above: 5000,
            heads: 16_384,
            readers: 4,
            busy_timeout: Duration::from_secs(5),
            cache_kib: 2 << 10,
            checkpoint_pages: 4096,
            max_pages: None,
        }
    }
}

/// What an acknowledged append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// A power cut: every commit is flushed to the disk.
    #[default]
    Full,
    /// A killed process, but not a power cut.
    Normal,
}
