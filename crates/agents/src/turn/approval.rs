//! Asking a person before a tool is used.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{CallEnd, CallError, CallKind, Executor, Tool, TurnRequest};

use super::calls::ToolUse;
use super::{Brief, Turn};
use crate::agent::AgentError;

/// Which uses of tools a person has to approve before they happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Those of tools that are marked as destructive, or as in need of confirmation. A device that
    /// a turn is for was handed over together with the task, so that only the latter mark counts
    /// for its tools.
    #[default]
    Destructive,
    /// All of them.
    Always,
    /// None.
    Never,
}

impl Approval {
    /// Whether a use of this tool has to be approved.
    fn concerns(self, tool: &Tool) -> bool {
        let marks = &tool.annotations;
        let handed_over = matches!(tool.executor, Executor::Device(_));
        match self {
            Self::Destructive => {
                marks.confirm == Some(true) || (marks.destructive == Some(true) && !handed_over)
            }
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// What an agent has a person asked about. Without one, a person is asked about those tools of this process
/// that are marked, and about no others: whoever else executes a tool is there to refuse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApprovalPolicy {
    pub(crate) which: Approval,
    /// What of the tools that clients bring along.
    pub(crate) of_clients: OfClients,
    /// For how long the person is waited for.
    pub(crate) patience: Duration,
}

/// Whether a person is asked about the tools of clients, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfClients {
    /// As about all others.
    Asked,
    /// No: the application sees to that itself.
    LeftToThem,
}

impl ApprovalPolicy {
    fn concerns(&self, tool: &Tool) -> bool {
        let left =
            self.of_clients == OfClients::LeftToThem && matches!(tool.executor, Executor::Attachment(_));
        !left && self.which.concerns(tool)
    }
}

impl Turn {
    /// From now on a person is asked about what this policy says.
    pub(crate) const fn approve_by(&mut self, policy: ApprovalPolicy) {
        self.policy = Some(policy);
    }

    /// Asks a person about every use that has to be approved, one after another; of those that may not happen,
    /// answers how they end.
    pub(super) async fn approve(&mut self, uses: &[ToolUse]) -> Result<Vec<Option<CallEnd>>, AgentError> {
        let offered = match self.policy {
            Some(ApprovalPolicy { which: Approval::Never, .. }) | None => Vec::new(),
            Some(_) => self.tools().await,
        };
        let mut denied = Vec::with_capacity(uses.len());
        for tool in uses {
            let kind = self.approval_of(tool);
            let patience = match self.repeats_next(&kind) {
                // Tools may have come or gone since an earlier run has asked, or has not.
                Some(true) => Some(Duration::ZERO),
                Some(false) => None,
                None => self.patience(&tool.name, &offered),
            };
            denied.push(match patience {
                Some(patience) => denial(self.request_call(kind, patience).await)?,
                None => None,
            });
        }
        Ok(denied)
    }

    /// For how long a person is asked before a tool is used; none if nobody is.
    pub(super) fn patience(&self, name: &ToolName, offered: &[Tool]) -> Option<Duration> {
        let own = self.toolbox.as_ref().and_then(|toolbox| toolbox.approval(name));
        match &self.policy {
            None => own,
            Some(policy) => {
                let marked = own.is_some() && policy.which != Approval::Never;
                let concerned = || offered.iter().any(|tool| tool.name == *name && policy.concerns(tool));
                (marked || concerned()).then_some(policy.patience)
            }
        }
    }

    /// The question whether a tool may be used.
    pub(super) fn approval_of(&self, tool: &ToolUse) -> CallKind {
        let text = question(&self.brief, &tool.name, &tool.args);
        CallKind::Question { text, schema: Some(schema()), approves: Some(tool.name.clone()) }
    }
}

/// How a use ends that was not approved; none if it was. Whoever is not there, or says anything but yes, does not
/// allow it.
pub(super) fn denial(asked: Result<CallEnd, AgentError>) -> Result<Option<CallEnd>, AgentError> {
    let reason = match asked {
        Ok(end) if approved(&end) => return Ok(None),
        Ok(CallEnd::TimedOut) | Err(AgentError::Failed(_)) => "nobody has approved it",
        Ok(CallEnd::Done { .. } | CallEnd::Failed(_) | CallEnd::Cancelled) => "the user did not approve",
        Err(AgentError::Over) => return Err(AgentError::Over),
    };
    Ok(Some(CallEnd::Failed(CallError::new(DENIED, reason))))
}

/// Whether a use of a tool was not approved.
pub(crate) fn is_denied(error: &CallError) -> bool {
    error.name == DENIED
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
/// The name of the error that ends what was not approved.
const DENIED: &str = "denied";
/// Letters of a name in a question.
const MAX_NAME_CHARS: usize = 200;
/// Letters of the arguments in a question.
const MAX_ARGUMENT_CHARS: usize = 1000;

#[cfg(test)]
mod tests {
    use switchboard_core::Timestamp;
    use switchboard_core::model::{Origin, ToolAnnotations};

    use super::*;

    fn tool(destructive: Option<bool>, confirm: Option<bool>, executor: Executor) -> Tool {
        Tool {
            name: "t".into(),
            description: String::new(),
            input_schema: json!({}).into(),
            output_schema: None,
            annotations: ToolAnnotations { destructive, confirm, ..ToolAnnotations::default() },
            version: None,
            executor,
            grace_ms: 0,
            options: Value::Null,
        }
    }

    #[test]
    fn marks_decide_what_has_to_be_approved() {
        let asks = |which: Approval, destructive, confirm, executor| {
            let policy = ApprovalPolicy { which, of_clients: OfClients::Asked, patience: Duration::ZERO };
            policy.concerns(&tool(destructive, confirm, executor))
        };
        let (anyone, device) = (|| Executor::Anyone, || Executor::Device("pi".into()));
        assert!(asks(Approval::Destructive, Some(true), None, anyone()));
        assert!(asks(Approval::Destructive, None, Some(true), anyone()));
        assert!(!asks(Approval::Destructive, Some(false), Some(false), anyone()));
        assert!(!asks(Approval::Destructive, None, None, anyone()));
        assert!(!asks(Approval::Destructive, Some(true), None, device()));
        assert!(asks(Approval::Destructive, None, Some(true), device()));
        assert!(asks(Approval::Always, None, None, device()));
        assert!(!asks(Approval::Never, Some(true), Some(true), anyone()));
    }

    #[test]
    fn an_application_may_see_to_its_own_tools() {
        let (which, patience) = (Approval::Destructive, Duration::ZERO);
        for (of_clients, asks) in [(OfClients::Asked, true), (OfClients::LeftToThem, false)] {
            let policy = ApprovalPolicy { which, of_clients, patience };
            let marked = |executor| tool(None, Some(true), executor);
            assert_eq!(policy.concerns(&marked(Executor::Attachment("att".into()))), asks);
            assert!(policy.concerns(&marked(Executor::Anyone)));
        }
    }

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
