//! Where everything for one connection arrives: answers, attachments, notices and wake-ups.

use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::{CloseReason, Reject, Reply, RequestId, SessionId, SessionView, Signal, VoiceEvent};
use tokio::sync::Notify;

use crate::feed::{Feed, Mark};

/// The inbox of one connection's driver. Costs next to nothing while idle.
#[derive(Debug, Default)]
pub(crate) struct Port {
    /// What the connection follows, for whoever looks at it from outside.
    sessions: Mutex<Vec<SessionId>>,
    inbox: Mutex<Vec<Delivery>>,
    notify: Notify,
}

/// Something for one connection.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A request was done.
    Done(RequestId, Reply),
    /// A request was refused.
    Rejected(RequestId, Reject),
    /// The connection follows a session from here on.
    Attached(RequestId, Box<Attached>),
    /// Something for an enrolled connection.
    Signal(Signal),
    /// Something of its voice.
    Voice(VoiceEvent),
    /// The server is leaving.
    Drain {
        /// When the peer should come back.
        retry_ms: u64,
    },
    /// The transport has to go.
    Close(CloseReason),
}

/// A session that a connection follows from here on.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) session: SessionId,
    pub(crate) feed: Arc<Feed>,
    /// How far it has read.
    pub(crate) mark: Arc<Mark>,
    pub(crate) view: SessionView,
}

impl Port {
    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.inbox.lock().push(delivery);
        self.notify.notify_one();
    }

    pub(crate) fn answer(&self, request: RequestId, answer: Result<Reply, Reject>) {
        self.deliver(match answer {
            Ok(reply) => Delivery::Done(request, reply),
            Err(reject) => Delivery::Rejected(request, reject),
        });
    }

    /// Tells which sessions the connection follows now.
    pub(crate) fn show_sessions(&self, sessions: Vec<SessionId>) {
        *self.sessions.lock() = sessions;
    }

    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.sessions.lock().clone()
    }

    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Takes everything that has arrived.
    pub(crate) fn take(&self) -> Vec<Delivery> {
        std::mem::take(&mut *self.inbox.lock())
    }

    /// Waits for something to arrive, or for a session to move on.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}
