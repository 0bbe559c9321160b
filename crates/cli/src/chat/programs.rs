//! A conversation for programs: one JSON object per line.

use std::time::Duration;

use serde_json::{Value, json};

use super::CHECKLIST;
use super::input::Prompt;
use super::past::Past;
use super::said::{End, Link, Phase, Said, Tool};
use super::screen::Screen;
use super::tools::Consent;
use super::view::{View, Wanted};
use crate::failure::Failure;

/// Writes events as JSON.
#[derive(Debug)]
pub(super) struct Programs {
    screen: Screen,
}

impl Programs {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen }
    }

    /// The name of the event comes first, where a person looks for it.
    fn event(&mut self, name: &str, mut members: Value) -> Result<(), Failure> {
        let mut line = json!({"event": name}).to_string();
        if let Value::Object(members) = &mut members {
            members.retain(|_, value| !value.is_null());
            if !members.is_empty() {
                line.pop();
                line.push(',');
                line.push_str(members_only(&Value::Object(std::mem::take(members)).to_string()));
            }
        }
        self.screen.line(&line)
    }
}

/// An object without its opening brace.
fn members_only(object: &str) -> &str {
    object.strip_prefix('{').unwrap_or(object)
}

impl View for Programs {
    fn welcome(&mut self, url: &str, session: &str) -> Result<(), Failure> {
        self.event("connected", json!({"url": url, "session": session}))
    }

    fn past(&mut self, _messages: &[Past]) -> Result<(), Failure> {
        Ok(())
    }

    fn said(&mut self, said: &Said) -> Result<(), Failure> {
        match said {
            Said::Start { run, model } => self.event("start", json!({"run": run, "model": model})),
            Said::Progress(progress) => self.event(
                "status",
                json!({
                    "state": progress.state.name(),
                    "position": progress.position,
                    "text": progress.text,
                }),
            ),
            Said::Text(text) => self.event("text", json!({"text": text})),
            Said::Reasoning(text) => self.event("reasoning", json!({"text": text})),
            Said::Tool(tool) => self.event("tool", tool_members(tool)),
            Said::Call { call, name, args } => {
                self.event("call", json!({"call": call, "name": name, "args": args}))
            }
            Said::Ask(ask) => {
                self.event("ask", json!({"ask": ask.id, "text": ask.text, "schema": ask.schema}))
            }
            Said::Checklist(list) => self.event("data", json!({"mime": CHECKLIST, "value": list})),
            Said::Data { mime, value } => self.event("data", json!({"mime": mime, "value": value})),
            Said::Usage(usage) => self.event("usage", counts(usage)),
            Said::Notice { level, text } => self.event("notice", json!({"level": level, "text": text})),
            Said::Restarted => self.event("restarted", json!({})),
            Said::End(End { finish, output, usage, wall_ms, first_ms }) => self.event(
                "end",
                json!({
                    "finish": finish.name(),
                    "output": output,
                    "usage": usage.as_deref().map(counts),
                    "wall_ms": wall_ms,
                    "first_ms": first_ms,
                }),
            ),
            Said::Failed(trouble) => self.event("error", trouble.members.clone()),
        }
    }

    fn link(&mut self, link: &Link) -> Result<(), Failure> {
        let ms = |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        match link {
            Link::Connected { connection } => self.event("connected", json!({"connection": connection})),
            Link::Resumed { lost } => self.event("resumed", json!({"lost": lost})),
            Link::Lost { why, retry_in } => {
                self.event("disconnected", json!({"text": why, "retry_ms": ms(retry_in)}))
            }
            Link::Leaving { reason, retry_in } => {
                self.event("goaway", json!({"text": reason, "retry_ms": ms(retry_in)}))
            }
            Link::Expiring => self.event("expiring", json!({})),
            Link::Said(said) => self.said(said),
            Link::Trouble(trouble) => self.event("error", trouble.members.clone()),
            Link::Over { .. } => Ok(()),
        }
    }

    fn consent(&mut self, consent: &Consent) -> Result<(), Failure> {
        self.event("consent", json!({"command": consent.command, "args": consent.args}))
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.screen.remark(text);
        Ok(())
    }

    fn listing(&mut self, lines: &[String]) -> Result<(), Failure> {
        self.event("listing", json!({"lines": lines}))
    }

    fn prompt(&self, _what: Wanted) -> Prompt {
        Prompt { plain: String::new(), coloured: String::new() }
    }
}

fn tool_members(tool: &Tool) -> Value {
    let mut members = json!({"call": tool.call, "name": tool.name, "phase": tool.phase.name()});
    match &tool.phase {
        Phase::Start { args, .. } => members["args"] = json!(args),
        Phase::Delta(text) => members["text"] = json!(text),
        Phase::Done(output) => members["output"] = json!(output),
        Phase::Error { output, code } => {
            members["output"] = json!(output);
            members["code"] = json!(code);
        }
    }
    members
}

fn counts(usage: &[(String, u64)]) -> Value {
    Value::Object(usage.iter().map(|(name, count)| (name.clone(), Value::from(*count))).collect())
}
