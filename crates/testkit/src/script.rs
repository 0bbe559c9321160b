//! Agents as data: what an agent of the [`World`](crate::World) says, when, and what it waits for.
//!
//! A script is a list of stories. The first story whose `on` fits the request is told; without one
//! the agent repeats what it was asked. The same JSON is used by scenario files:
//!
//! ```json
//! {"on": "hi", "do": [{"text": "A"}, {"wait": 100}, {"text": "B"}, {"end": "complete"}]}
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::{
    Checklist, Executor, FailureKind, Finish, NoticeLevel, Tool, ToolAnnotations, TurnEnd, TurnOutcome, Usage,
};

/// An agent as data.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What it does, by what it is asked; the first that fits.
    pub stories: Vec<Story>,
    /// Tools that it executes itself.
    pub tools: Vec<Tool>,
    /// What happens to its turns when the process dies under them.
    pub recovery: Recovery,
}

impl Script {
    /// A script that repeats what it is asked.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more story.
    #[must_use]
    pub fn on(mut self, on: &str, steps: Vec<Step>) -> Self {
        self.stories.push(Story { on: on.to_owned(), steps });
        self
    }

    /// With one more tool that it executes itself.
    #[must_use]
    pub fn with_tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// With another way to recover.
    #[must_use]
    pub fn recovering(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// The steps for a request, with repetitions written out.
    pub(crate) fn steps_for(&self, request: &str) -> Vec<Step> {
        let story = self.stories.iter().find(|story| story.fits(request));
        let mut steps = Vec::new();
        match story {
            Some(story) => flatten(&story.steps, &mut steps),
            None => steps.push(Step::Echo),
        }
        steps
    }
}

/// What happens to a turn whose executor is lost after it has produced output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// It ends as failed.
    #[default]
    Fail,
    /// It is told again from the start; what is committed already is not repeated.
    Replay,
}

/// What an agent does when it is asked something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    /// The text of the request, the name of the tool or the goal of the step; a `*` at the end
    /// stands for anything.
    pub on: String,
    /// What it does. After the last step the turn ends as complete.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
}

impl Story {
    fn fits(&self, request: &str) -> bool {
        match self.on.strip_suffix('*') {
            Some(start) => request.starts_with(start),
            None => request == self.on,
        }
    }
}

/// One thing that an agent does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Lets this many milliseconds pass.
    Wait(u64),
    /// A piece of the answer.
    Text(String),
    /// A piece of reasoning.
    Reason(String),
    /// What is going on.
    Status(String),
    /// Token counts.
    Usage(BTreeMap<String, u64>),
    /// Structured output.
    Data {
        /// Its media type.
        #[serde(default)]
        mime: Option<String>,
        /// The value.
        value: Value,
    },
    /// A remark beside the answer.
    Notice {
        /// How urgent.
        level: NoticeLevel,
        /// The remark.
        text: String,
    },
    /// A plan.
    Checklist(Checklist),
    /// The text of the request, as an answer.
    Echo,
    /// The result of the last call, as JSON text.
    Result,
    /// Text of this many bytes, in pieces.
    Fill {
        /// How many bytes.
        bytes: usize,
        /// How many at once.
        piece: usize,
    },
    /// Asks whoever offers the tool to run it, and waits.
    Call {
        /// Which one.
        tool: String,
        /// Its arguments.
        #[serde(default)]
        args: Value,
        /// For how long to wait, in milliseconds.
        timeout_ms: u64,
        /// Whether to fail when nobody answers; otherwise the story goes on.
        #[serde(default)]
        give_up: bool,
    },
    /// Asks a person, and waits.
    Ask {
        /// The question.
        text: String,
        /// The shape of the answer.
        #[serde(default)]
        schema: Option<Value>,
        /// For how long to wait, in milliseconds.
        timeout_ms: u64,
        /// Whether to fail when nobody answers; otherwise the story goes on.
        #[serde(default)]
        give_up: bool,
    },
    /// Asks the device of the turn for several things at once, to be done in their order, and
    /// waits for all of them. However they end, the story goes on. A turn without a device asks
    /// whoever offers the tools.
    Batch {
        /// What it asks for.
        commands: Vec<BatchCommand>,
        /// For how long to wait, in milliseconds.
        timeout_ms: u64,
    },
    /// What the commands of the last batch came to, as structured output: a list of
    /// `{"status", "error", "result", "call_id"}`, with what the device added.
    Results,
    /// Ends the turn as failed with this text if a command of the last batch failed.
    FailIfFailed(String),
    /// Ends the turn with `{"turns": [[…], …], "result": …}`: what the commands of every batch came
    /// to, written as in [`Step::Results`].
    EndWithResults {
        /// What it came to in the end.
        #[serde(default)]
        result: Option<Value>,
        /// Ends the turn as failed with this text; complete without it.
        #[serde(default)]
        error: Option<String>,
    },
    /// Shows the use of a tool of its own.
    Tool {
        /// Which one.
        name: String,
        /// Its arguments.
        #[serde(default)]
        args: Value,
        /// What it reports on the way.
        #[serde(default)]
        progress: Vec<String>,
        /// Its result.
        #[serde(default)]
        output: Value,
        /// Its error, instead of a result.
        #[serde(default)]
        error: Option<String>,
    },
    /// Offers tools that it found.
    AddTools(Vec<ToolSpec>),
    /// Withdraws tools.
    RemoveTools(Vec<String>),
    /// Does something again and again.
    Repeat {
        /// How often.
        times: usize,
        /// Milliseconds after each.
        #[serde(default)]
        every: u64,
        /// What.
        #[serde(rename = "do")]
        steps: Vec<Self>,
    },
    /// Ends the turn.
    End(Finish),
    /// Ends the turn with more than its outcome.
    EndWith {
        /// Why it ended.
        finish: Finish,
        /// A structured result.
        #[serde(default)]
        output: Option<Value>,
        /// Final counts.
        #[serde(default)]
        usage: Option<Usage>,
        /// Processor time.
        #[serde(default)]
        cpu_ms: Option<u64>,
    },
    /// Ends the turn as failed.
    Fail {
        /// Which class of failure.
        kind: FailureKind,
        /// What is said about it.
        message: String,
    },
    /// Does nothing more; an interrupt still ends it.
    Hang,
    /// From here on interrupts are not noticed.
    Deaf,
    /// Crashes: the host catches it and fails the turn.
    Panic,
    /// Vanishes without a word, as a worker whose lease runs out.
    Lose,
}

