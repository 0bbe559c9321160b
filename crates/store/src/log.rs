//! The log: what every store offers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use switchboard_core::{
    Append, Batch, Callsign, DeviceRow, Found, Loaded, Lookup, MessageId, MessageRow, Position, PrincipalId,
    RequestRow, Row, SessionId, SessionRow, Timestamp, TurnId, TurnRow,
};

use crate::tables::Tables;

/// A durable, ordered log per session, with projections that are written together with it.
#[async_trait]
pub trait Log: fmt::Debug + Send + Sync {
    /// Appends events to a session, if its head is where the caller believes it to be. When this
    /// returns, the events and their projections are durable; when it fails, nothing has changed.
    async fn append(&self, append: Append) -> Result<(), StoreError>;

    /// Nothing goes on in a session any more: what is remembered to make the next append cheap may go.
    fn release(&self, session: &SessionId);

    /// Everything needed to bring a session to life: its last snapshot and the events after it.
    /// None if nothing was ever appended.
    async fn load(&self, session: &SessionId) -> Result<Option<Loaded>, StoreError>;

    /// Events with a number above `after`, in order, at most about `limit` of them (whole batches
    /// are returned, so it may be a few more). Empty at the head.
    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Batch>>, StoreError>;

    /// Sessions, newest activity first.
    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRow>, StoreError>;

    /// One session at a glance.
    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError>;

