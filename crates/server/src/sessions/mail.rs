//! What a session actor can be sent.

use std::sync::Arc;

use switchboard_core::model::{ActorKind, Tool};
use switchboard_core::{
    Actor, AttachmentId, Op, Position, PrincipalId, Reject, Reply, RequestId, Role, Timestamp, TurnId,
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::port::Port;

/// A letter to a session. Boxed inside, so that an idle mailbox is small.
#[derive(Debug)]
pub(crate) enum Letter {
    /// An op to decide.
    Op(Box<Mail>),
    /// A connection wants to follow.
    Attach(Box<AttachRequest>),
    /// Somebody wants to know the tools.
    Tools(TurnId, oneshot::Sender<Vec<Tool>>),
    /// A function wants to know how its client is.
    Standing(AttachmentId, oneshot::Sender<Standing>),
    /// Somebody wants to know what a principal may do here, after whatever was asked before.
    Role(PrincipalId, oneshot::Sender<Option<Role>>),
    /// The tools of the session's agent may have changed.
    Refresh,
}

/// How an attachment is to a session, and what the session offers.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Whether the attachment waits for its client; none if the session does not know it.
    pub(crate) detached: Option<bool>,
    /// Counts its take-overs.
    pub(crate) generation: Option<u32>,
    /// Its turns that have not ended.
    pub(crate) turns: usize,
    /// The tools of the session.
    pub(crate) tools: Vec<Tool>,
    /// When the session came to be; none if it has not.
    pub(crate) opened_at: Option<Timestamp>,
}

/// An op, who asks, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Mail {
    pub(crate) actor: Actor,
    pub(crate) op: Op,
    pub(crate) reply: ReplyTo,
    /// Room for what the op carries, taken until it is committed.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

impl Mail {
    /// Whether this comes from an executor, whose output must not be lost when the log fails.
    pub(crate) fn is_workers(&self) -> bool {
        matches!(self.actor.kind, ActorKind::Worker(_))
    }
}

/// Where an answer goes.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// Nobody waits.
    Nobody,
    /// A task waits.
    Waiter(oneshot::Sender<Result<Reply, Reject>>),
    /// A connection asked.
    Connection(Arc<Port>, RequestId),
}

impl ReplyTo {
    pub(crate) fn answer(self, answer: Result<Reply, Reject>) {
        match self {
            Self::Nobody => {}
            // A waiter that has gone away needs no answer.
            Self::Waiter(waiter) => drop(waiter.send(answer)),
            Self::Connection(port, request) => port.answer(request, answer),
        }
    }
}

/// A connection wants to follow a session.
#[derive(Debug)]
pub(crate) struct AttachRequest {
    pub(crate) actor: Actor,
    pub(crate) from: Option<Position>,
    pub(crate) request: RequestId,
    pub(crate) port: Arc<Port>,
}
