//! The chat request (§5.1).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::is_id;

/// What a chat is asked to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatRequest {
    /// What is said; may be empty.
    pub message: String,
    /// What was said before, oldest first. Entries are looked at when the chat runs.
    pub history: Vec<Value>,
    /// The model to ask.
    pub model: String,
    /// The conversation, `sess_…`.
    pub session_id: Option<String>,
    /// The scope of memory, `user_…` or `proj_…`.
    pub resource_id: Option<String>,
    /// Skills in use.
    pub active_skills: Option<Vec<Skill>>,
    /// Further lines for the prompt.
    pub suggestions: Option<Vec<String>>,
    /// A folder on the server's machine.
    pub workspace: Option<String>,
}

impl ChatRequest {
    /// A message for this model.
    pub fn new(message: impl Into<String>, model: impl Into<String>) -> Self {
        Self { message: message.into(), model: model.into(), ..Self::default() }
    }

    /// In this conversation, `sess_…`.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session_id = Some(session.into());
        self
    }
}

/// A skill: instructions under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// The name.
    pub name: String,
    /// The instructions.
    pub instructions: String,
}

/// One message of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// `msg_…`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who said it.
    pub role: HistoryRole,
    /// What was said.
    pub content: String,
    /// What kind of entry it is.
    #[serde(default)]
    pub kind: HistoryKind,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

/// Who said a message of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryRole {
    /// Nobody.
    System,
    /// The user.
    User,
    /// The agent.
    Assistant,
}

/// What kind of entry a message of a history is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryKind {
    /// Something that was said.
    #[default]
    Text,
    /// What a tool returned.
    ToolPayload,
    /// A remark of the client's; nobody said it.
    Status,
}

/// Who sends the request, which decides what is overlooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Over RPC: unknown keys are refused.
    Rpc,
    /// Over HTTP: unknown keys are ignored, and a strange resource is found out later.
    Http,
}

impl ChatRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// The field that has not the right shape or exceeds a limit; none where that is no field of ours to name.
    pub(crate) fn read(
        object: &Map<String, Value>,
        strictness: Strictness,
    ) -> Result<Self, Option<&'static str>> {
        if strictness == Strictness::Rpc && object.keys().any(|key| !KEYS.contains(&key.as_str())) {
            return Err(None);
        }
        let session_id = optional(object, SESSION, |text| bounded(text, usize::MAX))?;
        if session_id.as_deref().is_some_and(|id| !is_id(id, "sess")) {
            return Err(Some(SESSION));
        }
        let resource_id = optional(object, RESOURCE, |text| bounded(text, usize::MAX))?;
        if strictness == Strictness::Rpc && resource_id.as_deref().is_some_and(|id| !is_resource(id)) {
            return Err(Some(RESOURCE));
        }
        let required = |key| object.get(key).ok_or(Some(key));
        let text = |key, most| required(key).and_then(|text| bounded(text, most).ok_or(Some(key)));
        let history = required(HISTORY)?.as_array().filter(|history| history.len() <= MAX_HISTORY);
        Ok(Self {
            message: text(MESSAGE, MAX_MESSAGE)?,
            history: history.ok_or(Some(HISTORY))?.clone(),
            model: text(MODEL, MAX_MODEL)?,
            session_id,
            resource_id,
            active_skills: optional(object, SKILLS, |list| list.as_array()?.iter().map(skill).collect())?,
            suggestions: optional(object, SUGGESTIONS, |list| {
                let list = list.as_array().filter(|list| list.len() <= MAX_SUGGESTIONS)?;
                list.iter().map(|line| bounded(line, MAX_SUGGESTION)).collect()
            })?,
            workspace: optional(object, WORKSPACE, |text| bounded(text, MAX_WORKSPACE))?,
        })
    }

    /// The request as it is written.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("message".into(), self.message.clone().into());
        object.insert("history".into(), self.history.clone().into());
        object.insert("model".into(), self.model.clone().into());
        let optional = [
            ("sessionId", self.session_id.clone().map(Value::from)),
            ("resourceId", self.resource_id.clone().map(Value::from)),
            ("activeSkills", self.active_skills.as_ref().map(|skills| serde_json::json!(skills))),
            ("suggestions", self.suggestions.clone().map(Value::from)),
            ("workspace", self.workspace.clone().map(Value::from)),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                object.insert(key.into(), value);
            }
        }
        Value::Object(object)
    }

    /// The history as it can be used; none if an entry cannot.
    pub(crate) fn entries(&self) -> Option<Vec<HistoryEntry>> {
        self.history.iter().map(|entry| HistoryEntry::deserialize(entry).ok()).collect()
    }

    /// Whether the scope of memory is one that exists.
    pub(crate) fn has_known_resource(&self) -> bool {
        self.resource_id.as_deref().is_none_or(is_resource)
    }
}

fn is_resource(id: &str) -> bool {
    is_id(id, "user") || is_id(id, "proj")
}

/// A field that may be absent, but not null.
fn optional<T>(
    object: &Map<String, Value>,
    key: &'static str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, Option<&'static str>> {
    object.get(key).map(|value| read(value).ok_or(Some(key))).transpose()
}

/// A text of at most so many UTF-16 units.
fn bounded(value: &Value, most: usize) -> Option<String> {
    let text = value.as_str()?;
    // A unit is at least a byte, so most texts need not be counted.
    let fits = text.len() <= most || text.chars().map(char::len_utf16).sum::<usize>() <= most;
    fits.then(|| text.to_owned())
}

fn skill(value: &Value) -> Option<Skill> {
    let skill = Skill::deserialize(value).ok()?;
    (!skill.name.is_empty() && !skill.instructions.is_empty()).then_some(skill)
}

const MESSAGE: &str = "message";
const HISTORY: &str = "history";
const MODEL: &str = "model";
const SESSION: &str = "sessionId";
const RESOURCE: &str = "resourceId";
const SKILLS: &str = "activeSkills";
const SUGGESTIONS: &str = "suggestions";
const WORKSPACE: &str = "workspace";
const KEYS: &[&str] = &[MESSAGE, HISTORY, MODEL, SESSION, RESOURCE, SKILLS, SUGGESTIONS, WORKSPACE];
const MAX_MESSAGE: usize = 100_000;
const MAX_HISTORY: usize = 500;
const MAX_MODEL: usize = 200;
const MAX_WORKSPACE: usize = 4096;
const MAX_SUGGESTIONS: usize = 10;
const MAX_SUGGESTION: usize = 1000;
