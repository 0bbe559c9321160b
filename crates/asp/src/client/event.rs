//! What goes into an [`AspClient`](super::AspClient) and what comes out.

use std::time::Duration;

use switchboard_core::client::{self, Down, LinkChange};

use crate::error::{Close, Code, FrameError};
use crate::message::{End, ErrorBody, Features, Finish, Record};

/// What the user is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Connected, features agreed.
    Accepted {
        /// ConnectionId.
        cid: Option<String>,
        /// What was agreed.
        features: Features,
        /// Whether this is the earlier connection again.
        resumed: bool,
        /// Requests that could not be resumed; each gets its own end, or is invoked again.
        lost: Vec<u16>,
    },
    /// Connected without features, because none were wanted or because no accept came.
    Bare,
    /// Output of a request.
    Record {
        /// The request.
        id: u16,
        /// The record; never `end`, never one of unknown type.
        record: Record,
        /// Credit to return with `consumed` once it is processed, in bytes.
        credit: u32,
    },
    /// The request was invoked again, and is told from the start: output so far is void.
    Restarted {
        /// The request.
        id: u16,
    },
    /// The request is over.
    Ended {
        /// The request.
        id: u16,
        /// How.
        ending: Ending,
    },
    /// Output that belongs to no request.
    Push(Record),
    /// The list of the server's tools is another one.
    ToolsChanged,
    /// The credential runs out soon.
    AuthExpiring(ErrorBody),
    /// A new credential was taken.
    Authenticated {
        /// When it expires, in Unix seconds.
        exp: Option<u64>,
    },
    /// Answer to a ping.
    Pong {
        /// The nonce of the ping.
        nonce: Option<String>,
    },
    /// The server leaves; requests in flight go on, new ones wait for the next connection.
    GoAway {
        /// Why.
        reason: Option<String>,
        /// When the client will come back.
        retry_in: Duration,
    },
    /// An error that concerns the connection.
    Error(ErrorBody),
    /// Not connected any more.
    Down(Down<Fault>),
}

impl Event {
    /// What the event says of the connection.
    pub(super) const fn link(&self) -> Option<LinkChange<'_, Fault>> {
        match self {
            Self::Accepted { .. } | Self::Bare => Some(LinkChange::Up),
            Self::Down(down) => Some(LinkChange::Down(down)),
            Self::Record { .. }
            | Self::Restarted { .. }
            | Self::Ended { .. }
            | Self::Push(_)
            | Self::ToolsChanged
            | Self::AuthExpiring(_)
            | Self::Authenticated { .. }
            | Self::Pong { .. }
            | Self::GoAway { .. }
            | Self::Error(_) => None,
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The server says it did.
    End(End),
    /// The server, or this client, says it failed.
    Error(ErrorBody),
    /// Nobody knows how it went on.
    Lost(Loss),
}

impl Ending {
    /// An end with nothing but its reason.
    pub fn finish(finish: Finish) -> Self {
        Self::End(End::new(finish))
    }

    pub(super) fn error(code: Code, msg: &str) -> Self {
        Self::Error(ErrorBody::new(code, msg))
    }
}

/// Why a request is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The connection was lost and `resume` was not agreed.
    #[error("the connection was lost and cannot be resumed")]
    Disconnected,
    /// The server resumed, but without this request.
    #[error("the server does not have this request any more")]
    Replay,
    /// The server refused to resume.
    #[error("the server refused to resume the connection")]
    Refused,
    /// Coming back took too long.
    #[error("the connection was lost for too long")]
    Expired,
    /// The connection ended for good.
    #[error("the connection ended for good")]
    Closed,
    /// The user left.
    #[error("this client left")]
    Left,
}

/// What ends a connection of ASP, beyond what every protocol knows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The server said that it leaves, and this client went first.
    #[error("the server asked to come back")]
    Moved,
    /// The server sent what cannot be understood.
    #[error("the server broke the protocol: {0}")]
    Violation(Violation),
}

impl client::Fault for Fault {
    const PROTOCOL: &'static str = "ASP";
    const WORDS_AT: &'static str = "/error/msg";
    const CODE_AT: &'static str = "/error/name";

    fn is_temporary_close(code: u16) -> bool {
        Close::from_number(code).is_some_and(Close::resumable)
    }

    fn is_temporary(&self) -> bool {
        *self == Self::Moved
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::Moved => "wait, then try again",
            Self::Violation(_) => "look into the server's log",
        }
    }
}

/// What a server must not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A frame whose layout cannot be trusted.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A text message.
    #[error("text message")]
    Text,
    /// An accept of a version that was not offered.
    #[error("version {0} was not offered")]
    Version(u32),
}

impl Violation {
    pub(super) fn close(self) -> Close {
        match self {
            Self::Frame(error) => error.close(),
            Self::Text => Close::Text,
            Self::Version(_) => Close::Version,
        }
    }
}

/// Why a command was not carried out; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Not connected, and not about to be.
    #[error("not connected")]
    Off,
    /// Too many requests wait already.
    #[error("{limit} requests wait already")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// Every request id is in use.
    #[error("every request id is in use")]
    NoFreeId,
    /// No such call or question is open: answered already, interrupted, or over.
    #[error("this call or question is not open")]
    NotOpen,
    /// The feature that this needs was not agreed.
    #[error("feature {0} was not agreed")]
    NotAgreed(&'static str),
}