    /// Turns of a session in order of acceptance, with an acceptance number above `after`.
    async fn turns(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<TurnRow>, StoreError>;

    /// One turn of a session.
    async fn turn(&self, session: &SessionId, turn: &TurnId) -> Result<Option<TurnRow>, StoreError>;

    /// The path from `tip` to the root of the message tree, nearest first, at most `limit`.
    async fn history(
        &self,
        session: &SessionId,
        tip: &MessageId,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError>;

    /// The turn that an idempotency key led to most recently.
    async fn request(&self, principal: &PrincipalId, key: &str) -> Result<Option<RequestRow>, StoreError>;

    /// Idempotency keys used since a moment, newest first, at most `limit`.
    async fn requests(&self, since: Timestamp, limit: usize) -> Result<Vec<RequestRow>, StoreError>;

    /// Devices, in the order of their names, and of their principals where names are the same.
    async fn devices(&self, filter: &DeviceFilter) -> Result<Vec<DeviceRow>, StoreError>;

    /// The devices that ever enrolled under a name: one per principal, in the order of principals.
    async fn device(&self, device: &Callsign) -> Result<Vec<DeviceRow>, StoreError>;

    /// What a principal has stored. May be a little behind what was appended last.
    async fn usage(&self, principal: &PrincipalId) -> Result<Usage, StoreError>;

    /// Looks something up in the tables of a chronicle. Within one session the caller has to see to
    /// it that the asker takes part in it.
    async fn look(&self, asker: &PrincipalId, lookup: &Lookup) -> Result<Vec<Found>, StoreError>;

    /// Figures about the store itself.
    fn stats(&self) -> StoreStats;

    /// Makes everything durable and closes; further calls fail.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Refuses what no session can have produced, before anything is written, and brings the records
/// of chronicles into the form in which they are kept.
pub(crate) fn check(append: &mut Append, tables: &Tables) -> Result<(), StoreError> {
    let malformed = |what: &str| Err(StoreError::Failed(format!("malformed append: {what}")));
    let Some(first) = append.batch.events.first().map(|event| event.position) else {
        return malformed("it holds no event");
    };
    if append.after.seq.checked_add(1) != Some(first.seq) {
        return malformed("it does not follow the head it names");
    }
    if append.after.seq > 0 && append.after.epoch != first.epoch {
        return malformed("it changes the epoch");
    }
    let expected = (first.seq..).map(|seq| Position { epoch: first.epoch, seq });
    if append.batch.events.iter().zip(expected).any(|(event, expected)| event.position != expected) {
        return malformed("its positions are not dense");
    }
    let head = Position { epoch: first.epoch, seq: append.batch.last() };
    if append.summary.session != append.session || position_of(&append.summary) != head {
        return malformed("the summary is not of the session as it is after the batch");
    }
    if append.snapshot.as_ref().is_some_and(|state| state.id() != &append.session || state.head() != head) {
        return malformed("the snapshot is not of the session as it is after the batch");
    }
    for row in &mut append.rows {
        if let Row::Chronicled(record) = row {
            tables.fit(&append.session, record)?;
        }
    }
    Ok(())
}

const fn position_of(summary: &SessionRow) -> Position {
    Position { epoch: summary.epoch, seq: summary.head }
}

/// Whether a session with this head may be appended to by a caller who believes it at `after`.
/// Before the first event there is no epoch yet.
pub(crate) fn admits(head: Position, after: Position) -> bool {
    head == after || (head.seq == 0 && after.seq == 0)
}

/// Which sessions to list.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Only those of this owner.
    pub owner: Option<PrincipalId>,
    /// Only those in which something goes on by itself.
    pub live: bool,
    /// Only those with at least one turn.
    pub used: bool,
    /// Not those that the server has opened for a connection, and in which nothing was asked: they have neither a
    /// name nor a turn.
    pub without_homes: bool,
    /// Only those last active before this place in the list: (`updated_at` in microseconds, id).
    pub before: Option<(u64, SessionId)>,
    /// At most this many.
    pub limit: usize,
}

impl SessionFilter {
    /// Whether the filter lets a session pass.
    pub(crate) fn matches(&self, row: &SessionRow) -> bool {
        self.owner.as_ref().is_none_or(|owner| *owner == row.owner)
            && (!self.live || row.live)
            && (!self.used || row.turns > 0)
            && (!self.without_homes || row.turns > 0 || row.name.is_some() || !is_ours(&row.session))
            && self
                .before
                .as_ref()
                .is_none_or(|(at, id)| (row.updated_at.as_micros(), &row.session) < (*at, id))
    }
}

/// Whether a session has an identifier of the server's own making; those that protocols prescribe are asked for.
fn is_ours(session: &SessionId) -> bool {
    session.as_str().starts_with(OURS)
}

/// What identifiers of the server's own making begin with.
pub(crate) const OURS: &str = "ses_";

/// Which devices to list.
#[derive(Clone, Debug, Default)]
pub struct DeviceFilter {
    /// Only those of this principal.
    pub principal: Option<PrincipalId>,
    /// Only those that are connected, or only those that are not.
    pub online: Option<bool>,
    /// Only those after this place in the list.
    pub after: Option<(Callsign, PrincipalId)>,
    /// At most this many.
    pub limit: usize,
}

impl DeviceFilter {
    /// Whether the filter lets a device pass.
    pub(crate) fn matches(&self, row: &DeviceRow) -> bool {
        self.principal.as_ref().is_none_or(|principal| *principal == row.principal)
            && self.online.is_none_or(|online| online == row.left_at.is_none())
            && self
                .after
                .as_ref()
                .is_none_or(|(device, principal)| (&row.device, &row.principal) > (device, principal))
    }
}

/// What a principal has stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sessions that are its own.
    pub sessions: u64,
    /// Bytes of their events in the log; tables that are derived from them not counted.
    pub bytes: u64,
}

impl Usage {
    /// With so much more.
    pub(crate) const fn add(&mut self, more: Self) {
        self.sessions += more.sessions;
        self.bytes += more.bytes;
    }
}

/// Figures about a store, counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Transactions committed.
    pub commits: u64,
    /// Appends committed.
    pub appends: u64,
    /// Events committed.
    pub events: u64,
    /// Appends that failed for want of space or for another fault of the storage.
    pub failures: u64,
}

/// Why a store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The head is somewhere else: another writer was faster.
    #[error("the session has moved on to {head}")]
    Conflict {
        /// Where it is.
        head: Position,
    },
    /// There is no space left; nothing was changed.
    #[error("no space left for the log")]
    Full,
    /// The store cannot be opened, and must not be reset: the message says what to do.
    #[error("{0}")]
    Refused(String),
    /// A stored record cannot be read.
    #[error("the log is damaged: {0}")]
    Corrupt(String),
    /// The storage failed.
    #[error("storage failed: {0}")]
    Failed(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// For how long a store keeps idempotency keys at least: twice as long as a session honours them.
/// Older ones are forgotten now and then, by the time of the events, not by a clock.
pub(crate) const REQUEST_MEMORY: Duration = Duration::from_secs(30 * 60);

/// How often old keys are forgotten.
pub(crate) const PRUNE_EVERY: Duration = Duration::from_secs(60);
