//! A story as it is written.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{ChecklistState, Executor, NoticeLevel, Tool, ToolAnnotations};

use super::story::Then;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStory {
    pub(super) name: Option<String>,
    #[serde(default, rename = "description")]
    _description: String,
    #[serde(default)]
    pub(super) defaults: RawDefaults,
    #[serde(default)]
    pub(super) tools: Vec<RawTool>,
    #[serde(default)]
    pub(super) rules: Vec<Value>,
    pub(super) fallback: Option<Value>,
}

/// How text is spoken where a step does not say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDefaults {
    pub(super) chunk: Option<Value>,
    pub(super) delay_ms: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTool {
    pub(super) name: String,
    #[serde(default)]
    description: String,
    schema: Option<Value>,
    output_schema: Option<Value>,
    version: Option<String>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    confirm: Option<bool>,
}

impl RawTool {
    pub(super) fn into_tool(self) -> Tool {
        Tool {
            name: ToolName::from(self.name.as_str()),
            description: self.description,
            input_schema: self.schema.unwrap_or_else(|| json!({ "type": "object" })).into(),
            output_schema: self.output_schema.map(Into::into),
            annotations: ToolAnnotations {
                read_only: self.read_only,
                destructive: self.destructive,
                idempotent: self.idempotent,
                confirm: self.confirm,
            },
            version: self.version,
            executor: Executor::Agent,
            grace_ms: 0,
            options: Value::Null,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRule {
    #[serde(rename = "match")]
    pub(super) pattern: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) step: Option<String>,
    #[serde(default)]
    pub(super) steps: Vec<Value>,
    pub(super) output: Option<Value>,
}

/// A step: one key that says what is done, and options of that. Which options belong to which key
/// is checked in `steps.rs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) text: Option<String>,
    pub(super) reasoning: Option<String>,
    pub(super) status: Option<String>,
    pub(super) usage: Option<Map<String, Value>>,
    pub(super) checklist: Option<RawChecklist>,
    pub(super) data: Option<Value>,
    pub(super) notice: Option<String>,
    pub(super) tool: Option<RawToolUse>,
    pub(super) call: Option<RawCall>,
    pub(super) ask: Option<Value>,
    pub(super) wait: Option<Value>,
    pub(super) fail: Option<Value>,
    pub(super) finish: Option<String>,
    pub(super) add_tools: Option<Vec<RawTool>>,
    pub(super) remove_tools: Option<Vec<String>>,
    pub(super) panic: Option<String>,
    pub(super) hang: Option<bool>,
    #[serde(rename = "if")]
    pub(super) condition: Option<String>,

    pub(super) chunk: Option<Value>,
    pub(super) delay_ms: Option<Value>,
    pub(super) size: Option<Value>,
    pub(super) repeat: Option<Value>,
    pub(super) mime: Option<String>,
    pub(super) level: Option<NoticeLevel>,
    pub(super) output: Option<Value>,
    pub(super) steps: Option<Vec<Value>>,
    #[serde(rename = "match")]
    pub(super) pattern: Option<String>,
    #[serde(rename = "else")]
    pub(super) otherwise: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawChecklist {
    #[serde(default = "default_group")]
    pub(super) group: String,
    #[serde(default)]
    pub(super) title: String,
    pub(super) items: Vec<RawItem>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawItem {
    pub(super) id: String,
    pub(super) label: String,
    pub(super) state: ChecklistState,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawToolUse {
    pub(super) name: String,
    pub(super) args: Option<Value>,
    #[serde(default)]
    pub(super) output: Vec<String>,
    pub(super) repeat: Option<Value>,
    pub(super) delay_ms: Option<Value>,
    pub(super) timeout_ms: Option<Value>,
    pub(super) result: Option<Value>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCall {
    pub(super) name: String,
    pub(super) args: Option<Value>,
    pub(super) timeout_ms: Option<Value>,
    #[serde(default = "fail")]
    pub(super) on_timeout: Then,
    #[serde(default = "proceed")]
    pub(super) on_error: Then,
    #[serde(rename = "as")]
    pub(super) variable: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawQuestion {
    pub(super) text: String,
    pub(super) schema: Option<Value>,
    pub(super) timeout_ms: Option<Value>,
    #[serde(default = "fail")]
    pub(super) on_timeout: Then,
    #[serde(default = "proceed")]
    pub(super) on_error: Then,
    #[serde(rename = "as")]
    pub(super) variable: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawError {
    pub(super) name: String,
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFailure {
    /// A failure kind, or a variable that names one.
    pub(super) kind: String,
    pub(super) message: String,
}

fn default_group() -> String {
    "plan".into()
}

const fn fail() -> Then {
    Then::Fail
}

const fn proceed() -> Then {
    Then::Continue
}
