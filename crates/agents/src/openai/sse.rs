//! Server-sent events, as far as chat completions use them: only the data matters.
//!
//! Incremental and bounded: bytes come in as they come, whole events go out. A character or a line
//! ending may be split anywhere.

/// Takes bytes, and hands out the data of each event.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    data: Option<String>,
    /// The last byte was a carriage return, so that a line feed belongs to it.
    after_return: bool,
    begun: bool,
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SseError {
    /// A line, or the data of an event, is too long.
    #[error("an event is longer than {MAX_EVENT_BYTES} bytes")]
    TooLong,
    /// The stream is not UTF-8.
    #[error("the stream is not UTF-8")]
    NotUtf8,
}

impl SseParser {
    /// Takes some bytes; the data of every event that they complete is added to `events`.
    pub(super) fn feed(&mut self, mut bytes: &[u8], events: &mut Vec<String>) -> Result<(), SseError> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(end);
            self.extend_line(line)?;
            self.end_line(events)?;
            bytes = match rest {
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => &[],
            };
        }
        self.extend_line(bytes)
    }

    /// The stream has ended. An event whose last line ending is missing still counts.
    pub(super) fn finish(&mut self, events: &mut Vec<String>) -> Result<(), SseError> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        events.extend(self.data.take());
        Ok(())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > MAX_EVENT_BYTES {
            return Err(SseError::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), SseError> {
        let whole = std::mem::take(&mut self.line);
        let mut line = whole.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            events.extend(self.data.take());
        } else if let Some(value) = line.strip_prefix(b"data") {
            // "data" alone is an empty value; "database: x" is some other field.
            let value = match value {
                [] => Some(value),
                [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
                [..] => None,
            };
            if let Some(value) = value {
                let value = str::from_utf8(value).map_err(|_| SseError::NotUtf8)?;
                self.add_data(value)?;
            }
        }
        // The next line takes over the room of this one.
        self.line = whole;
        self.line.clear();
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), SseError> {
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) if data.len() + value.len() >= MAX_EVENT_BYTES => return Err(SseError::TooLong),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
        }
        Ok(())
    }
}

/// Bytes that one event may have.
pub(super) const MAX_EVENT_BYTES: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Result<Vec<String>, SseError> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, &mut events)?;
        }
        parser.finish(&mut events)?;
        Ok(events)
    }

    #[test]
    fn every_line_ending_and_every_split_gives_the_same_events() {
        let story = "\u{feff}: hello\nevent: x\ndata: {\"a\":\"é😀\"}\n\ndata:one\ndata: two\nid: 7\n\ndata\n\ndata: [DONE]\n\n";
        let wanted = ["{\"a\":\"é😀\"}", "one\ntwo", "", "[DONE]"];
        for ending in ["\n", "\r\n", "\r"] {
            let bytes = story.replace('\n', ending).into_bytes();
            assert_eq!(parse(&[&bytes]).unwrap(), wanted);
            for at in 0..=bytes.len() {
                assert_eq!(parse(&[&bytes[..at], &bytes[at..]]).unwrap(), wanted, "{ending:?} split at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(parse(&single).unwrap(), wanted);
        }
    }

    #[test]
    fn an_event_without_its_last_line_ending_counts() {
        assert_eq!(parse(&[b"data: x"]).unwrap(), ["x"]);
        assert_eq!(parse(&[b"data: x\n"]).unwrap(), ["x"]);
        assert!(parse(&[b": only a comment\n\n"]).unwrap().is_empty());
        assert!(parse(&[b"database: x\n\n"]).unwrap().is_empty());
    }

    #[test]
    fn lines_and_events_are_bounded() {
        let long = vec![b'x'; MAX_EVENT_BYTES + 1];
        assert_eq!(parse(&[&long]), Err(SseError::TooLong));
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        let line = [b"data: ".as_slice(), &[b'x'; 1000], b"\n"].concat();
        let result = (0..2000).try_for_each(|_| parser.feed(&line, &mut events));
        assert_eq!(result, Err(SseError::TooLong));
    }

    #[test]
    fn broken_characters_are_refused() {
        assert_eq!(parse(&[b"data: \xff\n\n"]), Err(SseError::NotUtf8));
    }
}
