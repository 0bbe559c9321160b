//! A conversation over the Agent Socket Protocol.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use switchboard_client::asp::{
    self, Client, ConnectionEvent, ErrorBody, Events, Invoke, Request, RequestError, RequestEvent,
    ToolActivity, Usage, Value,
};
use switchboard_core::model::Checklist;

use super::said::{
    Answer, Ask, Counts, End, Finish, Link, Peer, Phase, Progress, Said, State, Tool, Trouble,
};
use super::{cause_words, random};
use crate::failure::Failure;

/// A server that speaks ASP.
pub(super) struct AspPeer {
    client: Client,
    events: Events,
    session: String,
    timeout: Option<u32>,
}

impl AspPeer {
    pub(super) fn new(client: Client, session: String, timeout: Option<u32>) -> Self {
        let events = client.events();
        Self { client, events, session, timeout }
    }

    /// A request; its key makes it harmless to send it twice.
    fn request(&self, text: String) -> Result<Invoke, Failure> {
        let invoke = Invoke::chat(text).session(&self.session).idem(random(16)?).want(WANTED.iter().copied());
        Ok(match self.timeout {
            Some(seconds) => invoke.deadline_ms(seconds.saturating_mul(1_000)),
            None => invoke,
        })
    }
}

#[async_trait::async_trait]
impl Peer for AspPeer {
    async fn say(&mut self, text: String) -> Result<Box<dyn Answer>, Failure> {
        let invoke = self.request(text)?;
        let request = self.client.invoke(invoke).await.map_err(|error| {
            Failure::unreachable(format!("this cannot be said: {error}; start `switchboard chat` again"))
        })?;
        Ok(Box::new(AspAnswer { client: self.client.clone(), request }))
    }

    async fn event(&mut self) -> Option<Link> {
        loop {
            if let Some(link) = link(self.events.next().await?) {
                return Some(link);
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.client.snapshot().connected
    }

    /// The server is given a moment to say by itself that it takes too long.
    fn patience(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(u64::from(seconds)) + GRACE)
    }

    async fn leave(&self) {
        self.client.close().await;
    }
}

struct AspAnswer {
    client: Client,
    request: Request,
}

#[async_trait::async_trait]
impl Answer for AspAnswer {
    async fn next(&mut self) -> Option<Said> {
        Some(match self.request.next().await? {
            Ok(event) => said(event),
            Err(error) => Said::Failed(request_trouble(&error)),
        })
    }

    fn stop(&self) {
        self.request.interrupt();
    }

    fn reply(&self, ask: Ask, text: String) -> BoxFuture<'static, Result<(), String>> {
        let client = self.client.clone();
        Box::pin(async move {
            let answer = answer(&ask, text);
            client.answer(ask.id, answer).await.map_err(|error| error.to_string())
        })
    }
}

/// An answer in the form that was asked for.
fn answer(ask: &Ask, text: String) -> asp::Answer {
    let data =
        serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|data| Value::try_from(data).ok());
    match data {
        Some(data) if ask.schema.is_some() => asp::Answer::Data(data),
        Some(_) | None => asp::Answer::Text(text),
    }
}

