//! An agent that says as much as the tests let it say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use switchboard_agents::{Agent, AgentError, Turn};
use switchboard_core::model::{
    CallEnd, CallKind, Checklist, ChecklistItem, ChecklistState, Executor, FailureKind, NoticeLevel, Op,
    Output, Remembered, Standby, Tool, ToolAnnotations, TurnEnd, Usage,
};
use switchboard_core::{CallId, ToolName, TurnId};
use tokio::sync::Semaphore;

use crate::world::soon;

/// What it does is the first word of what it is asked:
///
/// * `say …` says that.
/// * `tell KEY` says the first half of [`sentences`], waits at the gate of that name, and says the rest.
/// * `wait KEY` waits at the gate, and says all of them.
/// * `use TOOL KEY` waits at the gate, has the tool run, and says what came of it.
/// * `show WHAT KEY` waits at the gate, does one thing, and waits at the gate `KEYx` (see [`Prompter::show`]).
#[derive(Debug, Default)]
pub(crate) struct Prompter {
    gates: Mutex<BTreeMap<String, Arc<Gate>>>,
    turns: Mutex<BTreeMap<String, TurnId>>,
}

/// Where the agent waits until it is let through.
#[derive(Debug)]
struct Gate {
    reached: Semaphore,
    opened: Semaphore,
}

impl Prompter {
    fn gate(&self, key: &str) -> Arc<Gate> {
        let closed = || Arc::new(Gate { reached: Semaphore::new(0), opened: Semaphore::new(0) });
        self.gates.lock().entry(key.to_owned()).or_insert_with(closed).clone()
    }

    /// Waits until the agent stands at a gate.
    pub(crate) async fn reached(&self, key: &str) -> Result<(), String> {
        let gate = self.gate(key);
        soon("the agent", gate.reached.acquire()).await?.map(drop).map_err(|_| "the gate is gone".to_owned())
    }

    /// Lets the agent through.
    pub(crate) fn open(&self, key: &str) {
        self.gate(key).opened.add_permits(1);
    }

    /// The turn that has come to a gate.
    pub(crate) fn turn_at(&self, key: &str) -> Option<TurnId> {
        self.turns.lock().get(key).cloned()
    }

    async fn wait(&self, key: &str, turn: &Turn) -> Result<(), AgentError> {
        turn.settled().await;
        self.turns.lock().insert(key.to_owned(), turn.brief().turn.clone());
        let gate = self.gate(key);
        gate.reached.add_permits(1);
        tokio::select! {
            _ = gate.opened.acquire() => Ok(()),
            () = turn.interrupted() => {
                // What is said too late must reach nobody, however hard an agent tries.
                let (turn_id, fence) = (turn.brief().turn.clone(), turn.brief().fence);
                let output = Output::Text("Too late. ".to_owned());
                let _ = turn.port().post(Op::Emit { turn: turn_id, fence, output }).await;
                Err(AgentError::Over)
            }
        }
    }

    /// Asks for the tool of whoever has asked, if they have one, and else uses one of its own.
    async fn call(&self, tool: &ToolName, key: &str, turn: &mut Turn) -> Result<(), AgentError> {
        let theirs = turn.tools().await.into_iter().find(|tool| tool.name.as_str() == "mine");
        match theirs {
            Some(tool) => {
                let kind = CallKind::Tool { name: tool.name, args: json!({}).into() };
                turn.request_as(CallId::from(key), kind, CALL_TIMEOUT).await
            }
            None => turn.begin_tool(tool, json!({})).await.map(drop),
        }
    }

    /// Does one thing between two gates, so that a test can see what is told of it: an output by the name
    /// under which it is stored, `call`, `progress` or `result` of a tool, or `tools` for a new one.
    async fn show(&self, what: &str, key: &str, turn: &mut Turn) -> Result<(), AgentError> {
        let tool = ToolName::from("worker");
        let running = match what {
            "progress" | "result" => Some(turn.begin_tool(&tool, json!({})).await?),
            _ => None,
        };
        self.wait(key, turn).await?;
        match (what, running) {
            ("call", _) => self.call(&tool, key, turn).await?,
            ("progress", Some(call)) => turn.tool_progress(&call, "half").await?,
            ("result", Some(call)) => turn.end_tool(&call, CallEnd::done(json!({}))).await?,
            ("tools", _) => turn.change_tools(vec![new_tool()], Vec::new()).await?,
            ("nothing", _) => {}
            _ => {
                let output = outputs().remove(what);
                let unknown = || AgentError::failed(FailureKind::Execution, format!("no output: {what}"));
                turn.emit(output.ok_or_else(unknown)?).await?;
            }
        }
        self.wait(&format!("{key}x"), turn).await
    }
}

