//! A conversation over Acolyte: over WebSocket, or every message as a request over HTTP.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use switchboard_client::acolyte::{
    Chat, ChatEvent, ChatRequest, Client, ClientError, Ending, ErrorBody, Events, HistoryRole, ItemStatus,
    Level, ListSnapshot, Marker, OutputPart, PendingState, Reply, ShellStream, StreamClient, StreamEvent,
    Update,
};
use switchboard_core::model::{Checklist, ChecklistItem, ChecklistState};

use super::history::History;
use super::link;
use super::said::{
    Answer, Ask, Counts, End, Finish, Link, Peer, Phase, Progress, Said, State, Tool, Trouble,
};
use crate::clock;
use crate::failure::Failure;

/// A server that speaks Acolyte. It keeps no history for its clients, so that this side does.
pub(super) struct AcolytePeer {
    wire: Wire,
    session: String,
    model: String,
    history: History,
    timeout: Option<u32>,
}

/// What carries the messages.
pub(super) enum Wire {
    Socket(Client, Events),
    Stream(StreamClient),
}

impl AcolytePeer {
    pub(super) fn new(
        wire: Wire,
        session: String,
        model: String,
        history: History,
        timeout: Option<u32>,
    ) -> Self {
        Self { wire, session, model, history, timeout }
    }
}

#[async_trait::async_trait]
impl Peer for AcolytePeer {
    async fn say(&mut self, text: String) -> Result<Box<dyn Answer>, Failure> {
        let request = ChatRequest {
            message: text.clone(),
            history: self.history.told(),
            model: self.model.clone(),
            session_id: Some(self.session.clone()),
            ..ChatRequest::default()
        };
        let chat = match &self.wire {
            Wire::Socket(client, _) => client.chat(request).await,
            Wire::Stream(client) => client.chat(&request).await,
        };
        let chat = match chat {
            Ok(chat) => Ok(chat),
            // The next message may find the server again, as the next request over a connection would.
            Err(error @ (ClientError::Failed(_) | ClientError::Command(_) | ClientError::Call(_))) => {
                Err(plain_trouble(error.to_string()))
            }
            Err(error @ (ClientError::Off | ClientError::Closed)) => {
                return Err(Failure::unreachable(format!(
                    "this cannot be said: {error}; start `switchboard chat` again"
                )));
            }
        };
        Ok(Box::new(AcolyteAnswer {
            chat,
            told: false,
            question: text,
            text: String::new(),
            details: BTreeMap::new(),
            history: self.history.clone(),
        }))
    }

    async fn event(&mut self) -> Option<Link> {
        match &mut self.wire {
            Wire::Socket(_, events) => Some(link(events.next().await?)),
            Wire::Stream(_) => std::future::pending().await,
        }
    }

    fn is_connected(&self) -> bool {
        match &self.wire {
            Wire::Socket(client, _) => client.snapshot().connected,
            Wire::Stream(_) => true,
        }
    }

    fn patience(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(seconds.into()))
    }

    async fn leave(&self) {
        if let Wire::Socket(client, _) = &self.wire {
            client.close().await;
        }
    }
}

struct AcolyteAnswer {
    /// The chat, or why there is none.
    chat: Result<Chat, Trouble>,
    told: bool,
    question: String,
    /// What was said so far.
    text: String,
    /// What was shown of the tools at work besides their names.
    details: BTreeMap<String, Option<String>>,
    history: History,
}

impl AcolyteAnswer {
    fn ended(&self, ending: Ending) -> Said {
        let answer = match &ending {
            Ending::Done(reply) => reply.output.clone(),
            // Nobody said what stands in for an answer.
            Ending::Failed { reply: Some(reply), .. } if !reply.output_streamed => String::new(),
            Ending::Failed { .. } | Ending::Aborted | Ending::Refused(_) | Ending::Lost { .. } => {
                self.text.clone()
            }
        };
        if !matches!(ending, Ending::Refused(_)) {
            let now = clock::now();
            self.history.add(HistoryRole::User, self.question.clone(), now);
            self.history.add(HistoryRole::Assistant, answer, now);
        }
        end_said(ending)
    }
}

