//! Bytes into lines.

use super::BadBody;

/// The line that is not whole yet. Its `Debug` shows no content.
pub(super) struct Lines {
    end: LineEnd,
    most: usize,
    held: Vec<u8>,
    after_return: bool,
}

/// What ends a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// LF; a CR before it is white space.
    LineFeed,
    /// LF, CR or both, as in event streams.
    Any,
}

impl Lines {
    pub(super) fn new(end: LineEnd, most: usize) -> Self {
        Self { end, most, held: Vec::new(), after_return: false }
    }

    /// The next whole line; takes from `rest` what it used.
    pub(super) fn next_line(&mut self, rest: &mut &[u8]) -> Result<Option<Vec<u8>>, BadBody> {
        if self.after_return
            && let Some((first, tail)) = rest.split_first()
        {
            self.after_return = false;
            if *first == b'\n' {
                *rest = tail;
            }
        }
        let end = self.end;
        let ends = |byte: &u8| *byte == b'\n' || *byte == b'\r' && end == LineEnd::Any;
        let found = rest.iter().position(ends).and_then(|at| rest.split_at_checked(at));
        let Some((line, [ending, tail @ ..])) = found else {
            self.hold(std::mem::take(rest))?;
            return Ok(None);
        };
        self.hold(line)?;
        self.after_return = *ending == b'\r';
        *rest = tail;
        Ok(Some(std::mem::take(&mut self.held)))
    }

    /// What follows the last line ending.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), BadBody> {
        if self.held.len().saturating_add(bytes.len()) > self.most {
            return Err(BadBody::TooLong { what: "line", limit: self.most });
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lines").field("held", &self.held.len()).finish_non_exhaustive()
    }
}
