//! What looks at every message on its way, with three examples to use as they are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use switchboard_core::Pii;

use super::Message;
use crate::message::TaskStatus;

/// One step on the way of a message. It may look, change, or refuse.
pub trait Middleware: fmt::Debug + Send {
    /// Sees a message before it is written.
    ///
    /// # Errors
    /// The message must not be sent.
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        Ok(message)
    }

    /// Sees a message after it was read.
    ///
    /// # Errors
    /// Nobody must see the message.
    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        Ok(message)
    }
}

/// A message that middleware stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {0}")]
pub struct Refused(pub String);

/// Steps in a row.
#[derive(Debug, Default)]
pub struct Pipeline {
    steps: Vec<Box<dyn Middleware>>,
}

impl Pipeline {
    /// Puts a step closer to the transport than all others.
    pub fn add(&mut self, step: impl Middleware + 'static) {
        self.steps.push(Box::new(step));
    }

    /// On the way out the first that was added comes first.
    ///
    /// # Errors
    /// One refused; those behind it have not seen the message.
    pub fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        self.steps.iter_mut().try_fold(message, |message, step| step.outgoing(message))
    }

    /// On the way in the first that was added comes last.
    ///
    /// # Errors
    /// One refused; those behind it have not seen the message.
    pub fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        self.steps.iter_mut().rev().try_fold(message, |message, step| step.incoming(message))
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the transport.
    Outgoing,
    /// From the transport.
    Incoming,
}

/// Tells of every message that passes, never what it says.
pub struct Logging<F> {
    sink: F,
}

impl<F: FnMut(&LogLine<'_>) + Send> Logging<F> {
    /// Tells this.
    pub const fn new(sink: F) -> Self {
        Self { sink }
    }

    fn log(&mut self, direction: Direction, message: &Message) {
        (self.sink)(&LogLine {
            direction,
            kind: message.kind(),
            status: message.status(),
            session_id: message.session_id(),
            id: message.id(),
            bytes: message.encode().len(),
        });
    }
}

impl<F: FnMut(&LogLine<'_>) + Send> Middleware for Logging<F> {
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        self.log(Direction::Outgoing, &message);
        Ok(message)
    }

    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        self.log(Direction::Incoming, &message);
        Ok(message)
    }
}

impl<F> fmt::Debug for Logging<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logging")
    }
}

/// What [`Logging`] tells of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Where it goes.
    pub direction: Direction,
    /// Its type.
    pub kind: &'static str,
    /// Its status.
    pub status: TaskStatus,
    /// Its session.
    pub session_id: Option<&'a str>,
    /// What its sender calls it.
    pub id: Option<&'a str>,
    /// How long it is when written.
    pub bytes: usize,
}

/// Counts messages by direction and type. Clones count together, so that one can be read while the
/// other is at work.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    counts: Arc<Mutex<BTreeMap<(Direction, &'static str), u64>>>,
}

impl Metrics {
    /// How many of this type went this way.
    pub fn count(&self, direction: Direction, kind: &str) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter(|((way, what), _)| *way == direction && *what == kind).map(|(_, n)| n).sum()
    }

    /// How many went this way.
    pub fn total(&self, direction: Direction) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().filter(|((way, _), _)| *way == direction).map(|(_, n)| n).sum()
    }

    fn add(&self, direction: Direction, message: &Message) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((direction, message.kind())).or_default() += 1;
    }
}

impl Middleware for Metrics {
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        self.add(Direction::Outgoing, &message);
        Ok(message)
    }

    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        self.add(Direction::Incoming, &message);
        Ok(message)
    }
}

/// Puts a token into the metadata of what a client sends, and refuses what clients send without it.
/// Messages of a server have no place for one and pass.
#[derive(Clone, Debug)]
pub struct Auth {
    token: Pii<String>,
}

impl Auth {
    /// With this token.
    pub fn new(token: impl Into<String>) -> Self {
        Self { token: Pii(token.into()) }
    }

    /// Takes the same time wherever the difference is.
    fn is_token(&self, shown: &str) -> bool {
        let (token, shown) = (self.token.0.as_bytes(), shown.as_bytes());
        let differing = token.iter().zip(shown).fold(0, |differing, (a, b)| differing | (a ^ b));
        token.len() == shown.len() && differing == 0
    }
}

impl Middleware for Auth {
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        Ok(match message {
            Message::Client(mut message) => {
                let metadata = message.metadata.get_or_insert_with(Map::new);
                metadata.insert(TOKEN.to_owned(), self.token.0.clone().into());
                Message::Client(message)
            }
            Message::Server(message) => Message::Server(message),
        })
    }

    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        match &message {
            Message::Client(_) => match message.metadata(TOKEN).and_then(Value::as_str) {
                Some(shown) if self.is_token(shown) => Ok(message),
                Some(_) => Err(Refused("the token is wrong".to_owned())),
                None => Err(Refused("no token".to_owned())),
            },
            Message::Server(_) => Ok(message),
        }
    }
}

/// The name of the token in the metadata.
const TOKEN: &str = "token";
