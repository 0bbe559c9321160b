//! What a session worker can be sent.

use std::fmt;
use std::sync::Arc;

use switchboard_core::model::ActorKind;
use switchboard_core::{Actor, Op, Position, Reject, Reply, RequestId, Session};

use super::Node;
use crate::inbox::Inbox;

/// Something for a session. Boxed inside, so that an idle mailbox is small.
#[derive(Debug)]
pub enum Command<N: Node> {
    /// An op to decide.
    Submit(Box<Submission<N>>),
    /// A connection wants to follow.
    Attach(Box<AttachRequest>),
    /// Somebody wants to know something of the session, as it is once everything asked before is committed.
    Inspect(Inspection),
    /// The tools of the session's agent may have changed.
    RefreshTools,
}

impl<N: Node> Command<N> {
    /// An op of the server's own, for whose result nobody waits.
    pub fn own(op: Op) -> Self {
        Self::Submit(Submission::own(op))
    }
}

/// An op, who asks, and where the answer goes.
pub struct Submission<N: Node> {
    /// Who asks.
    pub actor: Actor,
    /// What is asked.
    pub op: Op,
    /// Where the answer goes.
    pub reply: ReplyTo<N::Waiter>,
    /// Held until the op is committed or refused.
    pub hold: Option<N::Hold>,
}

impl<N: Node> Submission<N> {
    /// An op of the server's own, for whose result nobody waits.
    pub fn own(op: Op) -> Box<Self> {
        Box::new(Self { actor: Actor::server(), op, reply: ReplyTo::Nobody, hold: None })
    }

    /// Whether this comes from an executor, whose output must not be lost when the log fails.
    pub(super) const fn is_of_worker(&self) -> bool {
        matches!(self.actor.kind, ActorKind::Worker(_))
    }

    /// Whether this is said once and must not be forgotten: that an executor, a device or a client is gone. The
    /// server's other ops are derived from state and come again.
    pub(super) const fn is_said_once(&self) -> bool {
        matches!(
            self.op,
            Op::Lose { .. }
                | Op::LoseDevice { .. }
                | Op::Conclude { .. }
                | Op::Recover
                | Op::Detach { .. }
                | Op::CloseAttachment { .. }
        )
    }
}

impl<N: Node> fmt::Debug for Submission<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actor, op, reply, hold: _ } = self;
        f.debug_struct("Submission")
            .field("actor", actor)
            .field("op", op)
            .field("reply", reply)
            .finish_non_exhaustive()
    }
}

/// Where an answer goes.
#[derive(Clone, Debug)]
pub enum ReplyTo<W> {
    /// Nobody waits.
    Nobody,
    /// Somebody beside the connections waits.
    Waiter(W),
    /// A connection asked.
    Connection(Arc<Inbox>, RequestId),
}

impl<W> ReplyTo<W> {
    /// Hands an answer to a connection; answers the waiter, if it is for one.
    pub fn deliver(self, answer: Result<Reply, Reject>) -> Option<(W, Result<Reply, Reject>)> {
        match self {
            Self::Nobody => None,
            Self::Waiter(waiter) => Some((waiter, answer)),
            Self::Connection(inbox, request) => {
                inbox.answer(request, answer);
                None
            }
        }
    }
}

/// A connection wants to follow a session.
#[derive(Debug)]
pub struct AttachRequest {
    /// As whom.
    pub actor: Actor,
    /// After which position; none for only what is still to come.
    pub from: Option<Position>,
    /// Which request of the connection is to be answered.
    pub request: RequestId,
    /// The connection.
    pub inbox: Arc<Inbox>,
}

/// A look at the state of a session.
pub struct Inspection(Box<dyn FnOnce(&Session) + Send>);

impl Inspection {
    /// Runs once, with the state of the session.
    pub fn new(look: impl FnOnce(&Session) + Send + 'static) -> Self {
        Self(Box::new(look))
    }

    pub(super) fn run(self, session: &Session) {
        (self.0)(session);
    }
}

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspection")
    }
}
