//! What a request asks of its turn.

use serde_json::{Map, Value, json};
use switchboard_core::model::{Part, Setting, Told, TurnRequest, Voice};

use crate::message::{ChatRequest, HistoryEntry, HistoryKind, HistoryRole};

/// What the turn of a chat is asked to do.
pub fn turn_request(request: &ChatRequest) -> TurnRequest {
    TurnRequest::Chat { parts: vec![Part::Text(request.message.clone())] }
}

/// What was said before. A client speaks for its user, not for the operator, so that what it tells as a system
/// message is one of the user's. The last entry is left out where it is the message itself (R14).
pub fn told(request: &ChatRequest, mut entries: Vec<HistoryEntry>) -> Vec<Told> {
    entries.retain(|entry| entry.kind != HistoryKind::Status);
    let repeated = |last: &HistoryEntry| last.role == HistoryRole::User && last.content == request.message;
    if entries.last().is_some_and(repeated) {
        entries.pop();
    }
    entries
        .into_iter()
        .map(|entry| Told {
            voice: match entry.role {
                HistoryRole::System | HistoryRole::User => Voice::User,
                HistoryRole::Assistant => Voice::Agent,
            },
            text: entry.content,
        })
        .collect()
}

/// What an agent may want to know of a request besides its words.
pub fn meta(request: &ChatRequest) -> Value {
    let mut meta = Map::new();
    meta.insert("model".into(), request.model.clone().into());
    if let Some(resource) = &request.resource_id {
        meta.insert("resource".into(), resource.clone().into());
    }
    if let Some(skills) = request.active_skills.as_ref().filter(|skills| !skills.is_empty()) {
        meta.insert("skills".into(), json!(skills));
    }
    if let Some(suggestions) = request.suggestions.as_ref().filter(|lines| !lines.is_empty()) {
        meta.insert("suggestions".into(), json!(suggestions));
    }
    Value::Object(meta)
}

/// What the agent is to keep to in this turn: the skills that are active, and what the client adds to the prompt.
pub fn setting(request: &ChatRequest) -> Option<Setting> {
    let skills = request.active_skills.iter().flatten();
    let mut told: Vec<String> =
        skills.map(|skill| format!("Skill {}:\n{}", skill.name, skill.instructions)).collect();
    let lines = request.suggestions.as_deref().unwrap_or_default().join("\n");
    if !lines.trim().is_empty() {
        told.push(lines);
    }
    (!told.is_empty()).then(|| Setting { instructions: Some(told.join("\n\n")), scene: None })
}
