//! An agent without a model: it understands short requests by holding their words against the tools that are
//! offered, and answers questions about what there is to see in the words of the scene.
//!
//! It is there to try applications that are spoken to, without an account anywhere. It needs no network, and the
//! same request among the same tools leads to the same answer.
//!
//! ```text
//!   request ─▶ parts ─▶ each: small talk │ question ─▶ scene │ request ─▶ rated offers ─▶ values ─▶ tool ─▶ sentence
//!                                                                  └─ unclear: asks back
//! ```

mod choose;
mod fill;
mod hearing;
mod numbers;
mod offer;
mod plan;
mod say;
mod scene;
mod talk;
mod words;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{Author, CallEnd, Failure, FailureKind, Tool, TurnEnd, TurnRequest};

use crate::agent::{Agent, AgentError};
use crate::toolbox::is_usable;
use crate::turn::{Approval, ApprovalPolicy, OfClients, Turn};
use offer::Offers;
use say::Told;
use talk::{Past, Step};

/// Does what it is told with the tools of the session, and understands no more than a few words.
///
/// What it does not understand well enough, it asks about; what is not offered, it never uses.
#[derive(Clone, Debug, Default)]
pub struct Butler {
    config: ButlerConfig,
}

/// How a [`Butler`] serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ButlerConfig {
    /// How long a tool may take, in milliseconds, and the person who has to allow its use.
    pub tool_timeout_ms: u64,
    /// The MCP servers whose tools can be used; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
}

impl Default for ButlerConfig {
    fn default() -> Self {
        Self { tool_timeout_ms: 120_000, mcp: None }
    }
}

impl Butler {
    /// A butler that serves in this way.
    pub const fn new(config: ButlerConfig) -> Self {
        Self { config }
    }

    async fn serve(&self, turn: &mut Turn, text: &str) -> Result<String, AgentError> {
        let past = past(turn).await;
        let mut scene =
            turn.brief().setting.as_ref().and_then(|setting| setting.scene.clone()).unwrap_or_default();
        let tools = offered(turn).await;
        let parts = talk::parts(text, &Offers::new(&tools));
        let mut answer = String::new();
        for (place, part) in parts.iter().enumerate() {
            // Anew each time: what there is to do may change with what was done.
            let tools = offered(turn).await;
            let step = talk::step(part, &Offers::new(&tools), &scene, &past);
            let told = match step {
                Step::Say(sentence) => Told { sentence, worked: true, scene: None },
                // What follows may depend on what is not clear yet.
                Step::Ask(sentence) => Told { sentence, worked: false, scene: None },
                Step::Use { tool, args, done } => say::told(&self.use_tool(turn, &tool, args).await?, &done),
            };
            let space = if answer.is_empty() { "" } else { " " };
            // What is not done after all is not left out in silence.
            let left = parts.get(place + 1..).filter(|left| !told.worked && !left.is_empty());
            let sentence = match left.map(say::left) {
                // A question stands at the end, where it can be answered.
                Some(left) if told.sentence.ends_with('?') => format!("{space}{left} {}", told.sentence),
                Some(left) => format!("{space}{} {left}", told.sentence),
                None => format!("{space}{}", told.sentence),
            };
            answer.push_str(&sentence);
            turn.text(sentence).await?;
            if !told.worked {
                break;
            }
            scene = told.scene.unwrap_or(scene);
        }
        Ok(answer)
    }

    /// Has a tool run, if it may; a failure that can be told is a part of the answer.
    async fn use_tool(
        &self,
        turn: &mut Turn,
        name: &ToolName,
        args: Value,
    ) -> Result<Result<CallEnd, Failure>, AgentError> {
        let timeout = Duration::from_millis(self.config.tool_timeout_ms);
        match turn.call(name, args, timeout).await {
            Ok(end) => Ok(Ok(end)),
            Err(AgentError::Failed(failure)) if can_be_told(failure.kind) => Ok(Err(failure)),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Agent for Butler {
    fn kind(&self) -> &'static str {
        "butler"
    }

    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        turn.approve_by(ApprovalPolicy {
            which: Approval::Destructive,
            of_clients: OfClients::LeftToThem,
            patience: Duration::from_millis(self.config.tool_timeout_ms),
        });
        let request = turn.request().clone();
        let text = request.text();
        match request {
            TurnRequest::Chat { .. } => {
                self.serve(turn, &text).await?;
                Ok(TurnEnd::complete())
            }
            TurnRequest::Step { .. } => {
                let answer = self.serve(turn, &text).await?;
                Ok(TurnEnd { output: Some(json!({ "text": answer }).into()), ..TurnEnd::complete() })
            }
            TurnRequest::Tool { name, .. } => {
                Err(AgentError::failed(FailureKind::ToolNotFound, format!("no such tool: {name}")))
            }
        }
    }
}

/// The tools that can be used now.
async fn offered(turn: &Turn) -> Vec<Tool> {
    let mut tools = turn.tools().await;
    let device = turn.brief().device.as_ref();
    tools.retain(|tool| is_usable(tool, device, |name| turn.executes(name)));
    tools
}

/// What was said last, by both.
async fn past(turn: &Turn) -> Past {
    let mut past = Past::default();
    for row in turn.history(RECALLED).await.into_iter().rev() {
        match (row.author, &past.said) {
            (Author::Agent(_), None) => past.said = Some(TurnRequest::Chat { parts: row.parts }.text()),
            (Author::User(_), Some(_)) => {
                past.heard = Some(TurnRequest::Chat { parts: row.parts }.text());
                break;
            }
            // Whoever has spoken twice was not asked anything.
            (Author::User(_), None) => break,
            (Author::Agent(_) | Author::System, _) => {}
        }
    }
    past
}

/// Whether a failure is about the tool alone, and the turn can go on.
const fn can_be_told(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::ToolNotFound | FailureKind::InvalidArgs | FailureKind::Execution)
}

/// Messages that are looked at for a question that is still open.
const RECALLED: usize = 6;
