//! A peer of Acolyte over its WebSocket, written from the reference alone.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::check::{Outcome, Run, Stop, must};
use super::super::inbox::{Inbox, read_json};
use super::super::words::{Heard, TIME};
use crate::probe::{Over, PATIENCE, Request, Socket, Target};

/// A connection.
pub(super) struct Rpc<'run> {
    socket: Socket,
    inbox: VecDeque<Value>,
    run: &'run Run<'run>,
}

/// Everything that was said of one chat.
#[derive(Debug)]
pub(super) struct Chat {
    pub(super) messages: Vec<Value>,
}

impl Chat {
    /// The message that ended it.
    pub(super) fn terminal(&self) -> &Value {
        self.messages.last().unwrap_or(&Value::Null)
    }

    /// The reply.
    pub(super) fn reply(&self) -> &Value {
        &self.terminal()["reply"]
    }

    /// The events, in order.
    pub(super) fn events(&self) -> impl Iterator<Item = &Value> {
        self.messages
            .iter()
            .filter(|message| message["type"] == "chat.event")
            .map(|message| &message["event"])
    }

    /// Events of one kind.
    pub(super) fn of(&self, kind: &str) -> Vec<&Value> {
        self.events().filter(|event| event["type"] == kind).collect()
    }

    /// The pieces of text, joined.
    pub(super) fn text(&self) -> String {
        self.events()
            .filter(|event| event["type"] == "text-delta")
            .filter_map(|event| event["text"].as_str())
            .collect()
    }

    /// The task.
    pub(super) fn task(&self) -> &str {
        self.messages.first().and_then(|message| message["taskId"].as_str()).unwrap_or_default()
    }

    /// The types of the messages, in order.
    pub(super) fn kinds(&self) -> Vec<&str> {
        self.messages.iter().filter_map(|message| message["type"].as_str()).collect()
    }
}

/// A chat request.
pub(super) fn request(message: &str) -> Value {
    json!({ "message": message, "history": [], "model": "conform" })
}

/// The same with other members.
pub(super) fn request_with(message: &str, members: &Value) -> Value {
    let mut request = request(message);
    for (name, value) in members.as_object().into_iter().flatten() {
        request[name] = value.clone();
    }
    request
}

/// Whether an identifier is a prefix and lower-case letters and digits.
pub(super) fn is_id(value: &Value, prefix: &str) -> bool {
    let rest =
        value.as_str().and_then(|text| text.strip_prefix(prefix)).and_then(|text| text.strip_prefix('_'));
    rest.is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit())
    })
}

/// That a failure says everything that it has to.
pub(super) fn full_error(failure: &Value) -> Outcome {
    let texts = ["errorMessage", "errorCode"]
        .iter()
        .all(|name| failure[*name].as_str().is_some_and(|text| !text.is_empty()));
    must!(texts, "errorMessage and errorCode, got {failure}");
    must!(is_id(&failure["errorId"], "err"), "an errorId, got {}", failure["errorId"]);
    for name in ["code", "category", "kind", "source"] {
        must!(failure["error"][name].is_string(), "error.{name}, got {}", failure["error"]);
    }
    must!(failure["error"]["code"] == failure["errorCode"], "the same code twice, got {failure}");
    Ok(())
}

impl<'run> Rpc<'run> {
    /// A connection of whoever runs the check.
    pub(super) async fn open(run: &'run Run<'run>) -> Outcome<Self> {
        Self::open_as(run, run.target).await
    }

    /// A connection of somebody else.
    pub(super) async fn open_as(run: &'run Run<'run>, target: &Target) -> Outcome<Self> {
        let socket = target.socket(&run.log, &Request::upgrade(super::PATH, &[])).await?;
        Ok(Self { socket, inbox: VecDeque::new(), run })
    }

    /// An id that was not used.
    pub(super) fn fresh(&self) -> Outcome<String> {
        Ok(format!("rpc_{}", self.run.fresh()?))
    }

    /// Sends whatever it is.
    pub(super) async fn raw(&mut self, text: &str) {
        self.socket.text(text).await;
    }

    /// Sends it as a binary message.
    pub(super) async fn binary(&mut self, text: &str) {
        self.socket.binary(text.as_bytes().to_vec(), &format!("binary: {text}")).await;
    }

    /// Sends a message under a fresh id.
    pub(super) async fn send(&mut self, kind: &str, payload: Value) -> Outcome<String> {
        let id = self.fresh()?;
        self.send_as(&id, kind, payload).await;
        Ok(id)
    }

    /// Sends a message under this id.
    pub(super) async fn send_as(&mut self, id: &str, kind: &str, payload: Value) {
        let message = json!({ "id": id, "type": kind, "payload": payload });
        self.raw(&message.to_string()).await;
    }

    /// Begins a chat.
    pub(super) async fn start(&mut self, message: &str) -> Outcome<String> {
        self.send("chat.start", json!({ "request": request(message) })).await
    }

