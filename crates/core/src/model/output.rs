//! What an executor produces while a turn runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// A piece of the answer.
    Text(String),
    /// A piece of reasoning.
    Reasoning(String),
    /// What is going on, for a person.
    Status(String),
    /// Token counts so far.
    Usage(Usage),
    /// A plan with the state of each step.
    Checklist(Checklist),
    /// Structured output.
    Data {
        /// Its media type, when it is not JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime: Option<String>,
        /// The value.
        value: Value,
    },
    /// A remark beside the answer.
    Notice {
        /// How urgent.
        level: NoticeLevel,
        /// The remark.
        text: String,
    },
    /// Something that is remembered about whoever asks was laid before the agent.
    Remembered(Remembered),
    /// Whoever produces the answer of a turn that is relayed has begun.
    Began {
        /// What it calls its run.
        run: String,
        /// The model that it uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The executor has nothing to say yet, and this is why; no part of the answer.
    Standby(Standby),
    /// The executor lets go of the turn until what it has asked for is answered. Whoever goes on
    /// is given this state; nobody else is shown it.
    Suspended(Value),
}

impl Output {
    /// Whether it belongs to what the executor has done, which must not be done twice.
    pub const fn is_progress(&self) -> bool {
        !matches!(self, Self::Standby(_) | Self::Remembered(_))
    }
}

/// Something that is remembered about whoever asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// The name of the memory.
    pub memory: String,
    /// What is remembered.
    pub content: String,
    /// How close it is to what is asked, from 0 to 1.
    pub relevance: f64,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Why an executor has nothing to say yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standby {
    /// It is busy with other turns.
    Queued,
    /// It is being woken up.
    Starting,
    /// It could not be reached, and is tried again.
    Retrying,
}

/// Counts by name: `input_tokens`, `output_tokens` and whatever else was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usage(pub BTreeMap<String, u64>);

/// How urgent a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warn,
}

/// A plan shown to a person; each one replaces the earlier one of the same group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checklist {
    /// Which plan this is.
    pub group: String,
    /// Its heading.
    pub title: String,
    /// Its steps.
    pub items: Vec<ChecklistItem>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecklistItem {
    /// Unique within the plan.
    pub id: String,
    /// What is to be done.
    pub label: String,
    /// How far it is.
    pub state: ChecklistState,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChecklistState {
    /// Not begun.
    Pending,
    /// Under way.
    Active,
    /// Finished.
    Done,
    /// Given up.
    Failed,
}
