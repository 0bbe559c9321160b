//! What goes into an [`AliciaClient`](super::AliciaClient) and what comes out.

use crate::message::{
    AudioChunk, Commentary, ConversationUpdate, EliteOptions, ErrorMessage, FeedbackConfirmation,
    MemoryTrace, ReasoningStep, ServerInfo, SessionStats, SyncResponse, ToolUseRequest, ToolUseResult,
    Transcription, UserMessage,
};
use crate::{Id, Map};
use switchboard_core::Pii;
use switchboard_core::client::{self, Down};

/// A conversation of this client, across all the connections it lives through. It has one before its id
/// is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationKey(pub u64);

/// Something that was asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey(pub u64);

/// What the user is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Connected. Conversations are joined again, one [`ConversationEvent::Joined`] for each.
    Up,
    /// Not connected.
    Down(Down<Fault>),
    /// Something happened in a conversation.
    Conversation(ConversationKey, ConversationEvent),
    /// What became of a request; exactly one for each.
    Settled(RequestKey, Result<Outcome, RequestError>),
}

/// What happens in a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum ConversationEvent {
    /// It is followed; after every connection anew.
    Joined(Joined),
    /// What happened meanwhile is not to be had on the socket: load the messages over HTTP.
    Reload,
    /// It is followed no longer; nothing comes after this.
    Closed(Ended),
    /// A message of the user that this client did not send: of another device, or an edited one.
    Question(UserMessage),
    /// What is understood of an utterance; once final, it is a message of the user.
    Heard(Transcription),
    /// An answer begins.
    Started {
        /// The answer.
        answer: Id,
        /// The message that it answers or continues; none if its beginning was missed.
        question: Option<Id>,
    },
    /// An answer goes on.
    Piece {
        /// The answer.
        answer: Id,
        /// What is to be appended, with the space that belongs before it.
        text: Pii<String>,
    },
    /// The connection was lost in the midst of an answer, which may yet go on.
    Interrupted {
        /// The answer.
        answer: Id,
    },
    /// An answer is complete, or replaced.
    Answered(Answer),
    /// A turn failed: `originating_id` names the question, or the answer as far as there is one.
    Failed(ErrorMessage),
    /// A thought.
    Reasoning(ReasoningStep),
    /// A memory was used.
    Remembered(MemoryTrace),
    /// A tool is used, whoever runs it.
    ToolUsed(ToolUseRequest),
    /// A tool of this client is to be run, once: [`tool_done`](super::AliciaClient::tool_done) takes its
    /// outcome.
    RunTool(ToolRun),
    /// The outcome of this tool is not wanted any more.
    StopTool(Id),
    /// What a tool gave that this client did not run.
    ToolResult(ToolUseResult),
    /// A remark beside the turns.
    Remarked(Commentary),
    /// Speech, or what describes it.
    Audio(AudioChunk),
    /// Connection, model and servers of tools.
    ServerInfo(ServerInfo),
    /// Totals of the conversation.
    Stats(SessionStats),
    /// Title or status.
    Updated(ConversationUpdate),
    /// The elites on offer.
    Elites(EliteOptions),
    /// A complaint of the server that belongs to no request.
    Error(ErrorMessage),
}

/// A conversation is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// Its id.
    pub id: Id,
    /// Whether it is followed again, rather than for the first time.
    pub again: bool,
    /// The newest stanza of the server's log.
    pub head: i32,
    /// What the server will do.
    pub features: Vec<String>,
}

/// An answer that is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its id.
    pub id: Id,
    /// The message that it answers or continues.
    pub question: Option<Id>,
    /// Its text.
    pub text: Pii<String>,
    /// Whether it takes the place of what was told of the same id before.
    pub replaces: bool,
    /// Whether the text is all there is of it; if not, a replacement is asked for.
    pub whole: bool,
}

/// Why a conversation is followed no longer.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The server refuses to go on.
    Refused(ErrorMessage),
    /// The server does not let this client follow it, in its own word.
    NotFollowed(String),
    /// The connection has ended for good.
    Off,
    /// The user left.
    Left,
}

/// A tool of this client that is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRun {
    /// The request.
    pub id: Id,
    /// The assistant message that needs it.
    pub message: Id,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub parameters: Pii<Map>,
    /// How long it may take, in milliseconds.
    pub budget_ms: u32,
}

/// What became of a request that was honoured.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is accepted and stored.
    Accepted,
    /// The votes now.
    Votes(FeedbackConfirmation),
    /// What became of each message that was written offline.
    Synced(SyncResponse),
}

/// Why a request was not honoured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// The server said why.
    #[error("{}", .0.message.0)]
    Refused(ErrorMessage),
    /// The server did not say why.
    #[error("the server did not accept it")]
    Declined,
    /// The connection was lost, and asking again might do something else.
    #[error("the connection was lost before it was accepted")]
    Disconnected,
    /// The conversation is followed no longer.
    #[error("the conversation is followed no longer")]
    Closed,
}

/// What ends a connection of Alicia, beyond what every protocol knows: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {}

impl client::Fault for Fault {
    const PROTOCOL: &'static str = "Alicia";
    const WORDS_AT: &'static str = "/message";

    fn is_temporary(&self) -> bool {
        match *self {}
    }

    fn advice(&self) -> &'static str {
        match *self {}
    }
}

/// Why a command was not carried out; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The conversation is followed no longer, or never was.
    #[error("the conversation is not followed")]
    NotFollowed,
    /// There is no connection.
    #[error("not connected")]
    NotConnected,
    /// It is followed already.
    #[error("the conversation is followed already")]
    Followed,
    /// Too much waits already.
    #[error("{limit} of this kind at a time")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// Every server would refuse it.
    #[error("{0}")]
    Unfit(String),
}
