//! Plain text, cut only between code points.

use super::BadBody;
use crate::codec::chunk_text;
use crate::relay::Piece;

/// The code point that is not whole yet.
pub(super) struct Text {
    most: usize,
    tail: Vec<u8>,
}

impl Text {
    pub(super) fn new(most: usize) -> Self {
        Self { most, tail: Vec::new() }
    }

    pub(super) fn read(&mut self, bytes: &[u8], out: &mut Vec<Piece>) -> Result<(), BadBody> {
        let mut joined = std::mem::take(&mut self.tail);
        joined.extend_from_slice(bytes);
        let (text, tail, damaged) = match std::str::from_utf8(&joined) {
            Ok(text) => (text, Default::default(), false),
            Err(error) => {
                let (text, tail) = joined.split_at_checked(error.valid_up_to()).unwrap_or_default();
                (std::str::from_utf8(text).unwrap_or_default(), tail, error.error_len().is_some())
            }
        };
        out.extend(chunk_text(text, self.most).map(Piece::text));
        self.tail = tail.to_vec();
        if damaged { Err(BadBody::Utf8) } else { Ok(()) }
    }

    /// Whether the text so far ends between code points.
    pub(super) fn is_whole(&self) -> bool {
        self.tail.is_empty()
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Text").field("tail", &self.tail.len()).finish_non_exhaustive()
    }
}
