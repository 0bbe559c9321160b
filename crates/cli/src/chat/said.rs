//! What can happen in a conversation, whatever protocol brings it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use switchboard_core::model::Checklist;

use crate::failure::Failure;

/// Something that happens to an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// It begins, under a name by which the server knows it.
    Start { run: String, model: Option<String> },
    /// How far it is.
    Progress(Progress),
    /// More of the answer.
    Text(String),
    /// More of the reasoning.
    Reasoning(String),
    /// A tool of the server at work.
    Tool(Tool),
    /// A tool of this client is wanted.
    Call { call: String, name: String, args: Value },
    /// A question.
    Ask(Ask),
    /// A list as it is now.
    Checklist(Checklist),
    /// Structured output.
    Data { mime: Option<String>, value: Value },
    /// Counts; each replaces the one before of that name.
    Usage(Counts),
    /// Something to know.
    Notice { level: &'static str, text: String },
    /// It runs anew: everything so far is void.
    Restarted,
    /// Its end; nothing follows.
    End(End),
    /// Its end as well, but not a regular one.
    Failed(Trouble),
}

/// How far an answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) state: State,
    /// Its place in line.
    pub(super) position: Option<u64>,
    pub(super) text: Option<String>,
}

/// Where an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Starting,
    Running,
    Waiting,
    Retrying,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
        }
    }
}

/// A tool at work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tool {
    pub(super) call: String,
    pub(super) name: String,
    pub(super) phase: Phase,
}

/// What a tool does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// It begins. Where it is known what a person wants to see of the arguments, that is `detail`.
    Start { args: Option<Value>, detail: Option<String> },
    /// It says something.
    Delta(String),
    /// It is done; not every protocol says with what.
    Done(Option<Value>),
    /// It has failed.
    Error { output: Option<Value>, code: Option<String> },
}

impl Phase {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Delta(_) => "delta",
            Self::Done(_) => "done",
            Self::Error { .. } => "error",
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub(super) id: String,
    pub(super) text: String,
    /// What the answer must look like.
    pub(super) schema: Option<Value>,
}

/// Counts by name, in the order in which they are shown.
pub(super) type Counts = Vec<(String, u64)>;

/// The regular end of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub(super) finish: Finish,
    pub(super) output: Option<Value>,
    pub(super) usage: Option<Counts>,
    pub(super) wall_ms: Option<u64>,
    pub(super) first_ms: Option<u64>,
}

impl End {
    /// Nothing but how.
    pub(super) const fn new(finish: Finish) -> Self {
        Self { finish, output: None, usage: None, wall_ms: None, first_ms: None }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Complete,
    Interrupted,
    Length,
    Filtered,
    Empty,
    /// There is nothing to answer.
    Accepted,
}

impl Finish {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Length => "length",
            Self::Filtered => "filtered",
            Self::Empty => "empty",
            Self::Accepted => "accepted",
        }
    }
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trouble {
    /// For people.
    pub(super) words: String,
    /// For programs; members that are null are left out.
    pub(super) members: Value,
    /// Whether the same may work later.
    pub(super) retry: bool,
}

/// Something that happens to the connection.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Link {
    /// There is one.
    Connected { connection: Option<String> },
    /// It is back; all but so many answers go on.
    Resumed { lost: usize },
    /// It is lost, and tried again.
    Lost { why: String, retry_in: Duration },
    /// The server leaves.
    Leaving { reason: Option<String>, retry_in: Duration },
    /// The credential runs out.
    Expiring,
    /// Something that belongs to no answer.
    Said(Said),
    /// Something went wrong with it.
    Trouble(Trouble),
    /// It is lost for good.
    Over { why: String },
}

/// Somebody to talk to.
#[async_trait::async_trait]
pub(super) trait Peer: Send {
    /// Says something.
    async fn say(&mut self, text: String) -> Result<Box<dyn Answer>, Failure>;
    /// Carries out a line that begins with `/`.
    async fn command(&mut self, _line: &str) -> Result<Did, Failure> {
        Ok(Did::Nothing)
    }
    /// Says which such lines there are.
    fn commands(&self) -> &'static [&'static str] {
        &[]
    }
    /// What happens to the connection. May be cancelled without loss.
    async fn event(&mut self) -> Option<Link>;
    /// Whether there is a connection.
    fn is_connected(&self) -> bool;
    /// How long an answer may take.
    fn patience(&self) -> Option<Duration>;
    /// Says goodbye.
    async fn leave(&self);
}

/// What came of a command.
pub(super) enum Did {
    /// Nothing: it is none, but something to say.
    Nothing,
    /// Something to know.
    Note(String),
    /// Something to see, line by line.
    Listing(Vec<String>),
    /// An answer.
    Answer(Box<dyn Answer>),
}

/// An answer as it comes. Dropping it stops it.
#[async_trait::async_trait]
pub(super) trait Answer {
    /// What happens next; none after the end. May be cancelled without loss.
    async fn next(&mut self) -> Option<Said>;
    /// Stops it; its end follows.
    fn stop(&self);
    /// Answers a question.
    fn reply(&self, ask: Ask, text: String) -> BoxFuture<'static, Result<(), String>>;
}