#[async_trait::async_trait]
impl Answer for AcolyteAnswer {
    async fn next(&mut self) -> Option<Said> {
        let chat = match &mut self.chat {
            Ok(chat) => chat,
            Err(trouble) => {
                let over = std::mem::replace(&mut self.told, true);
                return (!over).then(|| Said::Failed(trouble.clone()));
            }
        };
        loop {
            match chat.next().await? {
                Update::Event(event) => {
                    if let ChatEvent::Stream(StreamEvent::TextDelta { text }) = &event {
                        self.text.push_str(text);
                    }
                    if let Some(said) = said(event, &mut self.details) {
                        return Some(said);
                    }
                }
                Update::NotAborted(why) => {
                    return Some(Said::Notice {
                        level: "warn",
                        text: format!("it could not be stopped: {why}"),
                    });
                }
                Update::Ended(ending) => return Some(self.ended(ending)),
            }
        }
    }

    fn stop(&self) {
        if let Ok(chat) = &self.chat {
            chat.abort();
        }
    }

    /// There are no questions.
    fn reply(&self, _ask: Ask, _text: String) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Err("this protocol has no answers to questions".to_owned()) })
    }
}

fn said(event: ChatEvent, details: &mut BTreeMap<String, Option<String>>) -> Option<Said> {
    let progress = |state, position| Said::Progress(Progress { state, position, text: None });
    Some(match event {
        ChatEvent::Accepted(task) => Said::Start { run: task.to_string(), model: None },
        ChatEvent::Queued(position) => progress(State::Queued, Some(position)),
        ChatEvent::Started => progress(State::Starting, None),
        ChatEvent::Stream(event) => match event {
            StreamEvent::Status { state } => match state {
                PendingState::Accepted => progress(State::Starting, None),
                PendingState::Queued { position } => progress(State::Queued, position),
                PendingState::Running { .. } => progress(State::Running, None),
            },
            StreamEvent::Reasoning { text } => Said::Reasoning(text.into_owned()),
            StreamEvent::TextDelta { text } => Said::Text(text.into_owned()),
            StreamEvent::ToolCall { tool_call_id, tool_name, args } => {
                let detail = detail(&args);
                details.insert(tool_call_id.clone(), detail.clone());
                let phase = Phase::Start { args: Some(Value::Object(args)), detail };
                Said::Tool(Tool { call: tool_call_id, name: tool_name, phase })
            }
            StreamEvent::ToolOutput { tool_call_id, tool_name, content } => {
                let known = details.get(&tool_call_id).and_then(Option::as_deref);
                let phase = Phase::Delta(part(content, known)?);
                Said::Tool(Tool { call: tool_call_id, name: tool_name, phase })
            }
            StreamEvent::ToolResult { tool_call_id, tool_name, is_error, error_code, .. } => {
                details.remove(&tool_call_id);
                let phase = match is_error {
                    Some(true) => Phase::Error { output: None, code: error_code },
                    Some(false) | None => Phase::Done(None),
                };
                Said::Tool(Tool { call: tool_call_id, name: tool_name, phase })
            }
            StreamEvent::Usage { input_tokens, output_tokens } => {
                Said::Usage(counts(input_tokens, output_tokens))
            }
            StreamEvent::Checklist(list) | StreamEvent::Tasklist(list) => Said::Checklist(checklist(list)),
            // Not the end, which follows (R3).
            StreamEvent::Error(error) => Said::Notice { level: "error", text: trouble(&error).words },
            StreamEvent::Notice { level, message, .. } => {
                let level = match level {
                    Level::Warn => "warn",
                    Level::Error => "error",
                };
                Said::Notice { level, text: message }
            }
            StreamEvent::SkillActivated { .. } | StreamEvent::SkillDeactivated { .. } => return None,
        },
    })
}

