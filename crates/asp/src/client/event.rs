//! What goes into an [`AspClient`](super::AspClient) and what comes out.

use bytes::Bytes;

use crate::error::{Close, Code, FrameError};
use crate::message::{End, ErrorBody, Features, Finish, Record};

/// What the transport reports. Reports of a transport that was closed by [`Output::Close`] must not be given.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// 101 with `asp-v1` selected.
    Opened,
    /// The upgrade was refused.
    Refused(Refused),
    /// The upgrade failed in the network: no address, no route, no TLS, no answer.
    Unreachable,
    /// A binary message.
    Binary(Bytes),
    /// A text message.
    Text,
    /// A WebSocket ping or pong: a sign of life.
    Alive,
    /// The transport is gone, with the code of its close frame if there was one.
    Closed(Option<u16>),
    /// The wake time has come.
    Timeout,
}

/// An HTTP answer to the upgrade other than 101.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// HTTP status.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after_ms: Option<u64>,
    /// The body, if it could be read.
    pub error: Option<ErrorBody>,
}

impl Refused {
    /// Whether the same upgrade may succeed later: 408, 429 and every 5xx.
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 408 | 429 | 500..=599)
    }

    fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after_ms.or_else(|| self.error.as_ref().and_then(|error| error.retry_ms))
    }
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Open a transport: the upgrade of §2.1 with a credential.
    Connect,
    /// Send one binary message.
    Send(Bytes),
    /// Send a WebSocket ping.
    Ping,
    /// Close the transport and forget it; an upgrade under way is given up.
    Close(Close),
    /// Tell the user.
    Event(Event),
    /// Nothing more to do until the next input, at the latest at this time.
    Idle {
        /// When to give [`Input::Timeout`].
        wake: Option<u64>,
    },
}

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
        retry_ms: u64,
    },
    /// An error that concerns the connection.
    Error(ErrorBody),
    /// Not connected any more; the client will try again.
    Disconnected {
        /// Why.
        cause: Cause,
        /// When it will.
        retry_at: u64,
    },
    /// Not connected any more, and it stays so until the user connects again.
    Off {
        /// Why.
        cause: Cause,
    },
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

/// Why the connection is gone.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The upgrade was refused.
    Refused(Refused),
    /// The upgrade failed in the network.
    Unreachable,
    /// The transport was closed or lost; 1006 without a close frame.
    Closed(u16),
    /// Nothing came for too long.
    Silent,
    /// The server said that it leaves, and this client went first.
    Moved,
    /// The server sent what cannot be understood.
    Violation(Violation),
    /// The user left.
    Left,
}

impl Cause {
    /// Whether to come back.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused(refused) => refused.is_temporary(),
            Self::Unreachable | Self::Silent | Self::Moved => true,
            Self::Closed(code) => Close::from_number(*code).is_some_and(Close::resumable),
            Self::Violation(_) | Self::Left => false,
        }
    }

    /// When the server wants to be asked again.
    pub(super) fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Refused(refused) => refused.retry_after_ms(),
            Self::Unreachable
            | Self::Closed(_)
            | Self::Silent
            | Self::Moved
            | Self::Violation(_)
            | Self::Left => None,
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