fn said(event: RequestEvent) -> Said {
    match event {
        RequestEvent::Start { run, model } => Said::Start { run, model },
        RequestEvent::Status(status) => Said::Progress(Progress {
            state: match status.state {
                asp::State::Queued => State::Queued,
                asp::State::Starting => State::Starting,
                asp::State::Running => State::Running,
                asp::State::Waiting => State::Waiting,
                asp::State::Retrying => State::Retrying,
            },
            position: status.pos,
            text: status.msg,
        }),
        RequestEvent::Text(text) => Said::Text(text),
        RequestEvent::Reason(text) => Said::Reasoning(text),
        RequestEvent::Tool(tool) => Said::Tool(tool_said(tool)),
        RequestEvent::Call(call) => Said::Call {
            call: call.call_id,
            name: call.name,
            args: serde_json::Value::Object(call.args.into_serde()),
        },
        RequestEvent::Ask(ask) => Said::Ask(Ask {
            id: ask.ask_id,
            text: ask.text,
            schema: ask.schema.map(|schema| serde_json::Value::Object(schema.into_serde())),
        }),
        RequestEvent::Data { mime, value } => {
            let value = serde_json::Value::from(value);
            match serde_json::from_value::<Checklist>(value.clone()) {
                Ok(list) if mime.as_deref() == Some(super::CHECKLIST) => Said::Checklist(list),
                Ok(_) | Err(_) => Said::Data { mime, value },
            }
        }
        RequestEvent::Usage(usage) => Said::Usage(counts(usage)),
        RequestEvent::Notice(notice) => Said::Notice { level: notice.level.name(), text: notice.text },
        RequestEvent::Restarted => Said::Restarted,
        RequestEvent::End(end) => Said::End(End {
            finish: match end.finish {
                asp::Finish::Complete => Finish::Complete,
                asp::Finish::Interrupted => Finish::Interrupted,
                asp::Finish::Length => Finish::Length,
                asp::Finish::Filtered => Finish::Filtered,
                asp::Finish::Empty => Finish::Empty,
                asp::Finish::Accepted => Finish::Accepted,
            },
            output: end.output.map(serde_json::Value::from),
            usage: end.usage.map(counts),
            wall_ms: end.metrics.and_then(|metrics| metrics.wall_ms),
            first_ms: end.metrics.and_then(|metrics| metrics.first_ms),
        }),
    }
}

fn tool_said(tool: ToolActivity) -> Tool {
    let output = tool.output.map(serde_json::Value::from);
    let phase = match tool.phase {
        asp::Phase::Start => Phase::Start { args: tool.args.map(serde_json::Value::from), detail: None },
        asp::Phase::Delta => Phase::Delta(tool.d.unwrap_or_default()),
        asp::Phase::Done => Phase::Done(output),
        asp::Phase::Error => Phase::Error { output, code: None },
    };
    Tool { call: tool.call_id, name: tool.name, phase }
}

fn counts(usage: Usage) -> Counts {
    usage.0.into_iter().collect()
}

fn link(event: ConnectionEvent) -> Option<Link> {
    Some(match event {
        ConnectionEvent::Connected { cid, .. } => Link::Connected { connection: cid },
        ConnectionEvent::Resumed { lost } => Link::Resumed { lost: lost.len() },
        ConnectionEvent::Disconnected { cause, retry_in } => {
            Link::Lost { why: cause_words(&cause), retry_in }
        }
        ConnectionEvent::GoAway { reason, retry_in } => Link::Leaving { reason, retry_in },
        ConnectionEvent::AuthExpiring => Link::Expiring,
        ConnectionEvent::Push(event) => Link::Said(said(event)),
        ConnectionEvent::Error(error) => Link::Trouble(trouble(&error)),
        ConnectionEvent::Closed { cause } => Link::Over { why: cause_words(&cause) },
        ConnectionEvent::ToolsChanged => return None,
    })
}

fn request_trouble(error: &RequestError) -> Trouble {
    match error {
        RequestError::Server(body) => Trouble { words: error.to_string(), ..trouble(body) },
        RequestError::Lost(_) | RequestError::SlowConsumer | RequestError::Closed => {
            let words = error.to_string();
            Trouble { members: json!({"text": words}), words, retry: false }
        }
    }
}

fn trouble(error: &ErrorBody) -> Trouble {
    Trouble {
        words: format!("{} ({})", error.msg, error.name),
        members: json!({"code": error.code, "name": error.name, "text": error.msg, "retry": error.retry}),
        retry: error.retry,
    }
}

const WANTED: &[&str] = &["text", "reason", "tool", "data", "usage"];
const GRACE: Duration = Duration::from_secs(2);
