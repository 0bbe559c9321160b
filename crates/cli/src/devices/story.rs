//! What happens in a task, as people and programs are told.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::{CallEnd, CallKind, Output};
use switchboard_core::{CallId, Committed, Event, Timestamp};

use crate::clock;
use crate::console::{Console, Palette, harmless, one_line};
use crate::failure::Failure;
use crate::sessions::to_json;

/// One thing that happened.
#[derive(Debug, PartialEq)]
pub(super) enum Happened {
    /// It waits behind others.
    Queued(u32),
    /// The device was sent a command.
    Called { call: CallId, name: String, args: Value },
    /// The command has ended.
    Answered { call: CallId, name: String, end: CallEnd, took: Duration },
    /// A piece of the answer.
    Text(String),
    /// What the agent does.
    Status(String),
    /// Nothing more follows.
    Over,
}

/// Makes sense of events.
#[derive(Debug, Default)]
pub(super) struct Plot {
    open: BTreeMap<CallId, (String, Timestamp)>,
}

impl Plot {
    /// What an event means here, if anything.
    pub(super) fn event(&mut self, committed: Committed) -> Option<Happened> {
        let at = committed.at;
        #[expect(clippy::wildcard_enum_match_arm, reason = "most of what is in the log is not of a task")]
        match committed.event {
            Event::TurnQueued { position, .. } => Some(Happened::Queued(position)),
            Event::CallRequested { call, .. } => match &call.kind {
                CallKind::Tool { name, args } => {
                    let (call, name) = (call.id.clone(), name.to_string());
                    self.open.insert(call.clone(), (name.clone(), at));
                    Some(Happened::Called { call, name, args: Value::clone(args) })
                }
                CallKind::Question { text, .. } => Some(Happened::Status(format!("asks: {text}"))),
            },
            Event::CallEnded { call, end, .. } => {
                let (name, since) = self.open.remove(&call)?;
                Some(Happened::Answered { call, name, end, took: at.since(since) })
            }
            Event::TurnOutput { output: Output::Text(text), .. } => Some(Happened::Text(text)),
            Event::TurnOutput { output: Output::Status(text), .. } => Some(Happened::Status(text)),
            Event::TurnEnded { .. } => Some(Happened::Over),
            _ => None,
        }
    }
}

/// How the end of a task is told.
#[derive(Debug)]
pub(super) struct End<'a> {
    /// What came of it, or what went wrong.
    pub(super) outcome: Result<&'a Value, &'a str>,
    /// What there is of a result if it failed.
    pub(super) result: &'a Value,
    /// How long it took.
    pub(super) took: Duration,
    /// Whether the user has cancelled it.
    pub(super) cancelled: bool,
}

/// Tells people or programs.
#[derive(Debug)]
pub(super) struct Teller<'a> {
    console: &'a Console,
    json: bool,
    /// The answer so far.
    text: String,
}

impl<'a> Teller<'a> {
    pub(super) const fn new(console: &'a Console, json: bool) -> Self {
        Self { console, json, text: String::new() }
    }

    pub(super) fn accepted(&self, session: &str) -> Result<(), Failure> {
        if self.json {
            return self.object(json!({ "event": "accepted", "session": session }));
        }
        Ok(())
    }

    pub(super) fn happened(&mut self, happened: &Happened) -> Result<(), Failure> {
        if self.json {
            return self.to_program(happened);
        }
        let Palette { green, red, dim, reset, .. } = self.console.note_palette();
        match happened {
            Happened::Queued(position) => self.note(&format!("waits, number {position}")),
            Happened::Called { name, args, .. } => {
                self.note(format!("→ {} {}", harmless(name), brief(args)).trim_end())
            }
            Happened::Answered { name, end, took, .. } => {
                let (good, why) = verdict(end);
                let mark = if good { format!("{reset}{green}✓") } else { format!("{reset}{red}✗") };
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                let (name, took) = (harmless(name), clock::short(*took));
                self.note(&format!("{mark}{reset}{dim} {name}{why} ({took})"))
            }
            Happened::Text(text) => {
                self.text.push_str(text);
                self.console.print(&harmless(text))
            }
            Happened::Status(text) => self.note(&one_line(text, LINE)),
            Happened::Over => Ok(()),
        }
    }

