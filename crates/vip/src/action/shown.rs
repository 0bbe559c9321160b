//! What the model is shown of a screen.

use serde_json::{Map, Value, json};

use super::invocable;
use crate::context::{Action, Context, InputType};

/// The JSON Schema of what the model may say when it chooses this action.
pub fn tool_schema(action: &Action, context: &Context) -> Value {
    let mut schema = action.parameters.clone();
    if action.is_navigation() {
        let mut target = json!({"type": "string", "description": "The page to go to."});
        if !context.routes.is_empty() {
            target["enum"] = context.routes.iter().map(|route| route.target.as_str()).collect();
        }
        demand(&mut schema, "target", target);
    } else if let Some(input_type) = action.input_type.filter(|_| action.is_input()) {
        let value = match input_type {
            InputType::Text | InputType::Password => json!({"type": "string", "maxLength": 4096}),
            InputType::Number => json!({"type": "number"}),
            InputType::Boolean | InputType::Checkbox => json!({"type": "boolean"}),
            InputType::Radiobutton => json!({"type": "string", "enum": action.options}),
        };
        demand(&mut schema, "value", value);
    } else if let Some(members) = schema.as_object_mut() {
        // Some providers do not take objects without it.
        members.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    schema
}

/// Adds a required member to a schema; what the application says of it besides stays.
fn demand(schema: &mut Value, name: &str, rules: Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        let property = properties.entry(name).or_insert_with(|| Value::Object(Map::new()));
        match (property.as_object_mut(), rules) {
            (Some(own), Value::Object(rules)) => {
                for (key, rule) in rules {
                    let is_said_better = key == "description" && own.contains_key(&key);
                    if !is_said_better {
                        own.insert(key, rule);
                    }
                }
            }
            (_, rules) => *property = rules,
        }
    }
    let required = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(required) = required.as_array_mut()
        && !required.iter().any(|member| member == name)
    {
        required.push(name.into());
    }
}

/// The answer to a question that the runtime answers itself (§8); none if this is not one.
pub fn answer_builtin(context: &Context, name: &str) -> Option<Value> {
    Some(match name {
        "get_available_routes" => json!({"current": context.route, "routes": context.routes}),
        "get_system_states" => {
            let mut answer = json!({
                "context_version": context.version,
                "route": context.route,
                "narration": context.narration,
                "visible": context.visibility,
            });
            for (key, value) in [("tree", &context.tree), ("data", &context.data)] {
                if let Some(value) = value {
                    answer[key] = value.clone();
                }
            }
            answer
        }
        "get_system_functions" => {
            let functions: Vec<Value> = context
                .actions
                .iter()
                .filter(|(_, action)| !action.is_confirmation())
                .map(|(id, action)| {
                    let can = invocable(context).any(|(other, _)| other == id);
                    let mut function = json!({
                        "id": id,
                        "type": action.kind,
                        "description": action.description,
                        "invocable": can,
                        "sensitive": action.sensitive,
                        "parameters": tool_schema(action, context),
                    });
                    if let Some(label) = &action.label {
                        function["label"] = json!(label);
                    }
                    function
                })
                .collect();
            json!({"functions": functions})
        }
        _ => return None,
    })
}
