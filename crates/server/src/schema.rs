//! Arguments against schemas.

use serde_json::Value;

/// Whether `args` fit `schema`; if not, the first reason.
pub(crate) fn check_arguments(schema: &Value, args: &Value) -> Result<(), String> {
    let validator =
        jsonschema::validator_for(schema).map_err(|error| format!("the tool's schema is broken: {error}"))?;
    validator.validate(args).map_err(|error| {
        let path = error.instance_path().to_string();
        let place = if path.is_empty() { "the arguments".to_owned() } else { path };
        // The message of the validator quotes the value, which is content; the keyword does not.
        format!("{place} breaks the schema at {}", error.schema_path())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_checked_without_quoting_them() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        assert_eq!(check_arguments(&schema, &json!({"n": 1})), Ok(()));
        let error = check_arguments(&schema, &json!({"n": "secret"})).unwrap_err();
        assert!(error.contains("/n") && !error.contains("secret"), "{error}");
        assert!(check_arguments(&schema, &json!({})).is_err());
    }
}