    pub(super) fn note(&mut self, text: &str) -> Result<(), Failure> {
        // On a screen the two streams meet.
        if self.console.is_terminal() && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.console.print("\n")?;
            self.text.push('\n');
        }
        self.console.note(text);
        Ok(())
    }

    pub(super) fn end(&mut self, end: &End<'_>) -> Result<(), Failure> {
        if self.json {
            let wall_ms = u64::try_from(end.took.as_millis()).unwrap_or(u64::MAX);
            return self.object(match end.outcome {
                Ok(result) => {
                    json!({ "event": "end", "status": "completed", "result": result, "wall_ms": wall_ms })
                }
                Err(error) => json!({
                    "event": "end", "status": "failed", "error": error, "result": end.result,
                    "cancelled": end.cancelled, "wall_ms": wall_ms,
                }),
            });
        }
        if let Ok(result) = end.outcome {
            let answer = answer(result);
            if answer.trim() != self.text.trim() {
                self.text.push_str(&answer);
                self.console.print(&harmless(&answer))?;
            }
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.console.print("\n")?;
        }
        let Palette { green, red, dim, reset, .. } = self.console.note_palette();
        let took = clock::short(end.took);
        match end.outcome {
            Ok(_) => self.console.note(&format!("{reset}{green}✓{reset}{dim} done in {took}")),
            Err(_) if end.cancelled => {
                self.console.note(&format!("{reset}{red}✗{reset}{dim} the task was cancelled after {took}"));
            }
            Err(error) => {
                let error = harmless(error);
                self.console.note(&format!("{reset}{red}✗ failed:{reset} {error}{dim} ({took})"));
            }
        }
        Ok(())
    }

    fn to_program(&self, happened: &Happened) -> Result<(), Failure> {
        let ms = |took: &Duration| u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.object(match happened {
            Happened::Queued(position) => json!({ "event": "queued", "position": position }),
            Happened::Called { call, name, args } => {
                json!({ "event": "call", "call": call.as_str(), "name": name, "args": args })
            }
            Happened::Answered { call, name, end, took } => {
                let (_, why) = verdict(end);
                let (status, output) = match end {
                    CallEnd::Done { output, .. } => ("done", &**output),
                    CallEnd::Failed(error) => ("failed", error.detail.get("result").unwrap_or(&Value::Null)),
                    CallEnd::TimedOut => ("timed_out", &Value::Null),
                    CallEnd::Cancelled => ("cancelled", &Value::Null),
                };
                let error = Some(why).filter(|_| status != "done");
                json!({
                    "event": "result", "call": call.as_str(), "name": name, "status": status, "output": output,
                    "error": error, "ms": ms(took),
                })
            }
            Happened::Text(text) => json!({ "event": "text", "text": text }),
            Happened::Status(text) => json!({ "event": "status", "text": text }),
            Happened::Over => return Ok(()),
        })
    }

    fn object(&self, object: Value) -> Result<(), Failure> {
        self.console.line(&to_json(&object)?)
    }
}

/// Whether a command went well, and what there is to say about it.
fn verdict(end: &CallEnd) -> (bool, String) {
    match end {
        CallEnd::Done { output, .. } => match output.get("exit_code").and_then(Value::as_i64) {
            Some(0) | None => (true, String::new()),
            Some(code) => (false, format!("exit code {code}")),
        },
        CallEnd::Failed(error) => (false, one_line(&error.message, LINE)),
        CallEnd::TimedOut => (false, "no answer in time".to_owned()),
        CallEnd::Cancelled => (false, "cancelled".to_owned()),
    }
}

/// Arguments on one line; a single one by itself.
fn brief(args: &Value) -> String {
    match args.as_object().map(|args| args.values().collect::<Vec<&Value>>()).as_deref() {
        Some([]) => String::new(),
        Some([Value::String(text)]) => one_line(text, LINE),
        Some(_) | None => one_line(&args.to_string(), LINE),
    }
}

/// The text of a result in the form of the reference, or the result itself.
fn answer(result: &Value) -> String {
    let texts = result.as_array().map(|items| items.iter().map(|item| item.get("result")?.as_str()));
    match texts.map(Iterator::collect::<Option<Vec<&str>>>) {
        Some(Some(texts)) => texts.join("\n"),
        Some(None) | None if result.is_null() => String::new(),
        Some(None) | None => format!("{result:#}"),
    }
}

/// As much of a command as is shown.
const LINE: usize = 160;

#[cfg(test)]
mod tests {
    use switchboard_core::model::CallError;

    use super::*;

    #[test]
    fn commands_are_judged_by_their_exit_code() {
        let done = |output: Value| verdict(&CallEnd::done(output));
        assert_eq!(done(json!({ "exit_code": 0 })), (true, String::new()));
        assert_eq!(done(json!("text")), (true, String::new()));
        assert_eq!(done(json!({ "exit_code": 2 })), (false, "exit code 2".to_owned()));
        let failed = CallEnd::Failed(CallError::new("failure", "no\nway"));
        assert_eq!(verdict(&failed), (false, "no way".to_owned()));
    }

    #[test]
    fn arguments_are_brief() {
        assert_eq!(brief(&json!({})), "");
        assert_eq!(brief(&json!({ "command": "uname -a" })), "uname -a");
        assert_eq!(brief(&json!({ "a": 1, "b": "c" })), r#"{"a":1,"b":"c"}"#);
    }

    #[test]
    fn the_answer_is_the_text_of_the_result() {
        assert_eq!(answer(&json!([{ "request": "a", "result": "b" }])), "b");
        assert_eq!(answer(&json!({ "turns": [] })), "{\n  \"turns\": []\n}");
        assert_eq!(answer(&Value::Null), "");
    }
}
