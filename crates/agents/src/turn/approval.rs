//! Asking a person before a tool is used.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{CallEnd, CallKind, TurnRequest};

use super::{Brief, Turn};
use crate::agent::AgentError;

impl Turn {
    /// Asks a person whether a tool may be used. Whoever is not there, or says anything but yes, does not allow it.
    ///
    /// # Errors
    /// The turn is over.
    pub(crate) async fn approve(
        &mut self,
        tool: &ToolName,
        args: &Value,
        patience: Duration,
    ) -> Result<bool, AgentError> {
        let text = question(&self.brief, tool, args);
        let kind = CallKind::Question { text, schema: Some(schema()), approves: Some(tool.clone()) };
        match self.request_call(kind, patience).await {
            Ok(end) => Ok(approved(&end)),
            Err(AgentError::Failed(_)) => Ok(false),
            Err(AgentError::Over) => Err(AgentError::Over),
        }
    }
}

/// What the person is asked. The names and the arguments are somebody's choice, so they are quoted;
/// what is too long to read is cut, and it shows.
fn question(brief: &Brief, tool: &ToolName, args: &Value) -> String {
    let asker = quoted(brief.origin.principal.as_str());
    let who = match &brief.request {
        TurnRequest::Tool { .. } => format!("{asker} asks"),
        TurnRequest::Chat { .. } | TurnRequest::Step { .. } => {
            format!("The agent {} asks, on behalf of {asker}", quoted(brief.agent.as_str()))
        }
    };
    let args = args.to_string();
    let mut shown: String = args.chars().take(MAX_ARGUMENT_CHARS).collect();
    if shown.len() < args.len() {
        shown += &format!("… (cut; {} bytes in all)", args.len());
    }
    format!("{who}: may the tool {} be used with these arguments?\n{shown}", quoted(tool.as_str()))
}

fn quoted(name: &str) -> String {
    let quoted = json!(name).to_string();
    let mut shown: String = quoted.chars().take(MAX_NAME_CHARS).collect();
    if shown.len() < quoted.len() {
        shown += "…\"";
    }
    shown
}

/// The shape of the answer.
fn schema() -> Value {
    json!({ "type": "object", "properties": { "approve": { "type": "boolean" } }, "required": ["approve"] })
}

/// Whether the person has said yes; anything else is a no.
fn approved(end: &CallEnd) -> bool {
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
/// Letters of a name in a question.
const MAX_NAME_CHARS: usize = 200;
/// Letters of the arguments in a question.
const MAX_ARGUMENT_CHARS: usize = 1000;

#[cfg(test)]
mod tests {
    use switchboard_core::Timestamp;
    use switchboard_core::model::{CallError, Origin};

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

    fn brief(principal: &str, request: TurnRequest) -> Brief {
        Brief {
            session: "ses".into(),
            turn: "inv".into(),
            agent: "model".into(),
            origin: Origin::new(principal.into(), "asp"),
            request,
            device: None,
            workspace: None,
            recall: None,
            meta: Value::Null,
            remembered: Vec::new(),
            setting: None,
            deadline: Timestamp::NEVER,
            fence: 1,
        }
    }

    #[test]
    fn questions_say_who_asks_for_what_and_are_quoted_and_bounded() {
        let chat = || TurnRequest::Chat { parts: Vec::new() };
        let asked = question(&brief("ann", chat()), &"rm\n\"x\"".into(), &json!({ "path": "a\nb" }));
        assert_eq!(
            asked,
            "The agent \"model\" asks, on behalf of \"ann\": may the tool \"rm\\n\\\"x\\\"\" be used with these \
             arguments?\n{\"path\":\"a\\nb\"}"
        );
        let direct = TurnRequest::Tool { name: "rm".into(), args: json!({}) };
        let asked = question(&brief("ann", direct), &"rm".into(), &json!({}));
        assert_eq!(asked, "\"ann\" asks: may the tool \"rm\" be used with these arguments?\n{}");
        let long = "n".repeat(1000);
        let asked = question(&brief(&long, chat()), &long.as_str().into(), &json!({ "x": "é".repeat(5000) }));
        assert!(asked.chars().count() < 1600 && asked.ends_with("… (cut; 10008 bytes in all)"), "{asked}");
    }
}