    /// Begins a chat that is at work and goes on for a while.
    pub(super) async fn running(&mut self) -> Outcome<(String, String)> {
        let id = self.start(&self.run.settings.say_long.clone()).await?;
        let accepted = self.wait("chat.accepted", |message| message["id"] == id.as_str()).await?;
        must!(accepted["type"] == "chat.accepted", "chat.accepted, got {accepted}");
        let task = accepted["taskId"].as_str().unwrap_or_default().to_owned();
        let at_work =
            |message: &Value| message["id"] == id.as_str() && message["event"]["type"] == "text-delta";
        self.wait("output of a chat", at_work).await?;
        Ok((id, task))
    }

    /// The answer to a message.
    pub(super) async fn answer(&mut self, id: &str, kind: &str) -> Outcome<Value> {
        let answer = self.wait(kind, |message| message["id"] == id && !is_of_chat(message)).await?;
        must!(answer["type"] == kind, "{kind} under {id}, got {answer}");
        Ok(answer)
    }

    /// That a message is refused under its id.
    pub(super) async fn refused(&mut self, id: &str) -> Outcome<Value> {
        let answer = self.wait("an error", |message| message["id"] == id).await?;
        must!(answer["type"] == "error" && answer["error"].is_string(), "error under {id}, got {answer}");
        Ok(answer)
    }

    /// What the server says of itself.
    pub(super) async fn status(&mut self) -> Outcome<Value> {
        let id = self.send("status.get", json!({})).await?;
        Ok(self.answer(&id, "status.result").await?["status"].clone())
    }

    /// What is known of a task.
    pub(super) async fn task(&mut self, task: &str) -> Outcome<Value> {
        let id = self.send("task.status", json!({ "taskId": task })).await?;
        let answer = self.answer(&id, "task.status.result").await?;
        must!(answer.get("task").is_some(), "the member task, got {answer}");
        Ok(answer["task"].clone())
    }

    /// That a task gets into this state before long.
    pub(super) async fn task_becomes(&mut self, task: &str, state: &str) -> Outcome {
        let end = Instant::now() + PATIENCE;
        loop {
            let known = self.task(task).await?;
            if known["state"] == state {
                return Ok(());
            }
            must!(Instant::now() < end, "the task to become {state}, got {known}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether a chat was aborted.
    pub(super) async fn abort(&mut self, chat: &str) -> Outcome<bool> {
        let id = self.send("chat.abort", json!({ "requestId": chat })).await?;
        let answer = self.answer(&id, "chat.abort.result").await?;
        must!(answer["requestId"] == chat, "the requestId, got {answer}");
        answer["aborted"].as_bool().ok_or_else(|| Stop::fault(format!("expected aborted, got {answer}")))
    }

    /// Everything of a chat up to its terminal.
    pub(super) async fn finish(&mut self, id: &str) -> Outcome<Chat> {
        let mut messages = Vec::new();
        loop {
            let message = self.wait("the end of a chat", |message| message["id"] == id).await?;
            let over = matches!(message["type"].as_str(), Some("chat.done" | "chat.error" | "error"));
            messages.push(message);
            if over {
                return Ok(Chat { messages });
            }
        }
    }

    /// A whole chat.
    pub(super) async fn chat(&mut self, message: &str) -> Outcome<Chat> {
        let id = self.start(message).await?;
        self.finish(&id).await
    }

    /// What is answered within a while.
    pub(super) async fn hear(&mut self, text: &str) -> Outcome<Heard> {
        let id = self.start(text).await?;
        let end = Instant::now() + TIME;
        let mut heard = Heard::default();
        while heard.end.is_none() {
            match self.read(end).await? {
                Ok(message) if message["id"] == id.as_str() => {
                    if message["event"]["type"] == "text-delta" {
                        heard.text += message["event"]["text"].as_str().unwrap_or_default();
                    }
                    heard.end = match message["type"].as_str() {
                        Some("chat.done") => Some(message["reply"]["error"].is_null()),
                        Some("chat.error" | "error") => Some(false),
                        Some(_) | None => None,
                    };
                }
                Ok(_) => {}
                Err(Over::Late) => break,
                Err(over) => return Err(Stop::fault(over.to_string())),
            }
        }
        if heard.end.is_none() {
            self.abort(&id).await?;
        }
        Ok(heard)
    }

    /// A whole chat with other members in its request.
    pub(super) async fn chat_with(&mut self, message: &str, members: Value) -> Outcome<Chat> {
        let id = self.send("chat.start", json!({ "request": request_with(message, &members) })).await?;
        self.finish(&id).await
    }

    /// That the server closes with this code.
    pub(super) async fn closed(&mut self, code: u16) -> Outcome {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.read(end).await? {
                Ok(_) => {}
                Err(Over::Closed(closed)) if closed == code => return Ok(()),
                Err(over) => return Err(Stop::fault(format!("expected a close with {code}: {over}"))),
            }
        }
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        self.socket.close().await;
    }

    /// Goes away without a word.
    pub(super) fn cut(self) {
        self.socket.cut();
    }
}

impl Inbox for Rpc<'_> {
    type Message = Value;

    fn inbox(&mut self) -> &mut VecDeque<Value> {
        &mut self.inbox
    }

    async fn read(&mut self, end: Instant) -> Outcome<Result<Value, Over>> {
        read_json(&mut self.socket, end).await
    }
}

fn is_of_chat(message: &Value) -> bool {
    let kind = message["type"].as_str().unwrap_or_default();
    kind.starts_with("chat.") && kind != "chat.abort.result"
}
