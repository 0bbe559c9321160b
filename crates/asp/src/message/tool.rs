//! TOOL_DEF and tool definitions (§10).

use super::Reason;
use super::fields::{Fields, Required as _, map as as_map, text as as_text};
use crate::error::FieldError;
use crate::value::{Map, Value, json_size};

/// A TOOL_DEF frame.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefFrame {
    /// What happens to the client's list.
    pub op: ToolDefOp,
    /// Revision, strictly increasing per connection; absent in the single-tool form.
    pub rev: Option<u64>,
    /// Tools added or set.
    pub tools: Vec<ToolDef>,
    /// Tools removed.
    pub names: Vec<String>,
}

impl ToolDefFrame {
    /// Reads a map; a map that has `name` is one tool to add.
    pub fn from_map(map: Map) -> Result<Self, FieldError> {
        if map.contains_key("name") {
            let tool = ToolDef::from_map(map)?;
            return Ok(Self { op: ToolDefOp::Add, rev: None, tools: vec![tool], names: Vec::new() });
        }
        let mut fields = Fields::new(map);
        let op = fields.name("op", ToolDefOp::from_name, ToolDefOp::NAMES)?.unwrap_or(ToolDefOp::Add);
        let rev = fields.count("rev")?;
        let mut frame = Self { op, rev, tools: Vec::new(), names: Vec::new() };
        match op {
            ToolDefOp::Add | ToolDefOp::Set => {
                frame.tools = read_tools(fields.list("tools")?.required("tools")?, "tools")?;
            }
            ToolDefOp::Remove => {
                let names = fields.list("names")?.required("names")?;
                frame.names =
                    names.into_iter().map(|name| as_text(name, "names", 64)).collect::<Result<_, _>>()?;
            }
        }
        Ok(frame)
    }

    /// Writes a map. Bare clients get [`ToolDef::to_map`] instead, one tool per frame.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("op", self.op.name());
        map.insert_some("rev", self.rev.map(Value::count));
        match self.op {
            ToolDefOp::Add | ToolDefOp::Set => map.insert("tools", write_tools(&self.tools)),
            ToolDefOp::Remove => {
                map.insert(
                    "names",
                    Value::Array(self.names.iter().map(|name| name.as_str().into()).collect()),
                );
            }
        }
        map
    }
}

names! {
    /// `op` of a TOOL_DEF.
    ToolDefOp {
        /// Add or replace these.
        Add = "add",
        /// Remove these names.
        Remove = "remove",
        /// These are all.
        Set = "set",
    }
}

/// One tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDef {
    /// Unique name.
    pub name: String,
    /// What it does; untrusted text.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub input_schema: Map,
    /// JSON Schema of its output.
    pub output_schema: Option<Map>,
    /// Hints for consent.
    pub annotations: Option<Annotations>,
    /// Version of the tool.
    pub version: Option<String>,
    /// Seconds it may be kept.
    pub ttl_s: Option<u64>,
}

impl ToolDef {
    /// Reads a map.
    pub fn from_map(map: Map) -> Result<Self, FieldError> {
        let mut fields = Fields::new(map);
        let name = fields.text("name", usize::MAX)?.required("name")?;
        if !is_tool_name(&name) {
            return Err(FieldError::new("name", Reason::Pattern("^[A-Za-z0-9_.-]{1,64}$")));
        }
        Ok(Self {
            name,
            description: fields.text("description", MAX_DESCRIPTION)?,
            input_schema: read_schema(&mut fields, "input_schema")?.required("input_schema")?,
            output_schema: read_schema(&mut fields, "output_schema")?,
            annotations: fields.nested("annotations", Annotations::read)?,
            version: fields.text("version", 32)?,
            ttl_s: fields.count("ttl_s")?,
        })
    }

    /// Writes a map.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("name", self.name.as_str());
        map.insert_some("description", self.description.as_deref());
        map.insert("input_schema", self.input_schema.clone());
        map.insert_some("output_schema", self.output_schema.clone());
        map.insert_some("annotations", self.annotations.map(Annotations::to_map));
        map.insert_some("version", self.version.as_deref());
        map.insert_some("ttl_s", self.ttl_s.map(Value::count));
        map
    }
}

/// `annotations` of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Annotations {
    /// Changes nothing.
    pub read_only: Option<bool>,
    /// May destroy something.
    pub destructive: Option<bool>,
    /// Doing it twice is doing it once.
    pub idempotent: Option<bool>,
    /// Ask the user first.
    pub confirm: Option<bool>,
}

impl Annotations {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            read_only: fields.boolean("read_only")?,
            destructive: fields.boolean("destructive")?,
            idempotent: fields.boolean("idempotent")?,
            confirm: fields.boolean("confirm")?,
        })
    }

    fn to_map(self) -> Map {
        let mut map = Map::new();
        map.insert_some("read_only", self.read_only);
        map.insert_some("destructive", self.destructive);
        map.insert_some("idempotent", self.idempotent);
        map.insert_some("confirm", self.confirm);
        map
    }
}

/// Whether text is a tool's name: `^[A-Za-z0-9_.-]{1,64}$`.
pub fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

pub(super) fn read_tools(items: Vec<Value>, key: &str) -> Result<Vec<ToolDef>, FieldError> {
    if items.len() > MAX_TOOLS {
        return Err(FieldError::new(key, Reason::TooMany(MAX_TOOLS)));
    }
    let tools = items.into_iter().enumerate().map(|(index, item)| {
        let path = format!("{key}[{index}]");
        ToolDef::from_map(as_map(item, &path)?).map_err(|error| error.below(&path))
    });
    tools.collect()
}

pub(super) fn write_tools(tools: &[ToolDef]) -> Value {
    Value::Array(tools.iter().map(|tool| tool.to_map().into()).collect())
}

const MAX_TOOLS: usize = 256;
const MAX_DESCRIPTION: usize = 1024;
const MAX_SCHEMA: usize = 16 * 1024;

fn read_schema(fields: &mut Fields, key: &str) -> Result<Option<Map>, FieldError> {
    let Some(schema) = fields.optional(key) else { return Ok(None) };
    if json_size(&schema) > MAX_SCHEMA {
        return Err(FieldError::new(key, Reason::TooLarge(MAX_SCHEMA)));
    }
    if has_remote_ref(&schema) {
        return Err(FieldError::new(key, Reason::RemoteRef));
    }
    as_map(schema, key).map(Some)
}

/// A reference is local only if it is a fragment of the same document.
fn has_remote_ref(schema: &Value) -> bool {
    match schema {
        Value::Map(map) => map.iter().any(|(key, value)| {
            let refers = matches!(key, "$ref" | "$dynamicRef" | "$recursiveRef");
            refers && value.as_str().is_some_and(|target| !target.starts_with('#')) || has_remote_ref(value)
        }),
        Value::Array(items) => items.iter().any(has_remote_ref),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::Bin(_) => {
            false
        }
    }
}
