//! What the model is told: messages, and the tools it may use.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use switchboard_core::model::{Author, Executor, Part, Tool, TurnRequest};
use switchboard_core::{Callsign, MessageRow, ToolName};

use crate::names::free_name;

/// The messages that lead to the request, and the request itself.
pub(super) fn messages(
    system: Option<&str>,
    device: Option<&Callsign>,
    history: &[MessageRow],
    request: &TurnRequest,
) -> Vec<Value> {
    let mut messages = Vec::with_capacity(history.len() + 2);
    // Some models take no more than one message of this kind.
    let hints = [system.map(str::to_owned), device.map(device_hint)];
    let hints: Vec<String> = hints.into_iter().flatten().collect();
    if !hints.is_empty() {
        messages.push(json!({ "role": "system", "content": hints.join("\n\n") }));
    }
    for row in history {
        let message = match &row.author {
            Author::User(_) => json!({ "role": "user", "content": content(&row.parts) }),
            Author::Agent(_) => json!({ "role": "assistant", "content": flat(&row.parts) }),
            Author::System => json!({ "role": "system", "content": flat(&row.parts) }),
        };
        messages.push(message);
    }
    let asked = match request {
        TurnRequest::Chat { parts } => content(parts),
        TurnRequest::Tool { name, .. } => json!(name),
        TurnRequest::Step { goal, state, .. } if state.is_null() => {
            json!(format!("Goal: {goal}\n\nTake one step towards it. Answer with the new state as JSON."))
        }
        TurnRequest::Step { goal, state, .. } => json!(format!(
            "Goal: {goal}\n\nState so far, as JSON: {state}\n\n\
             Take one more step towards the goal. Answer with the new state as JSON."
        )),
    };
    messages.push(json!({ "role": "user", "content": asked }));
    messages
}

/// What the model has to know of the device that a turn is for. Its name is somebody's choice, so it
/// is quoted.
fn device_hint(device: &Callsign) -> String {
    let name = json!(device.as_str());
    format!(
        "The task is about the device {name}. The tools that you are given act on it: use them to do \
         what is asked, one step after another, and look at what comes back. Say at the end what was \
         done or found. If the tools do not suffice, say so."
    )
}

/// The parts of a message: text if that is all there is, a list otherwise.
fn content(parts: &[Part]) -> Value {
    let image = |part: &Part| matches!(part, Part::Data { mime, .. } if mime.starts_with("image/"));
    if !parts.iter().any(image) {
        return Value::String(flat(parts));
    }
    let items = parts.iter().map(|part| match part {
        Part::Data { mime, data } if mime.starts_with("image/") => {
            let url = format!("data:{mime};base64,{}", STANDARD.encode(data));
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        Part::Text(_) | Part::Data { .. } | Part::Reference { .. } => {
            json!({ "type": "text", "text": flat(std::slice::from_ref(part)) })
        }
    });
    items.collect()
}

/// The parts as text; what is none is at least mentioned.
fn flat(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Data { mime, data } => match str::from_utf8(data) {
            Ok(text) if mime.starts_with("text/") || mime == "application/json" => text.to_owned(),
            _ => format!("[attachment: {mime}, {} bytes]", data.len()),
        },
        Part::Reference { uri } => format!("[{uri}]"),
    });
    texts.collect()
}

/// Tools under names that the API takes.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    names: BTreeMap<String, ToolName>,
    definitions: Vec<Value>,
}

impl Catalogue {
    /// The tools that somebody else than the agent executes; of devices, only the one that the turn
    /// is for.
    pub(super) fn new(tools: &[Tool], device: Option<&Callsign>) -> Self {
        let offered = |tool: &&Tool| match &tool.executor {
            Executor::Agent => false,
            Executor::Device(owner) => device == Some(owner),
            Executor::Attachment(_) | Executor::Principal(_) | Executor::Anyone => true,
        };
        let mut catalogue = Self::default();
        for tool in tools.iter().filter(offered) {
            let name = free_name(tool.name.as_str(), |name| catalogue.names.contains_key(name));
            let mut function = json!({ "name": name, "parameters": parameters(&tool.input_schema) });
            if !tool.description.is_empty() {
                function["description"] = json!(tool.description);
            }
            catalogue.definitions.push(json!({ "type": "function", "function": function }));
            catalogue.names.insert(name, tool.name.clone());
        }
        catalogue
    }

    /// The definitions for the request; none if there are no tools.
    pub(super) fn definitions(&self) -> Option<Value> {
        (!self.definitions.is_empty()).then(|| Value::Array(self.definitions.clone()))
    }

    /// The tool that the model means.
    pub(super) fn find(&self, name: &str) -> Option<&ToolName> {
        self.names.get(name)
    }
}

/// The API wants an object schema; anything else is described as one without known fields.
fn parameters(schema: &Value) -> Value {
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => schema.clone(),
        _ => json!({ "type": "object" }),
    }
}

#[cfg(test)]
mod tests {
    use switchboard_core::model::ToolAnnotations;

    use super::*;

    fn tool(name: &str, executor: Executor) -> Tool {
        Tool {
            name: ToolName::from(name),
            description: String::new(),
            input_schema: json!({ "type": "object", "properties": {} }),
            output_schema: None,
            annotations: ToolAnnotations::default(),
            version: None,
            executor,
            options: Value::Null,
        }
    }

    #[test]
    fn names_are_made_to_fit_and_found_again() {
        let long = "x".repeat(80);
        let tools: Vec<Tool> = ["fs.read", "fs/read", "wetter-für", long.as_str(), &format!("{long}y"), ""]
            .iter()
            .map(|name| tool(name, Executor::Anyone))
            .collect();
        let catalogue = Catalogue::new(&tools, None);
        let names: Vec<&String> = catalogue.names.keys().collect();
        assert_eq!(names.len(), 6);
        let fits = |name: &&String| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        assert!(names.iter().all(fits), "{names:?}");
        assert_eq!(catalogue.find("fs_read").unwrap().as_str(), "fs.read");
        assert_eq!(catalogue.find("fs_read_2").unwrap().as_str(), "fs/read");
        assert!(catalogue.find("fs.read").is_none());
    }

    #[test]
    fn tools_of_the_agent_itself_are_not_offered() {
        let catalogue = Catalogue::new(&[tool("own", Executor::Agent)], None);
        assert!(catalogue.definitions().is_none());
    }

    #[test]
    fn images_travel_as_data_and_other_parts_as_text() {
        let parts = [
            Part::Text("look".into()),
            Part::Data { mime: "image/png".into(), data: vec![1, 2, 3].into() },
            Part::Reference { uri: "https://example.org/x".into() },
        ];
        let content = content(&parts);
        assert_eq!(content[1]["image_url"]["url"], "data:image/png;base64,AQID");
        assert_eq!(content[2]["text"], "[https://example.org/x]");
        assert_eq!(self::content(&parts[..1]), json!("look"));
    }
}
