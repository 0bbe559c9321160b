//! Event streams: only `data` means something here.

use super::BadBody;
use super::lines::{LineEnd, Lines};

/// The event that is not whole yet. Its `Debug` shows no content.
pub(super) struct Sse {
    lines: Lines,
    most: usize,
    data: Option<Vec<u8>>,
    begun: bool,
}

impl Sse {
    pub(super) fn new(most: usize) -> Self {
        let lines = Lines::new(LineEnd::Any, most.saturating_add(FIELD_NAME));
        Self { lines, most, data: None, begun: false }
    }

    /// The data of the next whole event; takes from `rest` what it used.
    pub(super) fn next_event(&mut self, rest: &mut &[u8]) -> Result<Option<Vec<u8>>, BadBody> {
        while let Some(line) = self.lines.next_line(rest)? {
            let first = !std::mem::replace(&mut self.begun, true);
            let line = if first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    return Ok(Some(data));
                }
            } else if let Some(value) = data_of(line) {
                self.add(value)?;
            }
        }
        Ok(None)
    }

    fn add(&mut self, value: &[u8]) -> Result<(), BadBody> {
        let held = self.data.as_ref().map_or(0, |data| data.len().saturating_add(1));
        if held.saturating_add(value.len()) > self.most {
            return Err(BadBody::TooLong { what: "event", limit: self.most });
        }
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
        Ok(())
    }
}

impl std::fmt::Debug for Sse {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sse").field("lines", &self.lines).finish_non_exhaustive()
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// `data: ` on the line, and the byte order mark.
const FIELD_NAME: usize = 9;

/// The value of a `data` field; `None` for comments and fields that do not matter.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}