fn end_said(ending: Ending) -> Said {
    match ending {
        Ending::Done(reply) => Said::End(End { usage: usage(&reply), ..End::new(Finish::Complete) }),
        Ending::Aborted => Said::End(End::new(Finish::Interrupted)),
        Ending::Failed { error, .. } => Said::Failed(trouble(&error)),
        Ending::Refused(why) => Said::Failed(plain_trouble(why)),
        Ending::Lost { loss, task } => {
            let task = task.map(|task| task.to_string());
            let shown = task.as_ref().map(|task| format!(" ({task})")).unwrap_or_default();
            Said::Failed(Trouble {
                words: format!("{loss}{shown}"),
                members: json!({"text": loss.to_string(), "task": task}),
                retry: false,
            })
        }
    }
}

fn usage(reply: &Reply) -> Option<Counts> {
    reply.usage.map(|usage| counts(usage.input_tokens, usage.output_tokens))
}

fn counts(input: u64, output: u64) -> Counts {
    vec![("input_tokens".to_owned(), input), ("output_tokens".to_owned(), output)]
}

fn trouble(error: &ErrorBody) -> Trouble {
    let ErrorBody { error_message: text, error_code: code, error_id, .. } = error;
    let shown = code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    let id = error_id.as_ref().map(ToString::to_string);
    Trouble {
        words: format!("{text}{shown}"),
        members: json!({"name": code, "text": text, "id": id}),
        retry: matches!(code.as_deref(), Some("E_OVERLOADED" | "E_TIMEOUT")),
    }
}

fn plain_trouble(words: String) -> Trouble {
    Trouble { members: json!({"text": words}), words, retry: false }
}

/// The argument that a person wants to see.
fn detail(args: &serde_json::Map<String, Value>) -> Option<String> {
    args.values().find_map(Value::as_str).map(str::to_owned)
}

/// What a tool says, as lines of text; none for what the line of its call has shown.
fn part(part: OutputPart, shown: Option<&str>) -> Option<String> {
    let mut text = match part {
        OutputPart::ToolHeader { detail, .. } => detail.filter(|detail| shown != Some(detail))?,
        OutputPart::Text { text } | OutputPart::ShellOutput { stream: ShellStream::Stdout, text } => text,
        OutputPart::ShellOutput { stream: ShellStream::Stderr, text } => format!("! {text}"),
        OutputPart::FileHeader { count, targets, .. } => format!("{count}: {}", targets.join(", ")),
        OutputPart::ScopeHeader { scope, patterns, matches, .. } => {
            format!("{scope}: {} ({matches} found)", patterns.join(", "))
        }
        OutputPart::EditHeader { path, added, removed, .. } => format!("{path} +{added} -{removed}"),
        OutputPart::Diff { marker, line_number, text } => {
            let mark = match marker {
                Marker::Add => '+',
                Marker::Remove => '-',
                Marker::Context => ' ',
            };
            format!("{mark} {line_number} {text}")
        }
        OutputPart::NoOutput => "(no output)".to_owned(),
        OutputPart::Truncated { count, unit } => {
            let unit = unit.unwrap_or_default();
            let count = count.map(|count| format!("{count} ")).unwrap_or_default();
            format!("… {count}{unit} more").replace("  ", " ")
        }
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Some(text)
}

fn checklist(mut list: ListSnapshot) -> Checklist {
    list.items.sort_by_key(|item| item.order);
    let items = list.items.into_iter().map(|item| ChecklistItem {
        id: item.id,
        label: item.label,
        state: match item.status {
            ItemStatus::Pending => ChecklistState::Pending,
            ItemStatus::InProgress => ChecklistState::Active,
            ItemStatus::Done => ChecklistState::Done,
            ItemStatus::Failed => ChecklistState::Failed,
        },
    });
    Checklist { group: list.group_id, title: list.group_title, items: items.collect() }
}
