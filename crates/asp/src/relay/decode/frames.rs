//! Concatenated ASP frames.

use bytes::{Bytes, BytesMut};

use super::BadBody;
use crate::codec::{FrameReader, HARD_CAP, HEADER, Incoming, ReaderOptions, VersionZero};
use crate::error::FrameError;
use crate::message::Opcode;
use crate::relay::{Piece, PieceError};

/// The frame that is not whole yet. Its `Debug` shows no content.
pub(super) struct Frames {
    rid: u16,
    options: ReaderOptions,
    held: BytesMut,
    need: usize,
}

impl Frames {
    pub(super) fn new(rid: u16, most: usize) -> Self {
        let hard_cap = u32::try_from(most).unwrap_or(HARD_CAP).min(HARD_CAP);
        let options = ReaderOptions { hard_cap, version_zero: VersionZero::Refuse };
        Self { rid, options, held: BytesMut::new(), need: HEADER }
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Throws away what is held; answers how much it was.
    pub(super) fn drain(&mut self) -> usize {
        let count = self.held.len();
        self.held.clear();
        count
    }

    /// The pieces of the next whole frame.
    pub(super) fn next_frame(&mut self) -> Result<Option<Vec<Piece>>, BadBody> {
        if self.need == HEADER
            && let Some(header) = self.held.get(..HEADER)
        {
            // The header alone shows what is wrong with it, before its payload is waited for.
            match self.read(Bytes::copy_from_slice(header)) {
                Err(FrameError::Truncated { need, .. }) => {
                    self.need = usize::try_from(need).unwrap_or(usize::MAX);
                }
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        if self.held.len() < self.need {
            return Ok(None);
        }
        let whole = self.held.split_to(self.need).freeze();
        self.need = HEADER;
        let frame = match self.read(whole)? {
            Some(Incoming::Frame(frame)) => frame,
            Some(Incoming::Unknown { nibble, .. } | Incoming::Oversized { nibble, .. }) => {
                return Err(PieceError::Type(nibble).into());
            }
            None => return Ok(None),
        };
        match frame.opcode {
            Opcode::Stream | Opcode::Error if frame.id != self.rid => {
                return Err(PieceError::RequestId.into());
            }
            Opcode::ToolDef if frame.id != self.rid && frame.id != 0 => {
                return Err(PieceError::RequestId.into());
            }
            Opcode::Stream
            | Opcode::Error
            | Opcode::ToolDef
            | Opcode::Hello
            | Opcode::Invoke
            | Opcode::Interrupt => {}
        }
        let mut pieces = Vec::new();
        Piece::from_frame(&frame, &mut pieces)?;
        Ok(Some(pieces))
    }

    fn read(&self, bytes: Bytes) -> Result<Option<Incoming>, FrameError> {
        FrameReader::new(bytes, self.options).next().transpose()
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Frames")
            .field("rid", &self.rid)
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}
