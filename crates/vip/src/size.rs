//! How large things are, without making copies of them.

use std::io;

use serde::Serialize;

/// Whether a text has at most so many characters.
pub(crate) fn is_within(text: &str, characters: usize) -> bool {
    text.len() <= characters || text.chars().count() <= characters
}

/// Whether a text can be an id.
pub(crate) fn is_id(text: &str) -> bool {
    !text.is_empty() && is_within(text, 40)
}

/// Whether a text that may be missing can be an id.
pub(crate) fn is_id_if_any(text: Option<&String>) -> bool {
    text.is_none_or(|text| is_id(text))
}

/// How many bytes the JSON of a value has.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
