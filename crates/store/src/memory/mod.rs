//! A log that lives and dies with the process; for tests and for servers that need no history.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use switchboard_core::{
    Append, Batch, Callsign, Chronicler, DeviceRow, Found, Loaded, Lookup, MessageId, MessageRow, Position,
    PrincipalId, RequestRow, Row, Session, SessionId, SessionRow, Timestamp, TurnId, TurnRow, Within,
};

use crate::encoding::encode_batch;
use crate::log::{
    DeviceFilter, Log, PRUNE_EVERY, REQUEST_MEMORY, SessionFilter, StoreError, StoreStats, Usage, admits,
    check,
};
use crate::tables::Tables;

mod tables;

use tables::Shelves;

/// A [`Log`] in memory. Cloning gives another handle on the same log.
#[derive(Clone, Debug, Default)]
pub struct MemoryLog {
    state: Arc<Mutex<State>>,
    tables: Arc<Tables>,
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty log that keeps the tables of these chronicles, too.
    pub fn with_chroniclers(chroniclers: Vec<Arc<dyn Chronicler>>) -> Self {
        Self { tables: Arc::new(Tables::of(&chroniclers)), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state();
        if state.closed { Err(StoreError::Closed) } else { Ok(state) }
    }
}

#[async_trait]
impl Log for MemoryLog {
    /// Memory is all it has.
    fn release(&self, _: &SessionId) {}

    async fn append(&self, mut append: Append) -> Result<(), StoreError> {
        check(&mut append, &self.tables)?;
        self.open()?.append(append, &self.tables)
    }

