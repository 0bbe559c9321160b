//! A check: something that is tried with a server, and the statements that it shows.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use crate::probe::{Answer, Request, Socket, Streaming, Target, Transcript};

/// Something to try. It runs on connections of its own, beside others unless it has to be alone.
pub(crate) struct Check {
    /// The statements that it shows.
    pub(crate) shows: &'static [u16],
    /// What it cannot do without.
    pub(crate) needs: &'static [Need],
    /// How.
    pub(crate) run: for<'run> fn(&'run Run<'run>) -> LocalBoxFuture<'run, Outcome>,
}

/// The statements that nobody can see from outside, and why.
pub(crate) struct Outside {
    /// Why.
    pub(crate) reason: &'static str,
    /// Which.
    pub(crate) statements: &'static [u16],
}

/// What a check cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A server that asks for a credential, and one that it takes.
    Key,
    /// A server that asks for nothing.
    Open,
    /// A credential of somebody else.
    OtherKey,
    /// An agent that knows this word of the conformance story.
    Says(&'static str),
    /// A planner, or the agent of a voice, that does as it is told.
    Story,
    /// The secret of an issuer of App Tokens.
    Issuer,
    /// Somebody who waits longer than a few seconds.
    Patience,
    /// No other check beside it.
    Alone,
}

impl Need {
    /// The word that the agent has to know.
    pub(crate) const fn word(self) -> Option<&'static str> {
        match self {
            Self::Says(word) => Some(word),
            Self::Key
            | Self::Open
            | Self::OtherKey
            | Self::Story
            | Self::Issuer
            | Self::Patience
            | Self::Alone => None,
        }
    }
}

/// How a check ended: everything that it shows holds, or not.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Why a check did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The server did something else than it should: what was expected, and what came.
    Fault(String),
    /// This server does not have what the check needs.
    Needs(String),
}

impl Stop {
    /// The server did something else.
    pub(crate) fn fault(what: impl Into<String>) -> Self {
        Self::Fault(what.into())
    }

    /// This server does not have it.
    pub(crate) fn needs(what: impl Into<String>) -> Self {
        Self::Needs(what.into())
    }
}

/// Whatever breaks on the way is the fault of the server, as far as anybody can tell from here.
impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Fault(why)
    }
}

/// Ends a check unless something holds: `must!(holds, "what was expected", …)`.
macro_rules! must {
    ($holds:expr, $($expected:tt)+) => {
        if !$holds {
            let expected = format!($($expected)+);
            return Err($crate::conform::check::Stop::fault(format!("expected {expected}")));
        }
    };
}
pub(crate) use must;

/// What people may set, and what was found out about the server.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What is said where any answer will do.
    pub(crate) say: String,
    /// What is said to be answered at length.
    pub(crate) say_long: String,
    /// Whether a planner, or the agent of a voice, does as it is told.
    pub(crate) story: bool,
    /// The words of the conformance story that the agent knows.
    pub(crate) words: BTreeSet<&'static str>,
    /// Whether the server asks for a credential.
    pub(crate) guarded: bool,
    /// Whether there is time for checks that wait.
    pub(crate) patient: bool,
    /// Who vouches for users of VIP.
    pub(crate) issuer: Option<Issuer>,
}

/// An application that vouches for its users.
#[derive(Clone)]
pub(crate) struct Issuer {
    /// As the server knows it.
    pub(crate) name: String,
    /// What it signs with (HS256).
    pub(crate) secret: String,
}

/// Shows no secret.
impl std::fmt::Debug for Issuer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Issuer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// One run of one check.
pub(crate) struct Run<'server> {
    /// The server.
    pub(crate) target: &'server Target,
    /// What was set and found out.
    pub(crate) settings: &'server Settings,
    /// What is sent and what comes back.
    pub(crate) log: Transcript,
    counter: Cell<u32>,
}

impl<'server> Run<'server> {
    /// A run that has not begun.
    pub(crate) fn new(target: &'server Target, settings: &'server Settings) -> Self {
        Self { target, settings, log: target.transcript(), counter: Cell::new(0) }
    }

    /// Sends a request and waits for the whole answer.
    pub(crate) async fn ask(&self, request: Request) -> Outcome<Answer> {
        Ok(self.target.ask(&self.log, &request).await?)
    }

    /// Sends a request whose answer is read as it comes.
    pub(crate) async fn open(&self, request: Request) -> Outcome<Streaming> {
        Ok(self.target.open(&self.log, &request).await?)
    }

    /// Opens a WebSocket.
    pub(crate) async fn socket(&self, request: Request) -> Outcome<Socket> {
        Ok(self.target.socket(&self.log, &request).await?)
    }

    /// The status with which a request is answered.
    pub(crate) async fn status(&self, request: Request) -> Outcome<u16> {
        Ok(self.ask(request).await?.status)
    }

    /// A name that nobody has used: lower-case letters and digits.
    pub(crate) fn fresh(&self) -> Outcome<String> {
        let mut bytes = [0_u8; 8];
        getrandom::fill(&mut bytes).map_err(|error| Stop::needs(format!("random numbers: {error}")))?;
        let count = self.counter.get();
        self.counter.set(count.wrapping_add(1));
        Ok(format!("{:016x}{count:x}", u64::from_be_bytes(bytes)))
    }
}

/// Waits.
pub(crate) async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
