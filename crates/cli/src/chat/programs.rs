//! A conversation for programs: one JSON object per line.

use serde_json::{Value, json};
use switchboard_client::asp::{ConnectionEvent, ErrorBody, RequestError, RequestEvent, Usage};
use switchboard_core::MessageRow;

use super::input::Prompt;
use super::screen::Screen;
use super::tools::Consent;
use super::view::{View, Wanted, cause_words};
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

    fn past(&mut self, _messages: &[MessageRow]) -> Result<(), Failure> {
        Ok(())
    }

    fn request(&mut self, event: &RequestEvent) -> Result<(), Failure> {
        match event {
            RequestEvent::Start { run, model } => self.event("start", json!({"run": run, "model": model})),
            RequestEvent::Status(status) => self.event(
                "status",
                json!({"state": status.state.name(), "position": status.pos, "text": status.msg}),
            ),
            RequestEvent::Text(text) => self.event("text", json!({"text": text})),
            RequestEvent::Reason(text) => self.event("reasoning", json!({"text": text})),
            RequestEvent::Tool(tool) => self.event(
                "tool",
                json!({
                    "call": tool.call_id,
                    "name": tool.name,
                    "phase": tool.phase.name(),
                    "args": tool.args.clone().map(Value::from),
                    "text": tool.d,
                    "output": tool.output.clone().map(Value::from),
                }),
            ),
            RequestEvent::Call(call) => {
                let args = Value::Object(call.args.clone().into_serde());
                self.event("call", json!({"call": call.call_id, "name": call.name, "args": args}))
            }
            RequestEvent::Ask(ask) => {
                let schema = ask.schema.clone().map(|schema| Value::Object(schema.into_serde()));
                self.event("ask", json!({"ask": ask.ask_id, "text": ask.text, "schema": schema}))
            }
            RequestEvent::Data { mime, value } => {
                self.event("data", json!({"mime": mime, "value": Value::from(value.clone())}))
            }
            RequestEvent::Usage(usage) => self.event("usage", counts(usage)),
            RequestEvent::Notice(notice) => {
                self.event("notice", json!({"level": notice.level.name(), "text": notice.text}))
            }
            RequestEvent::Restarted => self.event("restarted", json!({})),
            RequestEvent::End(end) => self.event(
                "end",
                json!({
                    "finish": end.finish.name(),
                    "output": end.output.clone().map(Value::from),
                    "usage": end.usage.as_ref().map(counts),
                    "wall_ms": end.metrics.and_then(|metrics| metrics.wall_ms),
                    "first_ms": end.metrics.and_then(|metrics| metrics.first_ms),
                }),
            ),
        }
    }

    fn failed(&mut self, error: &RequestError) -> Result<(), Failure> {
        match error {
            RequestError::Server(body) => self.event("error", error_body(body)),
            RequestError::Lost(_) | RequestError::SlowConsumer | RequestError::Closed => {
                self.event("error", json!({"text": error.to_string()}))
            }
        }
    }

    fn connection(&mut self, event: &ConnectionEvent) -> Result<(), Failure> {
        match event {
            ConnectionEvent::Connected { cid, .. } => self.event("connected", json!({"connection": cid})),
            ConnectionEvent::Resumed { lost } => self.event("resumed", json!({"lost": lost.len()})),
            ConnectionEvent::Disconnected { cause, retry_in } => {
                let retry_ms = u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX);
                self.event("disconnected", json!({"text": cause_words(cause), "retry_ms": retry_ms}))
            }
            ConnectionEvent::GoAway { reason, retry_in } => {
                let retry_ms = u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX);
                self.event("goaway", json!({"text": reason, "retry_ms": retry_ms}))
            }
            ConnectionEvent::AuthExpiring => self.event("expiring", json!({})),
            ConnectionEvent::Push(event) => self.request(event),
            ConnectionEvent::Error(error) => self.event("error", error_body(error)),
            ConnectionEvent::ToolsChanged | ConnectionEvent::Closed { .. } => Ok(()),
        }
    }

    fn consent(&mut self, consent: &Consent) -> Result<(), Failure> {
        self.event("consent", json!({"command": consent.command, "args": consent.args}))
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.screen.remark(text);
        Ok(())
    }

    fn prompt(&self, _what: Wanted) -> Prompt {
        Prompt { plain: String::new(), coloured: String::new() }
    }
}

fn counts(usage: &Usage) -> Value {
    Value::Object(usage.0.iter().map(|(name, count)| (name.clone(), Value::from(*count))).collect())
}

fn error_body(error: &ErrorBody) -> Value {
    json!({"code": error.code, "name": error.name, "text": error.msg, "retry": error.retry})
}
