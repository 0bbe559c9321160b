//! From steps as they are written to steps that can be played.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use switchboard_core::ToolName;
use switchboard_core::model::NoticeLevel;

use super::parse::{compile, is_reserved, read};
use super::raw::{RawCall, RawDefaults, RawError, RawFailure, RawQuestion, RawStep, RawTool, RawToolUse};
use super::story::{
    Choice, ChunkTemplate, Item, MAX_DEPTH, MAX_REPEAT, MAX_SIZE, MAX_WAIT_MS, Number, Request, Speech, Step,
    Then, ToolEnd, ToolUse, ValueTemplate,
};
use super::template::Template;
use crate::chunk::{Chunk, EXPECTED};

/// Reads the steps of one rule, and keeps track of the variables that they know.
pub(super) struct StepParser<'a> {
    pub(super) defaults: &'a RawDefaults,
    pub(super) known: BTreeSet<String>,
    /// Tools that some step offers.
    pub(super) added: &'a mut BTreeSet<ToolName>,
}

impl StepParser<'_> {
    pub(super) fn steps(&mut self, raw: Vec<Value>, place: &str, depth: usize) -> Result<Vec<Step>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("{place}: steps lie in steps more than {MAX_DEPTH} deep"));
        }
        raw.into_iter()
            .enumerate()
            .map(|(index, value)| {
                let place = format!("{place}, step {}", index + 1);
                let raw: RawStep = read(value, &place)?;
                self.step(raw, &place, depth)
            })
            .collect()
    }

    fn step(&mut self, mut raw: RawStep, place: &str, depth: usize) -> Result<Step, String> {
        let action = action(&raw, place)?;
        let step = match action {
            "text" | "reasoning" => {
                let text = raw.text.take().or_else(|| raw.reasoning.take()).unwrap_or_default();
                let speech = self.speech(&mut raw, &text, place)?;
                if action == "text" { Step::Text(speech) } else { Step::Reasoning(speech) }
            }
            "status" => Step::Status(self.template(&raw.status.take().unwrap_or_default(), place)?),
            "usage" => {
                let counts = raw.usage.take().unwrap_or_default();
                let counts = counts.into_iter().map(|(name, value)| {
                    let count = self.number(value, u64::MAX, &name, place)?;
                    Ok((name, count))
                });
                Step::Usage(counts.collect::<Result<_, String>>()?)
            }
            "checklist" => self.checklist(&mut raw, place)?,
            "data" => Step::Data {
                mime: raw.mime.take(),
                value: self.value(raw.data.take().unwrap_or_default(), place)?,
            },
            "notice" => Step::Notice {
                level: raw.level.take().unwrap_or(NoticeLevel::Info),
                text: self.template(&raw.notice.take().unwrap_or_default(), place)?,
            },
            "tool" => Step::Tool(self.tool_use(raw.tool.take(), place)?),
            "call" => Step::Call(self.call(raw.call.take(), place)?),
            "ask" => Step::Ask(self.ask(raw.ask.take().unwrap_or_default(), place)?),
            "wait" => {
                Step::Wait(self.number(raw.wait.take().unwrap_or_default(), MAX_WAIT_MS, "wait", place)?)
            }
            "fail" => self.fail(raw.fail.take().unwrap_or_default(), place)?,
            "finish" => Step::Finish {
                finish: self.choice(&raw.finish.take().unwrap_or_default(), "finish", place)?,
                output: raw.output.take().map(|value| self.value(value, place)).transpose()?,
            },
            "add_tools" | "remove_tools" => {
                let add = raw.add_tools.take().unwrap_or_default();
                let add: Vec<_> = add.into_iter().map(RawTool::into_tool).collect();
                self.added.extend(add.iter().map(|tool| tool.name.clone()));
                let remove = raw.remove_tools.take().unwrap_or_default();
                Step::ChangeTools {
                    add,
                    remove: remove.iter().map(|name| ToolName::from(name.as_str())).collect(),
                }
            }
            "panic" => Step::Panic(self.template(&raw.panic.take().unwrap_or_default(), place)?),
            "hang" => {
                if raw.hang.take() != Some(true) {
                    return Err(format!("{place}: `hang` can only be true"));
                }
                Step::Hang
            }
            "if" => {
                let text = self.template(&raw.condition.take().unwrap_or_default(), place)?;
                let pattern = raw.pattern.take().ok_or_else(|| format!("{place}: `if` needs a `match`"))?;
                let pattern = compile(&pattern, place, &mut self.known)?;
                let then = raw.steps.take().unwrap_or_default();
                let otherwise = raw.otherwise.take().unwrap_or_default();
                Step::If {
                    text,
                    pattern,
                    then: self.steps(then, place, depth + 1)?,
                    otherwise: self.steps(otherwise, &format!("{place}, else"), depth + 1)?,
                }
            }
            _ => {
                let count =
                    self.number(raw.repeat.take().unwrap_or_default(), MAX_REPEAT, "repeat", place)?;
                let steps = raw.steps.take().unwrap_or_default();
                let steps = self.inside(Some(&count), |parser| parser.steps(steps, place, depth + 1))?;
                Step::Repeat { count, steps }
            }
        };
        match leftover(&raw) {
            Some(option) => Err(format!("{place}: `{option}` is no option of `{action}`")),
            None => Ok(step),
        }
    }

    fn speech(&mut self, raw: &mut RawStep, text: &str, place: &str) -> Result<Speech, String> {
        let chunk = raw.chunk.take().or_else(|| self.defaults.chunk.clone());
        let delay = raw.delay_ms.take().or_else(|| self.defaults.delay_ms.clone());
        let repeat = self.repeat(raw.repeat.take(), place)?;
        Ok(Speech {
            text: self.inside(repeat.as_ref(), |parser| parser.template(text, place))?,
            size: raw.size.take().map(|size| self.number(size, MAX_SIZE, "size", place)).transpose()?,
            chunk: self.chunk(chunk.unwrap_or_else(|| json!("whole")), place)?,
            delay_ms: self.number(delay.unwrap_or_else(|| json!(0)), MAX_WAIT_MS, "delay_ms", place)?,
            repeat,
        })
    }

    fn checklist(&self, raw: &mut RawStep, place: &str) -> Result<Step, String> {
        let Some(raw) = raw.checklist.take() else { return Err(format!("{place}: no checklist")) };
        let items = raw.items.into_iter().map(|item| {
            Ok(Item {
                id: self.template(&item.id, place)?,
                label: self.template(&item.label, place)?,
                state: item.state,
            })
        });
        Ok(Step::Checklist {
            items: items.collect::<Result<_, String>>()?,
            group: self.template(&raw.group, place)?,
            title: self.template(&raw.title, place)?,
        })
    }

    fn tool_use(&mut self, raw: Option<RawToolUse>, place: &str) -> Result<ToolUse, String> {
        let Some(raw) = raw else { return Err(format!("{place}: no tool")) };
        let end = match (raw.result, raw.error) {
            (Some(_), Some(_)) => {
                return Err(format!("{place}: a tool has a `result` or an `error`, not both"));
            }
            (result, None) => ToolEnd::Result(self.value(result.unwrap_or_default(), place)?),
            (None, Some(error)) => {
                let error = match error.as_str() {
                    Some(message) => RawError { name: "error".into(), message: message.to_owned() },
                    None => read(error, place)?,
                };
                ToolEnd::Error {
                    name: self.template(&error.name, place)?,
                    message: self.template(&error.message, place)?,
                }
            }
        };
        let repeat = self.repeat(raw.repeat, place)?;
        Ok(ToolUse {
            name: ToolName::from(raw.name.as_str()),
            args: self.value(raw.args.unwrap_or_else(|| json!({})), place)?,
            output: self.inside(repeat.as_ref(), |parser| {
                raw.output.iter().map(|text| parser.template(text, place)).collect()
            })?,
            delay_ms: self.number(
                raw.delay_ms.unwrap_or_else(|| json!(0)),
                MAX_WAIT_MS,
                "delay_ms",
                place,
            )?,
            timeout_ms: self.timeout(raw.timeout_ms, place)?,
            repeat,
            end,
        })
    }

    fn call(&mut self, raw: Option<RawCall>, place: &str) -> Result<Request, String> {
        let Some(raw) = raw else { return Err(format!("{place}: no call")) };
        let subject = self.template(&raw.name, place)?;
        let value = Some(self.value(raw.args.unwrap_or_else(|| json!({})), place)?);
        let variable = raw.variable.unwrap_or_else(|| "result".into());
        self.request(subject, value, raw.timeout_ms, (raw.on_timeout, raw.on_error), variable, place)
    }

    fn ask(&mut self, raw: Value, place: &str) -> Result<Request, String> {
        let raw = if raw.is_string() { json!({ "text": raw }) } else { raw };
        let raw: RawQuestion = read(raw, place)?;
        let subject = self.template(&raw.text, place)?;
        let value = raw.schema.map(|schema| self.value(schema, place)).transpose()?;
        let variable = raw.variable.unwrap_or_else(|| "answer".into());
        self.request(subject, value, raw.timeout_ms, (raw.on_timeout, raw.on_error), variable, place)
    }

    fn timeout(&self, raw: Option<Value>, place: &str) -> Result<Number, String> {
        let raw = raw.unwrap_or_else(|| json!(DEFAULT_TIMEOUT_MS));
        self.number(raw, MAX_WAIT_MS, "timeout_ms", place)
    }

    fn request(
        &mut self,
        subject: Template,
        value: Option<ValueTemplate>,
        timeout_ms: Option<Value>,
        (on_timeout, on_error): (Then, Then),
        variable: String,
        place: &str,
    ) -> Result<Request, String> {
        let named = variable.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !named || !variable.starts_with(|c: char| c.is_ascii_alphabetic()) || is_reserved(&variable) {
            return Err(format!("{place}: `as` cannot be {variable:?}"));
        }
        let timeout_ms = self.timeout(timeout_ms, place)?;
        self.known.extend([variable.clone(), "outcome".into(), "error".into()]);
        Ok(Request { subject, value, timeout_ms, on_timeout, on_error, variable })
    }

    fn fail(&self, raw: Value, place: &str) -> Result<Step, String> {
        let raw = match raw.as_str() {
            Some(message) => RawFailure { kind: "execution".into(), message: message.to_owned() },
            None => read(raw, place)?,
        };
        Ok(Step::Fail {
            kind: self.choice(&raw.kind, "kind", place)?,
            message: self.template(&raw.message, place)?,
        })
    }

    /// Reads something inside a repetition, if it is one; `{index}` is known there.
    fn inside<T>(
        &mut self,
        repeat: Option<&Number>,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let new = repeat.is_some() && self.known.insert("index".into());
        let result = read(self);
        if new {
            self.known.remove("index");
        }
        result
    }

    fn template(&self, text: &str, place: &str) -> Result<Template, String> {
        let template = Template::parse(text);
        match template.unknown(&self.known) {
            Some(name) => Err(format!(
                "{place}: there is no variable `{{{name}}}` here (write `{{{{{name}}}}}` for the letters)"
            )),
            None => Ok(template),
        }
    }

    pub(super) fn value(&self, value: Value, place: &str) -> Result<ValueTemplate, String> {
        Ok(match value {
            Value::String(text) => ValueTemplate::Text(self.template(&text, place)?),
            Value::Array(items) => ValueTemplate::List(
                items.into_iter().map(|item| self.value(item, place)).collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => {
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| Ok((self.template(&name, place)?, self.value(value, place)?)));
                ValueTemplate::Object(fields.collect::<Result<_, String>>()?)
            }
            fixed @ (Value::Null | Value::Bool(_) | Value::Number(_)) => ValueTemplate::Fixed(fixed),
        })
    }

    fn repeat(&self, value: Option<Value>, place: &str) -> Result<Option<Number>, String> {
        value.map(|value| self.number(value, MAX_REPEAT, "repeat", place)).transpose()
    }

    fn number(&self, value: Value, most: u64, what: &str, place: &str) -> Result<Number, String> {
        let complaint = |problem: String| format!("{place}: `{what}` {problem}");
        let number = match value.as_str() {
            Some(text) => {
                let template = self.template(text, place)?;
                match template.fixed().map(str::parse::<u64>) {
                    None => return Ok(Number::Template(template)),
                    Some(number) => number.ok(),
                }
            }
            None => value.as_u64(),
        };
        match number {
            Some(number) if number > most => {
                Err(complaint(format!("is {number}, and may be at most {most}")))
            }
            Some(number) => Ok(Number::Fixed(number)),
            None => Err(complaint(format!("has to be a whole number or a variable, not {value}"))),
        }
    }

    fn chunk(&self, value: Value, place: &str) -> Result<ChunkTemplate, String> {
        if let Value::String(text) = &value {
            let template = self.template(text, place)?;
            if template.fixed().is_none() {
                return Ok(ChunkTemplate::Template(template));
            }
        }
        let text = super::template::as_text(value);
        let chunk = Chunk::parse(&text)
            .ok_or_else(|| format!("{place}: `chunk` is {text:?}, and must be {EXPECTED}"))?;
        Ok(ChunkTemplate::Fixed(chunk))
    }

    fn choice<T: DeserializeOwned + Copy>(
        &self,
        text: &str,
        what: &str,
        place: &str,
    ) -> Result<Choice<T>, String> {
        let template = self.template(text, place)?;
        match template.fixed() {
            None => Ok(Choice::Template(template)),
            Some(name) => {
                Choice::named(name).map(Choice::Fixed).map_err(|error| format!("{place}: `{what}`: {error}"))
            }
        }
    }
}

