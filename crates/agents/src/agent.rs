//! The contract of an agent.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use switchboard_core::model::{Failure, FailureKind, Tool, TurnEnd};
use switchboard_core::{AttachmentId, PrincipalId, SessionId, Timestamp};

use crate::turn::Turn;

/// Something that answers turns. Write it once; every protocol can reach it.
#[async_trait]
pub trait Agent: Debug + Send + Sync {
    /// Works on one turn until its end. Dropping the future stops the work; so does an interrupt,
    /// which an agent may also notice by itself through [`Turn::interrupted`].
    ///
    /// # Errors
    /// The turn ends as failed, with what the error says.
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError>;

    /// What it is, in one word.
    fn kind(&self) -> &'static str {
        "custom"
    }

    /// Whether it can be asked now.
    fn condition(&self, _now: Timestamp) -> Condition {
        Condition::Ready
    }

    /// The tools that this agent executes itself, offered to clients of every session it serves.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// What happens to its turns when the process dies under them.
    fn recovery(&self) -> Recovery {
        Recovery::Fail
    }

    /// Whether it makes of the end of a call at once what it is going to make of it, without work that takes long. If
    /// it can also be repeated, its session has it react before the end is committed, and commits both together.
    fn reacts_at_once(&self) -> bool {
        false
    }

    /// Whether it lives outside of this process, which then only relays.
    fn is_remote(&self) -> bool {
        false
    }

    /// A client that it serves has connected.
    fn came(&self, _visit: &Visit, _now: Timestamp) {}

    /// The connection of a client that it serves is gone.
    fn left(&self, _visit: &Visit, _now: Timestamp) {}
}

/// Whether an agent can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It can, as far as is known.
    Ready,
    /// It cannot, and this is why.
    Unavailable(String),
}

/// The connection of a client, as far as its agent may know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The attachment that it is to its sessions.
    pub connection: AttachmentId,
    /// The session in which it first asked.
    pub session: SessionId,
    /// Whose it is.
    pub principal: PrincipalId,
}

#[async_trait]
impl<A: Agent + ?Sized> Agent for Arc<A> {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        (**self).run(turn).await
    }

    fn kind(&self) -> &'static str {
        (**self).kind()
    }

    fn condition(&self, now: Timestamp) -> Condition {
        (**self).condition(now)
    }

    fn tools(&self) -> Vec<Tool> {
        (**self).tools()
    }

    fn recovery(&self) -> Recovery {
        (**self).recovery()
    }

    fn reacts_at_once(&self) -> bool {
        (**self).reacts_at_once()
    }

    fn is_remote(&self) -> bool {
        (**self).is_remote()
    }

    fn came(&self, visit: &Visit, now: Timestamp) {
        (**self).came(visit, now);
    }

    fn left(&self, visit: &Visit, now: Timestamp) {
        (**self).left(visit, now);
    }
}

/// What happens to a turn whose executor is lost after it has produced output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It ends as failed; nothing is done twice.
    Fail,
    /// The agent is deterministic: it runs again from the start, and what it repeats of what was
    /// already committed is skipped, so that the answer goes on where it stopped.
    Replay,
}

/// Why an agent could not finish its turn.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The turn was interrupted, or is over for another reason: stop working.
    #[error("the turn is over")]
    Over,
    /// The agent failed.
    #[error("{}", .0.message)]
    Failed(Failure),
}

impl AgentError {
    /// A failure of some class.
    pub fn failed(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Failed(Failure::new(kind, message))
    }
}
