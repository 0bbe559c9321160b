//! Frames, for people and for programs.

use std::fmt::Write as _;

use bytes::BytesMut;
use switchboard_asp::codec::Payload;
use switchboard_asp::message::{Enc, EncFlag};
use switchboard_asp::{Flags, Map, Value};

use super::decode::{Body, Header, Problem, Report};
use crate::console::{Palette, harmless};
use crate::inspect::capture::Item;
use crate::inspect::layout::{direction_name, dump, indented, quoted, spaced};

/// The frames of one message, for people.
pub(super) fn human(
    heading: &str,
    item: &Item,
    reports: &[Report],
    show_bytes: bool,
    palette: Palette,
) -> String {
    let Palette { bold, dim, reset, .. } = palette;
    let mut text = format!("{bold}{heading}{reset}\n");
    for report in reports {
        let offset = report.offset;
        match report.header {
            Some(header) => {
                let bytes = spaced(&header.bytes);
                let _ = writeln!(text, "{dim}{offset:06x}  {bytes}{reset}  {}", headline(header, palette));
            }
            None => {
                let bytes = item.bytes.get(offset..).unwrap_or_default();
                let _ = writeln!(text, "{dim}{offset:06x}  {}{reset}", spaced(bytes));
            }
        }
        let _ = write!(text, "{}", indented(&body(&report.body)));
        if show_bytes && let Some(header) = report.header {
            let begin = offset + header.bytes.len();
            let end = begin.saturating_add(header.length as usize).min(item.bytes.len());
            let bytes = item.bytes.get(begin..end).unwrap_or_default();
            let _ = write!(text, "{dim}{}{reset}", indented(&dump(begin, bytes)));
        }
        if let Some(found) = &report.problem {
            let _ = writeln!(text, "        {}", problem(found, palette));
        }
    }
    text
}

/// What is wrong, for people.
pub(super) fn problem(problem: &Problem, palette: Palette) -> String {
    let Palette { red, reset, .. } = palette;
    let Problem { step, bytes, reason, code, close } = problem;
    let mut text = format!("{red}invalid{reset} at step {step}");
    if let Some(bytes) = bytes {
        let _ = match bytes.len() {
            0 => write!(text, ", nothing there"),
            1 => write!(text, ", byte {}", bytes.start),
            _ => write!(text, ", bytes {} to {}", bytes.start, bytes.end - 1),
        };
    }
    let _ = write!(text, ": {}; answered with {} {}", harmless(reason), code.number(), code.name());
    if let Some(close) = close {
        let _ = write!(text, ", closed with {}", close.number());
    }
    text
}

/// One frame, for programs.
pub(super) fn json(index: usize, label: Option<&str>, report: &Report) -> String {
    let mut map = Map::new().with("message", count(index));
    map.insert_some("label", label);
    map.insert("offset", count(report.offset));
    map.insert_some("direction", report.direction.map(direction_name));
    if let Some(header) = report.header {
        map.insert_some("opcode", header.opcode().map(|opcode| opcode.to_string()));
        map.insert("type", u16::from(header.nibble()));
        map.insert("id", header.id);
        map.insert("reserved", u16::from(header.flags().byte()));
        let flags = flag_names(header.flags());
        map.insert("flags", Value::Array(flags.into_iter().map(Value::from).collect()));
        map.insert("length", header.length);
    }
    match &report.body {
        Body::Nothing => {}
        Body::Fragment => map.insert("fragment", "more follows"),
        Body::Discarded => map.insert("fragment", "discarded"),
        Body::Unread(bytes) => map.insert("unread", Value::Bin(bytes.clone())),
        Body::Payload(Payload::None) => {}
        Body::Payload(Payload::Text(text)) => map.insert("text", text.as_str()),
        Body::Payload(Payload::Raw(bytes)) => map.insert("raw", Value::Bin(bytes.clone())),
        Body::Payload(Payload::Value(value)) => map.insert("payload", value.clone()),
    }
    map.insert("valid", report.problem.is_none());
    map.insert_some("problem", report.problem.as_ref().map(problem_map));
    encoded(&map)
}

