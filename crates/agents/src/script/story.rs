//! A story, checked and ready to be played. The file format is described in `stories/`.

use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_core::ToolName;
use switchboard_core::model::{ChecklistState, FailureKind, Finish, NoticeLevel, Tool};

use super::template::{Template, Variables};
use crate::chunk::Chunk;

/// What a [`Script`](crate::Script) says and does: rules that match the input, each with steps.
///
/// Two stories come with the crate: [`Story::demo`] and [`Story::conformance`]. Their files are
/// also the description of the format.
#[derive(Clone, Debug)]
pub struct Story {
    pub(super) name: String,
    pub(super) tools: Vec<Tool>,
    pub(super) rules: Vec<Rule>,
    pub(super) fallback: Option<Rule>,
}

impl Story {
    /// What it is called; the name of its file where it does not say.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tools that it executes itself.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) when: When,
    pub(super) steps: Vec<Step>,
    /// The structured result, unless a `finish` gives another.
    pub(super) output: Option<ValueTemplate>,
}

/// What a rule answers.
#[derive(Clone, Debug)]
pub(super) enum When {
    /// A chat whose trimmed text matches.
    Chat(Regex),
    /// The use of a tool, if its arguments as compact JSON match.
    Tool(ToolName, Option<Regex>),
    /// A reasoning step whose goal matches.
    Step(Regex),
    /// Whatever no other rule answers.
    Otherwise,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Text(Speech),
    Reasoning(Speech),
    Status(Template),
    Usage(Vec<(String, Number)>),
    Checklist { group: Template, title: Template, items: Vec<Item> },
    Data { mime: Option<String>, value: ValueTemplate },
    Notice { level: NoticeLevel, text: Template },
    Tool(ToolUse),
    Call(Request),
    Ask(Request),
    Wait(Number),
    Fail { kind: Choice<FailureKind>, message: Template },
    Finish { finish: Choice<Finish>, output: Option<ValueTemplate> },
    ChangeTools { add: Vec<Tool>, remove: Vec<ToolName> },
    Panic(Template),
    Hang,
    Repeat { count: Number, steps: Vec<Self> },
    If { text: Template, pattern: Regex, then: Vec<Self>, otherwise: Vec<Self> },
}

/// Text, cut into deltas.
#[derive(Clone, Debug)]
pub(super) struct Speech {
    pub(super) text: Template,
    /// Filled up, or cut, to so many bytes.
    pub(super) size: Option<Number>,
    pub(super) chunk: ChunkTemplate,
    pub(super) delay_ms: Number,
    /// How often, with `{index}`; once and without if it does not say.
    pub(super) repeat: Option<Number>,
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) id: Template,
    pub(super) label: Template,
    pub(super) state: ChecklistState,
}

/// The use of a tool by the agent itself.
#[derive(Clone, Debug)]
pub(super) struct ToolUse {
    pub(super) name: ToolName,
    pub(super) args: ValueTemplate,
    pub(super) output: Vec<Template>,
    /// How often, with `{index}`; once and without if it does not say.
    pub(super) repeat: Option<Number>,
    pub(super) delay_ms: Number,
    /// How long whoever asks may take, if they run it.
    pub(super) timeout_ms: Number,
    pub(super) end: ToolEnd,
}

#[derive(Clone, Debug)]
pub(super) enum ToolEnd {
    Result(ValueTemplate),
    Error { name: Template, message: Template },
}

/// A call of a remote tool, or a question.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The name of the tool, or the question.
    pub(super) subject: Template,
    /// The arguments, or the shape of the answer.
    pub(super) value: Option<ValueTemplate>,
    pub(super) timeout_ms: Number,
    pub(super) on_timeout: Then,
    pub(super) on_error: Then,
    /// The variable that holds the result.
    pub(super) variable: String,
}

/// What a story does after a call that brought no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Then {
    Fail,
    Continue,
}

/// A number that may depend on the input.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Fixed(u64),
    Template(Template),
}

impl Number {
    /// The number, which must not be above `most`; `what` names it in the complaint.
    pub(super) fn resolve(&self, variables: &Variables, most: u64, what: &str) -> Result<u64, String> {
        let number = match self {
            Self::Fixed(number) => *number,
            Self::Template(template) => {
                let text = template.render(variables);
                text.trim().parse().map_err(|_| format!("`{what}` is not a whole number: {text:?}"))?
            }
        };
        if number > most {
            return Err(format!("`{what}` is {number}, and may be at most {most}"));
        }
        Ok(number)
    }

    pub(super) fn millis(&self, variables: &Variables, what: &str) -> Result<Duration, String> {
        self.resolve(variables, MAX_WAIT_MS, what).map(Duration::from_millis)
    }
}

/// One of a set of names that may depend on the input.
#[derive(Clone, Debug)]
pub(super) enum Choice<T> {
    Fixed(T),
    Template(Template),
}

impl<T: DeserializeOwned + Copy> Choice<T> {
    pub(super) fn resolve(&self, variables: &Variables) -> Result<T, String> {
        match self {
            Self::Fixed(choice) => Ok(*choice),
            Self::Template(template) => Self::named(&template.render(variables)),
        }
    }

    pub(super) fn named(name: &str) -> Result<T, String> {
        serde_json::from_value(Value::String(name.to_owned())).map_err(|error| error.to_string())
    }
}

/// A way to cut text that may depend on the input.
#[derive(Clone, Debug)]
pub(super) enum ChunkTemplate {
    Fixed(Chunk),
    Template(Template),
}

impl ChunkTemplate {
    pub(super) fn resolve(&self, variables: &Variables) -> Result<Chunk, String> {
        match self {
            Self::Fixed(chunk) => Ok(*chunk),
            Self::Template(template) => {
                let text = template.render(variables);
                Chunk::parse(&text)
                    .ok_or_else(|| format!("`chunk` is {text:?}, and must be {}", crate::chunk::EXPECTED))
            }
        }
    }
}

/// A JSON value whose strings hold variables.
#[derive(Clone, Debug)]
pub(super) enum ValueTemplate {
    Fixed(Value),
    Text(Template),
    List(Vec<Self>),
    Object(Vec<(Template, Self)>),
}

impl ValueTemplate {
    pub(super) fn resolve(&self, variables: &Variables) -> Result<Value, String> {
        match self {
            Self::Fixed(value) => Ok(value.clone()),
            Self::Text(template) => template.value(variables),
            Self::List(items) => items.iter().map(|item| item.resolve(variables)).collect(),
            Self::Object(fields) => fields
                .iter()
                .map(|(name, value)| Ok((name.render(variables), value.resolve(variables)?)))
                .collect::<Result<_, _>>()
                .map(Value::Object),
        }
    }
}

/// Things that one turn may do: deltas, progress, calls and steps.
pub(super) const MAX_ACTIONS: u64 = 1_000_000;
/// How often anything may be repeated.
pub(super) const MAX_REPEAT: u64 = 1_000_000;
/// Milliseconds that one wait or call may take.
pub(super) const MAX_WAIT_MS: u64 = 3_600_000;
/// Bytes that one text may be filled up to.
pub(super) const MAX_SIZE: u64 = 16 << 20;
/// How deep steps may lie in steps.
pub(super) const MAX_DEPTH: usize = 16;
