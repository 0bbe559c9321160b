//! An append as the writer gets it: everything encoded.

use switchboard_core::{
    Append, Cell, DeviceRow, EditedRow, MessageId, MessageRow, MessageStatus, Position, Record, RequestRow,
    Row, SessionId, SessionRow, TurnRow,
};

use crate::encoding::{encode_batch, encode_snapshot, encode_value};
use crate::log::{StoreError, check};
use crate::tables::Tables;

#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) session: SessionId,
    pub(super) after: Position,
    pub(super) first: u64,
    pub(super) last: Position,
    pub(super) events: Vec<u8>,
    pub(super) rows: Vec<PreparedRow>,
    pub(super) summary: SessionRow,
    pub(super) snapshot: Option<Vec<u8>>,
}

impl Prepared {
    pub(super) fn new(mut append: Append, tables: &Tables) -> Result<Self, StoreError> {
        check(&mut append, tables)?;
        let Append { session, after, batch, rows, summary, snapshot } = append;
        Ok(Self {
            session,
            after,
            first: batch.first(),
            last: Position { epoch: summary.epoch, seq: summary.head },
            events: encode_batch(&batch)?,
            rows: rows.into_iter().map(PreparedRow::new).collect::<Result<_, _>>()?,
            summary,
            snapshot: snapshot.map(|session| encode_snapshot(&session)).transpose()?,
        })
    }

    /// How many events it holds.
    pub(super) const fn events(&self) -> u64 {
        self.last.seq - self.after.seq
    }

    /// About how many bytes it writes.
    pub(super) fn size(&self) -> usize {
        let rows = self.rows.iter().map(PreparedRow::size).sum::<usize>();
        self.events.len() + rows + self.snapshot.as_ref().map_or(0, Vec::len)
    }
}

/// A row with its nested values encoded.
#[derive(Debug)]
pub(super) enum PreparedRow {
    Turn(TurnRow),
    Message(PreparedMessage),
    Request(RequestRow),
    Device(PreparedDevice),
    Edited(PreparedEdit),
    Chronicled(Record),
}

impl PreparedRow {
    pub(super) fn new(row: Row) -> Result<Self, StoreError> {
        Ok(match row {
            Row::Turn(row) => Self::Turn(row),
            Row::Message(row) => Self::Message(PreparedMessage::new(row)?),
            Row::Request(row) => Self::Request(row),
            Row::Device(row) => Self::Device(PreparedDevice::new(row)?),
            Row::Edited(row) => Self::Edited(PreparedEdit::new(&row)?),
            Row::Chronicled(record) => Self::Chronicled(record),
        })
    }

    fn size(&self) -> usize {
        match self {
            Self::Turn(_) | Self::Request(_) => 256,
            Self::Message(message) => 256 + message.parts.len(),
            Self::Device(device) => 256 + device.facts.len() + device.profile.len(),
            Self::Edited(edit) => 64 + edit.parts.len(),
            Self::Chronicled(record) => record.cells.iter().map(|(_, cell)| 32 + cell_size(cell)).sum(),
        }
    }
}

fn cell_size(cell: &Cell) -> usize {
    match cell {
        Cell::Null | Cell::Integer(_) | Cell::Real(_) => 0,
        Cell::Text(text) => text.len(),
        Cell::Blob(bytes) => bytes.len(),
    }
}

#[derive(Debug)]
pub(super) struct PreparedMessage {
    pub(super) row: MessageRow,
    pub(super) author: Vec<u8>,
    pub(super) parts: Vec<u8>,
    pub(super) complete: bool,
}

impl PreparedMessage {
    fn new(mut row: MessageRow) -> Result<Self, StoreError> {
        let parts = encode_value(&std::mem::take(&mut row.parts))?;
        let author = encode_value(&row.author)?;
        let complete = match row.status {
            MessageStatus::Complete => true,
            MessageStatus::Partial => false,
        };
        Ok(Self { row, author, parts, complete })
    }
}

#[derive(Debug)]
pub(super) struct PreparedEdit {
    pub(super) message: MessageId,
    pub(super) parts: Vec<u8>,
}

impl PreparedEdit {
    fn new(row: &EditedRow) -> Result<Self, StoreError> {
        Ok(Self { message: row.message.clone(), parts: encode_value(&row.parts)? })
    }
}

#[derive(Debug)]
pub(super) struct PreparedDevice {
    pub(super) row: Box<DeviceRow>,
    pub(super) facts: Vec<u8>,
    pub(super) profile: Vec<u8>,
}

impl PreparedDevice {
    fn new(mut row: Box<DeviceRow>) -> Result<Self, StoreError> {
        let facts = encode_value(&std::mem::take(&mut row.facts))?;
        let profile = encode_value(&std::mem::take(&mut row.profile))?;
        Ok(Self { row, facts, profile })
    }
}
