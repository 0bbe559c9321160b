//! The contract between a protocol and the rest of the server.
//!
//! A connection is fed exactly one [`Input`] at a time; afterwards [`Connection::poll_output`] is
//! called until it answers [`Output::Idle`], which also says when to wake it. Nothing else drives
//! it: no clock, no task, no socket.

use std::fmt::Debug;

use bytes::Bytes;
use serde_json::Value;

use crate::chronicle::{Found, Lookup};
use crate::id::{Callsign, SessionId, TurnId};
use crate::model::{Committed, Op};
use crate::pii::Pii;
use crate::position::Position;
use crate::principal::Principal;
use crate::projection::TurnRow;
use crate::reject::Reject;
use crate::roll::{Enrolled, Enrolment, Signal};
use crate::session::{AttachmentView, SessionView};
use crate::time::Timestamp;
use crate::voice::{VoiceEvent, VoiceOp};

/// One live transport attachment, speaking one protocol, without I/O.
pub trait Connection: Debug + Send {
    /// Feeds exactly one input; `now` is the only clock a connection ever sees.
    ///
    /// # Errors
    /// A violation means that the peer broke the protocol beyond repair: what is still to be sent
    /// is drained, then the transport is closed with its reason.
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation>;

    /// The next thing to do. Drain until [`Output::Idle`] after every input, before the next one.
    fn poll_output(&mut self) -> Output;

    /// Whether the connection wants to be fed further events now. While it does not, the driver
    /// leaves its positions where they are and reads the events later.
    fn wants_events(&self) -> bool {
        true
    }

    /// The largest message that the connection takes now, in bytes, where that is less than
    /// [`Protocol::max_message`](crate::Protocol::max_message). A larger one is given up while it is being read, before
    /// it takes memory: the connection is told [`CloseReason::TooBig`].
    fn max_message(&self) -> usize {
        usize::MAX
    }

    /// Whether the connection can take another frame now. While it cannot, because what came before has to be
    /// decided first, the driver leaves the transport unread, and the peer waits.
    fn wants_frames(&self) -> bool {
        true
    }
}

/// What can happen to a connection.
#[derive(Debug)]
pub enum Input<'a> {
    /// One whole transport message arrived.
    Frame(Frame),
    /// The next event of an attached session, in order, without gaps.
    Committed(&'a SessionId, &'a Committed),
    /// Something that this connection asked for was done. Comes before the events that it led to.
    Done(RequestId, Reply),
    /// Something that this connection asked for was refused.
    Rejected(RequestId, Reject),
    /// Something for an enrolled connection that is no event of a session.
    Signal(Signal),
    /// Something of its voice: what was heard, or what is to be sent.
    Voice(VoiceEvent),
    /// The wake time it asked for has come.
    Timeout,
    /// How many bytes wait in front of the transport; 0 when it has taken everything.
    Backlog(usize),
    /// The server is leaving: finish what runs, start nothing new, come back after this delay.
    Drain {
        /// Advice for the peer, in milliseconds; spread over time by the server.
        retry_ms: u64,
    },
    /// The transport is gone, or has to go: say what is left to say, and end with
    /// [`Output::Close`].
    Closed(CloseReason),
}

/// What a connection wants done.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// Send one transport message.
    Send(Frame),
    /// Ask something of a session.
    Submit(RequestId, SessionId, Op),
    /// Ask a session something once the connection has ended and the peer has all that was sent, or is gone;
    /// nobody waits for the answer.
    SubmitLast(SessionId, Op),
    /// Follow a session: everything after the position, or only what is still to come.
    Attach(RequestId, SessionId, Option<Position>),
    /// Stop following a session.
    Detach(SessionId),
    /// Look up a turn, whether it runs or is long over; answered with [`Reply::Found`].
    Find(RequestId, SessionId, TurnId),
    /// Look something up in the tables of a chronicle; answered with [`Reply::Rows`].
    Look(RequestId, Box<Lookup>),
    /// Turn speech into words; answered with [`Reply::Heard`].
    Hear(RequestId, Box<Utterance>),
    /// Listen to somebody, or speak; answered with any number of [`Input::Voice`].
    Voice(VoiceOp),
    /// Have something done outside of every session, in the words of the protocol's own service;
    /// answered with [`Reply::Errand`].
    Errand(RequestId, Pii<Value>),
    /// Be reachable under a name from now on; answered with [`Reply::Enrolled`].
    Enrol(RequestId, Enrolment),
    /// List who is enrolled; answered with [`Reply::Roll`].
    Roll(RequestId),
    /// Pass a word to an enrolled connection of the same protocol; answered with [`Reply::Noted`].
    Note(RequestId, Callsign, Value),
    /// Stop the whole server, for a principal that may.
    Stop,
    /// Check a renewed credential; answered with [`Reply::Authenticated`].
    Authenticate(RequestId, Pii<String>),
    /// Close the transport with this code, once everything sent before is out, and forget the
    /// connection.
    Close(Close),
    /// Nothing more for now; call back with [`Input::Timeout`] at `wake`.
    Idle {
        /// When to wake the connection if nothing else happens.
        wake: Option<Timestamp>,
    },
}

