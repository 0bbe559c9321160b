//! Stream events (§6).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Skill;
use crate::error::{ErrorBody, ErrorDetail};

/// Something that happens in a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum StreamEvent<'a> {
    /// Progress.
    Status {
        /// Where the chat is.
        state: PendingState,
    },
    /// A piece of reasoning; never part of the answer.
    Reasoning {
        /// The words.
        text: Cow<'a, str>,
    },
    /// A tool began.
    ToolCall {
        /// Which use of it.
        tool_call_id: String,
        /// Which tool.
        tool_name: String,
        /// Its arguments.
        #[serde(default)]
        args: Map<String, Value>,
    },
    /// A tool says something.
    ToolOutput {
        /// Which use of it.
        tool_call_id: String,
        /// Which tool.
        tool_name: String,
        /// What.
        content: OutputPart,
    },
    /// A tool ended.
    ToolResult {
        /// Which use of it.
        tool_call_id: String,
        /// Which tool.
        tool_name: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        /// How.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_code: Option<String>,
        /// How, in detail.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorDetail>,
    },
    /// A piece of the answer.
    TextDelta {
        /// The words.
        text: Cow<'a, str>,
    },
    /// Tokens so far; replaces what was said before.
    Usage {
        /// Read by the model.
        input_tokens: u64,
        /// Written by it.
        output_tokens: u64,
    },
    /// A list as it is now.
    Checklist(ListSnapshot),
    /// The same under its other name.
    Tasklist(ListSnapshot),
    /// The chat failed; ends a stream over HTTP.
    Error(ErrorBody),
    /// A remark for the transcript.
    Notice {
        /// How bad.
        level: Level,
        /// The remark.
        message: String,
        /// Where it comes from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// A skill is active from now on.
    SkillActivated {
        /// Which one.
        skill: Skill,
    },
    /// A skill is active no longer.
    SkillDeactivated {
        /// Which one.
        name: String,
    },
}

impl StreamEvent<'_> {
    /// The event with words of its own.
    pub fn into_owned(self) -> StreamEvent<'static> {
        match self {
            Self::Status { state } => StreamEvent::Status { state },
            Self::Reasoning { text } => StreamEvent::Reasoning { text: Cow::Owned(text.into_owned()) },
            Self::ToolCall { tool_call_id, tool_name, args } => {
                StreamEvent::ToolCall { tool_call_id, tool_name, args }
            }
            Self::ToolOutput { tool_call_id, tool_name, content } => {
                StreamEvent::ToolOutput { tool_call_id, tool_name, content }
            }
            Self::ToolResult { tool_call_id, tool_name, is_error, error_code, error } => {
                StreamEvent::ToolResult { tool_call_id, tool_name, is_error, error_code, error }
            }
            Self::TextDelta { text } => StreamEvent::TextDelta { text: Cow::Owned(text.into_owned()) },
            Self::Usage { input_tokens, output_tokens } => StreamEvent::Usage { input_tokens, output_tokens },
            Self::Checklist(list) => StreamEvent::Checklist(list),
            Self::Tasklist(list) => StreamEvent::Tasklist(list),
            Self::Error(body) => StreamEvent::Error(body),
            Self::Notice { level, message, source } => StreamEvent::Notice { level, message, source },
            Self::SkillActivated { skill } => StreamEvent::SkillActivated { skill },
            Self::SkillDeactivated { name } => StreamEvent::SkillDeactivated { name },
        }
    }
}

/// Where a chat is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum PendingState {
    /// It has a task.
    Accepted,
    /// It waits.
    Queued {
        /// From 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        position: Option<u64>,
    },
    /// It is being worked on.
    Running {
        /// Tools used so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_calls: Option<u64>,
    },
}

/// A list as it is now, keyed by its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListSnapshot {
    /// Which list.
    pub group_id: String,
    /// Its heading.
    pub group_title: String,
    /// Its items.
    pub items: Vec<Item>,
}

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Unique within the list.
    pub id: String,
    /// What is to be done.
    pub label: String,
    /// How far it is.
    pub status: ItemStatus,
    /// Its place.
    pub order: u64,
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Finished.
    Done,
    /// Given up.
    Failed,
}

/// How bad a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something is not as it should be.
    Warn,
    /// Something went wrong.
    Error,
}

