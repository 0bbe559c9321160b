//! An agent that says what it hears: deterministic, and as slow as it is told to be.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{
    Executor, FailureKind, Finish, Output, Tool, ToolAnnotations, TurnEnd, TurnOutcome, TurnRequest, Usage,
};

use crate::agent::{Agent, AgentError, Recovery};
use crate::chunk::{Chunk, MAX_DELTA_BYTES};
use crate::turn::Turn;

/// Answers with its input, delta by delta.
///
/// * A chat is answered with `prefix` and the text, `repeat` times over; or with `deltas` pieces
///   of `delta_bytes` bytes whatever was said.
/// * The tool `echo`, where it is offered, returns `{"text": …}`.
/// * A step returns its state with `steps` counted up.
#[derive(Clone, Debug, Default)]
pub struct Echo {
    config: EchoConfig,
    tools: Vec<Tool>,
}

/// How an [`Echo`] answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EchoConfig {
    /// Milliseconds between two deltas; 0 is as fast as the session takes them.
    pub delay_ms: u64,
    /// How the text is cut: `"words"`, `"whole"` or a number of characters.
    pub chunk: Chunk,
    /// Said before the text.
    pub prefix: String,
    /// How often the text is said.
    pub repeat: u32,
    /// Whether the tool `echo` is offered.
    pub tool: bool,
    /// Answers with so many deltas, whatever was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deltas: Option<u32>,
    /// The size of each of them.
    pub delta_bytes: usize,
    /// The MCP servers whose tools can be used; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
}

impl Default for EchoConfig {
    fn default() -> Self {
        Self {
            delay_ms: 30,
            chunk: Chunk::Words,
            prefix: String::new(),
            repeat: 1,
            tool: false,
            deltas: None,
            delta_bytes: 16,
            mcp: None,
        }
    }
}

impl Echo {
    /// An echo that answers in this way.
    pub fn new(config: EchoConfig) -> Self {
        let tools = if config.tool { vec![tool()] } else { Vec::new() };
        Self { config, tools }
    }

    /// The pieces of the answer to `input`; their sum is bounded by the session, not here.
    async fn answer(&self, turn: &mut Turn, input: &str) -> Result<u64, AgentError> {
        let mut pace = Pace::new(Duration::from_millis(self.config.delay_ms));
        if let Some(deltas) = self.config.deltas {
            let bytes = self.config.delta_bytes.clamp(1, MAX_DELTA_BYTES);
            let delta: String = FILLER.chars().cycle().take(bytes).collect();
            for _ in 0..deltas {
                pace.text(turn, &delta).await?;
            }
            return Ok(u64::from(deltas));
        }
        let mut words = 0;
        for _ in 0..self.config.repeat {
            for part in [self.config.prefix.as_str(), input] {
                words += count_words(part);
                for piece in self.config.chunk.split(part) {
                    pace.text(turn, piece).await?;
                }
            }
        }
        Ok(words)
    }
}

#[async_trait]
impl Agent for Echo {
    fn kind(&self) -> &'static str {
        "echo"
    }

    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let request = turn.request().clone();
        let input = request.text();
        match request {
            TurnRequest::Chat { .. } => {
                let output = self.answer(turn, &input).await?;
                let usage = usage(count_words(&input), output);
                turn.emit(Output::Usage(usage.clone())).await?;
                let finish = if output == 0 && input.is_empty() { Finish::Empty } else { Finish::Complete };
                Ok(TurnEnd { usage: Some(usage), ..TurnEnd::new(TurnOutcome::Done(finish)) })
            }
            TurnRequest::Tool { name, args } if self.config.tool && name.as_str() == TOOL => {
                let text = args.get("text").and_then(Value::as_str).unwrap_or_default();
                Ok(TurnEnd { output: Some(json!({ "text": text }).into()), ..TurnEnd::complete() })
            }
            TurnRequest::Tool { name, .. } => {
                Err(AgentError::failed(FailureKind::ToolNotFound, format!("no such tool: {name}")))
            }
            TurnRequest::Step { goal, state, .. } => {
                let output = self.answer(turn, &goal).await?;
                let usage = usage(count_words(&goal), output);
                turn.emit(Output::Usage(usage.clone())).await?;
                Ok(TurnEnd {
                    output: Some(next_state(state, &goal).into()),
                    usage: Some(usage),
                    ..TurnEnd::complete()
                })
            }
        }
    }

    fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replay
    }

    fn reacts_at_once(&self) -> bool {
        true
    }
}

fn tool() -> Tool {
    let text = json!({ "text": { "type": "string" } });
    Tool {
        name: ToolName::from(TOOL),
        description: "Returns the text that it is given.".into(),
        input_schema: json!({
            "type": "object", "properties": text, "required": ["text"], "additionalProperties": false,
        })
        .into(),
        output_schema: Some(json!({ "type": "object", "properties": text, "required": ["text"] }).into()),
        annotations: ToolAnnotations {
            read_only: Some(true),
            idempotent: Some(true),
            ..ToolAnnotations::default()
        },
        version: None,
        executor: Executor::Agent,
        grace_ms: 0,
        options: Value::Null,
    }
}

/// Puts a delay between deltas, and none before the first.
#[derive(Debug)]
pub(crate) struct Pace {
    delay: Duration,
    begun: bool,
}

impl Pace {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, begun: false }
    }

    /// Waits if something was said before.
    pub(crate) async fn wait(&mut self, turn: &Turn) -> Result<(), AgentError> {
        if std::mem::replace(&mut self.begun, true) { turn.pause(self.delay).await } else { Ok(()) }
    }

    async fn text(&mut self, turn: &mut Turn, delta: &str) -> Result<(), AgentError> {
        self.wait(turn).await?;
        turn.text(delta).await
    }
}

/// The state after one more step.
fn next_state(state: Value, goal: &str) -> Value {
    let mut fields = match state {
        Value::Object(fields) => fields,
        Value::Null => serde_json::Map::new(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            serde_json::Map::from_iter([("previous".to_owned(), other)])
        }
    };
    let steps = fields.get("steps").and_then(Value::as_u64).unwrap_or(0).saturating_add(1);
    fields.insert("steps".into(), json!(steps));
    fields.insert("goal".into(), json!(goal));
    Value::Object(fields)
}

fn usage(input: u64, output: u64) -> Usage {
    Usage(BTreeMap::from([("input_tokens".to_owned(), input), ("output_tokens".to_owned(), output)]))
}

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

const TOOL: &str = "echo";
const FILLER: &str = "the quick brown fox jumps over the lazy dog ";
