//! Whether something received is what a scenario says.
//!
//! A map fits if every member that is written fits; members that are not written do not matter.
//! `"*"` is anything, `"!absent"` is nothing at all, `"$name"` is remembered the first time and the same
//! from then on, `"~part"` is a text that holds `part`. Everything else is itself.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether `value` is what `pattern` says.
pub(super) fn fits(
    pattern: &Value,
    value: Option<&Value>,
    captures: &mut BTreeMap<String, Value>,
) -> Result<(), String> {
    match (pattern, value) {
        (Value::String(text), value) if text == "!absent" => match value {
            None => Ok(()),
            Some(value) => Err(format!("nothing expected, {value} found")),
        },
        (_, None) => Err(format!("{pattern} expected, nothing found")),
        (Value::String(text), Some(_)) if text == "*" => Ok(()),
        (Value::String(text), Some(value)) if text.starts_with('$') => {
            let known = captures.entry(text[1..].to_owned()).or_insert_with(|| value.clone());
            if known == value { Ok(()) } else { Err(format!("{text} is {known}, {value} found")) }
        }
        (Value::String(text), Some(Value::String(found))) if text.starts_with('~') => {
            if found.contains(&text[1..]) { Ok(()) } else { Err(format!("{text} expected, {found} found")) }
        }
        (Value::Object(members), Some(Value::Object(found))) => {
            for (name, pattern) in members {
                fits(pattern, found.get(name), captures).map_err(|error| format!("{name}: {error}"))?;
            }
            Ok(())
        }
        (Value::Array(items), Some(Value::Array(found))) if items.len() == found.len() => {
            for (index, (pattern, value)) in items.iter().zip(found).enumerate() {
                fits(pattern, Some(value), captures).map_err(|error| format!("[{index}]: {error}"))?;
            }
            Ok(())
        }
        (pattern, Some(value)) if pattern == value => Ok(()),
        (pattern, Some(value)) => Err(format!("{pattern} expected, {value} found")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_are_subsets_with_wildcards() {
        let mut captures = BTreeMap::new();
        let value = json!({"a": 1, "b": {"c": [1, "x"]}, "t": "secret"});
        let mut check = |pattern: Value| fits(&pattern, Some(&value), &mut captures).is_ok();
        assert!(
            check(json!({"a": 1}))
                && check(json!({"b": {"c": ["*", "x"]}}))
                && check(json!({"z": "!absent"}))
        );
        assert!(!check(json!({"a": 2})) && !check(json!({"z": "*"})) && !check(json!({"a": "!absent"})));
        assert!(!check(json!({"b": {"c": [1]}})));
        assert!(check(json!({"t": "$t"})) && check(json!({"t": "$t"})) && !check(json!({"a": "$t"})));
        assert!(check(json!({"t": "~ecr"})) && !check(json!({"t": "~xyz"})));
    }
}
