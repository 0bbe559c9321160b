//! What a session worker wants done, and what it is told.

use std::fmt;
use std::sync::Arc;

use switchboard_core::model::{CallEnd, TurnEnd};
use switchboard_core::{
    Append, Batch, CallId, Loaded, MessageId, Reject, Reply, RequestId, Timestamp, TurnId, WorkerId,
};

use super::{Command, Lease, Node, ReplyTo};
use crate::inbox::{Attached, Delivery, Inbox};

/// Something that happens to a session worker.
#[derive(Debug)]
pub enum Input<N: Node> {
    /// Somebody asks something. Only while [`takes_commands`](super::SessionWorker::takes_commands).
    Command(Command<N>),
    /// The answer to [`Output::Load`]; none if nothing was ever appended.
    Loaded(Result<Option<Box<Loaded>>, ReadFailed>),
    /// The answer to [`Output::Read`].
    Page(Result<Vec<Arc<Batch>>, ReadFailed>),
    /// The answer to [`Output::Find`]: whether the log holds the message.
    Found(Result<bool, ReadFailed>),
    /// The answer to [`Output::Append`].
    Appended(Result<(), AppendFailed>),
    /// The answer to [`Output::Collect`]: what agents have made of it was handed in before.
    Collected,
    /// The time has come that [`Output::Idle`] asked for, or a later one.
    Timeout,
}

/// What a session worker wants done. Outputs are carried out in their order: an asker learns of its answer before the
/// events that belong to it are published.
#[derive(Debug)]
pub enum Output<N: Node> {
    /// Read the session from the log: its last snapshot and what came after it.
    Load,
    /// Read events after a number, at most about so many.
    Read {
        /// Those with a higher number.
        after: u64,
        /// How many.
        limit: usize,
    },
    /// Find out whether the log holds a message.
    Find(MessageId),
    /// Append a batch.
    Append(Box<Append>),
    /// Tell the executor of a turn what is not committed yet, and let it react now.
    Ahead(TurnId, Vec<(CallId, CallEnd)>),
    /// Hand in the commands that executors have sent meanwhile.
    Collect,
    /// Answer whoever asked.
    Answer(ReplyTo<N::Waiter>, Result<Reply, Reject>),
    /// A connection follows from here on.
    Attached(Arc<Inbox>, RequestId, Box<Attached>),
    /// Something for a connection that is no answer.
    Deliver(Arc<Inbox>, Delivery),
    /// Make a batch visible to followers; also hold it for one that is still to come, if `awaited`.
    Publish {
        /// What is committed.
        batch: Arc<Batch>,
        /// Whether somebody was asked to follow because of it.
        awaited: bool,
    },
    /// Give a turn to an executor.
    Start(Start<N>),
    /// Something for the executor of a turn.
    Notify(TurnId, Notice),
    /// Everybody has left, and nothing goes on: the worker may go, unless a command has arrived meanwhile.
    Retire,
    /// Nothing more for now. Call back at `wake`, or when a command arrives.
    Idle {
        /// When to wake the worker if nothing else happens.
        wake: Option<Timestamp>,
    },
}

impl<N: Node> Output<N> {
    /// Carries out what takes place in memory only; answers the rest.
    pub fn settle(self, feed: &crate::feed::Feed) -> Option<Self> {
        match self {
            Self::Answer(reply, answer) => {
                return reply
                    .deliver(answer)
                    .map(|(waiter, answer)| Self::Answer(ReplyTo::Waiter(waiter), answer));
            }
            Self::Attached(inbox, request, attached) => {
                feed.follow(&inbox, &attached.cursor);
                inbox.deliver(Delivery::Attached(request, attached));
            }
            Self::Deliver(inbox, delivery) => inbox.deliver(delivery),
            Self::Publish { batch, awaited } => feed.publish(&batch, awaited),
            Self::Load
            | Self::Read { .. }
            | Self::Find(_)
            | Self::Append(_)
            | Self::Ahead(..)
            | Self::Collect
            | Self::Start(_)
            | Self::Notify(..)
            | Self::Retire
            | Self::Idle { .. } => return Some(self),
        }
        None
    }
}

/// A turn that an executor is to begin with.
pub struct Start<N: Node> {
    /// Which.
    pub turn: TurnId,
    /// As whom it works.
    pub worker: WorkerId,
    /// What it needs to begin, where the turn is claimed for it already.
    pub slot: Option<N::Slot>,
    /// The sign of life that it has to renew.
    pub lease: Arc<Lease>,
}

impl<N: Node> fmt::Debug for Start<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Start")
            .field("turn", &self.turn)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

/// Something for an executor.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A call has ended.
    Answer(CallId, CallEnd),
    /// Somebody wants the turn to stop, and may have said why.
    Stop(Option<String>),
    /// The turn is over, or somebody else's: what the executor did was refused for that.
    Halt,
    /// The session has refused what the executor did for what it is: this is how the turn has to end.
    Refused(TurnEnd),
    /// The turn is not the executor's any more; how it has ended, unless it is to be begun again.
    Over(Option<Box<TurnEnd>>),
}

/// Why something could not be read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailed(pub String);

/// Why an append was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendFailed {
    /// Another writer was faster; nothing was changed.
    Conflict,
    /// The log is closed; nothing was changed, and nothing will be.
    Closed,
    /// Nothing was changed.
    Refused(String),
    /// The log does not know whether it has the batch.
    Unknown(String),
}

impl AppendFailed {
    /// What whoever asked is told.
    pub(super) fn reject(&self) -> Reject {
        let reason = match self {
            Self::Conflict => "the session has moved on".to_owned(),
            Self::Closed => "the store is closed".to_owned(),
            Self::Refused(reason) | Self::Unknown(reason) => reason.clone(),
        };
        Reject::Unavailable { reason }
    }
}