/// Somebody's speech, until its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utterance {
    /// The media type of the audio, or its name in the protocol.
    pub format: String,
    /// The audio.
    pub audio: Pii<Bytes>,
    /// The language that is expected, as a BCP-47 tag.
    pub language: Option<String>,
}

/// What was understood of an utterance.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// The words; none if nothing was said.
    pub text: Pii<String>,
    /// How sure the recogniser is, from 0 to 1.
    pub confidence: Option<f64>,
    /// The language, as a BCP-47 tag.
    pub language: Option<String>,
}

/// One whole transport message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Bytes),
    /// A transport-level ping.
    Ping(Bytes),
    /// The answer to a ping.
    Pong(Bytes),
    /// One packet of the audio track beside the messages, on transports that have one.
    Media(Bytes),
    /// How the answer to an HTTP request begins; sent once, before its body. Of no meaning on a
    /// WebSocket.
    Head(Box<Head>),
}

impl Frame {
    /// How many bytes it carries; the head of an HTTP answer is not counted.
    pub const fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) | Self::Ping(bytes) | Self::Pong(bytes) | Self::Media(bytes) => bytes.len(),
            Self::Head(_) => 0,
        }
    }
}

/// The head of an HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The headers, by their lower-case names.
    pub headers: Vec<(&'static str, String)>,
}

/// Numbers the requests of one connection, so that answers find their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// It is committed.
    Applied {
        /// The head of the session afterwards.
        head: Position,
    },
    /// The turn is accepted.
    Turn {
        /// The session it runs in; another one than asked when an idempotency key was repeated.
        session: SessionId,
        /// The turn.
        turn: TurnId,
        /// The event that accepted it.
        accepted: Position,
        /// The key was used before: this is that turn, already running or over.
        replayed: bool,
    },
    /// The turn is the worker's.
    Claimed {
        /// To be shown with every further op of the turn.
        fence: u32,
    },
    /// The attachment is open, with what belongs to it.
    Attachment(Box<AttachmentView>),
    /// The connection follows the session.
    Attached(Box<SessionView>),
    /// What is known of a turn; none if there is none that the principal may know of.
    Found(Option<Box<TurnRow>>),
    /// The rows that were looked up.
    Rows(Vec<Found>),
    /// What was said.
    Heard(Heard),
    /// What came of an errand.
    Errand(Box<Errand>),
    /// The connection is reachable under the name it asked for.
    Enrolled,
    /// Whoever is enrolled, as far as the principal may know, in order of enrolment.
    Roll(Vec<Enrolled>),
    /// The word was passed on.
    Noted,
    /// The renewed credential is good.
    Authenticated(Principal),
}

/// What came of an errand.
#[derive(Clone, Debug, PartialEq)]
pub struct Errand {
    /// The answer, in the words of the protocol's own service.
    pub answer: Pii<Value>,
    /// Who the connection speaks for from now on, if the errand was to find that out.
    pub principal: Option<Principal>,
}

/// Why a transport ends. Each protocol has one table from these to its own codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer ended it in an orderly way, with this code if it gave one.
    PeerClosed(Option<u16>),
    /// The transport broke.
    TransportLost,
    /// The server is leaving; come back.
    Restart,
    /// The credential was revoked.
    Unauthorized,
    /// The peer was too slow to be served; come back and resume.
    TooSlow,
    /// A message was larger than the transport takes.
    TooBig,
    /// A text message was no text.
    NotText,
    /// The agent wants nothing more of the peer.
    Dismissed,
    /// Something broke on our side.
    Internal,
}

impl CloseReason {
    /// How WebSockets say it, for protocols that have no codes of their own for this.
    pub const fn close(self) -> Close {
        match self {
            Self::PeerClosed(_) | Self::TransportLost | Self::Dismissed => Close { code: 1000, reason: "" },
            Self::Restart => Close { code: 1001, reason: "server is leaving" },
            Self::Unauthorized => Close { code: 1008, reason: "unauthorized" },
            Self::NotText => Close { code: 1007, reason: "not UTF-8" },
            Self::TooBig => Close { code: 1009, reason: "message too big" },
            Self::TooSlow => Close { code: 1013, reason: "too slow" },
            Self::Internal => Close { code: 1011, reason: "internal error" },
        }
    }
}

/// How a transport is closed, in the protocol's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The close code.
    pub code: u16,
    /// A short reason, without content.
    pub reason: &'static str,
}

/// The peer broke the protocol beyond repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("closing with {}: {}", .0.code, .0.reason)]
pub struct Violation(pub Close);
