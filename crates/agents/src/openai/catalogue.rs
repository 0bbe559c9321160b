//! The tools that the model may use.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_core::model::Tool;
use switchboard_core::{Callsign, ToolName};

use crate::names::ModelNames;
use crate::toolbox::is_usable;

/// Tools under names that the API takes.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    offers: BTreeMap<String, ToolName>,
    definitions: Vec<Value>,
}

impl Catalogue {
    /// The tools of the session that a turn for this device can use. `names` are those that the model has been told already.
    pub(super) fn new(
        tools: &[Tool],
        device: Option<&Callsign>,
        executes: impl Fn(&ToolName) -> bool,
        names: &mut ModelNames,
    ) -> Self {
        let mut catalogue = Self::default();
        for tool in tools.iter().filter(|tool| is_usable(tool, device, &executes)) {
            let name = names.of(&tool.name);
            let mut function = json!({ "name": name, "parameters": parameters(&tool.input_schema) });
            if !tool.description.is_empty() {
                function["description"] = json!(tool.description);
            }
            catalogue.definitions.push(json!({ "type": "function", "function": function }));
            catalogue.offers.insert(name, tool.name.clone());
        }
        catalogue
    }

    /// The definitions for the request; none if there are no tools.
    pub(super) fn definitions(&self) -> Option<Value> {
        (!self.definitions.is_empty()).then(|| Value::Array(self.definitions.clone()))
    }

    /// The tool that the model means.
    pub(super) fn find(&self, name: &str) -> Option<&ToolName> {
        self.offers.get(name)
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
    use switchboard_core::model::{Executor, ToolAnnotations};

    use super::*;

    fn tool(name: &str, executor: Executor) -> Tool {
        Tool {
            name: ToolName::from(name),
            description: String::new(),
            input_schema: json!({ "type": "object", "properties": {} }).into(),
            output_schema: None,
            annotations: ToolAnnotations::default(),
            version: None,
            executor,
            grace_ms: 0,
            options: Value::Null,
        }
    }

    fn catalogue(
        tools: &[Tool],
        device: Option<&Callsign>,
        executes: impl Fn(&ToolName) -> bool,
    ) -> Catalogue {
        Catalogue::new(tools, device, executes, &mut ModelNames::default())
    }

    #[test]
    fn names_are_made_to_fit_and_found_again() {
        let long = "x".repeat(80);
        let tools: Vec<Tool> = ["fs.read", "fs/read", "wetter-für", long.as_str(), &format!("{long}y"), ""]
            .iter()
            .map(|name| tool(name, Executor::Anyone))
            .collect();
        let catalogue = catalogue(&tools, None, |_| false);
        let names: Vec<&String> = catalogue.offers.keys().collect();
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
    fn tools_of_agents_are_offered_where_they_are_executed_here() {
        let tools = [tool("own", Executor::Agent), tool("shared", Executor::Agent)];
        assert!(catalogue(&tools, None, |_| false).definitions().is_none());
        let catalogue = catalogue(&tools, None, |name| name.as_str() == "shared");
        assert!(catalogue.find("own").is_none());
        assert!(catalogue.find("shared").is_some());
    }

    #[test]
    fn of_devices_only_the_one_that_the_turn_is_for_counts() {
        let device = |name| Executor::Device(Callsign::from(name));
        let tools = [tool("near", device("dev-7")), tool("far", device("dev-8"))];
        let catalogue = catalogue(&tools, Some(&Callsign::from("dev-7")), |_| false);
        assert!(catalogue.find("near").is_some());
        assert!(catalogue.find("far").is_none());
    }
}
