//! What goes into an [`AcolyteClient`](super::AcolyteClient) and what comes out.

use serde_json::{Map, Value};
use switchboard_core::client::{self, Down};

use crate::error::ErrorBody;
use crate::ledger::Task;
use crate::message::{Capabilities, Reply, RpcId, StreamEvent, TaskId};

/// A chat of this client, across all the connections it lives through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChatId(pub u64);

/// What the user is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Connected, and agreed upon what to speak.
    Up {
        /// What the server says of itself.
        status: Map<String, Value>,
        /// What both understand.
        agreed: Capabilities,
        /// Chats of an earlier connection that are taken up again; [`Event::Resumed`] follows if
        /// there are any.
        resuming: usize,
    },
    /// Every chat of the earlier connection goes on, or has got its end.
    Resumed {
        /// How many the server did not have any more.
        lost: usize,
    },
    /// Something happened in a chat.
    Chat(ChatId, ChatEvent),
    /// A chat is over; exactly one for each.
    Ended(ChatId, Ending),
    /// A chat could not be stopped now; it goes on.
    NotAborted(ChatId, String),
    /// The answer to a question.
    Answer(RpcId, Result<Answer, CallError>),
    /// Not connected any more. Chats that can be resumed wait for the next connection.
    Down(Down<Fault>),
}

/// What happens in a chat.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatEvent {
    /// It has a task.
    Accepted(TaskId),
    /// It waits, behind so many less one.
    Queued(u64),
    /// It is being worked on.
    Started,
    /// An event of its stream, never `tasklist` (which is told as `checklist`), and with the output of
    /// the reply among its text where that was not streamed.
    Stream(StreamEvent<'static>),
}

/// How a chat ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// With an answer.
    Done(Box<Reply>),
    /// Badly: there is an error and perhaps, besides, a part of an answer.
    Failed {
        /// What went wrong.
        error: ErrorBody,
        /// What there is of an answer; it was told already.
        reply: Option<Box<Reply>>,
    },
    /// The user stopped it.
    Aborted,
    /// The server did not take it.
    Refused(String),
    /// Nobody knows how it went on.
    Lost {
        /// Why.
        loss: Loss,
        /// Its task, to ask for.
        task: Option<TaskId>,
    },
}

/// Why a chat is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The connection was lost before the end, and chats cannot be resumed.
    #[error("the connection was lost before the answer was complete")]
    Disconnected,
    /// The server does not have it any more.
    #[error("the server does not have this chat any more")]
    Gone,
    /// The connection ended for good.
    #[error("the connection ended for good")]
    Closed,
    /// The user left.
    #[error("this client left")]
    Left,
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `status.get`.
    Status(Map<String, Value>),
    /// To `task.status`; none if there is no such task.
    Task(Option<Task>),
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server says so.
    #[error("{0}")]
    Refused(String),
    /// The answer cannot be used.
    #[error("the server's answer cannot be used")]
    Unusable,
    /// None came in time.
    #[error("no answer in time")]
    Timeout,
    /// The connection was lost before it came.
    #[error("the connection was lost before the answer came")]
    Disconnected,
}

/// What ends a connection of Acolyte, beyond what every protocol knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The server speaks another version.
    #[error("the server speaks version {theirs} of the protocol, this client version {ours}")]
    Version {
        /// What the server speaks.
        theirs: String,
        /// What this client speaks.
        ours: &'static str,
    },
    /// The server did not take the offer.
    #[error("the server does not talk to this client: {0}")]
    Refused(String),
}

impl client::Fault for Fault {
    const PROTOCOL: &'static str = "Acolyte";
    const WORDS_AT: &'static str = "/errorMessage";
    const CODE_AT: &'static str = "/errorCode";

    fn is_temporary(&self) -> bool {
        false
    }

    fn advice(&self) -> &'static str {
        "use a client and a server that speak the same version"
    }
}

/// Why a command was not carried out; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Not connected.
    #[error("not connected")]
    NotConnected,
    /// Too many chats are open.
    #[error("{limit} chats are open already")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// A request that every server would refuse.
    #[error(
        "the request does not fit the protocol: a text is too long, the history has too many entries, \
         or an id is not of lower-case letters and digits"
    )]
    Unfit,
    /// The server does not know how to follow tasks.
    #[error("the server cannot attach this client to a task")]
    NoAttach,
}
