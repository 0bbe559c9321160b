//! From the text of a story to the story, with complaints that say where and what.

use std::collections::BTreeSet;

use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_core::ToolName;

use super::raw::{RawRule, RawStory, RawTool};
use super::steps::StepParser;
use super::story::{Rule, Story, When};

impl Story {
    /// Reads a story from TOML, or from JSON if it begins with a brace. `name` stands for it in
    /// complaints.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense; the error says where and why.
    pub fn parse(text: &str, name: &str) -> Result<Self, StoryError> {
        let invalid = |problem: String| StoryError::Invalid { story: name.to_owned(), problem };
        let value: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| invalid(format!("not JSON: {error}")))?
        } else {
            toml::from_str(text).map_err(|error| invalid(format!("not TOML: {error}")))?
        };
        let raw: RawStory = read(value, "story").map_err(invalid)?;
        build(raw, name).map_err(invalid)
    }

    /// The story of the default agent: it greets, and shows what a client can expect.
    ///
    /// # Errors
    /// None that the tests of this crate let pass.
    pub fn demo() -> Result<Self, StoryError> {
        Self::parse(include_str!("../../stories/demo.toml"), "demo.toml")
    }

    /// A story with which a test can provoke everything a turn may do.
    ///
    /// # Errors
    /// None that the tests of this crate let pass.
    pub fn conformance() -> Result<Self, StoryError> {
        Self::parse(include_str!("../../stories/conformance.toml"), "conformance.toml")
    }
}

/// Why there is no story.
#[derive(Debug, thiserror::Error)]
pub enum StoryError {
    /// The file cannot be read.
    #[error("cannot read the story {story}: {source}")]
    Unreadable {
        /// Which story.
        story: String,
        /// Why.
        source: std::io::Error,
    },
    /// It makes no sense.
    #[error("{story}: {problem}")]
    Invalid {
        /// Which story.
        story: String,
        /// Where and why.
        problem: String,
    },
}

fn build(raw: RawStory, name: &str) -> Result<Story, String> {
    let tools = raw.tools.into_iter().map(RawTool::into_tool).collect::<Vec<_>>();
    let mut names = BTreeSet::new();
    for tool in &tools {
        if !names.insert(tool.name.clone()) {
            return Err(format!("the tool {} is declared twice", tool.name));
        }
    }
    let mut added = BTreeSet::new();
    let mut rules = Vec::new();
    for (index, rule) in raw.rules.into_iter().enumerate() {
        let place = format!("rule {}", index + 1);
        let rule: RawRule = read(rule, &place)?;
        rules.push(parse_rule(rule, &place, &raw.defaults, &mut added)?);
    }
    let fallback = raw
        .fallback
        .map(|rule| {
            let rule: RawRule = read(rule, "fallback")?;
            if rule.pattern.is_some() || rule.tool.is_some() || rule.step.is_some() {
                return Err(
                    "fallback: it answers whatever no rule matches, so it matches nothing itself".into()
                );
            }
            parse_rule(rule, "fallback", &raw.defaults, &mut added)
        })
        .transpose()?;
    if rules.is_empty() && fallback.is_none() {
        return Err("it has no rules".into());
    }
    let ruled: BTreeSet<&ToolName> = rules
        .iter()
        .filter_map(|rule| match &rule.when {
            When::Tool(name, _) => Some(name),
            When::Chat(_) | When::Step(_) | When::Otherwise => None,
        })
        .collect();
    if let Some(name) = names.iter().find(|name| !ruled.contains(name)) {
        return Err(format!("the tool {name} is declared, but no rule says what it does"));
    }
    if let Some(name) = ruled.iter().find(|name| !names.contains(name) && !added.contains(name)) {
        return Err(format!("a rule is for the tool {name}, which is neither declared nor added"));
    }
    Ok(Story { name: raw.name.unwrap_or_else(|| name.to_owned()), tools, rules, fallback })
}

fn parse_rule(
    raw: RawRule,
    place: &str,
    defaults: &super::raw::RawDefaults,
    added: &mut BTreeSet<ToolName>,
) -> Result<Rule, String> {
    let mut known: BTreeSet<String> = BUILT_IN.iter().map(|&name| name.to_owned()).collect();
    let mut compile = |pattern: &str| compile(pattern, place, &mut known);
    let when = match (raw.pattern, raw.tool, raw.step) {
        (Some(pattern), None, None) => When::Chat(compile(&pattern)?),
        (pattern, Some(tool), None) => {
            When::Tool(ToolName::from(tool.as_str()), pattern.as_deref().map(compile).transpose()?)
        }
        (None, None, Some(goal)) => When::Step(compile(&goal)?),
        (None, None, None) if place == "fallback" => When::Otherwise,
        (None, None, None) => return Err(format!("{place}: it needs a `match`, a `tool` or a `step`")),
        (_, _, Some(_)) => {
            return Err(format!("{place}: `step` cannot be combined with `match` or `tool`"));
        }
    };
    let mut parser = StepParser { defaults, known, added };
    let steps = parser.steps(raw.steps, place, 0)?;
    let output = raw.output.map(|value| parser.value(value, place)).transpose()?;
    Ok(Rule { when, steps, output })
}

/// Reads one part of a story.
pub(super) fn read<T: DeserializeOwned>(value: Value, place: &str) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("{place}: {error}"))
}

/// Compiles a pattern; the groups that it names are variables from here on.
pub(super) fn compile(pattern: &str, place: &str, known: &mut BTreeSet<String>) -> Result<Regex, String> {
    let regex = Regex::new(pattern).map_err(|error| format!("{place}: bad pattern: {error}"))?;
    for name in regex.capture_names().flatten() {
        if is_reserved(name) {
            return Err(format!("{place}: a group cannot be called `{name}`, which means something else"));
        }
        known.insert(name.to_owned());
    }
    Ok(regex)
}

/// Whether a name means something, and so is not free.
pub(super) fn is_reserved(name: &str) -> bool {
    BUILT_IN.contains(&name) || OF_STEPS.contains(&name)
}

/// Variables that always have a value, if an empty one.
const BUILT_IN: [&str; 11] = [
    "input",
    "args",
    "state",
    "meta",
    "turn",
    "session",
    "agent",
    "principal",
    "remembered",
    "instructions",
    "scene",
];
/// Variables that only some steps have.
const OF_STEPS: [&str; 3] = ["index", "outcome", "error"];