impl Step {
    /// The end that an ending step asks for.
    pub(crate) fn end(&self) -> Option<TurnEnd> {
        Some(match self {
            Self::End(finish) => TurnEnd::new(TurnOutcome::Done(*finish)),
            Self::EndWith { finish, output, usage, cpu_ms } => {
                let mut end = TurnEnd::new(TurnOutcome::Done(*finish));
                end.output = output.clone().map(Into::into);
                end.usage.clone_from(usage);
                end.metrics.cpu_ms = *cpu_ms;
                end
            }
            Self::Fail { kind, message } => TurnEnd::failed(*kind, message.clone()),
            Self::Panic => TurnEnd::failed(FailureKind::Execution, "the agent crashed"),
            Self::Wait(_)
            | Self::Text(_)
            | Self::Reason(_)
            | Self::Status(_)
            | Self::Usage(_)
            | Self::Data { .. }
            | Self::Notice { .. }
            | Self::Checklist(_)
            | Self::Echo
            | Self::Result
            | Self::Fill { .. }
            | Self::Call { .. }
            | Self::Ask { .. }
            | Self::Batch { .. }
            | Self::Results
            | Self::FailIfFailed(_)
            | Self::EndWithResults { .. }
            | Self::Tool { .. }
            | Self::AddTools(_)
            | Self::RemoveTools(_)
            | Self::Repeat { .. }
            | Self::Hang
            | Self::Deaf
            | Self::Lose => return None,
        })
    }
}

/// One command of a batch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchCommand {
    /// Which tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Value,
    /// What the protocol of the device has to know.
    #[serde(default)]
    pub options: Value,
}

impl BatchCommand {
    /// A command without options.
    pub fn new(tool: &str, args: Value) -> Self {
        Self { tool: tool.to_owned(), args, options: Value::Null }
    }

    /// With something that the protocol of the device has to know.
    #[must_use]
    pub fn with_options(mut self, options: Value) -> Self {
        self.options = options;
        self
    }
}

/// A tool, as a story writes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The shape of its arguments; any object if absent.
    #[serde(default)]
    pub input_schema: Option<Value>,
}

impl ToolSpec {
    /// The tool, executed by the agent.
    pub fn tool(&self) -> Tool {
        Tool {
            name: ToolName::from(self.name.as_str()),
            description: self.description.clone(),
            input_schema: self.input_schema.clone().unwrap_or_else(|| json!({"type": "object"})).into(),
            output_schema: None,
            annotations: ToolAnnotations::default(),
            version: None,
            executor: Executor::Agent,
            grace_ms: 0,
            options: Value::Null,
        }
    }
}

fn flatten(steps: &[Step], out: &mut Vec<Step>) {
    for step in steps {
        match step {
            Step::Repeat { times, every, steps } => {
                for _ in 0..*times {
                    flatten(steps, out);
                    if *every > 0 {
                        out.push(Step::Wait(*every));
                    }
                }
            }
            Step::Fill { bytes, piece } => {
                let mut left = *bytes;
                while left > 0 {
                    let length = left.min((*piece).max(1));
                    out.push(Step::Text("x".repeat(length)));
                    left -= length;
                }
            }
            other => out.push(other.clone()),
        }
    }
}
