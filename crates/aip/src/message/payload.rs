//! What tools and devices describe inside of messages (§3.4, §3.5). The server passes all of it on
//! without a look; the types are for those who make or read it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool a device has; the result of `list_tools` is a list of these (the reference says
/// `MCPToolInfo`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// Names the tool; not to be taken apart.
    pub tool_key: String,
    /// What commands call it.
    pub tool_name: String,
    /// For a person.
    pub title: Option<String>,
    /// Which of the device's tool servers has it.
    pub namespace: String,
    /// Usually a word of [`ToolType`](super::ToolType), but any string may come.
    pub tool_type: String,
    /// What it does, for a planner.
    pub description: Option<String>,
    /// The JSON Schema of its parameters.
    pub input_schema: Option<Map<String, Value>>,
    /// The JSON Schema of its result.
    pub output_schema: Option<Map<String, Value>>,
    /// Whatever else its server says.
    pub meta: Option<Map<String, Value>>,
    /// Hints about its behaviour.
    pub annotations: Option<Map<String, Value>>,
}

/// A place on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    /// From the left.
    pub x: i64,
    /// From the top.
    pub y: i64,
    /// How wide.
    pub width: i64,
    /// How high.
    pub height: i64,
}

/// A control of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlInfo {
    /// The label it has on an annotated screenshot.
    pub annotation_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What the system calls it.
    pub handle: Option<i64>,
    /// The class the system gives it.
    pub class_name: Option<String>,
    /// Where it is.
    pub rectangle: Option<Rect>,
    /// A button, an edit field, …
    pub control_type: Option<String>,
    /// What its program calls it.
    pub automation_id: Option<String>,
    /// Whether it can be used.
    pub is_enabled: Option<bool>,
    /// Whether it can be seen.
    pub is_visible: Option<bool>,
    /// How it was found.
    pub source: Option<String>,
    /// Its text.
    pub text_content: Option<String>,
}

/// A window: all that a control has, and the program behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowInfo {
    /// The label it has on an annotated screenshot.
    pub annotation_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What the system calls it.
    pub handle: Option<i64>,
    /// The class the system gives it.
    pub class_name: Option<String>,
    /// Where it is.
    pub rectangle: Option<Rect>,
    /// A button, an edit field, …
    pub control_type: Option<String>,
    /// What its program calls it.
    pub automation_id: Option<String>,
    /// Whether it can be used.
    pub is_enabled: Option<bool>,
    /// Whether it can be seen.
    pub is_visible: Option<bool>,
    /// How it was found.
    pub source: Option<String>,
    /// Its text.
    pub text_content: Option<String>,
    /// The process.
    pub process_id: Option<i64>,
    /// The name of the process.
    pub process_name: Option<String>,
    /// Whether it is an icon now.
    pub is_minimized: Option<bool>,
    /// Whether it fills the screen.
    pub is_maximized: Option<bool>,
    /// Whether it has the focus.
    pub is_active: Option<bool>,
}

/// A window and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppWindowControlInfo {
    /// The window.
    pub window_info: WindowInfo,
    /// Its controls.
    pub controls: Option<Vec<ControlInfo>>,
}

/// What a device says of itself (§3.5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemInfo {
    /// Its client id.
    pub device_id: String,
    /// `windows`, `linux`, `darwin`, `android`, `ios` or `unknown`.
    pub platform: String,
    /// `unknown` when not found, as the next two.
    pub os_version: String,
    /// 0 when unknown.
    pub cpu_count: u64,
    /// With two decimals.
    pub memory_total_gb: f64,
    /// Its name in the network.
    pub hostname: String,
    /// Its address in the network.
    pub ip_address: String,
    /// What it can be used for, such as `gui` or `camera`.
    pub supported_features: Vec<String>,
    /// `computer`, `mobile`, `web`, `iot` or `unknown`.
    pub platform_type: String,
    /// Of this object.
    pub schema_version: String,
    /// What the server's configuration adds.
    pub custom_metadata: Map<String, Value>,
    /// What the server's configuration calls it; devices do not send this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Value>,
}

impl SystemInfo {
    /// A device that knows nothing of itself but its name.
    pub fn unknown(device_id: impl Into<String>) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            device_id: device_id.into(),
            platform: unknown(),
            os_version: unknown(),
            cpu_count: 0,
            memory_total_gb: 0.0,
            hostname: unknown(),
            ip_address: unknown(),
            supported_features: Vec::new(),
            platform_type: unknown(),
            schema_version: "1.0".to_owned(),
            custom_metadata: Map::new(),
            tags: None,
        }
    }

    /// As it travels: in `metadata.system_info`, in the metadata of a push, in the result of a reply.
    pub fn to_object(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(object)) => object,
            // A struct of strings and numbers is always an object.
            Ok(_) | Err(_) => Map::new(),
        }
    }
}
