//! Envelopes, for people and for programs.

use std::fmt::Write as _;

use serde_json::json;
use switchboard_alicia::error::Recovers;
use switchboard_alicia::{StanzaForm, Value};
use switchboard_asp::message::Direction;

use super::decode::{Problem, Report, severity_name};
use crate::console::{Palette, harmless};
use crate::inspect::View;
use crate::inspect::capture::Item;
use crate::inspect::layout::{direction_name, dump, indented, quoted, spaced};

/// The envelopes of one message, for people.
pub(super) fn human(heading: &str, item: &Item, reports: &[Report], view: View) -> String {
    let Palette { bold, dim, reset, .. } = view.palette;
    let mut text = format!("{bold}{heading}{reset}\n");
    for report in reports {
        let _ = writeln!(text, "{}", headline(report, view.palette));
        let aside = report.aside();
        if !aside.is_empty() {
            let _ = write!(text, "{dim}{}{reset}", indented(&pretty(&Value::Map(aside), 0)));
        }
        if let Some(body) = report.member("body") {
            let _ = write!(text, "{}", indented(&pretty(body, 0)));
        } else if let Some(value) = report.value.as_ref().filter(|value| value.as_map().is_none()) {
            let _ = write!(text, "{}", indented(&pretty(value, 0)));
        }
        if let Some(found) = &report.problem {
            let _ = writeln!(text, "        {}", problem(found, view.palette));
        }
    }
    // What cannot be read is shown as it is.
    if view.bytes || reports.iter().any(|report| report.value.is_none()) {
        let _ = write!(text, "{dim}{}{reset}", indented(&dump(0, &item.bytes)));
    }
    text
}

/// One envelope, for programs.
pub(super) fn json(
    index: usize,
    label: Option<&str>,
    direction: Option<Direction>,
    report: &Report,
) -> String {
    let mut map = serde_json::Map::new();
    let mut put = |key: &str, value: Option<serde_json::Value>| {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    };
    put("message", Some(json!(index)));
    put("label", label.map(Into::into));
    put("envelope", report.place.map(Into::into));
    put("direction", direction.map(|direction| direction_name(direction).into()));
    put("profile", report.lite.map(|lite| if lite { "lite" } else { "full" }.into()));
    put("stanza", (report.lite == Some(false)).then(|| report.stanza.into()));
    put("conversation", report.conversation.as_deref().map(Into::into));
    put("type", report.number.map(Into::into));
    put("name", report.name.map(Into::into));
    put("error", report.error.map(|code| code.name().into()));
    let aside = report.aside();
    put("aside", (!aside.is_empty()).then(|| json!(aside)));
    put("body", report.member("body").map(|body| json!(body)));
    put("canonical", report.canonical.map(Into::into));
    put("valid", Some(report.problem.is_none().into()));
    put("problem", report.problem.as_ref().map(problem_map));
    serde_json::Value::Object(map).to_string()
}

fn problem_map(problem: &Problem) -> serde_json::Value {
    let Problem { reason, code, close } = problem;
    json!({
        "reason": reason,
        "code": code.number(),
        "name": code.name(),
        "severity": severity_name(code.severity()),
        "close": close,
    })
}

/// What is wrong, for people.
fn problem(problem: &Problem, palette: Palette) -> String {
    let Palette { red, reset, .. } = palette;
    let Problem { reason, code, close } = problem;
    let (number, name, severity) = (code.number(), code.name(), severity_name(code.severity()));
    let recovers = if code.recovers() == Recovers::Always { ", recoverable" } else { "" };
    let mut text = format!(
        "{red}invalid{reset}: {}; answered with {number} {name} ({severity}{recovers})",
        harmless(reason)
    );
    if let Some(close) = close {
        let _ = write!(text, ", closed with {close}");
    }
    text
}

/// Type, stanza and conversation on one line.
fn headline(report: &Report, palette: Palette) -> String {
    let Palette { cyan, dim, reset, .. } = palette;
    let mut text = String::new();
    if let Some(place) = report.place {
        let _ = write!(text, "{dim}[{place}]{reset} ");
    }
    let _ = match (report.name, report.number) {
        (Some(name), Some(number)) => write!(text, "{cyan}{name}{reset} ({number})"),
        (None, Some(number)) => write!(text, "type {number}, unknown: skipped"),
        (_, None) => write!(text, "no envelope"),
    };
    if let Some(code) = report.error {
        let _ = write!(text, ", {}", code.name());
    }
    match (report.lite, report.form) {
        (Some(true), _) => text.push_str("  lite"),
        (Some(false), Some(StanzaForm::Missing)) => text.push_str("  no stanza, read as 0"),
        (Some(false), Some(StanzaForm::Unusable)) => text.push_str("  unusable stanza, read as 0"),
        (Some(false), Some(StanzaForm::Given) | None) => {
            let _ = write!(text, "  stanza {}", report.stanza);
        }
        (None, _) => {}
    }
    if let Some(conversation) = &report.conversation {
        let _ = write!(text, "  {}", harmless(conversation));
    }
    if report.canonical == Some(false) {
        let _ = write!(text, "  {dim}not canonical{reset}");
    }
    text
}

/// JSON with one member per line, in the order of the wire; bytes, which JSON does not have, as hex.
fn pretty(value: &Value, depth: usize) -> String {
    let inner = "  ".repeat(depth + 1);
    let outer = "  ".repeat(depth);
    match value {
        Value::Map(map) if map.is_empty() => "{}".to_owned(),
        Value::Map(map) => {
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
        Value::Bin(bytes) => match bytes.split_at_checked(MOST_BYTES) {
            Some((first, _)) => format!("<{} … {} bytes>", spaced(first), bytes.len()),
            None => format!("<{}>", spaced(bytes)),
        },
        Value::Float(float) if !float.is_finite() => float.to_string(),
        Value::Nil | Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
            json!(value).to_string()
        }
    }
}

/// Bytes of a value that are shown.
const MOST_BYTES: usize = 32;
