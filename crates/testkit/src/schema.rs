//! The few words of JSON Schema that scenarios need, so that the world stays small.

use serde_json::Value;

/// Whether `args` fit `schema`, as far as `type`, `required`, `properties`, `enum` and
/// `additionalProperties: false` say. A world takes any other function of this shape.
pub fn check_arguments(schema: &Value, args: &Value) -> Result<(), String> {
    if let Some(wanted) = schema.get("type").and_then(Value::as_str) {
        let fits = match wanted {
            "object" => args.is_object(),
            "array" => args.is_array(),
            "string" => args.is_string(),
            "integer" => args.is_i64() || args.is_u64(),
            "number" => args.is_number(),
            "boolean" => args.is_boolean(),
            "null" => args.is_null(),
            _ => true,
        };
        if !fits {
            return Err(format!("must be of type {wanted}"));
        }
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(args)
    {
        return Err("is none of the values allowed".into());
    }
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if name.as_str().is_some_and(|name| args.get(name).is_none()) {
            return Err(format!("{name} is required"));
        }
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        if let Some(value) = args.get(name) {
            check_arguments(schema, value).map_err(|error| format!("/{name}: {error}"))?;
        }
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        let known = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
        if let Some(name) = args.as_object().into_iter().flatten().map(|(name, _)| name).find(|n| !known(n)) {
            return Err(format!("{name} is not allowed"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_held_against_type_required_and_properties() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        assert_eq!(check_arguments(&schema, &json!({"n": 1})), Ok(()));
        for wrong in [json!({}), json!({"n": "1"}), json!([])] {
            assert!(check_arguments(&schema, &wrong).is_err(), "{wrong}");
        }
    }
}
