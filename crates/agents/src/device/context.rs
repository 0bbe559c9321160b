//! What a device has to know about a command besides its name and arguments.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// For whom a device executes commands, in its own words. A device may know other tools for each of
/// its agents, and for each application that one of them works in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandContext {
    /// The agent of the device; none for the one that suits its platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The process in which the commands have their effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_name: Option<String>,
    /// The application to which that process belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_name: Option<String>,
}

impl CommandContext {
    /// The options of a call for a tool of this type.
    pub(super) fn options(&self, tool_type: ToolType) -> Map<String, Value> {
        let names = [
            ("agent_name", self.agent_name.as_deref()),
            ("process_name", self.process_name.as_deref()),
            ("root_name", self.root_name.as_deref()),
        ];
        let mut options = Map::from_iter([("tool_type".to_owned(), Value::from(tool_type.as_str()))]);
        for (key, name) in names {
            if let Some(name) = name {
                options.insert(key.to_owned(), Value::from(name));
            }
        }
        options
    }
}

/// Whether a tool does something or looks at something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolType {
    #[default]
    Action,
    DataCollection,
}

impl ToolType {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::DataCollection => "data_collection",
        }
    }
}