/// What a tool says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum OutputPart {
    /// What it does.
    ToolHeader {
        /// A key for the words.
        label_key: String,
        /// To what.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// Something that is switched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
    },
    /// Words.
    Text {
        /// Not blank.
        text: String,
    },
    /// Files that it works on.
    FileHeader {
        /// A key for the words.
        label_key: String,
        /// How many.
        count: u64,
        /// Which.
        targets: Vec<String>,
    },
    /// A search.
    ScopeHeader {
        /// A key for the words.
        label_key: String,
        /// Where.
        scope: String,
        /// For what.
        patterns: Vec<String>,
        /// How much was found.
        matches: u64,
    },
    /// A change of a file.
    EditHeader {
        /// A key for the words.
        label_key: String,
        /// Which file.
        path: String,
        /// Lines added.
        added: u64,
        /// Lines removed.
        removed: u64,
    },
    /// A line of a change.
    Diff {
        /// What became of it.
        marker: Marker,
        /// Where it is, from 1.
        line_number: u64,
        /// The line.
        text: String,
    },
    /// Output of a command.
    ShellOutput {
        /// Which.
        stream: Stream,
        /// The words.
        text: String,
    },
    /// There is none.
    NoOutput,
    /// There is more.
    Truncated {
        /// How much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
        /// Of what.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<String>,
    },
}

impl OutputPart {
    /// Whether a reader that checks would take it.
    pub fn is_valid(&self) -> bool {
        let filled = |text: &str| !text.trim().is_empty();
        match self {
            Self::ToolHeader { label_key, state, .. } => {
                filled(label_key) && state.as_deref().is_none_or(|state| matches!(state, "on" | "off"))
            }
            Self::Text { text } => filled(text),
            Self::FileHeader { label_key, targets, .. } => {
                filled(label_key) && targets.iter().all(|target| filled(target))
            }
            Self::ScopeHeader { label_key, scope, .. } => filled(label_key) && filled(scope),
            Self::EditHeader { label_key, path, .. } => filled(label_key) && filled(path),
            Self::Diff { line_number, .. } => *line_number >= 1,
            Self::ShellOutput { .. } | Self::NoOutput | Self::Truncated { .. } => true,
        }
    }
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Marker {
    /// It is new.
    Add,
    /// It is gone.
    Remove,
    /// It is as before.
    Context,
}

/// A stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Its output.
    Stdout,
    /// Its complaints.
    Stderr,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(json: Value) -> bool {
        serde_json::from_value::<OutputPart>(json).is_ok_and(|part| part.is_valid())
    }

    #[test]
    fn parts_are_held_against_what_readers_demand() {
        use serde_json::json;
        for good in [
            json!({"kind": "tool-header", "labelKey": "k", "state": "off"}),
            json!({"kind": "text", "text": " x "}),
            json!({"kind": "file-header", "labelKey": "k", "count": 0, "targets": []}),
            json!({"kind": "scope-header", "labelKey": "k", "scope": "s", "patterns": [""], "matches": 0}),
            json!({"kind": "edit-header", "labelKey": "k", "path": "p", "added": 0, "removed": 0}),
            json!({"kind": "diff", "marker": "context", "lineNumber": 1, "text": ""}),
            json!({"kind": "shell-output", "stream": "stdout", "text": ""}),
            json!({"kind": "no-output"}),
            json!({"kind": "truncated"}),
        ] {
            assert!(is_valid(good.clone()), "{good}");
        }
        for bad in [
            json!({"kind": "tool-header", "labelKey": " "}),
            json!({"kind": "tool-header", "labelKey": "k", "state": "maybe"}),
            json!({"kind": "text", "text": " \n"}),
            json!({"kind": "file-header", "labelKey": "", "count": 0, "targets": []}),
            json!({"kind": "file-header", "labelKey": "k", "count": 1, "targets": ["a", " "]}),
            json!({"kind": "scope-header", "labelKey": "k", "scope": "", "patterns": [], "matches": 0}),
            json!({"kind": "scope-header", "labelKey": "", "scope": "s", "patterns": [], "matches": 0}),
            json!({"kind": "edit-header", "labelKey": "k", "path": "", "added": 0, "removed": 0}),
            json!({"kind": "edit-header", "labelKey": "", "path": "p", "added": 0, "removed": 0}),
            json!({"kind": "diff", "marker": "add", "lineNumber": 0, "text": "x"}),
            json!({"kind": "diff", "marker": "swap", "lineNumber": 1, "text": "x"}),
        ] {
            assert!(!is_valid(bad.clone()), "{bad}");
        }
    }
}