/// What is wrong with the capture as a whole, for programs.
pub(super) fn json_problem(problem: &Problem) -> String {
    encoded(&Map::new().with("valid", false).with("problem", problem_map(problem)))
}

fn problem_map(problem: &Problem) -> Map {
    let mut map = Map::new().with("step", problem.step.to_string());
    if let Some(bytes) = &problem.bytes {
        map.insert("bytes", Value::Array(vec![count(bytes.start), count(bytes.end)]));
    }
    map.insert("reason", problem.reason.as_str());
    map.insert("code", problem.code.number());
    map.insert("name", problem.code.name());
    map.insert_some("close", problem.close.map(switchboard_asp::Close::number));
    map
}

fn headline(header: Header, palette: Palette) -> String {
    let Palette { cyan, reset, .. } = palette;
    let name = match header.opcode() {
        Some(opcode) => opcode.to_string(),
        None => format!("type {:#x}", header.nibble()),
    };
    let flags = flag_names(header.flags());
    let flags = if flags.is_empty() { String::new() } else { format!("  {}", flags.join(" ")) };
    format!("{cyan}{name}{reset}  id {}{flags}  length {}", header.id, header.length)
}

/// The names of set bits; whether they mean anything depends on what was agreed.
fn flag_names(flags: Flags) -> Vec<&'static str> {
    let bits = [
        (Flags::END, "END"),
        (Flags::MORE, "MORE"),
        (Flags::COMPRESSED, "COMPRESSED"),
        (Flags::REPLAY, "REPLAY"),
        (Flags::from_byte(0x40), "0x40"),
        (Flags::from_byte(0x80), "0x80"),
    ];
    let mut names: Vec<_> =
        bits.into_iter().filter(|(bit, _)| flags.has(*bit)).map(|(_, name)| name).collect();
    match flags.enc() {
        EncFlag::Unspecified => {}
        EncFlag::Json => names.push("JSON"),
        EncFlag::Raw => names.push("RAW"),
        EncFlag::Msgpack => names.push("MSGPACK"),
    }
    names
}

fn body(body: &Body) -> String {
    match body {
        Body::Nothing | Body::Payload(Payload::None) => String::new(),
        Body::Fragment => "a fragment; more follows".to_owned(),
        Body::Discarded => "a fragment of a message that was refused".to_owned(),
        Body::Unread(bytes) => dump(0, bytes),
        Body::Payload(Payload::Text(text)) => format!("text {}", quoted(text)),
        Body::Payload(Payload::Raw(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => format!("raw {}", quoted(text)),
            Err(_) => dump(0, bytes),
        },
        Body::Payload(Payload::Value(value)) => pretty(value, 0),
    }
}

/// JSON with one member per line, in the order of the wire.
fn pretty(value: &Value, depth: usize) -> String {
    let inner = "  ".repeat(depth + 1);
    let outer = "  ".repeat(depth);
    match value {
        Value::Map(map) if !map.is_empty() => {
            let members: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{inner}{}: {}", quoted(key), pretty(value, depth + 1)))
                .collect();
            format!("{{\n{}\n{outer}}}", members.join(",\n"))
        }
        Value::Array(items) if items.iter().any(|item| matches!(item, Value::Map(_) | Value::Array(_))) => {
            let items: Vec<String> =
                items.iter().map(|item| format!("{inner}{}", pretty(item, depth + 1))).collect();
            format!("[\n{}\n{outer}]", items.join(",\n"))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| pretty(item, depth)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Str(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Bin(_) | Value::Map(_) => {
            compact(value)
        }
    }
}

fn compact(value: &Value) -> String {
    let mut out = BytesMut::new();
    value.encode(Enc::Json, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn encoded(map: &Map) -> String {
    compact(&Value::Map(map.clone()))
}

fn count(number: usize) -> Value {
    Value::count(number as u64)
}