    async fn load(&self, session: &SessionId) -> Result<Option<Loaded>, StoreError> {
        let state = self.open()?;
        let Some(stream) = state.streams.get(session) else { return Ok(None) };
        let seen = stream.snapshot.as_ref().map_or(0, |snapshot| snapshot.head().seq);
        let snapshot = stream.snapshot.as_ref().map(|snapshot| Session::clone(snapshot));
        Ok(Some(Loaded { snapshot, batches: stream.read(seen, usize::MAX) }))
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Batch>>, StoreError> {
        let state = self.open()?;
        Ok(state.streams.get(session).map(|stream| stream.read(after, limit)).unwrap_or_default())
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionRow>, StoreError> {
        let state = self.open()?;
        let mut rows: Vec<&SessionRow> =
            state.streams.values().map(|stream| &stream.summary).filter(|row| filter.matches(row)).collect();
        rows.sort_unstable_by(|a, b| (b.updated_at, &b.session).cmp(&(a.updated_at, &a.session)));
        Ok(rows.into_iter().take(filter.limit).cloned().collect())
    }

    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        Ok(self.open()?.streams.get(session).map(|stream| stream.summary.clone()))
    }

    async fn turns(&self, session: &SessionId, after: u64, limit: usize) -> Result<Vec<TurnRow>, StoreError> {
        let state = self.open()?;
        let Some(stream) = state.streams.get(session) else { return Ok(Vec::new()) };
        let from = after.saturating_add(1);
        Ok(stream.turns.range(from..).take(limit).map(|(_, row)| row.clone()).collect())
    }

    async fn turn(&self, session: &SessionId, turn: &TurnId) -> Result<Option<TurnRow>, StoreError> {
        let state = self.open()?;
        let turns = state.streams.get(session).map(|stream| &stream.turns);
        Ok(turns.and_then(|turns| turns.values().rev().find(|row| row.turn == *turn)).cloned())
    }

    async fn history(
        &self,
        session: &SessionId,
        tip: &MessageId,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let state = self.open()?;
        let Some(stream) = state.streams.get(session) else { return Ok(Vec::new()) };
        let mut path: Vec<MessageRow> = Vec::new();
        let mut next = Some(tip);
        while let Some(row) = next.and_then(|id| stream.messages.get(id)) {
            if path.len() >= limit.min(stream.messages.len()) {
                break;
            }
            path.push(row.clone());
            next = row.parent.as_ref();
        }
        Ok(path)
    }

    async fn request(&self, principal: &PrincipalId, key: &str) -> Result<Option<RequestRow>, StoreError> {
        let state = self.open()?;
        Ok(state.requests.get(principal).and_then(|keys| keys.get(key)).cloned())
    }

    async fn requests(&self, since: Timestamp, limit: usize) -> Result<Vec<RequestRow>, StoreError> {
        let state = self.open()?;
        let mut rows: Vec<&RequestRow> =
            state.requests.values().flat_map(BTreeMap::values).filter(|row| row.at >= since).collect();
        rows.sort_unstable_by(|a, b| (b.at, &b.turn).cmp(&(a.at, &a.turn)));
        Ok(rows.into_iter().take(limit).cloned().collect())
    }

    async fn devices(&self, filter: &DeviceFilter) -> Result<Vec<DeviceRow>, StoreError> {
        let state = self.open()?;
        let rows = state.devices.values().flat_map(BTreeMap::values).filter(|row| filter.matches(row));
        Ok(rows.take(filter.limit).cloned().collect())
    }

    async fn device(&self, device: &Callsign) -> Result<Vec<DeviceRow>, StoreError> {
        let state = self.open()?;
        Ok(state.devices.get(device).into_iter().flat_map(BTreeMap::values).cloned().collect())
    }

    async fn usage(&self, principal: &PrincipalId) -> Result<Usage, StoreError> {
        let mut state = self.open()?;
        let mut usage = Usage::default();
        for stream in state.streams.values_mut().filter(|stream| stream.summary.owner == *principal) {
            usage.add(Usage { sessions: 1, bytes: stream.bytes()? });
        }
        Ok(usage)
    }

    async fn look(&self, asker: &PrincipalId, lookup: &Lookup) -> Result<Vec<Found>, StoreError> {
        let asked = self.tables.resolve(asker, lookup)?;
        let state = self.open()?;
        let sessions: Vec<&SessionId> = match &lookup.within {
            Within::Session(session) => vec![session],
            Within::Own => {
                let own = state.streams.iter().filter(|(_, stream)| stream.summary.owner == *asker);
                own.map(|(session, _)| session).collect()
            }
            Within::Addressed(_) => state.streams.keys().collect(),
        };
        Ok(state.shelves.look(&asked, &sessions))
    }

    fn stats(&self) -> StoreStats {
        self.state().stats
    }

    async fn close(&self) -> Result<(), StoreError> {
        let mut state = self.state();
        state.closed = true;
        state.streams.clear();
        state.requests.clear();
        state.devices.clear();
        state.shelves.clear();
        Ok(())
    }
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<SessionId, Stream>,
    requests: BTreeMap<PrincipalId, BTreeMap<String, RequestRow>>,
    devices: BTreeMap<Callsign, BTreeMap<PrincipalId, DeviceRow>>,
    shelves: Shelves,
    /// When keys were last forgotten, by the time of the events themselves.
    pruned_at: Timestamp,
    stats: StoreStats,
    closed: bool,
}

impl State {
    fn append(&mut self, append: Append, tables: &Tables) -> Result<(), StoreError> {
        let Append { session, after, batch, rows, summary, snapshot } = append;
        let head = self.streams.get(&session).map(Stream::head).unwrap_or_default();
        if !admits(head, after) {
            return Err(StoreError::Conflict { head });
        }
        self.stats.commits += 1;
        self.stats.appends += 1;
        self.stats.events += batch.events.len() as u64;
        let stream = self.streams.entry(session.clone()).or_insert_with(|| Stream::new(summary.clone()));
        stream.batches.push(batch);
        stream.summary = summary;
        if snapshot.is_some() {
            stream.snapshot = snapshot;
        }
        for row in rows {
            match row {
                Row::Turn(row) => {
                    stream.turns.insert(row.accepted, row);
                }
                Row::Message(row) => {
                    stream.messages.insert(row.message.clone(), row);
                }
                Row::Request(row) => {
                    let at = row.at;
                    remember(&mut self.requests, row);
                    if at.since(self.pruned_at) >= PRUNE_EVERY {
                        self.pruned_at = at;
                        forget(&mut self.requests, at);
                    }
                }
                Row::Device(row) => enter(&mut self.devices, *row),
                Row::Edited(row) => {
                    if let Some(known) = stream.messages.get_mut(&row.message) {
                        known.parts = row.parts;
                    }
                }
                Row::Chronicled(record) => self.shelves.put(tables.get(record.table)?, &session, record),
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Stream {
    batches: Vec<Arc<Batch>>,
    summary: SessionRow,
    turns: BTreeMap<u64, TurnRow>,
    messages: HashMap<MessageId, MessageRow>,
    snapshot: Option<Arc<Session>>,
    /// How many of the batches were counted, and their bytes.
    counted: (usize, u64),
}

impl Stream {
    fn new(summary: SessionRow) -> Self {
        Self {
            batches: Vec::new(),
            summary,
            turns: BTreeMap::new(),
            messages: HashMap::new(),
            snapshot: None,
            counted: (0, 0),
        }
    }

    /// What its batches would be in a file. Each is looked at once, when somebody wants to know.
    fn bytes(&mut self) -> Result<u64, StoreError> {
        let (count, bytes) = &mut self.counted;
        for batch in self.batches.iter().skip(*count) {
            *bytes += encode_batch(batch)?.len() as u64;
            *count += 1;
        }
        Ok(*bytes)
    }

    fn head(&self) -> Position {
        let last = self.batches.last().and_then(|batch| batch.events.last());
        last.map(|event| event.position).unwrap_or_default()
    }

    fn read(&self, after: u64, limit: usize) -> Vec<Arc<Batch>> {
        let start = self.batches.partition_point(|batch| batch.last() <= after);
        let mut events = 0;
        let mut batches = Vec::new();
        for batch in self.batches.get(start..).unwrap_or_default() {
            if events >= limit {
                break;
            }
            let batch = Batch::after(batch, after);
            events += batch.events.len();
            batches.push(batch);
        }
        batches
    }
}

/// Keeps the most recent use of a key, whatever the order in which the rows come.
fn remember(requests: &mut BTreeMap<PrincipalId, BTreeMap<String, RequestRow>>, row: RequestRow) {
    let keys = requests.entry(row.principal.clone()).or_default();
    if keys.get(&row.key).is_none_or(|known| (known.at, &known.turn) <= (row.at, &row.turn)) {
        keys.insert(row.key.clone(), row);
    }
}

/// Keeps what the session in which the device enrolled last says of it, whatever the order in which
/// the rows of several sessions come.
fn enter(devices: &mut BTreeMap<Callsign, BTreeMap<PrincipalId, DeviceRow>>, row: DeviceRow) {
    let rows = devices.entry(row.device.clone()).or_default();
    let known = rows.get(&row.principal);
    if known.is_none_or(|known| (known.joined_at, &known.session) <= (row.joined_at, &row.session)) {
        rows.insert(row.principal.clone(), row);
    }
}

fn forget(requests: &mut BTreeMap<PrincipalId, BTreeMap<String, RequestRow>>, now: Timestamp) {
    requests.retain(|_, keys| {
        keys.retain(|_, row| now.since(row.at) <= REQUEST_MEMORY);
        !keys.is_empty()
    });
}
