//! How records are written into a row: one byte for the format, then MessagePack with named maps.
//!
//! Fields may be added to the model as long as they have a default; a format number changes only
//! when old bytes would be read wrongly. What cannot be decoded is named, never quoted: the bytes
//! are content.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use switchboard_core::{Batch, Committed, Event, Position, Session, SessionId, Timestamp};

use crate::log::StoreError;

/// Writes a batch. The positions of its events follow from that of the first.
pub(crate) fn encode_batch(batch: &Batch) -> Result<Vec<u8>, StoreError> {
    let first = batch.events.first().map(|event| event.position).unwrap_or_default();
    let events = StoredEventsRef(&batch.events);
    let stored = StoredBatchRef { epoch: first.epoch, first: first.seq, events };
    encode(BATCH_FORMAT, BATCH_HINT * batch.events.len(), &stored)
}

/// Reads a batch; none if the bytes are not one.
pub(crate) fn decode_batch(bytes: &[u8]) -> Option<Batch> {
    let stored: StoredBatch = decode(BATCH_FORMAT, bytes)?;
    let numbered = (stored.first..).zip(stored.events);
    let events: Vec<Committed> = numbered
        .map(|(seq, StoredEvent { at, event })| Committed {
            position: Position { epoch: stored.epoch, seq },
            at,
            event,
        })
        .collect();
    (!events.is_empty()).then_some(Batch { events })
}

/// Writes a snapshot.
pub(crate) fn encode_snapshot(session: &Session) -> Result<Vec<u8>, StoreError> {
    encode(SNAPSHOT_FORMAT, SNAPSHOT_HINT, session)
}

/// Reads the snapshot of `session` at `seq`; none if the bytes are not it, which costs time only.
pub(crate) fn decode_snapshot(bytes: &[u8], session: &SessionId, seq: u64) -> Option<Session> {
    let snapshot: Session = decode(SNAPSHOT_FORMAT, bytes)?;
    (snapshot.id() == session && snapshot.head().seq == seq).then_some(snapshot)
}

/// Writes a part of a row.
pub(crate) fn encode_value<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    encode(VALUE_FORMAT, VALUE_HINT, value)
}

/// Reads a part of a row; none if the bytes are not one.
pub(crate) fn decode_value<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    decode(VALUE_FORMAT, bytes)
}

fn encode<T: Serialize>(format: u8, hint: usize, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(hint);
    bytes.push(format);
    rmp_serde::encode::write_named(&mut bytes, value)
        .map_err(|_| StoreError::Failed("a record cannot be encoded".into()))?;
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(format: u8, bytes: &[u8]) -> Option<T> {
    let (found, record) = bytes.split_first()?;
    if *found != format {
        return None;
    }
    rmp_serde::from_slice(record).ok()
}

#[derive(Serialize)]
struct StoredBatchRef<'a> {
    epoch: u32,
    first: u64,
    events: StoredEventsRef<'a>,
}

struct StoredEventsRef<'a>(&'a [Committed]);

impl Serialize for StoredEventsRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.0.iter().map(|event| StoredEventRef { at: event.at, event: &event.event }))
    }
}

#[derive(Serialize)]
struct StoredEventRef<'a> {
    at: Timestamp,
    event: &'a Event,
}

#[derive(Deserialize)]
struct StoredBatch {
    epoch: u32,
    first: u64,
    events: Vec<StoredEvent>,
}

#[derive(Deserialize)]
struct StoredEvent {
    at: Timestamp,
    event: Event,
}

const BATCH_FORMAT: u8 = 1;
const SNAPSHOT_FORMAT: u8 = 1;
const VALUE_FORMAT: u8 = 1;

/// Bytes to begin with, so that most records are written without growing the buffer.
const BATCH_HINT: usize = 256;
const SNAPSHOT_HINT: usize = 4096;
const VALUE_HINT: usize = 128;
