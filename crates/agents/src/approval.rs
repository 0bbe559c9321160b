//! Asking a person before a tool is used.

use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::CallEnd;

/// What the person is asked. Both the name and the arguments are somebody's choice, so they are
/// quoted; arguments that are too long to read are cut, and it shows.
pub(crate) fn question(name: &ToolName, args: &Value) -> String {
    let name: String = json!(name.as_str()).to_string().chars().take(MAX_NAME_CHARS).collect();
    let args = args.to_string();
    let mut shown: String = args.chars().take(MAX_ARGUMENT_CHARS).collect();
    if shown.len() < args.len() {
        shown += &format!("… (cut; {} bytes in all)", args.len());
    }
    format!("May the tool {name} be used with these arguments?\n{shown}")
}

/// The shape of the answer.
pub(crate) fn schema() -> Value {
    json!({ "type": "object", "properties": { "approve": { "type": "boolean" } }, "required": ["approve"] })
}

/// Whether the person has said yes; anything else is a no.
pub(crate) fn approved(end: &CallEnd) -> bool {
    let CallEnd::Done { output, .. } = end else { return false };
    match &**output {
        Value::Bool(approved) => *approved,
        Value::String(text) => {
            let word = text.trim().trim_end_matches(['.', '!']).to_lowercase();
            YES.contains(&word.as_str())
        }
        Value::Object(fields) => fields.get("approve") == Some(&Value::Bool(true)),
        Value::Null | Value::Number(_) | Value::Array(_) => false,
    }
}

/// Words that mean yes.
const YES: &[&str] = &["yes", "y", "ok", "okay", "approve", "approved", "allow", "true"];
/// Letters of a tool's name in a question.
const MAX_NAME_CHARS: usize = 200;
/// Letters of the arguments in a question.
const MAX_ARGUMENT_CHARS: usize = 1000;

#[cfg(test)]
mod tests {
    use switchboard_core::model::CallError;

    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        let yes = |output: Value| approved(&CallEnd::done(output));
        for output in [json!({ "approve": true }), json!(true), json!("Yes"), json!(" OK! "), json!("y")] {
            assert!(yes(output.clone()), "{output}");
        }
        for output in [
            json!({ "approve": false }),
            json!({ "approve": "true" }),
            json!({ "approved": true }),
            json!(false),
            json!("no"),
            json!("yes, but not this file"),
            json!(""),
            json!(1),
            json!([true]),
            json!(null),
        ] {
            assert!(!yes(output.clone()), "{output}");
        }
        for end in [CallEnd::TimedOut, CallEnd::Cancelled, CallEnd::Failed(CallError::new("Denied", "yes"))] {
            assert!(!approved(&end), "{end:?}");
        }
    }

    #[test]
    fn questions_are_quoted_and_bounded() {
        let asked = question(&ToolName::from("rm\n\"x\""), &json!({ "path": "a\nb" }));
        assert_eq!(
            asked,
            "May the tool \"rm\\n\\\"x\\\"\" be used with these arguments?\n{\"path\":\"a\\nb\"}"
        );
        let asked = question(&ToolName::from("n".repeat(1000).as_str()), &json!({ "x": "é".repeat(5000) }));
        assert!(asked.chars().count() < 1400 && asked.ends_with("… (cut; 10008 bytes in all)"), "{asked}");
    }
}
