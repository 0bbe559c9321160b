//! What a peer was sent, read ahead and kept in order until somebody wants it.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::check::{Outcome, Stop};
use crate::probe::{Over, PATIENCE, Received, Socket};

/// A peer that reads one message after another.
pub(super) trait Inbox {
    /// What it reads.
    type Message;

    /// What was read and not wanted yet.
    fn inbox(&mut self) -> &mut VecDeque<Self::Message>;

    /// The next message of the server before then.
    async fn read(&mut self, end: Instant) -> Outcome<Result<Self::Message, Over>>;

    /// The next message that matches; others are kept in order.
    async fn wait(&mut self, what: &str, matches: impl Fn(&Self::Message) -> bool) -> Outcome<Self::Message> {
        let inbox = self.inbox();
        if let Some(found) = inbox.iter().position(&matches).and_then(|index| inbox.remove(index)) {
            return Ok(found);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match self.read(end).await? {
                Ok(message) if matches(&message) => return Ok(message),
                Ok(message) => self.inbox().push_back(message),
                Err(over) => return Err(Stop::fault(format!("expected {what}: {over}"))),
            }
        }
    }

    /// What came so far or comes within this time.
    async fn listen(&mut self, ms: u64) -> Outcome<Vec<Self::Message>> {
        let end = Instant::now() + Duration::from_millis(ms);
        let mut messages: Vec<Self::Message> = self.inbox().drain(..).collect();
        while let Ok(message) = self.read(end).await? {
            messages.push(message);
        }
        Ok(messages)
    }
}

/// The next message before then, of a server that speaks JSON and nothing else.
pub(super) async fn read_json(socket: &mut Socket, end: Instant) -> Outcome<Result<Value, Over>> {
    loop {
        match socket.next_until(end).await {
            Ok(Received::Text(text)) => {
                let message = serde_json::from_str(&text)
                    .map_err(|error| Stop::fault(format!("a message that is no JSON: {error}")))?;
                return Ok(Ok(message));
            }
            Ok(Received::Binary(_)) => return Err(Stop::fault("a binary message from the server")),
            Ok(Received::Ping | Received::Pong) => {}
            Err(over) => return Ok(Err(over)),
        }
    }
}
