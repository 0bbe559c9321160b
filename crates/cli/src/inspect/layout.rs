//! How bytes and texts are laid out, whatever is spoken.

use std::fmt::Write as _;

use switchboard_asp::message::Direction;

use super::capture::Item;
use crate::console::harmless;

/// The line above what a message holds.
pub(super) fn heading(index: usize, item: &Item, direction: Option<Direction>) -> String {
    let mut text = format!("message {}", index + 1);
    if let Some(label) = &item.label {
        let _ = write!(text, ": {}", harmless(label));
    }
    if let Some(direction) = direction {
        let _ = write!(text, ", {}", arrow(direction));
    }
    let _ = write!(text, ", {} bytes", item.bytes.len());
    text
}

/// As JSON, and without what would steer the terminal: JSON leaves some of it as it is.
pub(super) fn quoted(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let steers = |character: char| character.is_control();
    quoted
        .chars()
        .map(|character| {
            if steers(character) { format!("\\u{:04x}", u32::from(character)) } else { character.to_string() }
        })
        .collect()
}

/// Sixteen bytes per line, with their characters beside them.
pub(super) fn dump(begin: usize, bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().map(|(index, chunk)| {
        let printable =
            |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let characters: String = chunk.iter().map(printable).collect();
        format!("{:06x}  {:<47}  {characters}", begin + index * 16, spaced(chunk))
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("        {line}\n")).collect()
}

pub(super) fn spaced(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::ToServer => "client to server",
        Direction::ToClient => "server to client",
    }
}

pub(super) fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::ToServer => "to_server",
        Direction::ToClient => "to_client",
    }
}
