//! Pieces of what a chat says: output of tools, lists, counts.

use serde_json::{Map, Value};
use switchboard_core::model::{Checklist, ChecklistState, Usage};

use crate::message::{Item, ItemStatus, ListSnapshot, OutputPart};

/// A piece of a tool's output: a part if it is written as one, otherwise words. What readers would
/// drop, blanks above all, is not sent.
pub(super) fn output_part(delta: &str) -> Option<OutputPart> {
    let written = delta.starts_with('{').then(|| serde_json::from_str(delta).ok()).flatten();
    let part = written.unwrap_or_else(|| OutputPart::Text { text: delta.to_owned() });
    part.is_valid().then_some(part)
}

/// A result has no field of its own: it is shown as output.
pub(super) fn result_parts(output: &Value) -> Vec<OutputPart> {
    let text = if output.is_null() { String::new() } else { plain(output) };
    if text.trim().is_empty() {
        return vec![OutputPart::NoOutput];
    }
    let Some((end, _)) = text.char_indices().find(|(at, _)| *at >= MAX_RESULT) else {
        return vec![OutputPart::Text { text }];
    };
    let (shown, rest) = text.split_at(end);
    let truncated = OutputPart::Truncated { count: Some(rest.len() as u64), unit: Some("bytes".into()) };
    vec![OutputPart::Text { text: shown.to_owned() }, truncated]
}

pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn object(args: &Value) -> Map<String, Value> {
    if args.is_null() {
        return Map::new();
    }
    args.as_object().cloned().unwrap_or_else(|| Map::from_iter([("value".to_owned(), args.clone())]))
}

/// What a person has to see of a call at a glance: a command with its arguments, what is looked for before where, and
/// otherwise the first argument that is a text.
pub(super) fn detail(args: &Map<String, Value>) -> Option<String> {
    let named = TELLING.iter().filter_map(|name| args.get(*name));
    let (mut line, rest) = match args.get("args") {
        // A command, and what it is given.
        Some(Value::Array(rest)) => {
            (COMMANDS.iter().find_map(|name| line_of(args.get(*name)?)), rest.as_slice())
        }
        Some(_) | None => (None, [].as_slice()),
    };
    if let Some(line) = &mut line {
        for word in rest.iter().map_while(line_of) {
            line.push(' ');
            line.push_str(&word);
        }
    }
    let shown = line.or_else(|| named.chain(args.values()).find_map(line_of))?;
    Some(shown.chars().take(MAX_DETAIL).collect())
}

/// The first line of a text, if it says anything.
fn line_of(value: &Value) -> Option<String> {
    let line = value.as_str()?.lines().next()?.trim();
    (!line.is_empty()).then(|| line.chars().take(MAX_DETAIL).collect())
}

pub(super) fn snapshot(checklist: &Checklist) -> ListSnapshot {
    let filled = |text: &str, instead: &str| {
        if text.is_empty() { instead.to_owned() } else { text.to_owned() }
    };
    let items = checklist.items.iter().zip(0u64..).map(|(item, order)| Item {
        id: filled(&item.id, &order.to_string()),
        label: filled(&item.label, &item.id),
        status: match item.state {
            ChecklistState::Pending => ItemStatus::Pending,
            ChecklistState::Active => ItemStatus::InProgress,
            ChecklistState::Done => ItemStatus::Done,
            ChecklistState::Failed => ItemStatus::Failed,
        },
        order,
    });
    ListSnapshot {
        group_id: filled(&checklist.group, "plan"),
        group_title: filled(&checklist.title, "Plan"),
        items: items.filter(|item| !item.label.is_empty()).collect(),
    }
}

/// Tokens as they were counted, or as they are known otherwise.
pub(super) fn counts(usage: &Usage, known: (u64, u64)) -> (u64, u64) {
    let count = |names: [&str; 2], otherwise| {
        names.iter().find_map(|name| usage.0.get(*name)).map_or(otherwise, |count| *count.min(&MAX_COUNT))
    };
    (
        count(["input_tokens", "prompt_tokens"], known.0),
        count(["output_tokens", "completion_tokens"], known.1),
    )
}

/// Tokens of so many bytes, roughly.
pub(super) const fn estimate(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

const MAX_RESULT: usize = 16 << 10;
const MAX_DETAIL: usize = 120;
/// How tools call the program that they run.
const COMMANDS: &[&str] = &["cmd", "command", "program"];
/// Arguments that say the most of a call, in this order.
const TELLING: &[&str] =
    &["cmd", "command", "program", "pattern", "query", "question", "url", "path", "file", "name"];

/// Beyond this a reader that counts in floating point is wrong; both counts together stay below what
/// it can tell apart.
const MAX_COUNT: u64 = (1 << 52) - 1;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_header_shows_what_matters_of_a_call() {
        for (args, shown) in [
            (json!({"args": ["hi", "there"], "cmd": "echo"}), Some("echo hi there")),
            (json!({"path": "src", "pattern": "fn main"}), Some("fn main")),
            (json!({"content": "x", "path": "a.txt"}), Some("a.txt")),
            (json!({"zone": "utc", "at": 5}), Some("utc")),
            (json!({"args": ["lonely"]}), None),
            (json!({"cmd": " \n", "path": "p"}), Some("p")),
            (json!({"limit": 5}), None),
            (json!({}), None),
        ] {
            assert_eq!(detail(args.as_object().unwrap()).as_deref(), shown, "{args}");
        }
        let long = json!({"cmd": "x".repeat(500), "args": ["y"]});
        assert_eq!(detail(long.as_object().unwrap()).unwrap().len(), MAX_DETAIL);
    }
}