/// The one thing that a step does.
fn action(raw: &RawStep, place: &str) -> Result<&'static str, String> {
    let repeats = raw.repeat.is_some() && raw.steps.is_some();
    let actions = [
        ("text", raw.text.is_some()),
        ("reasoning", raw.reasoning.is_some()),
        ("status", raw.status.is_some()),
        ("usage", raw.usage.is_some()),
        ("checklist", raw.checklist.is_some()),
        ("data", raw.data.is_some()),
        ("notice", raw.notice.is_some()),
        ("tool", raw.tool.is_some()),
        ("call", raw.call.is_some()),
        ("ask", raw.ask.is_some()),
        ("wait", raw.wait.is_some()),
        ("fail", raw.fail.is_some()),
        ("finish", raw.finish.is_some()),
        ("add_tools", raw.add_tools.is_some()),
        ("remove_tools", raw.remove_tools.is_some() && raw.add_tools.is_none()),
        ("panic", raw.panic.is_some()),
        ("hang", raw.hang.is_some()),
        ("if", raw.condition.is_some()),
        ("repeat", repeats),
    ];
    let mut present = actions.iter().filter(|(_, present)| *present).map(|(name, _)| *name);
    match (present.next(), present.next()) {
        (Some(action), None) => Ok(action),
        (Some(first), Some(second)) => {
            Err(format!("{place}: `{first}` and `{second}` are two steps; a step does one thing"))
        }
        (None, _) => Err(format!("{place}: it does nothing; `text`, `wait`, `call` … say what to do")),
    }
}

/// An option that nobody took.
fn leftover(raw: &RawStep) -> Option<&'static str> {
    let options = [
        ("chunk", raw.chunk.is_some()),
        ("delay_ms", raw.delay_ms.is_some()),
        ("size", raw.size.is_some()),
        ("repeat", raw.repeat.is_some()),
        ("mime", raw.mime.is_some()),
        ("level", raw.level.is_some()),
        ("output", raw.output.is_some()),
        ("steps", raw.steps.is_some()),
        ("match", raw.pattern.is_some()),
        ("else", raw.otherwise.is_some()),
    ];
    options.into_iter().find(|(_, present)| *present).map(|(name, _)| name)
}

/// How long a call waits where the story does not say.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;
