//! The JSON Schemas of actions (§8): which are accepted, and what fits them.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::size::json_bytes;

/// The largest schema of an action, in bytes.
const MAX_SCHEMA: usize = 8 << 10;
/// How hard a pattern may be tried: it is written by the app and run on words of the model.
const MAX_BACKTRACKING: usize = 10_000;
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Why a schema is not accepted; for a person.
pub(crate) fn flaw(schema: &Value) -> Option<&'static str> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Some("the schema of parameters must have the type object");
    }
    if json_bytes(schema) > MAX_SCHEMA {
        return Some("the schema is larger than 8 KiB");
    }
    if schema.get("$schema").is_some_and(|dialect| dialect != DIALECT) {
        return Some("the schema is not of the draft 2020-12");
    }
    if leads_elsewhere(schema) {
        return Some("the schema refers to another document");
    }
    compile(schema).is_none().then_some("the schema is no valid JSON Schema")
}

/// Whether anything in it is a reference that does not begin with `#`.
fn leads_elsewhere(schema: &Value) -> bool {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    let is_reference = matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
                    if is_reference && value.as_str().is_some_and(|to| !to.starts_with('#')) {
                        return true;
                    }
                    open.push(value);
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

fn compile(schema: &Value) -> Option<Validator> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(
            PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKING).size_limit(1 << 20),
        )
        .offline()
        .build(schema)
        .ok()
}

/// Where a value does not fit the schema, without quoting it; none if it does.
pub(crate) fn mismatch(schema: &Value, value: &Value) -> Option<String> {
    let Some(validator) = compile(schema) else {
        return Some("the schema of the action cannot be used".into());
    };
    let error = validator.validate(value).err()?;
    let path = error.instance_path().to_string();
    let place = if path.is_empty() { "the object of parameters" } else { path.as_str() };
    Some(format!("{place} does not fit the schema at {}", error.schema_path()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_that_cannot_be_used_are_told_apart() {
        for (schema, words) in [
            (json!({}), "type object"),
            (json!({"type": "string"}), "type object"),
            (json!({"type": "object", "description": "x".repeat(8192)}), "8 KiB"),
            (json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}), "2020-12"),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "https://e.example/s"}}}),
                "another document",
            ),
            (json!({"type": "object", "properties": {"a": {"$ref": "other.json"}}}), "another document"),
            (json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}), "no valid"),
            (json!({"type": "object", "required": "a"}), "no valid"),
            (json!({"type": "object", "properties": {"a": {"pattern": "("}}}), "no valid"),
        ] {
            assert!(flaw(&schema).is_some_and(|why| why.contains(words)), "{schema} {:?}", flaw(&schema));
        }
        let local = json!({
            "type": "object",
            "properties": {"$ref": {"type": "string"}, "a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"type": "string", "pattern": "^(?=a)a+$"}},
        });
        assert_eq!(flaw(&local), None);
        assert_eq!(mismatch(&local, &json!({"a": "aa"})), None);
        let told = mismatch(&local, &json!({"a": "secret"})).unwrap();
        assert!(told.contains("/a") && !told.contains("secret"), "{told}");
    }

    #[test]
    fn patterns_that_take_forever_do_not() {
        let slow = json!({"type": "object", "properties": {"a": {"pattern": "^(a+)+(?=b)\\1$"}}});
        assert!(mismatch(&slow, &json!({"a": "a".repeat(4000)})).is_some());
    }
}
