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

/// The first argument that a person can read at a glance.
pub(super) fn detail(args: &Map<String, Value>) -> Option<String> {
    let text = args.values().find_map(Value::as_str)?.lines().next()?.trim();
    (!text.is_empty()).then(|| text.chars().take(MAX_DETAIL).collect())
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
/// Beyond this a reader that counts in floating point is wrong; both counts together stay below what
/// it can tell apart.
const MAX_COUNT: u64 = (1 << 52) - 1;