/// One of each output that an agent can give, by the name under which it is stored.
pub(crate) fn outputs() -> BTreeMap<&'static str, Output> {
    let item = ChecklistItem { id: "a".into(), label: "Look".into(), state: ChecklistState::Active };
    let remembered =
        Remembered { memory: "amem_1".into(), content: "likes tea".into(), relevance: 0.5, source: None };
    BTreeMap::from([
        ("text", Output::Text("This is one sentence. This is another. ".into())),
        ("reasoning", Output::Reasoning("One thought.\n\nAnother.\n\n".into())),
        ("status", Output::Status("looking".into())),
        ("usage", Output::Usage(Usage(BTreeMap::from([("input_tokens".to_owned(), 7)])))),
        (
            "checklist",
            Output::Checklist(Checklist { group: "g".into(), title: "Plan".into(), items: vec![item] }),
        ),
        ("data", Output::Data { mime: None, value: json!({ "deep": [1, 2] }) }),
        ("notice", Output::Notice { level: NoticeLevel::Warn, text: "mind the gap".into() }),
        ("remembered", Output::Remembered(remembered)),
        ("began", Output::Began { run: "run-1".into(), model: None }),
        ("standby", Output::Standby(Standby::Retrying)),
    ])
}

fn new_tool() -> Tool {
    Tool {
        name: ToolName::from("extra"),
        description: "Found on the way.".into(),
        input_schema: json!({ "type": "object" }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Agent,
        grace_ms: 0,
        options: json!(null),
    }
}

#[async_trait]
impl Agent for Prompter {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let asked = turn.request().text();
        let words: Vec<&str> = asked.split_whitespace().collect();
        match words.as_slice() {
            ["say", ..] => turn.text(asked.trim_start_matches("say ")).await?,
            ["tell", key] => {
                let sentences = sentences();
                let (first, last) = sentences.split_at(sentences.len() / 2);
                for sentence in first {
                    turn.text(*sentence).await?;
                }
                self.wait(key, turn).await?;
                for sentence in last {
                    turn.text(*sentence).await?;
                }
            }
            ["wait", key] => {
                self.wait(key, turn).await?;
                for sentence in sentences() {
                    turn.text(sentence).await?;
                }
            }
            ["use", tool, key] => {
                self.wait(key, turn).await?;
                let said = match turn.call(&ToolName::from(*tool), json!({}), CALL_TIMEOUT).await {
                    Ok(CallEnd::Done { output, .. }) => format!("Done: {output}."),
                    Ok(CallEnd::Failed(error)) => format!("Failed: {}.", error.message),
                    Ok(CallEnd::TimedOut) => "Nobody answered.".to_owned(),
                    Ok(CallEnd::Cancelled) => "Called off.".to_owned(),
                    Err(AgentError::Failed(failure)) => format!("Refused: {}.", failure.message),
                    Err(AgentError::Over) => return Err(AgentError::Over),
                };
                turn.text(said).await?;
            }
            ["show", what, key] => self.show(what, key, turn).await?,
            _ => return Err(AgentError::failed(FailureKind::Execution, format!("not understood: {asked}"))),
        }
        Ok(TurnEnd::complete())
    }
}

/// What is told in whole sentences, since that is how some protocols tell it.
pub(crate) const fn sentences() -> [&'static str; 6] {
    [
        "Number one is a lamp. ",
        "Number two is a door. ",
        "Number three is a safe. ",
        "Number four is a chair. ",
        "Number five is a clock. ",
        "Number six is the end.",
    ]
}

/// Longer than any test waits: who waits for this has not been answered.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
